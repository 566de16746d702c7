//go:build amd64 && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

// cyclesInvariant reports whether cycles counts at a constant rate whatever the
// processor's clock does, so that a rate measured once holds. It is for
// initialisation only.
func cyclesInvariant() bool { return invariantTSC() }

// invariantTSC asks CPUID, which takes some microseconds in a virtual machine.
func invariantTSC() bool
