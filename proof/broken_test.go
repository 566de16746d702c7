package proof

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rwsem/rwsem"
)

var _ locker = (*rwsem.RWMutex)(nil)

// A toy is a lock that is right for as long as it has no fault: a state under a
// mutex. Who cannot have it waits for the next release.
type toy struct {
	fault fault
	turns atomic.Uint32

	mu       sync.Mutex
	state    state
	released chan struct{} // closed by the next release
	left     bool          // the fault leavesHandoff
	waiting  int
}

// A fault is what is wrong with a toy. Those that are not always there come with
// every third call.
type fault string

const (
	sound                fault = ""
	readerPassesWriter   fault = "RLock does not wait for a writer"
	writerPassesReaders  fault = "Lock does not wait for readers"
	writerPassesWriter   fault = "Lock does not wait for a writer"
	urgentPassesReaders  fault = "LockUrgent does not wait for readers"
	readersExclude       fault = "RLock keeps other readers out"
	tryLockInVain        fault = "TryLock answers false on a free lock"
	tryRLockInVain       fault = "TryRLock answers false though no writer has the lock"
	tryLockBlind         fault = "TryLock answers true on a held lock and takes it"
	tryRLockEmpty        fault = "TryRLock answers true and takes nothing"
	downgradeGap         fault = "Downgrade lets a writer in between"
	downgradeKeepsWriter fault = "Downgrade keeps the write lock"
	unlockLate           fault = "Unlock releases later"
	runlockLate          fault = "RUnlock releases later"
	unlockTwice          fault = "Unlock releases twice"
	runlockTwice         fault = "RUnlock takes out two readers"
	cancelledHasIt       fault = "a cancelled call gives nil without the lock"
	cancelledTakes       fault = "a cancelled call gives its error and has the lock"
	cancelledLater       fault = "a cancelled call is granted the lock later"
	endedTakes           fault = "a context that has ended takes a free lock"
	otherError           fault = "a cancelled call gives another error"
	timedEarly           fault = "a timed call fails before its time"
	timedInVain          fault = "a timed call fails on a free lock"
	leavesHandoff        fault = "a timed call in vain leaves handoff behind"
	triesGiveWay         fault = "a try fails while anybody waits, of whatever age"
)

var faults = []fault{
	readerPassesWriter, writerPassesReaders, writerPassesWriter, urgentPassesReaders, readersExclude,
	tryLockInVain, tryRLockInVain, tryLockBlind, tryRLockEmpty, downgradeGap, downgradeKeepsWriter,
	unlockLate, runlockLate, unlockTwice, runlockTwice, cancelledHasIt, cancelledTakes, cancelledLater,
	endedTakes, otherError, timedEarly, timedInVain, leavesHandoff, triesGiveWay,
}

func (l *toy) is(f fault) bool { return l.fault == f }

func (l *toy) sometimes(f fault) bool { return l.is(f) && l.turns.Add(1)%3 == 0 }

// free reports whether the lock is to be had. The caller holds mu.
func (l *toy) free(write bool) bool {
	return !l.state.writer && (!write && !l.is(readersExclude) || l.state.readers == 0)
}

// have takes the lock, whoever has it. The caller holds mu.
func (l *toy) have(write bool) {
	if write {
		l.state.writer = true
	} else {
		l.state.readers++
	}
}

func (l *toy) try(write bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		l.left = false
		return false
	}
	ok := l.free(write) && !(l.is(triesGiveWay) && l.waiting > 0)
	if ok {
		l.have(write)
	}
	return ok
}

// wait takes the lock unless end comes first.
func (l *toy) wait(write bool, end <-chan struct{}) bool {
	for {
		l.mu.Lock()
		if l.free(write) {
			l.have(write)
			l.mu.Unlock()
			return true
		}
		if l.released == nil {
			l.released = make(chan struct{})
		}
		released := l.released
		l.waiting++
		l.mu.Unlock()
		ended := false
		select {
		case <-released:
		case <-end:
			ended = true
		}
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
		if ended {
			return false
		}
	}
}

