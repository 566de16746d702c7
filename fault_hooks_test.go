//go:build rwsemhooks && !rwsemexplore

package rwsem

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The faults that need a goroutine stopped at a chosen place.

// faultHooks is what the tests of this file have set up at each hook point.
var faultHooks [numHookPoints]struct {
	stop   atomic.Pointer[hookStop]
	passed atomic.Int32 // arrivals since useHooks
}

// A hookStop stops the one goroutine that comes to its hook point next.
type hookStop struct{ reached, released atomic.Bool }

// useHooks has the hook points heeded for the time of the test.
func useHooks(t *testing.T) {
	letSpin(t)
	for p := range faultHooks {
		faultHooks[p].stop.Store(nil)
		faultHooks[p].passed.Store(0)
	}
	// It only uses atomics: it runs where the race detector is disabled.
	f := func(p hookPoint) {
		h := &faultHooks[p]
		h.passed.Add(1)
		if s := h.stop.Swap(nil); s != nil {
			s.reached.Store(true)
			for !s.released.Load() {
				time.Sleep(20 * time.Microsecond)
			}
		}
	}
	testHook.Store(&f)
	t.Cleanup(func() { testHook.Store(nil) })
}

func stopAt(t *testing.T, p hookPoint) *hookStop {
	t.Helper()
	s := new(hookStop)
	require.True(t, faultHooks[p].stop.CompareAndSwap(nil, s), "nobody came to the last stop")
	t.Cleanup(s.release) // also if the test fails before that
	return s
}

func (s *hookStop) wait(t *testing.T) {
	t.Helper()
	awaitTrue(t, "a goroutine comes to the hook point", s.reached.Load)
}

func (s *hookStop) release() { s.released.Store(true) }

// awaitParked waits until n goroutines have decided to park since useHooks.
func awaitParked(t *testing.T, n int32) {
	t.Helper()
	awaitTrue(t, "waiters park", func() bool { return faultHooks[hookPark].passed.Load() == n })
}

func readersIn(rw *RWMutex) uint64 { return rw.count.Load() >> readerShift }

func writeOnce(rw *RWMutex) {
	rw.Lock()
	defer rw.Unlock()
}

//go:norace
func firstWaiter(rw *RWMutex) *waiter {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	return rw.head
}

// waiterBehind returns the one that waits behind w.
//
//go:norace
func waiterBehind(rw *RWMutex, w *waiter) *waiter {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	return w.next
}

func stateOf(rw *RWMutex, w *waiter) uint32 {
	raceEnter(rw)
	defer raceLeave()
	return w.state.Load()
}

//go:norace
func makeSecondDue(rw *RWMutex) {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	rw.head.next.due = 0
}

func countAsShort(rw *RWMutex) { rw.addField(ctlShort, ctlShortMask, ctlShortMask/ctlShort) }

// retake releases rw, which the caller has locked for writing and for which one
// waiter sleeps, has the waker stopped before it wakes that waiter, which is
// not due, and takes the lock again. Sections count as short, or a reader would
// be granted the free lock.
func retake(t *testing.T, rw *RWMutex) (waker *hookStop, unlock *bgCall) {
	t.Helper()
	countAsShort(rw)
	waker = stopAt(t, hookWake)
	unlock = inBackground(rw.Unlock)
	waker.wait(t)
	require.True(t, rw.TryLock(), "the lock is free to those who run")
	return waker, unlock
}

func TestFaultCountedAfterWoken(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	countAsLong(&rw)
	rw.Lock()
	a := inBackground(func() { readOnce(&rw) })
	awaitParked(t, 1)
	b := inBackground(rw.RLock)
	awaitParked(t, 2)
	first := firstWaiter(&rw)
	second := waiterBehind(&rw, first)
	// owed is how many readers were told that they hold the lock.
	owed := func() (n uint64) {
		for _, w := range []*waiter{first, second} {
			if stateOf(&rw, w) == granted {
				n++
			}
		}
		return n
	}

	tell := stopAt(t, hookTell)
	unlock := inBackground(rw.Unlock)
	tell.wait(t)
	counted := readersIn(&rw)
	require.NotZero(t, counted, "counted before they are told")
	require.Zero(t, owed())
	wake := stopAt(t, hookWake)
	tell.release()
	wake.wait(t)
	require.Equal(t, counted, owed(), "told before they are woken")
	require.Equal(t, counted, readersIn(&rw), "counted before they are told")

	// The first comes and goes while the second was told and does not run yet.
	wake2 := stopAt(t, hookWake)
	wake.release()
	wake2.wait(t)
	a.wait(t, "the first reader comes and goes")
	require.Equal(t, counted-1, readersIn(&rw))
	require.False(t, b.done.Load())
	wake2.release()
	b.wait(t, "the second reader gets the lock")
	unlock.wait(t, "the unlocker ends")
	require.Equal(t, uint64(1), readersIn(&rw))
	require.False(t, rw.TryLock())
	rw.RUnlock()
	requireRest(t, &rw)
}

