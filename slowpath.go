package rwsem

import (
	"runtime"
	"time"
)

// The slow paths. A goroutine that does not get the lock at once spins for it
// (spin.go), and else queues and sleeps (waiter.go, park_*.go).
//
// The policy is made for a scheduler under which a goroutine that was woken may
// wait milliseconds for a processor. What is right depends on how long sections
// are, compared with handing the lock over; the lock keeps a score of that.
//
//   - A release that leaves the lock free wakes the first waiter but grants it
//     nothing, and wakes nobody while that waiter is on its way. Until it has
//     waited its handoff time the lock may be taken past it, by readers also
//     from readers. So the lock stays with the processors that run.
//   - A first waiter that sleeps when it is found to have waited its time is
//     granted the lock by the release itself, which switches to it at once, but
//     not to readers where sections are long. To one that was woken and still
//     waits for a processor writers give theirs, and readers pass it for a
//     little longer; where sections are long the lock is kept free for it.
//   - Unless sections are long the lock then is the new holder's and its
//     processor's for a turn: what is shared is time on it, not sections.
//   - Readers that are let in come in together. Where sections are long they are
//     all granted the lock; else only the first is, and the others are dismissed
//     from the queue to take it as they run.
//   - A reader that has waited its time need not wait for the writers before it,
//     where sections are long much sooner than elsewhere.
//
// All functions that touch what waitLock guards are marked norace: see
// race_on.go.

const (
	// turnTime is for how long at the least the first waiter leaves the lock to
	// those to whom it was handed over, shortTurnTime where sections are short.
	// Without it a queue that has become old changes the lock's hands at every
	// section, and who comes last keeps it: with 64 goroutines the slowest got
	// half as much. Where sections are long the lock is handed on one by one.
	turnTime      = 40 * time.Microsecond
	shortTurnTime = 100 * time.Microsecond

	// latestTime is for how long after its time readers may pass a first waiter
	// that is on its way.
	latestTime = 100 * time.Microsecond

	// lookTime is how long the first waiter is passed between two looks at its age,
	// maxSteals how often at the most without a look at the clock: sections may
	// become long all at once. With sections of 6 ns a look at the waiter at every
	// 32nd steal cost a fifth of the throughput.
	lookTime  = 10 * time.Microsecond
	maxSteals = 32

	// lookUnit is the unit of looks' times in steals, as a shift: about 1 us.
	lookUnit  = 10
	lookUnits = uint16(lookTime >> lookUnit)

	// maxLook is at how many waiters a dismissed reader looks for its place,
	// since it holds waitLock meanwhile: twice as many as come in together.
	maxLook = 512
)

func rlockSlow(rw *RWMutex) { rw.rlockSlow() }
func lockSlow(rw *RWMutex)  { rw.lockSlow(false) }

func lockUrgent(rw *RWMutex) {
	if tryLock(rw) {
		return
	}
	raceEnter(rw)
	rw.lockSlow(policy.urgent)
	raceLeave()
	raceWriteLocked(rw)
}

// rlockSlow locks rw for a reader that is in the count already.
//
//go:noinline
func (rw *RWMutex) rlockSlow() {
	if bias, ok := rw.rlockAwake(readerBias); !ok {
		w := newWaiter(true, false)
		for rw.wait(w, bias) == dismissed {
			if bias, ok = rw.rejoin(); ok {
				break
			}
		}
		freeWaiter(w)
	}
}

// lockSlow locks rw for a writer.
//
//go:noinline
func (rw *RWMutex) lockSlow(urgent bool) {
	if !rw.lockAwake(urgent) {
		w := newWaiter(false, urgent)
		rw.wait(w, 0)
		freeWaiter(w)
	}
}

