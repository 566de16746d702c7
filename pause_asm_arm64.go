//go:build arm64 && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

// cyclesInvariant reports whether cycles counts at a constant rate, so that a
// rate measured once holds. By the architecture the generic timer does.
func cyclesInvariant() bool { return true }

// relaxYield is relax with YIELD in place of ISB, to compare the two.
func relaxYield(ticks uint32)
