package rwsem

import (
	"runtime"
	"time"
)

// Optimistic spinning: a goroutine waits awake for a lock that is likely to be
// released soon. For sections of some hundred nanoseconds to some microseconds
// that is worth twice the throughput on two processors, since to sleep and be
// woken costs more than the wait; for shorter ones it is a loss, since two
// processors that share a lock of this kind spend their time moving its cache
// line. DESIGN.md has the measurements behind each time below.

const (
	// spinTime bounds the spinning on one writer after the other: somewhat more
	// than a section of 3 us. Beyond that sleeping is cheap in comparison.
	spinTime = 5 * time.Microsecond

	// busySpinTime is for how long a goroutine spins although others wait for
	// its processor: about what it costs all of them that it sleeps and is
	// woken again.
	busySpinTime = 3 * time.Microsecond

	// A writer spins on readers for readersTime plus readersTimeEach for each
	// of them, readersTimeMax at the most: the published times.
	readersTime     = 10 * time.Microsecond
	readersTimeEach = 500 * time.Nanosecond
	readersTimeMax  = 25 * time.Microsecond

	// claimAfter is when a writer that spins on writers claims the lock,
	// claimAfterQueue when others sleep for it meanwhile. At once would make the
	// lock change processors at every section, which halves the throughput of
	// short ones; where others sleep its next holder is found without a claim.
	claimAfter      = time.Microsecond
	claimAfterQueue = 3 * time.Microsecond

	// claimTime is for how long a claim is heeded by each who meets it: its
	// claimant may have lost its processor.
	claimTime = 2 * time.Microsecond

	// firstSpinTime is for how long a first waiter that was woken spins for
	// the lock before it sleeps again.
	firstSpinTime = 20 * time.Microsecond

	// roundTime is the pause between two looks at the lock.
	roundTime = 50 * time.Nanosecond
)

// maxSpinners is how many goroutines may spin on one lock. Two processors need
// two: one spins on while the one before it has just got the lock. More than
// there are CPUs would spin on holders that cannot run, as any does on a single
// one; beyond four nothing was measured.
var maxSpinners = spinnersFor(cpus)

func spinnersFor(cpus int) uint32 {
	if cpus == 1 {
		return 0
	}
	return uint32(min(cpus, 4))
}

// ctl packs what spinning needs to remember, in a word that changes seldom:
// bits 0-3 the number of spinners, bits 4-7 the score of long sections, bits 8-11
// SetReaderSpin's enabling count, bits 12-15 the score of short sections, bits
// 16-31 SetReaderSpin's threshold in units of 100 ns, 0 meaning automatic and the
// largest value never.
const (
	ctlSpinner  = 1
	ctlSpinners = 0xf

	ctlLong     = 1 << 4
	ctlLongMask = 0xf << 4

	ctlEnable     = 1 << 8
	ctlEnableMask = 0xf << 8
	ctlEnableInit = 8 << 8

	ctlShort     = 1 << 12
	ctlShortMask = 0xf << 12

	ctlReaderShift = 16
	ctlReaderNever = 0xffff
	ctlReaderUnit  = 100 * time.Nanosecond
	ctlReaderMax   = time.Millisecond
)

// addField adds d to the field of rw.ctl that has the given unit and mask,
// within the field's bounds.
func (rw *RWMutex) addField(unit, mask uint32, d int) {
	for {
		old := rw.ctl.Load()
		n := max(0, min(int(mask/unit), int(old&mask/unit)+d))
		now := old&^mask | uint32(n)*unit
		if now == old || rw.ctl.CompareAndSwap(old, now) {
			return
		}
	}
}

func (rw *RWMutex) setReaderSpin(d time.Duration) {
	raceIgnore()
	defer raceLeave()
	var v uint32
	switch {
	case d == 0:
		v = ctlReaderNever
	case d > 0:
		v = uint32((min(d, ctlReaderMax) + ctlReaderUnit - 1) / ctlReaderUnit)
	}
	const kept = ctlSpinners | ctlShortMask | ctlLongMask
	for {
		old := rw.ctl.Load()
		if rw.ctl.CompareAndSwap(old, old&kept|ctlEnableInit|v<<ctlReaderShift) {
			return
		}
	}
}

