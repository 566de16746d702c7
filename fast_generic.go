//go:build !(amd64 || arm64) || purego || race || rwsemhooks || rwsemexplore || (rwsemnarrow && !rwsem_ownercount)

package rwsem

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