// Unless sections are long, of the readers that are let in only one can keep the
// lock from others before it runs.
func TestFaultGrantedNotRunning(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	var r [4]*bgCall
	for i := range r {
		r[i] = inBackground(func() { readOnce(&rw) })
		awaitParked(t, int32(i+1))
	}
	wake := stopAt(t, hookWake)
	unlock := inBackground(rw.Unlock)
	wake.wait(t)
	require.Equal(t, uint64(1), readersIn(&rw))
	wake2 := stopAt(t, hookWake)
	wake.release()
	wake2.wait(t)
	r[0].wait(t, "the first reader comes and goes")
	require.True(t, rw.TryLock(), "the lock waits for readers that do not run")
	wake2.release()
	unlock.wait(t, "the unlocker ends")
	awaitQueue(t, &rw, len(r)-1)
	rw.Unlock()
	for i := range r {
		r[i].wait(t, "the readers get the lock")
	}
	requireRest(t, &rw)
}

// A reader is woken to try by one waker, which loses its processor, and then
// granted the lock by another: it is told before the second wakes it, and its
// node is not used again before both have.
func TestFaultToldAfterWoken(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	r := inBackground(rw.RLock)
	awaitParked(t, 1)
	w := firstWaiter(&rw)

	wakerA, unlock := retake(t, &rw)
	require.Equal(t, uint32(waiting), stateOf(&rw, w), "woken, not granted")
	wakerB := stopAt(t, hookWake)
	down := inBackground(rw.Downgrade)
	wakerB.wait(t)
	require.Equal(t, uint32(granted), stateOf(&rw, w), "told before it is woken")
	require.Equal(t, uint64(2), readersIn(&rw))

	wakerA.release()
	unlock.wait(t, "the first waker ends")
	wakerB.release()
	down.wait(t, "the second waker ends")
	r.wait(t, "the reader gets the lock")
	require.Zero(t, leftover(w), "a wake-up is left over for the next user of the node")
	rw.RUnlock()
	rw.RUnlock()
	requireRest(t, &rw)
}

// A waiter is granted the lock, and sleeps on another lock before its waker goes
// on: with the same node, which the waker must not touch.
func TestFaultNodeTouchedAfterWake(t *testing.T) {
	setHandoffTime(t, time.Hour)
	for range 100 {
		var rw, other RWMutex
		rw.Lock()
		other.Lock()
		r := inBackground(func() {
			readOnce(&rw)
			readOnce(&other)
		})
		awaitQueue(t, &rw, 1)
		unlock := inBackground(rw.Unlock)
		awaitQueue(t, &other, 1)
		unlock.wait(t, "the waker ends")
		require.NotNil(t, firstWaiter(&other), "the waker woke another lock's waiter")
		other.Unlock()
		r.wait(t, "the reader ends")
		requireRest(t, &rw)
		requireRest(t, &other)
	}
}