// readerSpinTime is for how long a reader may spin on a writer.
func (rw *RWMutex) readerSpinTime() time.Duration {
	c := rw.ctl.Load()
	switch v := c >> ctlReaderShift; {
	case !policy.readerSpin || v == ctlReaderNever:
		return 0
	case v == 0:
		return spinTime
	case c&ctlEnableMask == 0:
		return 0
	default:
		return time.Duration(v) * ctlReaderUnit
	}
}

// enterSpin takes a spinner slot, if spinning makes sense at all.
func (rw *RWMutex) enterSpin() bool {
	for {
		old := rw.ctl.Load()
		if old&ctlSpinners >= maxSpinners*ctlSpinner || tooShort(old) {
			return false
		}
		if rw.ctl.CompareAndSwap(old, old+ctlSpinner) {
			return true
		}
	}
}

func (rw *RWMutex) leaveSpin() { rw.ctl.Add(^uint32(ctlSpinner - 1)) }

const (
	// shortScore is from which score on sections count as short.
	shortScore = 8
	// longScore is from which score on they count as long, longRounds what has to
	// be left of one: half a microsecond.
	longScore  = 8
	longRounds = 10
	// shortProbe: where they are short, one meeting in so many still spins, to see
	// whether that has changed.
	shortProbe = 16
)

// tooShort reports whether who meets another at this lock should sleep at once.
// Asleep it leaves the lock to the other's processor until it is woken, which
// with sections of some nanoseconds serves both best.
func tooShort(ctl uint32) bool {
	return policy.shortPark && scoredShort(ctl) && random()%shortProbe != 0
}

// scoredShort is what the score in ctl says of the sections.
func scoredShort(ctl uint32) bool { return ctl&ctlShortMask >= shortScore*ctlShort }

// sectionsAreShort is what the lock's score says.
func (rw *RWMutex) sectionsAreShort() bool { return scoredShort(rw.ctl.Load()) }

// noteRound scores a spin that got the lock at the given round. One that finds
// the lock free at its first look, after nothing but a call, has met a section
// shorter than the way of a cache line: 50 % of sections of 6 ns, 1 % of 180 ns.
// So has a writer that slips in between two sections of other writers without a
// claim, which it succeeds in with every second look at 6 ns, every tenth at
// 180 ns.
func (rw *RWMutex) noteRound(round int, onReaders, claimed bool) {
	d := -1
	switch {
	case round == 1:
		d = 2
	case !onReaders && !claimed:
		d = 1
	case !onReaders:
		d = -2
	}
	rw.addField(ctlShort, ctlShortMask, d)
}

// sectionsAreLong is what the lock's score says: about a microsecond or more, so
// that a section costs more than to hand the lock over.
func (rw *RWMutex) sectionsAreLong() bool {
	return rw.ctl.Load()&ctlLongMask >= longScore*ctlLong
}

// noteRest scores what was left of a section that a spinner met, in rounds: half
// of the section on average. That is known where nobody comes in between: for a
// reader that spins on a writer, and for a writer from its claim on. DESIGN.md has
// how well it tells them apart.
func (rw *RWMutex) noteRest(rounds int) {
	d := -1
	if rounds > longRounds {
		d = 1
	}
	rw.addField(ctlLong, ctlLongMask, d)
}

// noteFailure scores a spin that ended because its time was over or the owner did
// not run: no short section.
func (rw *RWMutex) noteFailure() { rw.addField(ctlShort, ctlShortMask, -1) }

// An ownerState is what looking at the owner answers.
type ownerState int

const (
	ownerNull         ownerState = iota // nobody, or a writer that has not named itself yet
	ownerWriter                         // a writer
	ownerReader                         // readers, some of which may be passing
	ownerNonspinnable                   // nobody to spin on
)

