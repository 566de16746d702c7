package rwsem

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The faults that locks of this design have had, as far as they show without
// stopping a goroutine at a chosen place. fault_hooks_test.go has the others,
// fault_mutant_test.go the list of all.

// faultWait is for how long a test waits for what has to happen.
const faultWait = 5 * time.Second

// requireRest requires of a lock that nobody uses any more that nothing is left
// of those who did.
func requireRest(t *testing.T, rw *RWMutex) {
	t.Helper()
	require.Zero(t, rw.count.Load(), "count at rest: %#x", rw.count.Load())
	require.Zero(t, queueLen(rw), "waiters at rest")
	require.Zero(t, rw.ctl.Load()&ctlSpinners, "spinners at rest")
}

// awaitTrue waits for cond.
func awaitTrue(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(faultWait); !cond(); {
		require.True(t, time.Now().Before(end), "timed out: %s", what)
		time.Sleep(20 * time.Microsecond)
	}
}

// A bgCall is a call in a goroutine of its own.
type bgCall struct {
	done atomic.Bool
	err  error // once done
}

func inBackground(f func()) *bgCall {
	return inBackgroundErr(func() error { f(); return nil })
}

func inBackgroundErr(f func() error) *bgCall {
	c := new(bgCall)
	go func() {
		c.err = f()
		c.done.Store(true)
	}()
	return c
}

func (c *bgCall) wait(t *testing.T, what string) {
	t.Helper()
	awaitTrue(t, what, c.done.Load)
}

func readOnce(rw *RWMutex) {
	rw.RLock()
	defer rw.RUnlock()
}

// lockWaitList and unlockWaitList lock rw's wait list as rw itself does, behind
// the race detector's back.
func lockWaitList(rw *RWMutex) {
	raceEnter(rw)
	rw.waitLock.Lock()
	raceLeave()
}

func unlockWaitList(rw *RWMutex) {
	raceEnter(rw)
	rw.waitLock.Unlock()
	raceLeave()
}

// flagsIn returns rw's count without the identity of the writer that holds it.
func flagsIn(rw *RWMutex) uint64 { return rw.count.Load() &^ ownerMask }

//go:norace
func queueLen(rw *RWMutex) (n int) {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	if w := rw.head; w != nil {
		for n = 1; w.next != rw.head; n++ {
			w = w.next
		}
	}
	return n
}

func awaitQueue(t *testing.T, rw *RWMutex, n int) {
	t.Helper()
	awaitTrue(t, "waiters queue", func() bool { return queueLen(rw) == n })
}

// setHandoffTime makes waiters due after d, and readers wait in line with writers.
func setHandoffTime(t *testing.T, d time.Duration) {
	old := policy
	policy.handoffTime, policy.readerFirst = d, false
	t.Cleanup(func() { policy = old })
}

// letSpin lets goroutines spin on a machine with one CPU too.
func letSpin(t *testing.T) {
	old := maxSpinners
	maxSpinners = max(2, old)
	t.Cleanup(func() { maxSpinners = old })
}

// makeDue ends the first waiter's handoff time.
func makeDue(rw *RWMutex) { setFirstDue(rw, 0) }

//go:norace
func setFirstDue(rw *RWMutex, due int64) {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	rw.head.due = due
}

func countAsLong(rw *RWMutex) { rw.addField(ctlLong, ctlLongMask, ctlLongMask/ctlLong) }

// makeOld makes it so that the first waiter has waited for longer than its time.
//
//go:norace
func makeOld(rw *RWMutex) {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	rw.head.since = nanotime() - int64(2*policy.handoffTime)
	rw.head.due = rw.head.since
}

//go:norace
func markWoken(rw *RWMutex) {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	rw.head.woken = true
}

// makeHandoff ends the first waiter's handoff time and has handoff set as
// somebody does who would pass that waiter.
func makeHandoff(t *testing.T, rw *RWMutex) {
	t.Helper()
	makeDue(rw)
	raceEnter(rw)
	due := rw.firstIsDue(false, 0)
	raceLeave()
	require.True(t, due)
	require.NotZero(t, rw.count.Load()&flagHandoff)
}