func TestFaultBetweenCountAndOwner(t *testing.T) {
	for _, reader := range []bool{true, false} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		stopped := stopAt(t, hookCounted)
		holder := inBackground(func() { rw.lockSlow(false) })
		stopped.wait(t)
		require.Equal(t, uint64(writerLocked), flagsIn(&rw))
		require.Zero(t, rw.owner.Load())
		require.Equal(t, ownerInCount, rw.loadOwner(rw.count.Load()) != 0)

		rounds := &faultHooks[hookSpin].passed
		var calls [10]*bgCall
		var most int32
		for i := range calls {
			rounds.Store(0)
			if reader {
				calls[i] = inBackground(func() { readOnce(&rw) })
			} else {
				calls[i] = inBackground(func() { writeOnce(&rw) })
			}
			awaitQueue(t, &rw, i+1)
			most = max(most, rounds.Load())
		}
		require.NotZero(t, most, "nobody spins")
		if !ownerInCount { // there no writer holds the lock unnamed
			require.LessOrEqual(t, most, int32(maxNullRounds+1), "rounds on a writer that does not name itself")
		}
		stopped.release()
		holder.wait(t, "the holder gets the lock")
		rw.Unlock()
		for i := range calls {
			calls[i].wait(t, "who slept gets the lock")
		}
		requireRest(t, &rw)
	}
}

// A passing reader's share of the count hides from the last holder that it
// leaves the lock free.
func TestFaultHiddenZero(t *testing.T) {
	setup := func(t *testing.T) (*RWMutex, *bgCall) {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		rw := new(RWMutex)
		rw.RLock()
		w := inBackground(rw.Lock)
		awaitParked(t, 1)
		makeDue(rw)
		rw.owner.Store(0) // readers may spin
		return rw, w
	}
	// finish lets the last holder go while the passing reader is in the count.
	// The writer has to come in while that reader is about to queue.
	finish := func(t *testing.T, rw *RWMutex, w, p *bgCall, passing, queueing *hookStop) {
		passing.wait(t)
		require.Equal(t, uint64(2), readersIn(rw))
		rw.RUnlock()
		require.Equal(t, uint64(1), readersIn(rw))
		require.False(t, w.done.Load())
		passing.release()
		if queueing != nil {
			queueing.wait(t)
		}
		w.wait(t, "the writer gets the lock that the passing reader left free")
		if queueing != nil {
			queueing.release()
		}
		rw.Unlock()
		p.wait(t, "the passing reader ends")
		if p.err == nil {
			rw.RUnlock()
		}
		requireRest(t, rw)
	}

	t.Run("Queue", func(t *testing.T) {
		rw, w := setup(t)
		makeHandoff(t, rw)
		passing := stopAt(t, hookQueue)
		p := inBackground(rw.RLock)
		finish(t, rw, w, p, passing, nil)
	})
	t.Run("FirstIsDue", func(t *testing.T) {
		rw, w := setup(t)
		passing, queueing := stopAt(t, hookBackOut), stopAt(t, hookQueue)
		p := inBackground(rw.RLock)
		finish(t, rw, w, p, passing, queueing)
	})
	t.Run("Context", func(t *testing.T) {
		rw, w := setup(t)
		makeHandoff(t, rw)
		passing, queueing := stopAt(t, hookBackOut), stopAt(t, hookQueue)
		ctx, cancel := context.WithCancel(context.Background())
		p := inBackgroundErr(func() error { return rw.RLockContext(ctx) })
		passing.wait(t)
		cancel()
		finish(t, rw, w, p, passing, queueing)
	})
	t.Run("Timed", func(t *testing.T) {
		rw, w := setup(t)
		makeHandoff(t, rw)
		passing, queueing := stopAt(t, hookBackOut), stopAt(t, hookQueue)
		p := inBackgroundErr(func() error {
			if !rw.TryRLockFor(time.Microsecond) {
				return context.DeadlineExceeded
			}
			return nil
		})
		finish(t, rw, w, p, passing, queueing)
	})
	t.Run("BackedOut", func(t *testing.T) {
		// The last holder goes after the bias is out and before the rule is
		// applied: both wake, and one wake-up comes of it.
		rw, w := setup(t)
		passing, queueing := stopAt(t, hookBackedOut), stopAt(t, hookQueue)
		p := inBackground(rw.RLock)
		passing.wait(t)
		require.Equal(t, uint64(1), readersIn(rw))
		rw.RUnlock()
		w.wait(t, "the writer gets the lock")
		passing.release()
		queueing.wait(t)
		queueing.release()
		rw.Unlock()
		p.wait(t, "the passing reader gets the lock")
		rw.RUnlock()
		requireRest(t, rw)
	})
}