// ownerStateOf reads count c and owner word o for a spinner that heeds the
// given nonspinnable bit. The count says whether a writer or readers own the
// lock, since it is the word that does not lag.
func ownerStateOf(c uint64, o, nonspinnable uintptr) ownerState {
	switch g := o &^ ownerFlags; {
	case o&nonspinnable != 0 || g == ownerUnknown:
		return ownerNonspinnable
	case c&writerLocked != 0 && g != 0:
		return ownerWriter
	case c&writerLocked == 0 && c&readerMask != 0:
		return ownerReader
	}
	return ownerNull
}

// spinRead waits for the writer that holds the lock to release it. The reader
// counts all the while, so it holds the lock as soon as no writer does and no
// other writer can come between.
func (rw *RWMutex) spinRead(limit time.Duration) bool {
	start, pause, nulls := nanotime(), roundPause(), 0
	for round := 1; ; round++ {
		hook(hookSpin)
		// Acquire: pairs with the release in Unlock and Downgrade.
		c := rw.count.Load()
		if c&readBlocked == 0 {
			rw.noteRound(round, true, false)
			rw.noteRest(round)
			return true
		}
		if c&(flagHandoff|flagReadFail) != 0 {
			return false
		}
		switch o := rw.loadOwner(c); ownerStateOf(c, o, rdNonspinnable) {
		case ownerNonspinnable:
			return false
		case ownerWriter:
			if !running(o) {
				rw.noteFailure()
				return false
			}
		case ownerNull:
			if nulls++; nulls > maxNullRounds {
				return false
			}
		}
		if round%clockRounds == 0 && spunOut(round, start, limit) {
			rw.noteRest(round)
			rw.noteFailure()
			return false
		}
		pause.wait()
	}
}

// spunOut reports whether a spinner that began at start has to give up in the
// given round: its time is over, or others wait for its processor.
func spunOut(round int, start int64, limit time.Duration) bool {
	spun := spunFor(round, start)
	return spun > limit || spun > busySpinTime && !canSpin()
}

// spunFor is how long a spinner has spun that began at start and is in the given
// round: at least as long as so many rounds take for certain, whatever the clock
// says, which moves once in half a millisecond or more on Windows.
func spunFor(round int, start int64) time.Duration {
	const slack = 16 // roundTime is a wish
	return max(time.Duration(nanotime()-start), time.Duration(round)*roundTime/slack)
}

// spinWrite waits for the lock and takes it.
func (rw *RWMutex) spinWrite(urgent bool) bool {
	ok, claimed := rw.spinWriteLoop(urgent)
	if claimed && !ok {
		rw.count.And(^uint64(flagClaim)) // Relaxed: a request.
	}
	return ok
}