// rlockAwake does what a reader can do without queueing. bias is what it has in
// the count; if it does not get the lock, rlockAwake returns what it has there
// then.
func (rw *RWMutex) rlockAwake(bias uint64) (uint64, bool) {
	stepped, passed := false, false
	for {
		c := rw.count.Load()
		n := c + readerBias - bias // with the reader counted
		switch {
		case n&flagReadFail != 0:
			// At once: the bits above the limit are for those who pass, and not
			// for those who wait for waitLock.
			if bias != 0 {
				rw.backOut()
			}
			return 0, false

		case c&readBlocked != 0:
			return rw.rlockSpin(bias)

		case c&flagClaim != 0 && !stepped:
			stepped = true
			if bias != 0 {
				rw.backOut()
				bias = 0
			}
			rw.stepBack()

		case c&flagWaiters != 0 && !passed && rw.firstIsDue(true, bias):
			passed, bias = true, 0

		case bias != 0 || rw.count.CompareAndSwap(c, n):
			// Acquire: this step, or the load above for a reader that counted
			// all the while, pairs with the release in Unlock and Downgrade.
			if c&flagWaiters == 0 {
				tally(evRLockFast)
			} else {
				tally(evRLockSteal)
			}
			return 0, true
		}
	}
}

// rejoin is rlockAwake for a reader that was dismissed: as long as readers hold
// the lock, or pass through the count, it may join them, as if it had been
// granted the lock together with the first of them. That it passes flagHandoff
// so is bounded: no more than were dismissed do.
func (rw *RWMutex) rejoin() (uint64, bool) {
	for {
		c := rw.count.Load()
		n := c + readerBias
		if n&(writerLocked|flagReadFail) != 0 || c&readerMask == 0 {
			return rw.rlockAwake(0)
		}
		// Acquire: pairs with the release in Unlock and Downgrade.
		if rw.count.CompareAndSwap(c, n) {
			tally(evRLockSteal)
			return 0, true
		}
	}
}

// rlockSpin spins for a reader, if it may.
func (rw *RWMutex) rlockSpin(bias uint64) (uint64, bool) {
	limit := rw.readerSpinTime()
	if limit == 0 || rw.owner.Load()&rdNonspinnable != 0 {
		tally(evOptNoRSpin)
		return bias, false
	}
	if !rw.enterSpin() {
		return bias, false
	}
	if bias == 0 {
		rw.count.Add(readerBias)
	}
	ok := rw.spinRead(limit)
	rw.leaveSpin()
	if ok {
		rw.addField(ctlEnable, ctlEnableMask, 1)
		tally(evOptRLock)
		return 0, true
	}
	rw.addField(ctlEnable, ctlEnableMask, -1)
	tally(evOptFail)
	if rw.count.Load()&flagReadFail != 0 {
		rw.backOut() // as in rlockAwake
		return 0, false
	}
	return readerBias, false
}

// backOut takes a reader that does not hold the lock out of the count.
//
// Its passing bias may have hidden from the last holder that nobody holds the
// lock any more, so it has to see to the waiters as that one would have.
func (rw *RWMutex) backOut() {
	hook(hookBackOut)
	c := rw.count.Add(^uint64(readerBias - 1)) // Relaxed: it read nothing under the lock.
	hook(hookBackedOut)
	if c+readerBias < readerBias {
		runlockMisuse(rw) // somebody else took this reader out
	}
	if wakeDue(c) {
		rw.wakeUp(false)
	}
}

// lockAwake does what a writer can do without queueing.
func (rw *RWMutex) lockAwake(urgent bool) bool {
	c := rw.count.Load()
	if c&flagClaim != 0 {
		rw.stepBack()
		c = rw.count.Load()
	}
	me := self()
	// Acquire: pairs with the release of whoever left the lock free.
	if c&writeBlocked == 0 && (c&flagWaiters == 0 || !rw.firstIsDue(false, 0)) && rw.count.CompareAndSwap(c, c&^flagClaim|writerWord(me)) {
		hook(hookCounted)
		rw.nameOwner(me)
		return true
	}
	if rw.owner.Load()&wrNonspinnable != 0 {
		tally(evOptNoSpin)
		return false
	}
	if !rw.enterSpin() {
		return false
	}
	ok := rw.spinWrite(urgent)
	rw.leaveSpin()
	if ok {
		tally(evOptWLock)
	} else {
		tally(evOptFail)
	}
	return ok
}