// Two readers relay the lock so that one of them always holds it.
func TestFaultReaderStream(t *testing.T) {
	var (
		rw   RWMutex
		took [2]atomic.Uint32
		stop atomic.Bool
		wg   sync.WaitGroup
	)
	const patience = 20 * time.Millisecond
	for i := range took {
		wg.Go(func() {
			me, other := &took[i], &took[1-i]
			for !stop.Load() {
				rw.RLock()
				n := other.Load()
				me.Add(1)
				for end := time.Now().Add(patience); other.Load() == n && time.Now().Before(end) && !stop.Load(); {
					runtime.Gosched()
				}
				rw.RUnlock()
			}
		})
	}
	awaitTrue(t, "the relay starts", func() bool { return took[0].Load() > 10 && took[1].Load() > 10 })
	for range 3 {
		start := time.Now()
		ok := rw.TryLockFor(time.Second)
		if ok {
			rw.Unlock()
		} else {
			stop.Store(true)
		}
		require.True(t, ok, "a writer waits %v under a relay of readers", time.Since(start))
	}
	stop.Store(true)
	wg.Wait()
	requireRest(t, &rw)
}

// The goroutine that took the lock is gone when another releases it.
func TestFaultUnlockByAnother(t *testing.T) {
	for _, due := range []time.Duration{0, time.Hour} {
		setHandoffTime(t, due)
		for range 20 {
			var rw RWMutex
			inBackground(rw.Lock).wait(t, "a free lock is taken")
			w := inBackground(rw.Lock)
			awaitQueue(t, &rw, 1)
			r := inBackground(rw.RLock)
			awaitQueue(t, &rw, 2)
			inBackground(rw.Unlock).wait(t, "another unlocks")
			w.wait(t, "the writer gets the lock")
			inBackground(rw.Unlock).wait(t, "another unlocks")
			r.wait(t, "the reader gets the lock")
			inBackground(rw.RUnlock).wait(t, "another unlocks")
			requireRest(t, &rw)
		}
	}
}

// A count without a writer is left as it is, whoever had been there.
func TestFaultMadeUpOwner(t *testing.T) {
	for _, c := range []uint64{0, readerBias, flagWaiters | flagAsleep, ownerReserved &^ ownerMask} {
		for _, add := range []uint64{0, readerBias} {
			var rw RWMutex
			rw.count.Store(c)
			require.Equal(t, c, rw.takeWriterOut(add))
			require.Equal(t, c, rw.count.Load())
			rw.count.Store(c | writerWord(0x1234_5660))
			require.Equal(t, c|writerWord(0x1234_5660), rw.takeWriterOut(add))
			require.Equal(t, c+add, rw.count.Load())
		}
	}
}

// Who unlocks takes out of the count the identity that is there.
func TestFaultOwnIdentity(t *testing.T) {
	for _, g := range []uintptr{0x1234_5660, 0x7fff_ffe0, ownerAnonymous, ownerReserved >> 1} {
		for _, unlock := range []func(*RWMutex){
			(*RWMutex).Unlock,
			func(rw *RWMutex) { rw.Downgrade(); rw.RUnlock() },
		} {
			var rw RWMutex
			rw.count.Store(writerWord(g))
			rw.nameOwner(g)
			unlock(&rw)
			require.Zero(t, rw.count.Load(), "%#x", g)
			requireRest(t, &rw)
		}
	}
}

func TestFaultUnknownOwner(t *testing.T) {
	for _, o := range []uintptr{ownerUnknown, ownerUnknown | rdNonspinnable, ownerUnknown | readerOwned} {
		for _, c := range []uint64{writerLocked, writerLocked | flagWaiters | flagHandoff, readerBias} {
			assert.Equal(t, ownerNonspinnable, ownerStateOf(c, o, rdNonspinnable), "count %#x owner %#x", c, o)
			assert.Equal(t, ownerNonspinnable, ownerStateOf(c, o, wrNonspinnable), "count %#x owner %#x", c, o)
		}
		assert.True(t, running(o), "must not be read through")
	}
	assert.True(t, running(ownerAnonymous), "must not be read through")

	setHandoffTime(t, 0) // waiters wait in handoff
	var rw RWMutex
	rw.Lock()
	rw.owner.Store(ownerUnknown)
	if ownerInCount {
		requireNamed(t, &rw)
	} else {
		require.False(t, rw.spinRead(time.Hour))
		ok, _ := rw.spinWriteLoop(false)
		require.False(t, ok)
	}
	w := inBackground(rw.Lock)
	awaitQueue(t, &rw, 1)
	r := inBackground(rw.RLock)
	awaitQueue(t, &rw, 2)
	rw.Unlock()
	w.wait(t, "the writer gets the lock")
	rw.Unlock()
	r.wait(t, "the reader gets the lock")
	rw.RUnlock()
	requireRest(t, &rw)
}