// The mark here is flagAsleep, with the opposite sense: not woken.
func TestFaultWokenMarkLost(t *testing.T) {
	for _, reader := range []bool{false, true} {
		lock, release := (*RWMutex).Lock, (*RWMutex).Unlock
		if reader {
			lock, release = (*RWMutex).RLock, (*RWMutex).RUnlock
		}

		// The lock is released after the waiter queued and before it parks.
		useHooks(t)
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		rw.Lock()
		parking := stopAt(t, hookPark)
		w := inBackground(func() { lock(&rw) })
		parking.wait(t)
		require.NotZero(t, rw.count.Load()&flagAsleep, "a release must wake the waiter")
		rw.Unlock()
		require.Zero(t, rw.count.Load()&flagAsleep, "no further release has to")
		parking.release()
		w.wait(t, "the waiter was woken before it slept")
		release(&rw)
		requireRest(t, &rw)

		// The same after it was woken and tried in vain.
		rw.Lock()
		w = inBackground(func() { lock(&rw) })
		awaitParked(t, 2)
		waker, unlock := retake(t, &rw)
		require.Zero(t, rw.count.Load()&flagAsleep, "the waiter is on its way")
		parking = stopAt(t, hookPark)
		waker.release()
		parking.wait(t)
		require.NotZero(t, rw.count.Load()&flagAsleep, "a release must wake the waiter")
		inBackground(rw.Unlock).wait(t, "the lock is released")
		parking.release()
		w.wait(t, "the waiter was woken before it slept")
		unlock.wait(t, "the first waker ends")
		release(&rw)
		requireRest(t, &rw)
	}
}

// A first waiter that is due finds the lock held, and it comes free before the
// waiter has set handoff: its release found nothing to do.
func TestFaultHandoffOnFreeLock(t *testing.T) {
	for _, reader := range []bool{false, true} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		lock, release := (*RWMutex).Lock, (*RWMutex).Unlock
		if reader {
			lock, release = (*RWMutex).RLock, (*RWMutex).RUnlock
		}
		var rw RWMutex
		rw.Lock()
		w := inBackground(func() { lock(&rw) })
		awaitParked(t, 1)
		waker, unlock := retake(t, &rw)
		makeDue(&rw)
		setting := stopAt(t, hookHandoff)
		waker.release()
		setting.wait(t)
		require.Zero(t, rw.count.Load()&(flagAsleep|flagHandoff))
		rw.Unlock()
		setting.release()
		w.wait(t, "the waiter looks again")
		unlock.wait(t, "the waker ends")
		release(&rw)
		requireRest(t, &rw)
	}

	// Somebody who queues sets it for a first waiter that sleeps.
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	w := inBackground(rw.Lock)
	awaitParked(t, 1)
	makeDue(&rw)
	setting := stopAt(t, hookHandoff)
	second := inBackground(rw.Lock)
	setting.wait(t)
	unlock := inBackground(rw.Unlock)
	awaitTrue(t, "the lock comes free", func() bool { return rw.count.Load()&held == 0 })
	setting.release()
	w.wait(t, "the first gets the lock")
	unlock.wait(t, "the unlocker ends")
	rw.Unlock()
	second.wait(t, "the second gets the lock")
	rw.Unlock()
	requireRest(t, &rw)
}