// wait queues w, whose goroutine has bias in the count, and sleeps until w
// holds the lock, is dismissed or cancelled. It returns w's state.
//
//go:norace
func (rw *RWMutex) wait(w *waiter, bias uint64) uint32 {
	hook(hookQueue)
	if !rw.enqueue(w, bias) {
		return w.state.Load()
	}
	tallyBy(w.reader, evSleepReader, evSleepWriter)
	for {
		hook(hookPark)
		park(w)
		w.taken++
		if w.state.Load() != waiting || rw.tryFirst(w) {
			break
		}
	}
	w.settle()
	w.wakeOthers()
	if w.more {
		w.more = false
		rw.wakeUp(false)
	}
	if w.claimed {
		// The claim may have come after the grant. Relaxed: a request.
		w.claimed = false
		rw.count.And(^uint64(flagClaim))
	}
	state := w.state.Load()
	switch state {
	case granted:
		tallyBy(w.reader, evRLock, evWLock)
	case cancelled:
		tallyBy(w.reader, evRLockFail, evWLockFail)
	}
	return state
}

// enqueue puts w into the queue, unless it finds the lock to be had or w
// cancelled, and reports whether it did. If not, w's state tells why.
//
//go:norace
func (rw *RWMutex) enqueue(w *waiter, bias uint64) bool {
	now := nanotime()
	again := w.since != 0 // it was dismissed, and keeps its age
	if !again {
		w.since = now
	}
	w.due = w.since + int64(rw.handoffTime(w.reader))
	w.owner = self()
	w.word = writerWord(w.owner)
	if policy.adaptive && rw.owner.Load()&wrNonspinnable != 0 {
		// It did not get the lock from readers that are slow: when it owns it,
		// readers shall not spin on it. See rdNonspinnable.
		w.owner |= rdNonspinnable
	}

	rw.waitLock.Lock()
	if w.state.Load() == cancelled {
		rw.waitLock.Unlock()
		if bias != 0 {
			rw.backOut()
		}
		return false
	}
	w.state.Store(waiting)
	var l wakeList
	rw.preferReader(now, false)
	if h := rw.head; h != nil && rw.isDue(h, now) && rw.count.Load()&flagAsleep != 0 {
		rw.wakeFirst(&l)
	}
	var c uint64
	for {
		c = rw.count.Load()
		n, blocked := c&^flagClaim|w.word, c&writeBlocked
		if w.reader {
			n = c + readerBias - bias
			blocked = n & readBlocked
		}
		if blocked == 0 {
			// Acquire: pairs with the release of whoever left the lock free.
			if rw.count.CompareAndSwap(c, n) {
				w.state.Store(granted)
				rw.waitLock.Unlock()
				if !w.reader {
					hook(hookCounted)
					rw.nameOwner(w.owner)
				}
				l.wake()
				return false
			}
			continue
		}
		n = c - bias | flagWaiters
		if rw.head == nil {
			n |= flagAsleep
		}
		// Relaxed: what orders the waiter is its wake-up.
		if rw.count.CompareAndSwap(c, n) {
			c = n
			break
		}
	}
	if rw.head == nil {
		rw.steals.Store(0) // as in startTurn
	}
	rw.push(w, again)
	if wakeDue(c) {
		rw.wakeFirst(&l)
	}
	rw.waitLock.Unlock()
	l.wake()
	return true
}

// handoffTime is for how long a waiter may be passed.
//
//go:norace
func (rw *RWMutex) handoffTime(reader bool) time.Duration {
	if reader && policy.readerFirst && rw.sectionsAreLong() {
		return min(policy.readerTime, policy.handoffTime)
	}
	return policy.handoffTime
}