// requireNamed requires that the count names the writer that holds rw, whatever
// the owner word says: where it has the owner no writer is unknown.
func requireNamed(t *testing.T, rw *RWMutex) {
	t.Helper()
	require.Equal(t, self(), rw.loadOwner(rw.count.Load())&^ownerFlags)
}

func TestFaultStaleReaderOwner(t *testing.T) {
	const g = 0xc0004000
	for flags := range uintptr(ownerFlags + 1) {
		assert.NotEqual(t, ownerWriter, ownerStateOf(writerLocked, flags, 0),
			"a writer that has not named itself yet, after readers: %#x", flags)
		assert.NotEqual(t, ownerWriter, ownerStateOf(readerBias, g|flags, 0), "only a writer is read through")
		assert.NotEqual(t, ownerWriter, ownerStateOf(0, g|flags, 0), "only a writer is read through")
	}

	var rw RWMutex
	rw.Lock()
	rw.Downgrade()
	require.Zero(t, rw.owner.Load()&^ownerFlags, "a reader is named: %#x", rw.owner.Load())
	require.NotZero(t, rw.owner.Load()&readerOwned)
	rw.markNonspinnable()
	require.Zero(t, rw.owner.Load()&^ownerFlags)
	rw.RUnlock()
	rw.RLock()
	require.Zero(t, rw.owner.Load()&^ownerFlags, "a reader is named: %#x", rw.owner.Load())
	rw.RUnlock()
	requireRest(t, &rw)
}

func TestFaultSpinFlagsLost(t *testing.T) {
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.RLock()
	rw.markNonspinnable()
	require.Equal(t, uintptr(ownerFlags), rw.owner.Load())
	readOnce(&rw)
	require.Equal(t, uintptr(ownerFlags), rw.owner.Load(), "readers keep the flags")

	w := inBackground(rw.Lock) // does not spin
	awaitQueue(t, &rw, 1)
	rw.RUnlock()
	w.wait(t, "the writer gets the lock")
	o := rw.loadOwner(rw.count.Load())
	require.NotZero(t, o&^ownerFlags, "the writer names itself")
	require.Equal(t, uintptr(rdNonspinnable), o&ownerFlags, "it met readers that are slow")

	noSpin := ReadEvents().OptNoRSpin
	r := inBackground(rw.RLock)
	awaitQueue(t, &rw, 1)
	require.Equal(t, noSpin+1, ReadEvents().OptNoRSpin, "the reader spun")
	rw.Downgrade()
	require.Equal(t, uintptr(readerOwned|rdNonspinnable), rw.owner.Load(), "Downgrade keeps the flag")
	r.wait(t, "the reader gets the lock")
	rw.RUnlock()
	rw.RUnlock()
	require.NotZero(t, rw.owner.Load()&rdNonspinnable, "RUnlock keeps the flag")

	rw.Lock()
	require.Zero(t, rw.owner.Load()&ownerFlags, "a writer that met no slow readers clears the flags")
	rw.owner.Or(rdNonspinnable)
	rw.Unlock()
	require.Equal(t, uintptr(rdNonspinnable), rw.owner.Load(), "Unlock keeps the flag")
	requireRest(t, &rw)
}