func TestFaultHandoffLeftBehind(t *testing.T) {
	for _, handoff := range []bool{true, false} {
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		first := func() (context.CancelFunc, *bgCall) {
			ctx, cancel := context.WithCancel(context.Background())
			c := inBackgroundErr(func() error { return rw.LockContext(ctx) })
			awaitQueue(t, &rw, 1)
			return cancel, c
		}
		leave := func(cancel context.CancelFunc, c *bgCall) {
			if handoff {
				makeHandoff(t, &rw)
			}
			cancel()
			c.wait(t, "the first waiter leaves")
			require.ErrorIs(t, c.err, context.Canceled)
		}

		// The queue is empty then.
		rw.Lock()
		leave(first())
		require.Equal(t, uint64(writerLocked), flagsIn(&rw), "count %#x", rw.count.Load())

		// There is an heir, which is not due: it does not inherit handoff.
		cancel, c := first()
		w := inBackground(rw.Lock)
		awaitQueue(t, &rw, 2)
		leave(cancel, c)
		require.Equal(t, uint64(writerLocked|flagWaiters|flagAsleep), flagsIn(&rw), "count %#x", rw.count.Load())
		rw.Unlock()
		w.wait(t, "the heir gets the lock")
		require.Equal(t, uint64(writerLocked), flagsIn(&rw), "count %#x", rw.count.Load())
		rw.Unlock()
		requireRest(t, &rw)

		// The heir is due: it gets its own.
		rw.Lock()
		cancel, c = first()
		w = inBackground(rw.Lock)
		awaitQueue(t, &rw, 2)
		makeSecondDue(&rw)
		leave(cancel, c)
		require.Equal(t, uint64(writerLocked|flagWaiters|flagAsleep|flagHandoff), flagsIn(&rw), "count %#x", rw.count.Load())
		rw.Unlock()
		w.wait(t, "the heir gets the lock")
		require.Equal(t, uint64(writerLocked), flagsIn(&rw), "count %#x", rw.count.Load())
		rw.Unlock()
		requireRest(t, &rw)

		// Who has no waiter any more may not be kept out by one that left.
		rw.RLock()
		leave(first())
		require.Equal(t, uint64(readerBias), rw.count.Load(), "count %#x", rw.count.Load())
		require.True(t, rw.TryRLock())
		rw.RUnlock()
		rw.RUnlock()
		requireRest(t, &rw)
	}
}

// The first waiter leaves while the lock is free: nobody else wakes the next.
func TestFaultHeirNotWoken(t *testing.T) {
	for _, reader := range []bool{false, true} {
		lock, release := (*RWMutex).Lock, (*RWMutex).Unlock
		if reader {
			lock, release = (*RWMutex).RLock, (*RWMutex).RUnlock
		}
		for _, handoff := range []bool{false, true} {
			useHooks(t)
			setHandoffTime(t, time.Hour)
			var rw RWMutex
			rw.Lock()
			ctx, cancel := context.WithCancel(context.Background())
			first := inBackgroundErr(func() error { return rw.LockContext(ctx) })
			awaitParked(t, 1)
			heir := inBackground(func() { lock(&rw) })
			awaitParked(t, 2)

			// Either the first is on its way and its waker has lost its
			// processor, or it is owed the lock and the unlocker has.
			p := hookWake
			if handoff {
				makeHandoff(t, &rw)
				p = hookRelease
			}
			stopped := stopAt(t, p)
			unlock := inBackground(rw.Unlock)
			stopped.wait(t)
			require.Zero(t, rw.count.Load()&held)
			cancel()
			heir.wait(t, "the heir gets the lock that is free")
			stopped.release()
			unlock.wait(t, "the unlocker ends")
			first.wait(t, "the first waiter leaves")
			require.ErrorIs(t, first.err, context.Canceled)
			release(&rw)
			requireRest(t, &rw)
		}
	}
}

func TestFaultSomebodyElsesHandoff(t *testing.T) {
	for _, reader := range []bool{false, true} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		lock, release := (*RWMutex).Lock, (*RWMutex).Unlock
		if reader {
			lock, release = (*RWMutex).RLock, (*RWMutex).RUnlock
		}
		var rw RWMutex
		rw.Lock()
		first := inBackground(rw.Lock)
		awaitParked(t, 1)
		makeHandoff(t, &rw)
		stopped := stopAt(t, hookRelease)
		unlock := inBackground(rw.Unlock)
		stopped.wait(t)

		// Free, and the first waiter's.
		require.Zero(t, rw.count.Load()&held)
		require.False(t, rw.TryLock())
		require.False(t, rw.TryRLock())
		second := inBackground(func() { lock(&rw) })
		first.wait(t, "the first waiter gets the lock: who queues looks again")
		awaitQueue(t, &rw, 1)
		require.False(t, second.done.Load())
		stopped.release()
		unlock.wait(t, "the unlocker ends")
		rw.Unlock()
		second.wait(t, "the second gets the lock")
		release(&rw)
		requireRest(t, &rw)
	}
}