// preferReader makes the first reader the first waiter when it is due and, for
// each reader that comes in with it, readerEach has gone by. A writer of age is
// passed by readers in a writer's time only and once, so that readers and writers
// take turns. afterWriter says that a writer has just released the lock. The
// caller holds waitLock.
//
//go:norace
func (rw *RWMutex) preferReader(now int64, afterWriter bool) {
	h := rw.head
	if h == nil || h.reader || h.passed || h.urgent && h.woken || !policy.readerFirst {
		return
	}
	r := h.next
	if !r.reader || !rw.isDue(r, now) {
		return
	}
	last := rw.writersOr(h).prev
	if n := min(last.place-r.place+1, uint32(maxWake)); now-r.since < int64(n)*int64(policy.readerEach) {
		return
	}
	// By its age, as its time may have been put off.
	if c := rw.count.Load(); c&flagHandoff != 0 || now-h.since >= int64(policy.handoffTime) {
		if !afterWriter && c&writerLocked == 0 {
			return
		}
		h.passed = true
	}
	rw.makeFirst(r)
	rw.renewFirst(flagClaim) // handoff is r's then: it is due
}

// renewFirst says in the count that there is another first waiter, which sleeps,
// and clears the flags that were the former one's. The caller holds waitLock.
// Relaxed: it takes nothing and gives nothing.
//
//go:norace
func (rw *RWMutex) renewFirst(flags uint64) {
	rw.steals.Store(0) // as in startTurn
	rw.count.Or(flagAsleep)
	rw.count.And(^flags)
}

// isDue reports whether w has waited its handoff time. The caller holds
// waitLock.
//
//go:norace
func (rw *RWMutex) isDue(w *waiter, now int64) bool {
	return policy.handoff && (now >= w.due || w.urgent && w.woken)
}

// setHandoff keeps everybody but w, the first waiter, from taking the lock. The
// caller holds waitLock. Relaxed: it takes nothing and gives nothing.
//
//go:norace
func (rw *RWMutex) setHandoff(w *waiter) {
	hook(hookHandoff)
	if rw.count.Or(flagHandoff)&flagHandoff == 0 {
		tallyBy(w.reader, evRLockHandoff, evWLockHandoff)
	}
}

// firstIsDue reports whether the first waiter is not to be passed, as it has
// waited its handoff time, and if so sees to it that it gets the lock soon. bias
// is what a reader has in the count, which it has not any more if the answer is
// yes. Between two looks at that waiter, which come lookTime apart, it is no.
//
// To a waiter that is on its way writers give their processor, so that it runs;
// to keep everybody out meanwhile would leave the lock idle. Readers pass it, for
// latestTime: to yield may cost them all the others' slices. Where sections are
// long nobody passes: then who meets it sleeps, which gives a processor too.
//
//go:norace
func (rw *RWMutex) firstIsDue(reader bool, bias uint64) bool {
	now := nanotime()
	if rw.lookLater(now) {
		return false
	}
	var l wakeList
	yield := false
	rw.waitLock.Lock()
	rw.preferReader(now, false)
	h := rw.head
	due := h != nil && rw.isDue(h, now)
	if h != nil {
		rw.nextLook(due, now)
	}
	if due {
		switch {
		case rw.count.Load()&flagAsleep != 0:
			rw.setHandoff(h)
			rw.wakeFirst(&l)
		case rw.sectionsAreLong() || reader && (h.urgent || now > h.due+int64(latestTime)):
			rw.setHandoff(h)
		case reader:
			due = false
		default:
			yield = true
		}
	}
	rw.waitLock.Unlock()
	if due && bias != 0 {
		rw.backOut() // before it may lose its processor
	}
	l.wake()
	if yield {
		runtime.Gosched()
	}
	return due
}

// lookLater reports whether the time of the next look at the first waiter has not
// come, and if so lets some more pass it: twice as many as before the last look at
// the clock. Relaxed: it may put off a new first waiter's first look by lookTime
// and maxSteals.
func (rw *RWMutex) lookLater(now int64) bool {
	n := rw.steals.Load()
	at := uint16(n >> stealsAtShift)
	if left := at - uint16(now>>lookUnit); n == 0 || left == 0 || left > lookUnits {
		return false
	}
	rw.steals.Store(stealsWord(at, min(2*stealsGiven(n)+1, maxSteals)))
	return true
}