// give takes a writer or some readers out, as far as they are there.
func (l *toy) give(write bool, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if write {
		l.state.writer = false
	} else {
		l.state.readers = max(0, l.state.readers-n)
	}
	if l.released != nil {
		close(l.released)
		l.released = nil
	}
}

// pass takes the lock though who has it may not be a writer, or not readers.
func (l *toy) pass(write, writer, readers bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.free(write) || l.state.writer == writer && (l.state.readers > 0) == readers
	if ok {
		l.have(write)
	}
	return ok
}

// later is long enough for a goroutine to make another call before.
func later(do func()) { time.AfterFunc(20*time.Microsecond, do) }

func (l *toy) RLock() {
	if !l.sometimes(readerPassesWriter) || !l.pass(false, true, false) {
		l.wait(false, nil)
	}
}

func (l *toy) Lock() {
	switch {
	case l.sometimes(writerPassesReaders) && l.pass(true, false, true):
	case l.sometimes(writerPassesWriter) && l.pass(true, true, false):
	default:
		l.wait(true, nil)
	}
}

func (l *toy) LockUrgent() {
	if !l.sometimes(urgentPassesReaders) || !l.pass(true, false, true) {
		l.wait(true, nil)
	}
}

func (l *toy) RUnlock() {
	switch {
	case l.is(downgradeKeepsWriter):
		l.mu.Lock()
		writer := l.state.writer
		l.mu.Unlock()
		l.give(writer, 1)
	case l.sometimes(runlockLate):
		later(func() { l.give(false, 1) })
	case l.sometimes(runlockTwice):
		l.give(false, 2)
	default:
		l.give(false, 1)
	}
}

func (l *toy) Unlock() {
	if l.sometimes(unlockLate) {
		later(func() { l.give(true, 0) })
		return
	}
	l.give(true, 0)
	if l.sometimes(unlockTwice) {
		runtime.Gosched()
		l.give(true, 0)
	}
}

func (l *toy) Downgrade() {
	if l.is(downgradeKeepsWriter) {
		return
	}
	if l.sometimes(downgradeGap) {
		l.give(true, 0)
		time.Sleep(10 * time.Microsecond)
		l.wait(false, nil)
		return
	}
	l.mu.Lock()
	l.state = state{readers: 1}
	l.mu.Unlock()
	l.give(false, 0)
}

func (l *toy) TryRLock() bool {
	if l.sometimes(tryRLockInVain) {
		return false
	}
	return l.sometimes(tryRLockEmpty) || l.try(false)
}

func (l *toy) TryLock() bool {
	if l.sometimes(tryLockInVain) {
		return false
	}
	return l.try(true) || l.sometimes(tryLockBlind) && l.pass(true, false, true)
}

func (l *toy) timed(write bool, d time.Duration) bool {
	if d <= 0 {
		return l.try(write)
	}
	if l.sometimes(timedEarly) {
		return false
	}
	end := make(chan struct{})
	if l.sometimes(timedInVain) {
		time.Sleep(d)
		return false
	}
	defer time.AfterFunc(d, func() { close(end) }).Stop()
	ok := l.wait(write, end)
	if !ok && l.is(leavesHandoff) {
		l.mu.Lock()
		l.left = true
		l.mu.Unlock()
	}
	return ok
}

func (l *toy) context(write bool, ctx context.Context) error {
	if err := ctx.Err(); err != nil && !l.is(endedTakes) {
		if l.is(otherError) {
			return context.Canceled
		}
		return err
	}
	switch {
	case l.wait(write, ctx.Done()):
		return nil
	case l.is(cancelledHasIt):
		return nil
	case l.is(cancelledTakes):
		// Not for ever: it may be its own goroutine that has the lock.
		end := make(chan struct{})
		later(func() { close(end) })
		if l.wait(write, end) {
			later(func() { l.give(write, 1) })
		}
	case l.is(cancelledLater):
		go func() {
			l.wait(write, nil)
			later(func() { l.give(write, 1) })
		}()
	}
	return ctx.Err()
}