// More readers wait than one batch holds, and each stays until all are in.
func TestFaultBatchOf256(t *testing.T) {
	const readers = 600
	for _, due := range []time.Duration{0, time.Hour} {
		setHandoffTime(t, due)
		var (
			rw  RWMutex
			in  atomic.Int32
			out = make(chan struct{})
			wg  sync.WaitGroup
		)
		rw.SetReaderSpin(0)
		rw.Lock()
		for range readers {
			wg.Go(func() {
				rw.RLock()
				in.Add(1)
				<-out
				rw.RUnlock()
			})
		}
		awaitQueue(t, &rw, readers)
		rw.Unlock()
		awaitTrue(t, "all readers are in", func() bool { return in.Load() == readers })
		require.EqualValues(t, readers, rw.count.Load()>>readerShift)
		close(out)
		wg.Wait()
		requireRest(t, &rw)
	}
}

// A writer that waits leaves: there is nobody any more for whom the readers
// behind it would have to wait.
func TestFaultWaitersBehindNobody(t *testing.T) {
	setHandoffTime(t, time.Hour)
	for _, locked := range []string{"read", "downgraded"} {
		var rw RWMutex
		if locked == "read" {
			rw.RLock()
		} else {
			rw.Lock()
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := inBackgroundErr(func() error { return rw.LockContext(ctx) })
		awaitQueue(t, &rw, 1)
		makeHandoff(t, &rw)
		var r [3]*bgCall
		for i := range r {
			r[i] = inBackground(rw.RLock)
			awaitQueue(t, &rw, 2+i)
		}
		if locked != "read" {
			rw.Downgrade()
			require.Equal(t, 4, queueLen(&rw), "the writer is first")
		}
		cancel()
		w.wait(t, "the writer leaves")
		require.ErrorIs(t, w.err, context.Canceled)
		for i := range r {
			r[i].wait(t, "a reader gets the lock from readers: no writer is left")
		}
		require.Equal(t, uint64(4*readerBias), rw.count.Load())
		for range 4 {
			rw.RUnlock()
		}
		requireRest(t, &rw)
	}

	var rw RWMutex
	rw.Lock()
	r := inBackground(rw.RLock)
	awaitQueue(t, &rw, 1)
	rw.Downgrade()
	r.wait(t, "Downgrade lets the reader in")
	rw.RUnlock()
	rw.RUnlock()
	requireRest(t, &rw)
}

// A release wakes a writer but leaves the lock to those who run.
func TestFaultGrantOnWake(t *testing.T) {
	setHandoffTime(t, time.Hour)
	const rounds = 200
	var rw RWMutex
	before := ReadEvents()
	taken := 0
	for range rounds {
		rw.Lock()
		tried := make(chan struct{})
		w := inBackground(func() {
			rw.Lock()
			<-tried
			rw.Unlock()
		})
		awaitQueue(t, &rw, 1)
		rw.Unlock()
		if rw.TryLock() {
			taken++
			rw.Unlock()
		}
		close(tried)
		w.wait(t, "the writer gets the lock")
	}
	require.Greater(t, taken, rounds/2, "of %d locks that were released could be taken past the sleeping writer", rounds)
	e := ReadEvents()
	require.GreaterOrEqual(t, e.WakeWriter-before.WakeWriter, uint64(rounds))
	require.Equal(t, before.WLockHandoff, e.WLockHandoff)
	requireRest(t, &rw)
}

// Readers that wait behind a writer are let in between writers, not with each
// reader that comes or goes.
func TestFaultPhaseCollapse(t *testing.T) {
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.RLock()
	w := inBackground(rw.Lock)
	awaitQueue(t, &rw, 1)
	makeHandoff(t, &rw)
	var r [4]*bgCall
	for i := range r {
		r[i] = inBackground(rw.RLock)
		awaitQueue(t, &rw, 2+i)
	}
	before := ReadEvents().WakeReader
	for range 100 { // as readers that come and go without being the last do
		raceEnter(&rw)
		rw.wakeUp(false)
		raceLeave()
		require.False(t, rw.TryRLock())
		require.False(t, rw.TryRLockFor(time.Microsecond))
	}
	require.Equal(t, before, ReadEvents().WakeReader, "readers are woken in a writer's turn")
	rw.RUnlock()
	w.wait(t, "the writer gets the lock")
	require.Equal(t, before, ReadEvents().WakeReader, "readers are woken in a writer's turn")
	rw.Unlock()
	for i := range r {
		r[i].wait(t, "the readers get the lock together")
	}
	for range r {
		rw.RUnlock()
	}
	requireRest(t, &rw)
}

// Who spins gives the processor to those who wait for it.
func TestFaultSpinnersKeepProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var rw RWMutex
	require.True(t, spunOut(1, nanotime()-int64(2*busySpinTime), time.Hour))
	gaveUp := false
	for try := 0; try < 5 && !gaveUp; try++ { // the scheduler may come in between
		rw.Lock()
		rw.owner.Store(self())
		other := inBackground(rw.Unlock) // runnable, and the one that is waited for
		rw.count.Add(readerBias)
		gaveUp = !rw.spinRead(time.Hour)
		rw.count.Add(^uint64(readerBias - 1))
		other.wait(t, "the other goroutine runs")
	}
	require.True(t, gaveUp, "a spinner spins until its processor is taken away")
	requireRest(t, &rw)
}