// nextLook sets the time of the next look at the first waiter: if it is due, when
// those who look at the clock do so next. Those who pass slowly look at it each. The
// caller holds waitLock.
func (rw *RWMutex) nextLook(due bool, now int64) {
	n, at := rw.steals.Load(), uint16(now>>lookUnit)
	given := stealsGiven(n)
	if at-uint16(n>>stealsAtShift) > lookUnits { // late
		given = 0
	}
	if !due {
		at += lookUnits
	}
	rw.steals.Store(stealsWord(at, given))
}

func stealsGiven(steals uint32) uint32 { return steals >> stealsGivenShift & stealsLeft }

func stealsWord(at uint16, n uint32) uint32 {
	return uint32(at)<<stealsAtShift | n<<stealsGivenShift | n
}

// releaseSlow is where a reader's unlock goes that left nobody holding the lock
// while the first waiter sleeps or is owed the lock, unlockSlow where a writer's
// does.
func releaseSlow(rw *RWMutex) {
	hook(hookRelease)
	rw.wakeUp(false)
}

func unlockSlow(rw *RWMutex) {
	hook(hookRelease)
	rw.wakeUp(true)
}

// downgradeSlow lets in the readers that wait, if the first waiter is one or one
// of them goes before it.
func downgradeSlow(rw *RWMutex) { rw.wakeUp(false) }

// wakeUp applies the wake rule to the first waiter. afterWriter says that a
// writer has just released the lock.
//
//go:norace
func (rw *RWMutex) wakeUp(afterWriter bool) {
	var l wakeList
	rw.waitLock.Lock()
	rw.preferReader(nanotime(), afterWriter)
	rw.wakeFirst(&l)
	rw.waitLock.Unlock()
	l.wake()
}

// wakeFirst is wakeUp's work under waitLock: whom to wake goes on l.
//
//go:norace
func (rw *RWMutex) wakeFirst(l *wakeList) {
	w := rw.head
	if w == nil {
		return
	}
	due := rw.isDue(w, nanotime())
	for {
		c := rw.count.Load()
		switch {
		case w.blocked(c):
			// Whoever holds the lock wakes when releasing it.
			if due && c&flagAsleep != 0 {
				rw.setHandoff(w)
			}
			return

		case w.reader && (due || c&readerMask != 0 || !rw.sectionsAreShort()):
			// A reader does not wait behind readers. On a free lock it has to
			// where sections are short: there the lock's hand-over costs many.
			if rw.grantReaders(l, due) {
				return
			}

		case c&flagAsleep == 0:
			return // it is on its way

		case due:
			if rw.grantWriter(w, c, l) {
				return
			}

		default:
			// Woken, not granted: a lock that is granted to one that does not
			// run yet serves nobody until it does. Relaxed: w makes its own try.
			if rw.count.CompareAndSwap(c, c&^flagAsleep) {
				l.wakeToTry(w)
				return
			}
		}
	}
}

// grantWriter gives the lock, free at count c, to w, the first waiter, unless
// somebody else changes the count. w goes on l, which is nil if w is the
// caller's own. The caller holds waitLock.
//
//go:norace
func (rw *RWMutex) grantWriter(w *waiter, c uint64, l *wakeList) bool {
	n := c&^(flagHandoff|flagWaiters|flagAsleep|flagClaim) | w.word
	if w.next != w {
		n |= flagWaiters | flagAsleep
	}
	// Acquire: pairs with the release of whoever left the lock free. If w
	// sleeps it has the edge from here through its wake-up.
	if !rw.count.CompareAndSwap(c, n) {
		return false
	}
	hook(hookCounted)
	rw.nameOwner(w.owner)
	rw.unlink(w)
	rw.startTurn()
	if l == nil {
		w.state.Store(granted)
	} else {
		l.tell(w, granted)
		l.yield = true
	}
	return true
}