func (l *toy) TryRLockFor(d time.Duration) bool       { return l.timed(false, d) }
func (l *toy) TryLockFor(d time.Duration) bool        { return l.timed(true, d) }
func (l *toy) RLockContext(ctx context.Context) error { return l.context(false, ctx) }
func (l *toy) LockContext(ctx context.Context) error  { return l.context(true, ctx) }
func (l *toy) RLocker() sync.Locker                   { return toyReader{l} }
func (l *toy) SetReaderSpin(time.Duration)            {}

type toyReader struct{ *toy }

func (r toyReader) Lock()   { r.RLock() }
func (r toyReader) Unlock() { r.RUnlock() }

// TestFaults has a lock with each of the faults go through programs until the
// checker rejects what they saw.
func TestFaults(t *testing.T) {
	const most = 20_000 // programs
	for _, f := range faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel() // they sleep most of the time
			seed := rand.Uint64()
			for n := 1; ; n++ {
				history, err := newProgram(seed + uint64(n)).run(&toy{fault: f})
				require.NoError(t, err)
				res := judge(history)
				require.NotEqual(t, porcupine.Unknown, res)
				if res == porcupine.Illegal {
					t.Logf("rejected after %d histories", n)
					return
				}
				require.Less(t, n, most, "not rejected")
			}
		})
	}
}

func TestDraw(t *testing.T) {
	page, err := draw([]porcupine.Operation{
		{Input: input{call: lockUrgent}, Call: 1, Output: answer{}, Return: 2},
		{Input: input{call: tryLockFor, argument: "5ms"}, Call: 3, Output: answer{}, Return: 4},
	})
	require.NoError(t, err)
	defer os.Remove(page)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(text), "TryLockFor(5ms)")
}

// TestSound makes sure that a right lock, and a poor one, passes.
func TestSound(t *testing.T) {
	seed := rand.Uint64()
	for n := range 300 {
		p := newProgram(seed + uint64(n))
		history, err := p.run(&toy{fault: sound})
		require.NoError(t, err)
		res := judge(history)
		require.Equal(t, porcupine.Ok, res, "%v", p)
	}
}