func TestFaultConvoyAfterHandoff(t *testing.T) {
	for _, reader := range []bool{false, true} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		lock, release, p := (*RWMutex).Lock, (*RWMutex).Unlock, hookCounted
		if reader {
			lock, release, p = (*RWMutex).RLock, (*RWMutex).RUnlock, hookTell
		}
		var rw RWMutex
		rw.Lock()
		first := inBackground(func() { lock(&rw) })
		awaitParked(t, 1)
		second := inBackground(rw.Lock)
		awaitParked(t, 2)
		makeHandoff(t, &rw)
		given := stopAt(t, p)
		unlock := inBackground(rw.Unlock)
		given.wait(t)
		c := rw.count.Load()
		require.NotZero(t, c&held)
		require.NotZero(t, c&flagWaiters)
		require.Zero(t, c&flagHandoff, "handoff stays set although the first waiter has the lock")
		given.release()
		first.wait(t, "the first gets the lock")
		unlock.wait(t, "the unlocker ends")

		// So the lock may be taken past the second, which is only woken.
		waker := stopAt(t, hookWake)
		unlock = inBackground(func() { release(&rw) })
		waker.wait(t)
		require.True(t, rw.TryLock(), "nobody may steal")
		waker.release()
		unlock.wait(t, "the unlocker ends")
		rw.Unlock()
		second.wait(t, "the second gets the lock")
		rw.Unlock()
		requireRest(t, &rw)
	}
}

// A waiter that was granted the lock and is cancelled before it runs has it.
func TestFaultGrantedThoughCancelled(t *testing.T) {
	for _, reader := range []bool{false, true} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		rw.Lock()
		ctx, cancel := context.WithCancel(context.Background())
		c := inBackgroundErr(func() error {
			if reader {
				return rw.RLockContext(ctx)
			}
			return rw.LockContext(ctx)
		})
		awaitParked(t, 1)
		w := firstWaiter(&rw)
		makeDue(&rw)
		waker := stopAt(t, hookWake)
		unlock := inBackground(rw.Unlock)
		waker.wait(t)
		require.NotZero(t, rw.count.Load()&held, "granted")
		cancel()
		rw.cancel(w) // as the context does in its own time
		waker.release()
		unlock.wait(t, "the unlocker ends")
		c.wait(t, "the waiter ends")
		require.NoError(t, c.err, "it was granted the lock")
		if reader {
			require.Equal(t, uint64(readerBias), rw.count.Load())
			rw.RUnlock()
		} else {
			require.Equal(t, uint64(writerLocked), flagsIn(&rw))
			rw.Unlock()
		}
		requireRest(t, &rw)
	}
}