// grantReaders gives the lock to the first waiter, a reader, unless a writer
// holds it, and lets in the other readers that wait, passing over writers. Where
// sections are long it gives them the lock too; else it dismisses them to take
// it, since a lock held by goroutines of which the last may run milliseconds
// later costs many sections. With yield, and unless sections are long, the first
// is switched to at once: the unlocker pays for that with its processor. The
// caller holds waitLock.
//
//go:norace
func (rw *RWMutex) grantReaders(l *wakeList, yield bool) bool {
	// n of them, last is who stands behind those.
	first, n, last := rw.head, 0, rw.head
	for n < maxWake && last.reader && (policy.wakeMany || n == 0 || rw.writers == nil || last.since < rw.writers.since) {
		n++
		if last = last.next; last == rw.head {
			break
		}
	}
	others := last != rw.head
	// Count them before they are told: if one ran before it counted it would
	// take another's share out of the count when it unlocks.
	long, counted := rw.sectionsAreLong(), 1
	if long {
		counted = n
	}
	for {
		c := rw.count.Load()
		if first.blocked(c) {
			return false
		}
		if guardInReach {
			// No more than there is room for.
			room := int(min((flagReadFail-1-c)>>readerShift, uint64(maxWake)))
			others = others || n > room
			counted, n = min(counted, room), min(n, room)
		}
		m := c&^(flagHandoff|flagWaiters|flagAsleep) + uint64(counted)*readerBias
		if others {
			m |= flagWaiters | flagAsleep
		}
		// Acquire: as in grantWriter.
		if rw.count.CompareAndSwap(c, m) {
			break
		}
	}
	hook(hookTell)
	for w, i := first, 0; i < n; i++ {
		next := w.next
		rw.unlink(w)
		if i < counted {
			l.tell(w, granted)
		} else {
			l.tell(w, dismissed)
		}
		w = next
	}
	l.yield = yield && !long
	rw.startTurn()
	l.first.more = rw.head != nil && rw.head.reader
	return true
}

// startTurn puts off the time of the new first waiter until those to whom the
// lock was handed over have had their turn, unless sections are long or it was
// passed at its time already. The caller holds waitLock.
//
//go:norace
func (rw *RWMutex) startTurn() {
	rw.steals.Store(0) // a new first waiter: look at its age soon
	h := rw.head
	if h == nil || h.passed || rw.sectionsAreLong() {
		return
	}
	turn := turnTime
	if rw.sectionsAreShort() {
		turn = shortTurnTime
	}
	h.due = max(h.due, nanotime()+int64(turn))
}

// tryFirst is the try of w, the first waiter, which was woken. It reports
// whether w's state is decided; if not, somebody holds the lock and flagAsleep
// is set, so that its release wakes w again, or a reader was put first and w is
// one of the others.
//
//go:norace
func (rw *RWMutex) tryFirst(w *waiter) bool {
	for start, round := nanotime(), 0; ; round += clockRounds {
		maySpin := spunFor(round, start) < firstSpinTime && canSpin()
		switch rw.tryFirstOnce(w, maySpin) {
		case tryDecided:
			return true
		case trySleep:
			return false
		}
		rw.spinFirst(w)
	}
}

type tryResult int

const (
	tryDecided tryResult = iota // w has the lock or is cancelled
	trySleep                    // the lock is held, or w is not the first any more
	trySpin                     // the lock is held and worth spinning on
)

// tryFirstOnce is one try of a first waiter that may go on to spin or not.
//
//go:norace
func (rw *RWMutex) tryFirstOnce(w *waiter, maySpin bool) tryResult {
	var l wakeList
	result := tryDecided
	rw.waitLock.Lock()
	for w.state.Load() == waiting {
		c := rw.count.Load()
		switch {
		case rw.head != w: // a reader was put first
			rw.count.And(^uint64(flagClaim)) // Relaxed: a request.
			result = trySleep
		case !w.blocked(c) && w.reader:
			rw.grantReaders(&l, false)
			continue
		case !w.blocked(c):
			rw.grantWriter(w, c, nil)
			continue
		case c&flagHandoff == 0 && rw.isDue(w, nanotime()):
			rw.setHandoff(w)
			continue // look again: the lock may have come free before that
		case maySpin && rw.firstMaySpin(w, c):
			result = trySpin
		case rw.count.CompareAndSwap(c, c&^flagClaim|flagAsleep): // Relaxed, as in enqueue.
			result = trySleep
		default:
			continue
		}
		break
	}
	rw.waitLock.Unlock()
	l.wake()
	return result
}

