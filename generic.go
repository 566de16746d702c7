//go:build (!(amd64 || arm64) || purego || race || rwsemhooks || (rwsemnarrow && !rwsem_ownercount)) && !rwsemexplore

package rwsem

import "unsafe"

// What assembly has besides the fast paths.

// self cannot name the calling goroutine here: its writers are anonymous.
func self() uintptr { return ownerAnonymous }

// loadStatus is not reached: no owner is named.
func loadStatus(g, off uintptr) uint32 { panic("rwsem: no status") }

// cycles is 0 where there is no cycle counter to be read.
func cycles() uint64 { return 0 }

// cyclesInvariant says that cycles is of no use.
func cyclesInvariant() bool { return false }

// relax is not reached: it needs cycles.
func relax(uint32) { pause(1) }

// pause tells the processor that this is a spin loop, for a time that grows with n.
func pause(n uint32) { procyield(n) }

// shardHint differs between goroutines that run at the same time, mostly.
func shardHint() uintptr {
	var x byte
	return uintptr(unsafe.Pointer(&x)) >> 11
}
