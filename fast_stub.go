package rwsem

// The fast paths in Go, compiled everywhere: they stand in where there is no
// assembly, and the assembly is tested against them. Go's atomics are
// sequentially consistent, which is more than each of them needs; what it
// needs is named.

// rlockRareStub goes on for a reader that is in the count and found one of
// readRare there.
func rlockRareStub(rw *RWMutex) {
	// Waiters alone do not keep a reader out; once in a while it looks whether
	// the first of them has become too old for this.
	// Acquire: pairs with the release in Unlock and Downgrade.
	if rw.count.Load()&(readBlocked|flagClaim) != 0 || rw.stealDue() {
		rlockSlow(rw)
	}
}

// runlockRareStub goes on for a reader that left the count at c.
func runlockRareStub(rw *RWMutex, c uint64) {
	if c+readerBias < readerBias || c&writerLocked != 0 {
		runlockMisuse(rw)
		return
	}
	if wakeDue(c) {
		releaseSlow(rw)
	}
}

func lockStub(rw *RWMutex) {
	me := self()
	word := writerWord(me)
	// Acquire: pairs with the release of whoever left the lock free.
	if !rw.count.CompareAndSwap(0, word) {
		old := rw.count.Load()
		if old&(writeBlocked|flagClaim) != 0 || old&flagWaiters != 0 && rw.stealDue() ||
			!rw.count.CompareAndSwap(old, old|word) { // Acquire, as above.
			lockSlow(rw)
			return
		}
	}
	rw.nameOwner(me)
}

func unlockStub(rw *RWMutex) {
	var old uint64
	if ownerInCount {
		old = rw.takeWriterOut(0)
	} else {
		rw.owner.Store(rw.owner.Load() & rdNonspinnable) // Relaxed: a hint.
		// Release: pairs with the acquire of whoever takes the lock next.
		old = rw.count.Add(^uint64(writerLocked-1)) + writerLocked
	}
	if old&writerLocked == 0 {
		unlockMisuse(rw)
		return
	}
	// Also with readers in the count, who have the lock from here on: a first
	// waiter that is a reader joins them.
	if old&(flagAsleep|flagHandoff) != 0 {
		unlockSlow(rw)
	}
}

func tryRLockStub(rw *RWMutex) bool {
	for {
		c := rw.count.Load()
		n := c + readerBias
		if n&readBlocked != 0 { // with the reader counted: its bits may be full
			return false
		}
		if c&flagWaiters != 0 && rw.stealDue() {
			return tryRLockSlow(rw)
		}
		// Acquire: pairs with the release in unlock and downgrade.
		if rw.count.CompareAndSwap(c, n) {
			return true
		}
	}
}

func tryLockStub(rw *RWMutex) bool {
	me := self()
	word := writerWord(me)
	for {
		c := rw.count.Load()
		if c&writeBlocked != 0 {
			return false
		}
		if c&flagWaiters != 0 && rw.stealDue() {
			return tryLockSlow(rw)
		}
		// Acquire: pairs with the release of whoever left the lock free.
		if rw.count.CompareAndSwap(c, c&^flagClaim|word) {
			rw.nameOwner(me)
			return true
		}
	}
}

func downgradeStub(rw *RWMutex) {
	// Stored while the lock is still the caller's alone. Relaxed: a hint.
	rw.owner.Store(rw.owner.Load()&rdNonspinnable | readerOwned)
	var old uint64
	if ownerInCount {
		old = rw.takeWriterOut(readerBias)
	} else {
		// Release: pairs with the acquire of the readers that follow.
		old = rw.count.Add(readerBias-writerLocked) - (readerBias - writerLocked)
	}
	if old&writerLocked == 0 {
		downgradeMisuse(rw)
		return
	}
	if old&flagWaiters != 0 {
		downgradeSlow(rw)
	}
}

// takeWriterOut takes the writer out of a count that names it, and puts add in its
// place. It returns the count that it found, and leaves one without a writer as
// it is: to subtract an identity that is not there would leave a made-up one.
func (rw *RWMutex) takeWriterOut(add uint64) (old uint64) {
	for {
		c := rw.count.Load()
		// Release: pairs with the acquire of whoever takes the lock next.
		if c&writerLocked == 0 || rw.count.CompareAndSwap(c, c&^writerMask+add) {
			return c
		}
	}
}

// wakeDue reports whether a reader that left count c behind has to see to the
// waiters: nobody holds the lock, or it left the first room there is for a
// reader, and the first of them sleeps or is owed the lock.
func wakeDue(c uint64) bool {
	return (c&held == 0 || guardInReach && c >= nearGuard) && c&(flagAsleep|flagHandoff) != 0
}

// stealDue paces the look at the first waiter's age, which costs as much as several
// steals: lookLater says how many go by without one. Relaxed and not one step: it
// matters little whether a few steals go uncounted.
func (rw *RWMutex) stealDue() bool {
	n := rw.steals.Load()
	if n&stealsLeft == 0 {
		return true
	}
	rw.steals.Store(n - 1)
	return false
}

const (
	stealsGivenShift = 8
	stealsAtShift    = 16
	stealsLeft       = 1<<stealsGivenShift - 1 // the bits that stealDue counts down
)
