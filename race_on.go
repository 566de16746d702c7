//go:build race

package rwsem

import (
	"runtime"
	"unsafe"
)

// The edges that the race detector is told, the same as sync.RWMutex tells it:
//
//	Unlock, Downgrade -> RLock, Lock   through &rw.ctl
//	RUnlock           -> Lock          through &rw.steals, merged
//
// Readers do not synchronise with each other. Between raceEnter and raceLeave
// the detector ignores the lock's own atomics and mutex, which would order
// readers; no code but the lock's may run there, and its functions that touch
// plain fields are marked norace.

const raceEnabled = true

// raceEnter begins a call that takes the lock. The read reports a use of rw
// that races with a plain write to the memory it lies in.
func raceEnter(rw *RWMutex) {
	runtime.RaceRead(unsafe.Pointer(&rw.waitLock))
	raceIgnore()
}

// raceEnterRead and raceEnterWrite begin a call that gives up a read lock or
// the write lock. Who takes the lock next may write to its memory: the read
// comes before the release.

func raceEnterRead(rw *RWMutex) {
	runtime.RaceRead(unsafe.Pointer(&rw.waitLock))
	runtime.RaceReleaseMerge(unsafe.Pointer(&rw.steals))
	raceIgnore()
}

func raceEnterWrite(rw *RWMutex) {
	runtime.RaceRead(unsafe.Pointer(&rw.waitLock))
	runtime.RaceRelease(unsafe.Pointer(&rw.ctl))
	raceIgnore()
}

// raceIgnore begins what is no call that takes or gives up the lock.
func raceIgnore() { runtime.RaceDisable() }

func raceLeave() { runtime.RaceEnable() }

func raceReadLocked(rw *RWMutex) {
	runtime.RaceAcquire(unsafe.Pointer(&rw.ctl))
}

func raceWriteLocked(rw *RWMutex) {
	runtime.RaceAcquire(unsafe.Pointer(&rw.ctl))
	runtime.RaceAcquire(unsafe.Pointer(&rw.steals))
}

func raceRLock(rw *RWMutex) {
	raceEnter(rw)
	if rw.count.Add(readerBias)&readRare != 0 {
		rlockRare(rw)
	}
	raceLeave()
	raceReadLocked(rw)
}

func raceRUnlock(rw *RWMutex) {
	raceEnterRead(rw)
	if c := rw.count.Add(^uint64(readerBias - 1)); c&readDone != 0 {
		runlockRare(rw, c)
	}
	raceLeave()
}