// The count of readers stands a little below its limit.
func TestFaultReadFail(t *testing.T) {
	// The debug build would notice that readers leave whom nobody saw come.
	defer SetDebugHandler(nil)
	SetDebugHandler(func(string) {})
	for _, due := range []time.Duration{0, time.Hour} {
		setHandoffTime(t, due)
		var rw RWMutex
		others := uint64(flagReadFail - 3*readerBias)
		rw.count.Add(others)
		rw.RLock()
		rw.RLock()
		require.Equal(t, others+2*readerBias, rw.count.Load(), "below the limit")

		// A call that tries first may still be let in, since it looks at the
		// count without itself.
		var r [8]*bgCall
		for i := range r {
			if i%2 == 0 {
				r[i] = inBackground(rw.RLock)
			} else {
				r[i] = inBackgroundErr(func() error { return rw.RLockContext(context.Background()) })
			}
			if due == 0 || i == 0 {
				awaitTrue(t, "a reader beyond the limit queues", func() bool { return queueLen(&rw) > 0 })
			}
		}
		awaitTrue(t, "the readers beyond the limit queue or are in", func() bool {
			in := 0
			for _, c := range r {
				if c.done.Load() {
					in++
				}
			}
			return in <= 1 && queueLen(&rw) == len(r)-in
		})
		in := uint64(len(r) - queueLen(&rw))
		require.Equal(t, others+(2+in)*readerBias, rw.count.Load()&readerMask, "who backed out is in the count")
		require.Zero(t, rw.count.Load()&writerLocked)
		require.False(t, rw.TryLock())

		rw.count.Add(-others)
		for range 2 + in {
			rw.RUnlock()
		}
		left := len(r) - int(in)
		for i := range r {
			r[i].wait(t, "a reader gets the lock when there are no readers left")
		}
		for range left {
			rw.RUnlock()
		}
		requireRest(t, &rw)
	}
}

// Hundreds of waiters come and are cancelled at random.
func TestFaultCancellationStorm(t *testing.T) {
	for _, due := range []time.Duration{0, 20 * time.Microsecond, time.Hour} {
		setHandoffTime(t, due)
		var (
			rw               RWMutex
			readers, writers atomic.Int32
			overlaps         atomic.Int32
			wg               sync.WaitGroup
		)
		patience := func() time.Duration { return time.Duration(rand.IntN(300)) * time.Microsecond }
		for range 200 {
			wg.Go(func() {
				for range 20 {
					read, write := false, false
					ctx, cancel := context.WithCancel(context.Background())
					timer := time.AfterFunc(patience(), cancel)
					switch rand.IntN(9) {
					case 0, 1:
						read = rw.RLockContext(ctx) == nil
					case 2, 3:
						write = rw.LockContext(ctx) == nil
					case 4:
						read = rw.TryRLockFor(patience())
					case 5:
						write = rw.TryLockFor(patience())
					case 6:
						rw.RLock()
						read = true
					case 7:
						rw.Lock()
						write = true
					case 8:
						rw.LockUrgent()
						write = true
					}
					if write {
						if writers.Add(1) != 1 || readers.Load() != 0 {
							overlaps.Add(1)
						}
						if rand.IntN(4) == 0 {
							runtime.Gosched()
						}
						writers.Add(-1)
						if read = rand.IntN(4) == 0; read {
							rw.Downgrade()
						} else {
							rw.Unlock()
						}
					}
					if read {
						readers.Add(1)
						if writers.Load() != 0 {
							overlaps.Add(1)
						}
						if rand.IntN(4) == 0 {
							runtime.Gosched()
						}
						readers.Add(-1)
						rw.RUnlock()
					}
					timer.Stop()
					cancel()
				}
			})
		}
		inBackground(wg.Wait).wait(t, "the storm ends")
		require.Zero(t, overlaps.Load(), "overlaps")
		requireRest(t, &rw)
		require.True(t, rw.TryLock())
		require.False(t, rw.TryRLock())
		rw.Unlock()
		require.True(t, rw.TryRLock())
		require.True(t, rw.TryRLock())
		require.False(t, rw.TryLock())
		rw.RUnlock()
		rw.RUnlock()
		requireRest(t, &rw)
	}
}