func (rw *RWMutex) spinWriteLoop(urgent bool) (ok, claimed bool) {
	var (
		me           = self()
		word         = writerWord(me)
		start        = nanotime()
		pauseOnce    = roundPause()
		nulls        int
		onReaders    bool  // it met readers
		readersFrom  int64 // since when it meets them, 0 while it does not
		readersFor   time.Duration
		readersRound int
		claimRound   int // 0 without a claim
	)
	for round := 1; ; round++ {
		hook(hookSpin)
		c := rw.count.Load()
		if c&writeBlocked == 0 && (claimed || c&flagClaim == 0 || time.Duration(nanotime()-start) > claimTime) && rw.passable(c) {
			// Acquire: pairs with the release of whoever left the lock free.
			if rw.count.CompareAndSwap(c, c&^flagClaim|word) {
				hook(hookCounted)
				rw.nameOwner(me)
				rw.noteRound(round, onReaders, claimed)
				if readersFrom != 0 {
					rw.noteRest(round - readersRound)
				} else if claimed {
					rw.noteRest(round - claimRound)
				}
				return true, false
			}
		}
		claim, pause := false, pauseOnce
		switch o := rw.loadOwner(c); ownerStateOf(c, o, wrNonspinnable) {
		case ownerNonspinnable:
			return false, claimed
		case ownerNull:
			readersFrom = 0
			if c&writerLocked != 0 {
				if nulls++; nulls > maxNullRounds {
					return false, claimed
				}
			}
		case ownerWriter:
			readersFrom = 0
			if !running(o) {
				rw.noteFailure()
				return false, claimed
			}
			if !claimed {
				pause = pauseOnce.times(writerRounds)
			}
			claim = !claimed && round > writerRounds && spunFor(round, start) > claimTimeAt(c)
		case ownerReader:
			if urgent || !policy.writerSpin || crowded(c) {
				return false, claimed
			}
			if readersFrom == 0 {
				onReaders, readersFrom, readersRound = true, nanotime(), round
				readersFor = timeOnReaders(c)
			}
			claim = true
		}
		if claim && rw.claim(c) && !claimed {
			claimed, claimRound = true, round
		}
		if round%clockRounds == 0 {
			if readersFrom == 0 {
				if spunOut(round, start, spinTime) {
					rw.noteFailure()
					if claimed {
						rw.noteRest(round - claimRound)
					}
					return false, claimed
				}
			} else if spunOut(round-readersRound, readersFrom, readersFor) {
				if spunFor(round-readersRound, readersFrom) > readersFor {
					rw.markNonspinnable()
				}
				rw.noteRest(round - readersRound)
				rw.noteFailure()
				return false, claimed
			}
		}
		pause.wait()
	}
}

// claimTimeAt is when a writer that spins on the writer in count c claims the lock.
func claimTimeAt(c uint64) time.Duration {
	if c&flagWaiters != 0 {
		return claimAfterQueue
	}
	return claimAfter
}

// crowded reports whether more readers hold the lock at count c than can run, so
// that to spin on them takes the processor of some.
func crowded(c uint64) bool { return c>>readerShift > uint64(cpus) }

var cpus = runtime.NumCPU()

// timeOnReaders is for how long a writer spins on the readers in count c.
func timeOnReaders(c uint64) time.Duration {
	n := time.Duration(min(c>>readerShift, uint64(readersTimeMax/readersTimeEach)))
	return min(readersTime+n*readersTimeEach, readersTimeMax)
}

// claim asks who arrives to let a writer go first that is awake and found
// count c, and reports whether the request is the caller's. Relaxed: a request.
func (rw *RWMutex) claim(c uint64) bool {
	return policy.claim && c&(flagClaim|flagHandoff) == 0 && rw.count.CompareAndSwap(c, c|flagClaim)
}

// stepBack lets a writer go first that claimed the lock. If it does not come
// although the lock is free the claim is dropped.
func (rw *RWMutex) stepBack() {
	start, pause := nanotime(), roundPause()
	for round := 1; ; round++ {
		pause.wait()
		c := rw.count.Load()
		switch {
		case c&flagClaim == 0:
			return
		case c&held == 0 && round > claimRounds:
			rw.count.And(^uint64(flagClaim)) // Relaxed: a request.
			return
		case round%clockRounds == 0 && spunFor(round, start) > claimTime:
			return
		}
	}
}

// markNonspinnable says that the readers that own rw are too slow to spin on,
// until a writer owns it again. A mark may come late and meet that writer: where
// the owner word names it the mark is lost, where the count does it stays until
// the next one.
func (rw *RWMutex) markNonspinnable() {
	if o := rw.loadOwner(rw.count.Load()); o&^ownerFlags == 0 {
		rw.owner.CompareAndSwap(o, readerOwned|rdNonspinnable|wrNonspinnable) // Relaxed: a hint.
	}
}

// passable reports whether an arriving goroutine may take the lock that is free
// to it at count c: it may while nobody waits, or the first waiter is young.
func (rw *RWMutex) passable(c uint64) bool {
	return c&flagWaiters == 0 || !rw.stealDue() || !rw.firstIsDue(false, 0)
}
