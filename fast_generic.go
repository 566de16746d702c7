//go:build !(amd64 || arm64) || purego || race || rwsemhooks || (rwsemnarrow && !rwsem_ownercount)

package rwsem

import "unsafe"

// Where there is no assembly the stand-ins of fast_stub.go are the fast paths;
// in race builds each tells the race detector its edges.

func rlockRare(rw *RWMutex)             { rlockRareStub(rw) }
func runlockRare(rw *RWMutex, c uint64) { runlockRareStub(rw, c) }

func lock(rw *RWMutex) {
	raceEnter(rw)
	lockStub(rw)
	raceLeave()
	raceWriteLocked(rw)
}

func unlock(rw *RWMutex) {
	raceEnterWrite(rw)
	unlockStub(rw)
	raceLeave()
}

func tryRLock(rw *RWMutex) bool {
	raceEnter(rw)
	ok := tryRLockStub(rw)
	raceLeave()
	if ok {
		raceReadLocked(rw)
	}
	return ok
}

func tryLock(rw *RWMutex) bool {
	raceEnter(rw)
	ok := tryLockStub(rw)
	raceLeave()
	if ok {
		raceWriteLocked(rw)
	}
	return ok
}

func downgrade(rw *RWMutex) {
	raceEnterWrite(rw)
	downgradeStub(rw)
	raceLeave()
}

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
