package main

// What the functions do and why it suffices, in words that fit every
// architecture.

// doc is what the function of the given name does, for v.
func doc(name string, v variant) []string {
	word, owner := "writerLocked", "g"
	if v.ownerInCount() {
		word, owner = "writerWord(g)", "0"
	}
	tryRLock := []string{
		"c = rw.count",
		"loop:",
		"	if (c + readerBias) & readBlocked != 0",
		"		return false",
		"	if c & flagWaiters != 0 && stealDue(rw)",
		"		goto tryRLockSlow",
		"	Atomically:",
		"		if rw.count == c",
		"			rw.count = c + readerBias",
		"			break",
		"		c = rw.count",
		"return true",
	}
	switch name {
	case "rlockRare":
		return []string{
			"if rw.count & (readBlocked|flagClaim) != 0 || stealDue(rw)",
			"	goto rlockSlow",
		}
	case "runlockRare":
		return []string{
			"if c + readerBias < readerBias || c & writerLocked != 0",
			"	goto runlockMisuse",
			"if wakeDue(c)",
			"	goto releaseSlow",
		}
	case "lock":
		return []string{
			"Atomically:",
			"	old = rw.count",
			"	if old == unlocked",
			"		rw.count = " + word,
			"if old != unlocked",
			"	if old & (writeBlocked|flagClaim) != 0 || old & flagWaiters != 0 && stealDue(rw)",
			"		goto lockSlow",
			"	Atomically:",
			"		if rw.count == old",
			"			rw.count = old | " + word,
			"		else",
			"			goto lockSlow",
			"rw.owner = " + owner,
		}
	case "unlock":
		lines := leave(v, "", "unlockMisuse")
		if !v.ownerInCount() {
			lines = append([]string{"rw.owner &= rdNonspinnable"}, lines...)
		}
		return append(lines,
			"if old & (flagAsleep | flagHandoff) != 0",
			"	goto unlockSlow")
	case "downgrade":
		lines := append([]string{"rw.owner = rw.owner & rdNonspinnable | readerOwned"},
			leave(v, " + readerBias", "downgradeMisuse")...)
		return append(lines,
			"if old & flagWaiters != 0",
			"	goto downgradeSlow")
	case "tryRLock":
		return tryRLock
	case "tryRLockExpect":
		return append([]string{
			"Atomically:",
			"	c = rw.count",
			"	if c == unlocked",
			"		rw.count = readerBias",
			"		return true",
		}, tryRLock[1:]...)
	case "tryLock":
		return []string{
			"c = rw.count",
			"loop:",
			"	if c & writeBlocked != 0",
			"		return false",
			"	if c & flagWaiters != 0 && stealDue(rw)",
			"		goto tryLockSlow",
			"	Atomically:",
			"		if rw.count == c",
			"			rw.count = c &^ flagClaim | " + word,
			"			break",
			"		c = rw.count",
			"rw.owner = " + owner,
			"return true",
		}
	case "self":
		return []string{"return g"}
	case "loadStatus":
		return []string{"return *(*uint32)(gp + off)"}
	case "identity":
		return []string{"return writerWord(gp)"}
	case "relax", "relaxYield":
		return []string{
			"start = cycles()",
			"for at most 16 times",
			"	pause",
			"	if cycles() - start is negative or at least ticks",
			"		return",
		}
	case "pause":
		return []string{"pause min(n, 16) times"}
	case "cycles":
		return []string{"return the cycle counter"}
	case "invariantTSC":
		return []string{"return cpuid(0x80000000).eax >= 0x80000007 && cpuid(0x80000007).edx bit 8"}
	}
	return nil
}

// leave is how a writer takes itself out of the count by the given change.
func leave(v variant, change, misuse string) []string {
	if !v.ownerInCount() {
		return []string{
			"Atomically:",
			"	old = rw.count",
			"	rw.count = old - writerLocked" + change,
			"if old & writerLocked == 0",
			"	goto " + misuse,
		}
	}
	return []string{
		"old = rw.count",
		"loop:",
		"	if old & writerLocked == 0",
		"		goto " + misuse,
		"	Atomically:",
		"		if rw.count == old",
		"			rw.count = old &^ writerMask" + change,
		"			break",
		"		old = rw.count",
	}
}

const (
	readersAcquire = "Acquire: pairs with the release in unlock and downgrade, whose writer's stores are then seen."
	writersAcquire = "Acquire: pairs with the release of whoever left the lock free, in unlock or RUnlock."
	writersRelease = "Release: pairs with the acquire of whoever takes the lock next; what was done under the lock stays before it."
	readersRelease = "Release: pairs with the acquire of the readers that follow; what was written under the lock stays before it."

	loadEnough      = "A load is enough: RLock has counted the reader already, so no writer can come in between."
	releasedAlready = "RUnlock had the release. Unsigned: the count went below 0 where no reader was in it."
	loopEnds        = "Each failure is somebody else's progress, and who stops the world stops them first: the loop ends."

	ownerHint    = "Relaxed: a hint."
	ownerCleared = "No flags. Relaxed: a hint."
	ownerEarly   = "Relaxed: a hint. Stored while the lock is still the caller's alone."
	ownerMarks   = "Relaxed: a hint. Not locked: while the lock is the caller's, only spinners write it too, and their marks may get lost."
	findsWriter  = "What is not there is not taken out: two that unlock at a time would leave a made-up owner."

	pastWaiters = "Only waiters: past them, but for a look at their age once in a while."
	stealsLost  = "Not locked: counts may get lost."

	readerCounted = "With the reader counted: the readers' bits may be full."
	roomForOne    = "Near the guard: a reader may wait for the room."
	readersJoin   = "Also with readers in the count: they have the lock from here on, and a reader that waits joins them."
	claimEnds     = "Who takes the lock for writing ends the claim, its own or another's."
	statusOld     = "Relaxed: a status is out of date as soon as it is read."
	wentBackwards = "Unsigned: a counter that went backwards counts as one that went far."
)