// What the model accepts, one rule at a time. Each line is a call with when it
// begins and ends.
func TestModel(t *testing.T) {
	type op struct {
		from, to int64
		call     call
		failed   bool
	}
	const young, old = writerMayBeDue - 1, writerMayBeDue // of the first call, when a later one ends
	for name, tt := range map[string]struct {
		ops  []op
		want porcupine.CheckResult
		age  time.Duration
	}{
		"one after the other":       {[]op{{1, 2, lock, false}, {3, 4, unlock, false}, {5, 6, lock, false}}, porcupine.Ok, 0},
		"readers together":          {[]op{{1, 2, rlock, false}, {3, 4, rlock, false}}, porcupine.Ok, 0},
		"two writers":               {[]op{{1, 2, lock, false}, {3, 4, lock, false}}, porcupine.Illegal, 0},
		"writer and reader":         {[]op{{1, 2, lockUrgent, false}, {3, 4, rlock, false}}, porcupine.Illegal, 0},
		"reader and writer":         {[]op{{1, 2, rlocker, false}, {3, 4, lock, false}}, porcupine.Illegal, 0},
		"waited for the unlock":     {[]op{{1, 2, lock, false}, {3, 6, lock, false}, {4, 5, unlock, false}}, porcupine.Ok, 0},
		"before the unlock":         {[]op{{1, 2, lock, false}, {3, 4, lock, false}, {5, 6, unlock, false}}, porcupine.Illegal, 0},
		"try on a free lock":        {[]op{{1, 2, tryLock, true}}, porcupine.Illegal, 0},
		"try on a held lock":        {[]op{{1, 2, rlock, false}, {3, 4, tryLock, true}}, porcupine.Ok, 0},
		"try beside readers":        {[]op{{1, 2, rlock, false}, {3, 4, tryRLock, true}}, porcupine.Illegal, 0},
		"try beside a writer":       {[]op{{1, 2, lock, false}, {3, 4, tryRLock, true}}, porcupine.Ok, 0},
		"try beside a call":         {[]op{{1, 4, rlock, false}, {2, 3, tryLock, true}, {5, 6, runlock, false}, {7, 8, lock, false}}, porcupine.Ok, 0},
		"beside an old writer":      {[]op{{1, 4, lockContext, true}, {2, 3, tryRLock, true}}, porcupine.Ok, old},
		"beside a young writer":     {[]op{{1, 4, lockContext, true}, {2, 3, tryRLock, true}}, porcupine.Illegal, young},
		"the same, for a writer":    {[]op{{1, 4, lockContext, true}, {2, 3, tryLock, true}}, porcupine.Illegal, young},
		"the same, with a time":     {[]op{{1, 4, lockContext, true}, {2, 3, tryLockFor, true}}, porcupine.Illegal, young},
		"beside an urgent writer":   {[]op{{1, 4, lockUrgent, false}, {2, 3, tryRLock, true}}, porcupine.Ok, 0},
		"beside an old reader":      {[]op{{1, 4, rlockContext, true}, {2, 3, tryRLock, true}}, porcupine.Ok, readerMayBeDue},
		"beside a young reader":     {[]op{{1, 4, rlockContext, true}, {2, 3, tryRLock, true}}, porcupine.Illegal, readerMayBeDue - 1},
		"beside a try":              {[]op{{1, 4, tryLock, true}, {2, 3, tryLock, true}}, porcupine.Illegal, old},
		"try beside an unlock":      {[]op{{1, 2, lock, false}, {3, 6, unlock, false}, {4, 5, tryLock, true}}, porcupine.Ok, 0},
		"try after an unlock":       {[]op{{1, 2, lock, false}, {3, 4, unlock, false}, {5, 6, tryLock, true}}, porcupine.Illegal, 0},
		"two tries":                 {[]op{{1, 3, tryLock, true}, {2, 4, tryLock, true}}, porcupine.Illegal, 0},
		"time on a free lock":       {[]op{{1, 2, tryLockFor, true}}, porcupine.Illegal, 0},
		"time on a held lock":       {[]op{{1, 2, rlock, false}, {3, 4, tryLockFor, true}}, porcupine.Ok, 0},
		"context on a free lock":    {[]op{{1, 2, rlockContext, true}, {3, 4, lock, false}}, porcupine.Ok, 0},
		"failed and held":           {[]op{{1, 2, lockContext, true}, {3, 4, unlock, false}}, porcupine.Illegal, 0},
		"downgrade":                 {[]op{{1, 2, lock, false}, {3, 4, downgrade, false}, {5, 6, rlock, false}, {7, 8, runlock, false}, {9, 10, runlock, false}, {11, 12, lock, false}}, porcupine.Ok, 0},
		"writer in a downgrade":     {[]op{{1, 2, lock, false}, {3, 8, downgrade, false}, {4, 5, lock, false}, {6, 7, unlock, false}, {9, 10, runlock, false}}, porcupine.Illegal, 0},
		"downgrade of nothing":      {[]op{{1, 2, rlock, false}, {3, 4, downgrade, false}}, porcupine.Illegal, 0},
		"one reader too many out":   {[]op{{1, 2, rlock, false}, {3, 4, runlock, false}, {5, 6, rlockerUnlock, false}}, porcupine.Illegal, 0},
		"a waiting call that fails": {[]op{{1, 2, lock, true}}, porcupine.Illegal, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			began := time.Now()
			for i, o := range tt.ops {
				history = append(history, porcupine.Operation{
					ClientId: i, Input: input{call: o.call}, Call: o.from, Return: o.to,
					Output: answer{failed: o.failed, began: began, ended: began.Add(tt.age)},
				})
			}
			markBeside(history)
			assert.Equal(t, tt.want, judge(history))
		})
	}
}