// A reader that left the queue to try anew is cancelled before it runs.
func TestFaultDismissedThenCancelled(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	a := inBackground(rw.RLock)
	awaitParked(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	b := inBackgroundErr(func() error { return rw.RLockContext(ctx) })
	awaitParked(t, 2)
	second := waiterBehind(&rw, firstWaiter(&rw))
	wake := stopAt(t, hookWake)
	unlock := inBackground(rw.Unlock)
	wake.wait(t)
	wake2 := stopAt(t, hookWake)
	wake.release()
	wake2.wait(t)
	require.Equal(t, uint32(dismissed), stateOf(&rw, second))
	cancel()
	rw.cancel(second)
	wake2.release()
	unlock.wait(t, "the unlocker ends")
	b.wait(t, "the second reader ends")
	require.ErrorIs(t, b.err, context.Canceled)
	require.Zero(t, leftover(second))
	a.wait(t, "the first reader gets the lock")
	require.Equal(t, uint64(readerBias), rw.count.Load())
	rw.RUnlock()
	requireRest(t, &rw)
}

// While an unlocker is on its way out the lock belongs to others.
func TestFaultUnlockOrder(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	w := inBackground(rw.Lock)
	awaitParked(t, 1)
	stopped := stopAt(t, hookRelease)
	unlock := inBackground(rw.Unlock)
	stopped.wait(t)
	require.Zero(t, rw.count.Load()&held)
	require.Zero(t, rw.owner.Load(), "the owner is gone before the lock is free")
	require.True(t, rw.TryLock())
	stopped.release()
	unlock.wait(t, "the unlocker ends")
	require.Equal(t, self(), rw.loadOwner(rw.count.Load()), "the unlocker wrote to a lock that is another's")
	require.NotZero(t, rw.count.Load()&writerLocked)
	rw.Unlock()
	w.wait(t, "the waiter gets the lock")
	rw.Unlock()
	requireRest(t, &rw)
}

// Those who wait for the wait list are parked.
var _ *sync.Mutex = &new(RWMutex).waitLock

// Spinners that have lost their processor, and a holder of the wait lock that
// has, keep nobody from the lock who does not need them.
func TestFaultSpinnerStopped(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	var spinners []*bgCall
	var stops []*hookStop
	for range maxSpinners {
		s := stopAt(t, hookSpin)
		spinners = append(spinners, inBackground(func() { writeOnce(&rw) }))
		s.wait(t)
		stops = append(stops, s)
	}
	w := inBackground(rw.Lock)
	awaitQueue(t, &rw, 1)
	r := inBackground(rw.RLock)
	awaitQueue(t, &rw, 2)
	rw.Unlock()
	w.wait(t, "the writer gets the lock past spinners that do not run")
	rw.Unlock()
	r.wait(t, "the reader gets the lock past spinners that do not run")
	rw.RUnlock()
	for i := range stops {
		stops[i].release()
		spinners[i].wait(t, "the spinner gets the lock")
	}
	requireRest(t, &rw)

	// The fast paths need no wait lock, and others sleep.
	lockWaitList(&rw)
	queueing := faultHooks[hookQueue].passed.Load()
	rw.Lock()
	for range 8 {
		spinners = append(spinners, inBackground(func() { writeOnce(&rw) }))
	}
	awaitTrue(t, "all come to the queue", func() bool {
		return faultHooks[hookQueue].passed.Load() == queueing+8
	})
	rw.Unlock()
	for range 1000 {
		runtime.Gosched()
		require.True(t, rw.TryRLock())
		rw.RUnlock()
	}
	unlockWaitList(&rw)
	for i := range spinners {
		spinners[i].wait(t, "the spinner gets the lock")
	}
	requireRest(t, &rw)
}

// A writer unlocks and loses its processor before it wakes the reader that
// waits. Another reader takes the lock. The unlocker then finds it held and
// leaves the wake-up to that reader's release: the first waits behind readers
// with no writer anywhere, for ever if the one that holds the lock waits for it.
func TestFaultReaderBehindReaders(t *testing.T) {
	for _, due := range []bool{false, true} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		rw.Lock()
		r := inBackground(rw.RLock)
		awaitParked(t, 1)
		if due {
			makeDue(&rw)
		}
		stopped := stopAt(t, hookRelease)
		unlock := inBackground(rw.Unlock)
		stopped.wait(t)
		require.True(t, rw.TryRLock())
		stopped.release()
		unlock.wait(t, "the unlocker ends")
		r.wait(t, "the reader gets the lock from a reader: no writer is left")
		rw.RUnlock()
		rw.RUnlock()
		requireRest(t, &rw)
	}
}

// A writer unlocks while a reader that spins on it is in the count, so that
// reader has the lock from there on. The one that sleeps joins it at once: left
// to its release, it would wait behind readers with no writer anywhere.
func TestFaultReaderJoinsSpinner(t *testing.T) {
	for _, due := range []bool{false, true} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		rw.Lock()
		r := inBackground(rw.RLock)
		awaitParked(t, 1)
		spinning := stopAt(t, hookSpin)
		spinner := inBackground(rw.RLock)
		spinning.wait(t)
		require.Equal(t, uint64(1), readersIn(&rw))
		if due {
			makeDue(&rw)
		}
		rw.Unlock()
		spinning.release()
		spinner.wait(t, "the spinner gets the lock")
		r.wait(t, "the reader gets the lock while the spinner holds it")
		require.Equal(t, uint64(2), readersIn(&rw))
		rw.RUnlock()
		rw.RUnlock()
		requireRest(t, &rw)
	}
}

// Writers do not spin on more readers than can run.
func TestFaultSpinOnCrowd(t *testing.T) {
	useHooks(t)
	letSpin(t)
	var rw RWMutex
	for range maxSpinners + 1 {
		rw.RLock()
	}
	raceEnter(&rw)
	ok := rw.spinWrite(false)
	raceLeave()
	require.False(t, ok)
	require.Equal(t, int32(1), faultHooks[hookSpin].passed.Load(), "one look")
	for range maxSpinners + 1 {
		rw.RUnlock()
	}
	requireRest(t, &rw)
}