// blocked reports whether count c keeps w from taking the lock once it is first.
//
//go:norace
func (w *waiter) blocked(c uint64) bool {
	if w.reader {
		return (c+readerBias)&(writerLocked|flagReadFail) != 0
	}
	return c&held != 0
}

// firstMaySpin reports whether a woken first waiter that finds count c spins, for
// firstSpinTime in all. Not to have it sleep again is worth a lot: it would be woken by the
// next release, in vain again if the holder comes back at once.
//
//go:norace
func (rw *RWMutex) firstMaySpin(w *waiter, c uint64) bool {
	o := rw.loadOwner(c)
	switch ownerStateOf(c, o, 0) {
	case ownerNonspinnable:
		return false
	case ownerWriter:
		if c&flagHandoff != 0 && !policy.handoffSpin || !running(o) {
			return false
		}
	case ownerReader:
		if !policy.writerSpin || w.urgent || crowded(c) {
			return false
		}
	}
	return !tooShort(rw.ctl.Load()) || c&flagHandoff != 0
}

// spinFirst waits a little for the lock to look free to w. It claims the lock from
// readers only: from a writer it would change processors at every section.
//
//go:norace
func (rw *RWMutex) spinFirst(w *waiter) {
	pause := roundPause()
	for range clockRounds {
		c := rw.count.Load()
		if !w.blocked(c) || w.state.Load() != waiting {
			return
		}
		if !w.reader && c&writerLocked == 0 && rw.claim(c) {
			w.claimed = true
		}
		pause.wait()
	}
}

func tryRLockSlow(rw *RWMutex) bool {
	for passed := false; ; {
		c := rw.count.Load()
		n := c + readerBias
		switch {
		case n&readBlocked != 0:
			leaveTry(passed)
			return false
		case !passed && rw.firstIsDue(true, 0):
			passed = true
		case rw.count.CompareAndSwap(c, n): // Acquire, as in tryRLock.
			return true
		}
	}
}

func tryLockSlow(rw *RWMutex) bool {
	me := self()
	word := writerWord(me)
	for passed := false; ; {
		c := rw.count.Load()
		switch {
		case c&writeBlocked != 0:
			leaveTry(passed)
			return false
		case !passed && rw.firstIsDue(false, 0):
			passed = true
		case rw.count.CompareAndSwap(c, c&^flagClaim|word): // Acquire, as in tryLock.
			rw.nameOwner(me)
			return true
		}
	}
}

// leaveTry is the end of a try in vain. If it found the first waiter due it may be
// that one's processor that the caller, who does not sleep, would use to try again.
func leaveTry(due bool) {
	if due {
		runtime.Gosched()
	}
}

// Misuse ends the process, also under recover: a lock in an unknown state
// protects nothing any more.

func unlockMisuse(rw *RWMutex)    { fatal("rwsem: Unlock of unlocked RWMutex") }
func downgradeMisuse(rw *RWMutex) { fatal("rwsem: Downgrade of RWMutex not locked for writing") }

// runlockMisuse is where a reader ends whose leaving the count does not allow. The
// reader may be innocent: then who is to blame has the time to report itself, with
// its own stack.
func runlockMisuse(rw *RWMutex) {
	if misuseOfOther(rw) {
		// By this clock: a synctest bubble's may stand still.
		for start := nanotime(); nanotime()-start < int64(misuseTime); {
			runtime.Gosched()
		}
	}
	fatal("rwsem: RUnlock of unlocked RWMutex")
}

// misuseOfOther reports whether an Unlock or a Downgrade without a writer may have
// left the count, which it changes before it reports itself: it borrows through the
// spare bits, or leaves a writer that has no owner.
func misuseOfOther(rw *RWMutex) bool {
	c := rw.count.Load()
	return c&spareMask != 0 || !ownerInCount && c&writerLocked != 0 && rw.owner.Load()&^ownerFlags == 0
}

// misuseTime is how long an Unlock or a Downgrade may need to report itself: many
// slices of the scheduler.
const misuseTime = time.Second