// The first waiter leaves while there are too many readers, and the heir is a
// reader: cancel must not try under waitLock to let it in.
func TestFaultHeirUnderReadFail(t *testing.T) {
	var rw RWMutex
	rw.count.Add(flagReadFail)
	ctx, cancel := context.WithCancel(t.Context())
	first := inBackgroundErr(func() error { return rw.RLockContext(ctx) })
	awaitQueue(t, &rw, 1)
	second := inBackground(rw.RLock)
	awaitQueue(t, &rw, 2)
	cancel()
	first.wait(t, "the first leaves")
	require.ErrorIs(t, first.err, context.Canceled)
	raceIgnore()
	rw.count.Add(flagReadFail)
	rw.wakeUp(false)
	raceLeave()
	second.wait(t, "the second gets the lock")
	rw.RUnlock()
	requireRest(t, &rw)
}

// A reader beyond the limit leaves the count before it waits for anything, the
// wait list's lock included: the room above the limit is for those who pass.
func TestFaultReadFailLeaves(t *testing.T) {
	var rw RWMutex
	rw.count.Store(flagReadFail) // this reader is one too many
	bias, ok := rw.rlockAwake(readerBias)
	require.False(t, ok)
	require.Zero(t, bias)
	require.Equal(t, uint64(flagReadFail-readerBias), rw.count.Load())
}

// A woken first waiter does not spin on an owner of which nothing is known.
func TestFaultFirstWaiterUnknownOwner(t *testing.T) {
	var rw RWMutex
	rw.Lock()
	rw.owner.Store(ownerUnknown)
	if ownerInCount {
		requireNamed(t, &rw)
		return
	}
	require.False(t, rw.firstMaySpin(&waiter{}, writerLocked))
}

// A reader that has waited its time goes before the writers that wait, once
// before each of them, and not when it is the writers' turn.
func TestFaultReaderBehindWriters(t *testing.T) {
	old := policy
	t.Cleanup(func() { policy = old })
	policy.readerFirst, policy.readerTime, policy.readerEach, policy.handoffTime = true, 0, 0, time.Hour

	var rw RWMutex
	countAsLong(&rw)
	var w [3]*bgCall
	rw.Lock()
	for i := range w {
		w[i] = inBackground(rw.Lock)
		awaitQueue(t, &rw, i+1)
	}
	// becomeWriter makes the only reader one that took the lock past the queue.
	becomeWriter := func() {
		c := rw.count.Load()
		require.Equal(t, uint64(1), c>>readerShift)
		require.True(t, rw.count.CompareAndSwap(c, c-readerBias+writerLocked))
	}
	read := func(queue int) *bgCall {
		t.Helper()
		countAsLong(&rw) // the sections so far were short
		r := inBackground(rw.RLock)
		awaitQueue(t, &rw, queue)
		return r
	}
	for range 2 { // a young writer is passed as often as readers come
		r := read(len(w) + 1)
		rw.count.And(^uint64(flagAsleep)) // the writer was woken
		r2 := read(len(w) + 2)
		rw.Unlock()
		r.wait(t, "the reader comes before writers")
		r2.wait(t, "the reader comes before writers")
		rw.RUnlock()
		becomeWriter()
	}
	for i := range w { // one that is due is passed once
		left := len(w) - i
		makeOld(&rw)
		r := read(left + 1)
		rw.Unlock()
		r.wait(t, "the reader comes before a writer that is due")
		becomeWriter()
		late := read(left + 1)
		rw.Unlock()
		w[i].wait(t, "the writer has its turn")
		require.False(t, late.done.Load())
		rw.Unlock()
		late.wait(t, "the late reader comes before the next writer")
		becomeWriter()
	}
	rw.Unlock()
	requireRest(t, &rw)

	rw.Lock()
	w[0] = inBackground(rw.LockUrgent)
	awaitQueue(t, &rw, 1)
	markWoken(&rw)
	r := read(2)
	rw.Unlock()
	w[0].wait(t, "an urgent writer that was woken once is not passed")
	require.False(t, r.done.Load())
	rw.Unlock()
	r.wait(t, "the reader comes after the writer")
	rw.RUnlock()
	requireRest(t, &rw)

	rw.RLock()
	w[0] = inBackground(rw.Lock)
	awaitQueue(t, &rw, 1)
	makeHandoff(t, &rw)
	r = read(2)
	rw.RUnlock()
	w[0].wait(t, "the writer has its turn after readers")
	require.False(t, r.done.Load())
	rw.Unlock()
	r.wait(t, "the reader comes after the writer")
	rw.RUnlock()
	requireRest(t, &rw)
}

// Readers pass a first waiter that is due and on its way, without giving their
// processor, but not for ever; where sections are long nobody passes it.
func TestFaultPassedOnItsWay(t *testing.T) {
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	w := inBackground(rw.Lock)
	awaitQueue(t, &rw, 1)
	rw.count.And(^uint64(flagAsleep)) // as if it had been woken and did not run yet
	rw.Unlock()

	for _, state := range []struct {
		long, late bool
		passed     bool
	}{{false, false, true}, {false, true, false}, {true, false, false}} {
		got, soon := false, false
		for !soon { // the scheduler may come in between
			if got {
				rw.RUnlock()
			}
			rw.count.And(^uint64(flagHandoff))
			rw.steals.Store(0) // the next one looks at the first waiter's age
			rw.ctl.Store(0)
			if state.long {
				countAsLong(&rw)
			}
			due := nanotime()
			if state.late {
				due -= int64(2 * latestTime)
			}
			setFirstDue(&rw, due)
			got = rw.TryRLock()
			soon = state.late || nanotime()-due < int64(latestTime)
		}
		require.Equal(t, state.passed, got, "%+v", state)
		if got {
			rw.RUnlock()
		}
	}
	require.NotZero(t, rw.count.Load()&flagHandoff)
	rw.count.Or(flagAsleep)
	raceEnter(&rw)
	rw.wakeUp(false)
	raceLeave()
	w.wait(t, "the writer gets the lock")
	rw.Unlock()
	requireRest(t, &rw)
}

// A reader that is put first while readers hold the lock comes in at once: who
// puts it there lets it in.
func TestFaultFirstBehindReaders(t *testing.T) {
	old := policy
	t.Cleanup(func() { policy = old })
	policy.readerFirst, policy.readerTime, policy.readerEach, policy.handoffTime = true, time.Hour, 0, time.Hour
	var rw RWMutex
	countAsLong(&rw)
	rw.Lock()
	w := inBackground(rw.Lock)
	awaitQueue(t, &rw, 1)
	r := inBackground(rw.RLock)
	awaitQueue(t, &rw, 2)
	rw.Downgrade()
	require.Equal(t, 2, queueLen(&rw), "the writer is first, and nobody is due")
	setLastDue(&rw)
	w2 := inBackground(rw.Lock)
	r.wait(t, "the reader joins the readers")
	awaitQueue(t, &rw, 2)
	require.Zero(t, rw.count.Load()&flagHandoff)
	rw.RUnlock()
	rw.RUnlock()
	for range 2 {
		awaitTrue(t, "a writer gets the lock", func() bool { return w.done.Load() || w2.done.Load() })
		if w.done.Load() {
			w = w2
		} else {
			w2 = w
		}
		rw.Unlock()
	}
	requireRest(t, &rw)
}

//go:norace
func setLastDue(rw *RWMutex) {
	lockWaitList(rw)
	defer unlockWaitList(rw)
	rw.head.prev.due = 0
}
