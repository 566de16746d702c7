package rwsem

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Single steps of the slow path, each on a lock that is put into a state by hand:
// what it does to the count, to the queue and to the waiters. What comes of the
// steps together the other tests have.

// Letters for the tables.
const (
	stepL = writerLocked
	stepW = flagWaiters
	stepH = flagHandoff
	stepS = flagAsleep
	stepC = flagClaim
	stepR = readerBias
)

// spinScores are what the lock's score can say of the sections.
var spinScores = map[string]uint32{"short": ctlShortMask, "neither": 0, "long": ctlLongMask}

// stepPolicy makes waiters due after an hour and nobody spin.
func stepPolicy(t *testing.T) {
	setHandoffTime(t, time.Hour)
	spinners := maxSpinners
	maxSpinners = 0
	t.Cleanup(func() { maxSpinners = spinners })
}

// queuedWaiter is one of the given kind that queued just now.
func queuedWaiter(rw *RWMutex, kind string) *waiter {
	now := nanotime()
	w := &waiter{reader: kind == "reader", since: now, due: now + int64(policy.handoffTime)}
	w.owner = self()
	w.word = writerWord(w.owner)
	rw.push(w, false)
	return w
}

func TestStepWakeFirst(t *testing.T) {
	stepPolicy(t)
	var none wakeList
	new(RWMutex).wakeFirst(&none)
	require.Zero(t, none)

	for _, c := range []struct {
		name   string
		count  uint64
		score  string
		first  string
		due    bool
		others bool
		want   uint64
		state  string // of the first: "" as it was, woken or granted
		yield  bool
	}{
		{"held by a writer", stepL | stepW | stepS, "neither", "writer", false, false, stepL | stepW | stepS, "", false},
		{"held by a reader", stepR | stepW | stepS, "neither", "writer", false, false, stepR | stepW | stepS, "", false},
		{"held, due", stepL | stepW | stepS, "neither", "writer", true, false, stepL | stepW | stepS | stepH, "", false},
		{"held, due, on its way", stepL | stepW, "neither", "writer", true, false, stepL | stepW, "", false},
		{"free", stepW | stepS, "neither", "writer", false, false, stepW, "woken", false},
		{"free and claimed", stepW | stepS | stepC, "long", "writer", false, true, stepW | stepC, "woken", false},
		{"free, on its way", stepW, "neither", "writer", false, false, stepW, "", false},
		{"free, on its way, due", stepW, "neither", "writer", true, false, stepW, "", false},
		{"free, due", stepW | stepS | stepH | stepC, "neither", "writer", true, false, stepL, "granted", true},
		{"free, due, long", stepW | stepS | stepH, "long", "writer", true, false, stepL, "granted", true},
		{"free, due, others", stepW | stepS | stepH, "neither", "writer", true, true, stepL | stepW | stepS, "granted", true},

		{"reader, held by a writer", stepL | stepW | stepS, "neither", "reader", false, false, stepL | stepW | stepS, "", false},
		{"reader, held, due", stepL | stepW | stepS, "short", "reader", true, false, stepL | stepW | stepS | stepH, "", false},
		{"reader, free, short", stepW | stepS, "short", "reader", false, false, stepW, "woken", false},
		{"reader, free, short, on its way", stepW, "short", "reader", false, false, stepW, "", false},
		{"reader, free", stepW | stepS, "neither", "reader", false, false, stepR, "granted", false},
		{"reader, free, on its way", stepW, "neither", "reader", false, false, stepR, "granted", false},
		{"reader, free, long", stepW | stepS, "long", "reader", false, true, stepR | stepW | stepS, "granted", false},
		{"reader, free, due, short", stepW | stepS | stepH, "short", "reader", true, false, stepR, "granted", true},
		{"reader, free, due, long", stepW | stepS | stepH, "long", "reader", true, false, stepR, "granted", false},
		{"reader, readers, short", stepR | stepW | stepS | stepC, "short", "reader", false, false, 2*stepR | stepC, "granted", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rw RWMutex
			rw.count.Store(c.count)
			rw.ctl.Store(spinScores[c.score])
			w := queuedWaiter(&rw, c.first)
			if c.due {
				w.due = 0
			}
			if c.others {
				queuedWaiter(&rw, "writer")
			}
			const steals = 5
			rw.steals.Store(steals)
			var l wakeList
			rw.wakeFirst(&l)
			assert.Equal(t, c.want, flagsIn(&rw), "count %#x", flagsIn(&rw))
			assert.Equal(t, c.yield, l.yield)
			switch c.state {
			case "granted":
				assert.EqualValues(t, granted, w.state.Load())
				assert.Same(t, w, l.first)
				assert.Nil(t, l.woken)
				assert.Nil(t, w.prev, "it left the queue")
				assert.Zero(t, rw.steals.Load(), "there is a new first waiter, or none")
				if !w.reader && !ownerInCount {
					assert.Equal(t, self(), rw.owner.Load())
				}
			case "woken":
				assert.Same(t, w, l.woken)
				assert.True(t, w.woken)
				assert.EqualValues(t, 1, w.promised)
				fallthrough
			default:
				assert.Nil(t, l.first)
				assert.EqualValues(t, waiting, w.state.Load())
				assert.Same(t, w, rw.head)
				assert.EqualValues(t, steals, rw.steals.Load())
				assert.Equal(t, c.state == "woken", l.woken != nil)
			}
		})
	}
}

// Somebody else changed the count: nothing was granted, and the caller looks again.
func TestStepGrantWriterStale(t *testing.T) {
	stepPolicy(t)
	var rw RWMutex
	w := queuedWaiter(&rw, "writer")
	rw.count.Store(stepW | stepS)
	require.False(t, rw.grantWriter(w, stepW|stepS|stepC, nil))
	require.Equal(t, uint64(stepW|stepS), rw.count.Load())
	require.EqualValues(t, waiting, w.state.Load())
	require.Same(t, w, rw.head)

	// Its own try: nobody has to wake it.
	require.True(t, rw.grantWriter(w, stepW|stepS, nil))
	require.EqualValues(t, granted, w.state.Load())
	require.Zero(t, w.promised)
	require.Nil(t, rw.head)
}

func TestStepGrantReaders(t *testing.T) {
	stepPolicy(t)
	for _, c := range []struct {
		score           string
		readers         int
		told, granted   int
		writer, wakeAll bool
		more            bool
	}{
		{"short", 3, 3, 1, true, true, false},
		{"neither", 3, 3, 1, true, true, false},
		{"long", 3, 3, 3, true, true, false},
		{"long", 3, 3, 3, false, true, false},
		{"neither", 3, 3, 1, false, true, false},
		{"neither", maxWake, maxWake, 1, false, true, false},
		{"long", maxWake, maxWake, maxWake, true, true, false},
		{"neither", maxWake + 1, maxWake, 1, false, true, true},
		{"long", maxWake + 1, maxWake, maxWake, true, true, false}, // the writer is older than the last reader
		{"long", 3, 3, 3, false, false, false},                     // all before a writer: there is none
		{"long", 3, 1, 1, true, false, false},                      // the others came after the writer
	} {
		var rw RWMutex
		policy.wakeMany = c.wakeAll
		rw.count.Store(stepW | stepS | stepH | stepC)
		rw.ctl.Store(spinScores[c.score])
		var all []*waiter
		var writer *waiter
		now := nanotime()
		for i := range c.readers {
			if i == 1 && c.writer {
				writer = queuedWaiter(&rw, "writer")
				writer.since = now + 1
			}
			w := queuedWaiter(&rw, "reader")
			w.since = now + int64(2*i)
			all = append(all, w)
		}
		rw.steals.Store(5)
		var l wakeList
		require.True(t, rw.grantReaders(&l, false))
		require.Equal(t, c.told, l.told, "%+v", c)
		n := 0
		for i, w := range all {
			switch w.state.Load() {
			case granted:
				n++
			case waiting:
				require.GreaterOrEqual(t, i, c.told, "%+v", c)
			}
		}
		require.Equal(t, c.granted, n, "%+v", c)
		want := uint64(c.granted)*stepR | stepC
		if c.writer || c.told < c.readers {
			want |= stepW | stepS
		}
		require.Equal(t, want, rw.count.Load(), "%+v: %#x", c, rw.count.Load())
		require.Equal(t, want&stepW != 0, rw.head != nil)
		require.Equal(t, c.more, rw.head != nil && rw.head.reader, "%+v", c)
		require.Equal(t, c.more, l.first.more, "%+v", c)
		require.Zero(t, rw.steals.Load())
	}

	// The first comes in whatever writers are older.
	var rw RWMutex
	policy.wakeMany = false
	rw.count.Store(stepW | stepS)
	queuedWaiter(&rw, "writer")
	r := queuedWaiter(&rw, "reader")
	queuedWaiter(&rw, "reader")
	r.since++
	rw.makeFirst(r)
	var one wakeList
	require.True(t, rw.grantReaders(&one, false))
	require.Equal(t, 1, one.told)
	require.EqualValues(t, granted, r.state.Load())

	// And with it those that are older than any writer.
	rw = RWMutex{}
	rw.count.Store(stepW | stepS)
	for i, kind := range []string{"reader", "reader", "writer", "reader"} {
		queuedWaiter(&rw, kind).since = int64(i)
	}
	var two wakeList
	require.True(t, rw.grantReaders(&two, false))
	require.Equal(t, 2, two.told)

	// Not while a writer holds the lock.
	rw = RWMutex{}
	rw.count.Store(stepL | stepW | stepS)
	w := queuedWaiter(&rw, "reader")
	var l wakeList
	require.False(t, rw.grantReaders(&l, true))
	require.Zero(t, l)
	require.Equal(t, uint64(stepL|stepW|stepS), rw.count.Load())
	require.Same(t, w, rw.head)
}

func TestStepEnqueue(t *testing.T) {
	stepPolicy(t)
	for _, c := range []struct {
		name   string
		count  uint64
		first  string // who waits already
		kind   string
		bias   uint64
		want   uint64
		queues bool
	}{
		{"free", stepC, "", "writer", 0, stepL, false},
		{"free past a waiter", stepW | stepS, "writer", "writer", 0, stepL | stepW | stepS, false},
		{"held by a reader", stepR, "", "writer", 0, stepR | stepW | stepS, true},
		{"held by a writer", stepL, "", "writer", 0, stepL | stepW | stepS, true},
		{"held, the first is on its way", stepL | stepW, "writer", "writer", 0, stepL | stepW, true},
		{"held, the first sleeps", stepR | stepW | stepS | stepC, "writer", "writer", 0, stepR | stepW | stepS | stepC, true},

		{"reader, free", stepC, "", "reader", 0, stepR | stepC, false},
		{"reader, free, counted", stepR, "", "reader", stepR, stepR, false},
		{"reader, readers", stepR, "", "reader", 0, 2 * stepR, false},
		{"reader, readers, counted", 2 * stepR, "", "reader", stepR, 2 * stepR, false},
		{"reader, readers, past a waiter", stepR | stepW | stepS, "writer", "reader", 0, 2*stepR | stepW | stepS, false},
		{"reader, held by a writer", stepL, "", "reader", 0, stepL | stepW | stepS, true},
		{"reader, held by a writer, counted", stepL | stepR, "", "reader", stepR, stepL | stepW | stepS, true},
		{"reader, handed over", 2*stepR | stepW | stepH, "writer", "reader", stepR, stepR | stepW | stepH, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, before := range []uint32{waiting, dismissed} {
				var rw RWMutex
				var first *waiter
				if c.first != "" {
					first = queuedWaiter(&rw, c.first)
				}
				const steals = 5
				rw.steals.Store(steals)
				rw.count.Store(c.count)
				w := &waiter{reader: c.kind == "reader"}
				began := nanotime()
				if before == dismissed {
					began -= int64(time.Minute)
					w.since = began
				}
				w.state.Store(before)
				require.Equal(t, c.queues, rw.enqueue(w, c.bias))
				require.Equal(t, c.want, flagsIn(&rw), "count %#x", flagsIn(&rw))
				if before == dismissed {
					require.Equal(t, began, w.since, "it keeps its age")
				} else {
					require.LessOrEqual(t, began, w.since)
				}
				require.Equal(t, w.since+int64(policy.handoffTime), w.due)
				if c.queues {
					require.EqualValues(t, waiting, w.state.Load())
					require.NotNil(t, w.prev, "it is in the queue")
					require.Equal(t, first != nil, rw.head != w)
					require.Equal(t, first == nil, rw.steals.Load() == 0, "a new first waiter is looked at soon")
					require.Zero(t, rw.owner.Load())
				} else {
					require.EqualValues(t, granted, w.state.Load())
					require.Nil(t, w.prev)
					require.EqualValues(t, steals, rw.steals.Load())
					if !ownerInCount {
						require.Equal(t, !w.reader, rw.owner.Load() != 0, "a writer names itself")
					}
				}
			}
		})
	}

	// Cancelled before it could queue: a reader leaves the count.
	for _, bias := range []uint64{0, stepR} {
		var rw RWMutex
		rw.count.Store(stepL + bias)
		w := &waiter{reader: true}
		w.state.Store(cancelled)
		require.False(t, rw.enqueue(w, bias))
		require.Equal(t, uint64(stepL), rw.count.Load())
		require.EqualValues(t, cancelled, w.state.Load())
		require.Nil(t, rw.head)
	}

	// Who lets the first waiter in on its way to queue wakes it, also if it then does
	// not queue.
	var in RWMutex
	in.count.Store(stepW | stepS)
	reader := queuedWaiter(&in, "reader")
	reader.due = 0
	require.False(t, in.enqueue(&waiter{reader: true}, 0))
	require.Equal(t, uint64(2*stepR), in.count.Load())
	require.EqualValues(t, granted, reader.state.Load())
	require.EqualValues(t, 1, leftover(reader), "it sleeps for ever")

	// Who queues has the lock kept for a first waiter that is due and sleeps.
	for _, asleep := range []uint64{stepS, 0} {
		for _, due := range []bool{true, false} {
			var rw RWMutex
			rw.count.Store(stepR | stepW | asleep)
			first := queuedWaiter(&rw, "writer")
			if due {
				first.due = 0
			}
			require.True(t, rw.enqueue(&waiter{}, 0))
			require.Equal(t, due && asleep != 0, rw.count.Load()&stepH != 0)
		}
	}

	// It met readers that are slow to leave.
	for _, on := range []bool{true, false} {
		for _, o := range []uintptr{readerOwned, readerOwned | rdNonspinnable, ownerFlags} {
			policy.adaptive = on
			var rw RWMutex
			rw.count.Store(stepR)
			rw.owner.Store(o)
			w := &waiter{}
			require.True(t, rw.enqueue(w, 0))
			require.Equal(t, on && o&wrNonspinnable != 0, w.owner&rdNonspinnable != 0, "%#x", o)
		}
	}
}

func TestStepTryFirst(t *testing.T) {
	stepPolicy(t)
	for _, c := range []struct {
		name    string
		count   uint64
		kind    string
		due     bool
		maySpin bool
		want    uint64
		result  tryResult
	}{
		{"free", stepW | stepC, "writer", false, false, stepL, tryDecided},
		{"free, others may spin", stepW, "writer", true, true, stepL, tryDecided},
		{"held by a writer", stepL | stepW | stepC, "writer", false, false, stepL | stepW | stepS, trySleep},
		{"held by readers", stepR | stepW | stepC, "writer", false, false, stepR | stepW | stepS, trySleep},
		{"held, due", stepL | stepW, "writer", true, false, stepL | stepW | stepS | stepH, trySleep},
		{"held, handoff", stepL | stepW | stepH, "writer", false, false, stepL | stepW | stepS | stepH, trySleep},
		{"held by readers, spins", stepR | stepW, "writer", false, true, stepR | stepW, trySpin},
		{"held by readers, due, spins", stepR | stepW, "writer", true, true, stepR | stepW | stepH, trySpin},
		{"reader, free", stepW | stepC, "reader", false, false, stepR | stepC, tryDecided},
		{"reader, readers", stepR | stepW, "reader", false, true, 2 * stepR, tryDecided},
		{"reader, held", stepL | stepW | stepC, "reader", false, false, stepL | stepW | stepS, trySleep},
		{"reader, held, due", stepL | stepW, "reader", true, false, stepL | stepW | stepS | stepH, trySleep},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rw RWMutex
			rw.count.Store(c.count)
			w := queuedWaiter(&rw, c.kind)
			if c.due {
				w.due = 0
			}
			require.Equal(t, c.result, rw.tryFirstOnce(w, c.maySpin))
			require.Equal(t, c.want, flagsIn(&rw), "count %#x", flagsIn(&rw))
			require.Equal(t, c.result == tryDecided, w.state.Load() == granted)
			require.Equal(t, c.result != tryDecided, rw.head == w)
		})
	}

	// It may not spin although there is time.
	var rw RWMutex
	rw.count.Store(stepR | stepW)
	urgent := queuedWaiter(&rw, "writer")
	urgent.urgent = true
	require.Equal(t, trySleep, rw.tryFirstOnce(urgent, true))
	require.Equal(t, uint64(stepR|stepW|stepS), rw.count.Load())

	// A reader was put first: what the former first waiter asked for is over.
	rw = RWMutex{}
	rw.count.Store(stepR | stepW | stepS | stepC)
	queuedWaiter(&rw, "reader")
	w := queuedWaiter(&rw, "writer")
	require.Equal(t, trySleep, rw.tryFirstOnce(w, true))
	require.Equal(t, uint64(stepR|stepW|stepS), rw.count.Load())
	require.EqualValues(t, waiting, w.state.Load())

	// It was cancelled.
	w.state.Store(cancelled)
	require.Equal(t, tryDecided, rw.tryFirstOnce(w, true))
	require.Equal(t, uint64(stepR|stepW|stepS), rw.count.Load())
}

func TestStepFirstMaySpin(t *testing.T) {
	stepPolicy(t)
	const many = 1000
	crowd := uint64(many)
	crowd <<= readerShift
	for _, c := range []struct {
		name   string
		count  uint64
		owner  uintptr
		score  string
		urgent bool
		off    func()
		want   bool
	}{
		{"a writer", stepL, ownerAnonymous, "neither", false, nil, true},
		{"a writer, urgent", stepL, ownerAnonymous, "neither", true, nil, true},
		{"a writer, handoff", stepL | stepH, ownerAnonymous, "neither", false, nil, true},
		{"a writer, handoff, short", stepL | stepH, ownerAnonymous, "short", false, nil, true},
		{"a writer, handoff, switched off", stepL | stepH, ownerAnonymous, "neither", false, func() { policy.handoffSpin = false }, false},
		{"a writer, no handoff, switched off", stepL, ownerAnonymous, "neither", false, func() { policy.handoffSpin = false }, true},
		{"a writer that has no name yet", stepL, 0, "neither", false, nil, true},
		{"unknown", stepL, ownerUnknown, "neither", false, nil, ownerInCount},
		{"readers", stepR, 0, "neither", false, nil, true},
		{"readers, marked by Downgrade", stepR, readerOwned, "neither", false, nil, true},
		{"readers, slow", stepR, ownerFlags, "neither", false, nil, true}, // that is for who arrives
		{"readers, urgent", stepR, 0, "neither", true, nil, false},
		{"readers, switched off", stepR, 0, "neither", false, func() { policy.writerSpin = false }, false},
		{"readers, more than can run", crowd, 0, "neither", false, nil, false},
	} {
		if c.count == crowd && crowd>>readerShift != many {
			continue // few readers fit into the count
		}
		t.Run(c.name, func(t *testing.T) {
			old := policy
			defer func() { policy = old }()
			if c.off != nil {
				c.off()
			}
			var rw RWMutex
			rw.ctl.Store(spinScores[c.score])
			rw.owner.Store(c.owner)
			count := c.count
			if count&stepL != 0 && c.owner == ownerAnonymous {
				count |= writerWord(ownerAnonymous)
			} else if ownerInCount && count&stepL != 0 {
				count |= ownerReserved &^ stepL // no writer is without a name there
			}
			require.Equal(t, c.want, rw.firstMaySpin(&waiter{urgent: c.urgent}, count))
		})
	}

	// Where sections are very short it sleeps, mostly.
	var rw RWMutex
	rw.ctl.Store(ctlShortMask)
	rw.owner.Store(ownerAnonymous)
	spins := 0
	for range many {
		if rw.firstMaySpin(&waiter{}, writerWord(ownerAnonymous)) {
			spins++
		}
	}
	require.NotZero(t, spins)
	require.Less(t, spins, many/4)
}

func TestStepSpinFirst(t *testing.T) {
	stepPolicy(t)
	for _, c := range []struct {
		name    string
		count   uint64
		kind    string
		claimed bool
	}{
		{"free", stepW, "writer", false},
		{"held by a writer", stepL | stepW, "writer", false},
		{"held by readers", stepR | stepW, "writer", true},
		{"held by readers, handoff", stepR | stepW | stepH, "writer", false},
		{"reader, held", stepL | stepW, "reader", false},
	} {
		var rw RWMutex
		rw.count.Store(c.count)
		w := queuedWaiter(&rw, c.kind)
		rw.spinFirst(w)
		require.Equal(t, c.claimed, w.claimed, c.name)
		require.Equal(t, c.claimed, rw.count.Load()&stepC != 0, c.name)
		require.Equal(t, c.count, rw.count.Load()&^stepC, c.name)
	}
	// One that is cancelled asks for nothing any more.
	var rw RWMutex
	rw.count.Store(stepR | stepW)
	w := queuedWaiter(&rw, "writer")
	w.state.Store(cancelled)
	rw.spinFirst(w)
	require.False(t, w.claimed)
	require.Equal(t, uint64(stepR|stepW), rw.count.Load())
}

func TestStepFirstIsDue(t *testing.T) {
	stepPolicy(t)
	const late, soon = int64(10 * latestTime), int64(latestTime / 10)
	for _, c := range []struct {
		name    string
		count   uint64
		score   string
		reader  bool  // who asks
		urgent  bool  // who waits
		due     int64 // since when; 0: not yet
		want    bool
		handoff bool
	}{
		{"not due, asleep", stepR | stepW | stepS, "neither", true, false, 0, false, false},
		{"not due, on its way", stepR | stepW, "long", true, false, 0, false, false},
		{"asleep", stepR | stepW | stepS, "neither", true, false, soon, true, true},
		{"asleep, for a writer", stepL | stepW | stepS, "short", false, false, soon, true, true},
		{"on its way, for a reader", stepR | stepW, "neither", true, false, soon, false, false},
		{"on its way, late, for a reader", stepR | stepW, "neither", true, false, late, true, true},
		{"on its way, for a writer", stepR | stepW, "short", false, false, soon, true, false},
		{"on its way, late, for a writer", stepR | stepW, "neither", false, false, late, true, false},
		{"on its way, urgent", stepR | stepW, "neither", true, true, soon, true, true},
		{"on its way, urgent, for a writer", stepR | stepW, "neither", false, true, soon, true, false},
		{"on its way, long", stepR | stepW, "long", true, false, soon, true, true},
		{"on its way, long, for a writer", stepR | stepW, "long", false, false, soon, true, true},
	} {
		biases := []uint64{0}
		if c.reader {
			biases = append(biases, stepR)
		}
		for _, bias := range biases {
			var rw *RWMutex
			var got bool
			for { // the test may lose its processor for longer than the times differ
				rw = new(RWMutex)
				rw.count.Store(c.count + bias)
				rw.ctl.Store(spinScores[c.score])
				w := queuedWaiter(rw, "writer")
				w.urgent = c.urgent
				began := nanotime()
				if c.due != 0 {
					w.due = began - c.due
				}
				got = rw.firstIsDue(c.reader, bias)
				if c.due != soon || nanotime()-began < int64(latestTime)-soon {
					break
				}
			}
			require.Equal(t, c.want, got, c.name)
			require.Equal(t, c.handoff, rw.count.Load()&stepH != 0, c.name)
			want := c.count
			if !c.want {
				want += bias
			}
			require.Equal(t, want, rw.count.Load()&^stepH, "%s: a reader that is turned away is out of the count", c.name)
			require.NotZero(t, rw.steals.Load(), "%s: the next look comes later", c.name)
		}
	}
	var rw RWMutex
	require.False(t, rw.firstIsDue(true, 0), "nobody waits")
	require.Zero(t, rw.steals.Load())

	// On a free lock it gets it.
	rw.count.Store(stepW | stepS)
	w := queuedWaiter(&rw, "writer")
	w.due = 0
	require.True(t, rw.firstIsDue(false, 0))
	require.Equal(t, uint64(stepL), flagsIn(&rw))
	require.EqualValues(t, granted, w.state.Load())
}

// A writer gives its processor to a first waiter that is late and on its way.
func TestStepFirstIsDueYields(t *testing.T) {
	stepPolicy(t)
	setProcs(t, 1)
	const tries = 100
	ran := 0
	for range tries {
		var rw RWMutex
		rw.count.Store(stepR | stepW)
		rw.ctl.Store(spinScores["neither"])
		queuedWaiter(&rw, "writer").due = 0
		var other atomic.Bool
		go other.Store(true)
		require.True(t, rw.firstIsDue(false, 0))
		if other.Load() {
			ran++
		}
	}
	// The scheduler sometimes looks at who has yielded first.
	require.Greater(t, ran, tries/2)
}

// What a call gets of a lock without spinning or sleeping.
func TestStepAwake(t *testing.T) {
	stepPolicy(t)
	set := func(count uint64, due bool) *RWMutex {
		rw := new(RWMutex)
		rw.count.Store(count)
		if count&stepW != 0 {
			w := queuedWaiter(rw, "writer")
			if due {
				w.due = 0
			}
		}
		return rw
	}
	for _, c := range []struct {
		name  string
		count uint64
		due   bool
		takes bool // for a writer
		joins bool // for a reader
		again bool // for a reader that was dismissed
	}{
		{"free", 0, false, true, true, true},
		{"free past a waiter", stepW | stepS, false, true, true, true},
		{"free past one that is due", stepW | stepS, true, false, false, false},
		{"free, handed over", stepW | stepS | stepH, false, false, false, false},
		{"held by a reader", stepR, false, false, true, true},
		{"held by a reader, handed over", stepR | stepW | stepS | stepH, false, false, false, true},
		{"held by a reader past one that is due", stepR | stepW | stepS, true, false, false, true},
		{"held by a writer", stepL, false, false, false, false},
		{"held by a writer, readers pass", stepL | stepR, false, false, false, false},
	} {
		rw := set(c.count, c.due)
		require.Equal(t, c.takes, rw.lockAwake(false), c.name)
		if c.takes {
			require.Equal(t, c.count|stepL, flagsIn(rw), c.name)
			if !ownerInCount {
				require.Equal(t, self(), rw.owner.Load(), c.name)
			}
		}
		rw = set(c.count, c.due)
		require.Equal(t, c.takes, tryLockSlow(rw), c.name)
		if c.takes {
			require.Equal(t, c.count|stepL, flagsIn(rw), c.name)
		}
		rw = set(c.count, c.due)
		require.Equal(t, c.joins, tryRLockSlow(rw), c.name)
		if c.joins {
			require.Equal(t, c.count+stepR, rw.count.Load(), c.name)
		}

		for _, bias := range []uint64{0, stepR} {
			rw = set(c.count+bias, c.due)
			left, ok := rw.rlockAwake(bias)
			require.Equal(t, c.joins, ok, c.name)
			switch {
			case ok:
				require.Zero(t, left, c.name)
				require.Equal(t, c.count+stepR, rw.count.Load(), c.name)
			case !c.due:
				require.Equal(t, bias, left, c.name)
				require.Equal(t, c.count+bias, rw.count.Load(), c.name)
			default:
				require.Zero(t, left, "%s: who is turned away is out of the count", c.name)
			}
		}

		rw = set(c.count, c.due)
		left, ok := rw.rejoin()
		require.Equal(t, c.again, ok, c.name)
		require.Zero(t, left, c.name)
		if c.again {
			require.Equal(t, c.count+stepR, rw.count.Load(), c.name)
		}
	}

	// As many readers as fit.
	for _, c := range []struct {
		count, bias uint64
		ok          bool
		want        uint64
	}{
		{flagReadFail - stepR, stepR, true, flagReadFail - stepR},
		{flagReadFail - stepR, 0, false, flagReadFail - stepR},
		{flagReadFail - 2*stepR, 0, true, flagReadFail - stepR},
		{flagReadFail, stepR, false, flagReadFail - stepR},
	} {
		rw := set(c.count, false)
		left, ok := rw.rlockAwake(c.bias)
		require.Equal(t, c.ok, ok)
		require.Zero(t, left)
		require.Equal(t, c.want, rw.count.Load(), "count %#x", rw.count.Load())
	}

	// A writer does not pass one that is due and on its way.
	for _, late := range []int64{0, int64(time.Hour)} {
		rw := set(stepW, false)
		rw.head.due = nanotime() - late
		require.False(t, rw.lockAwake(false))
		require.Equal(t, uint64(stepW), rw.count.Load())
		require.True(t, tryLockSlow(rw), "a try gives it the processor, and goes on")
		require.Equal(t, uint64(stepL|stepW), flagsIn(rw))
	}
	late := set(stepR|stepW, true) // on its way for so long that readers wait too
	require.False(t, tryRLockSlow(late))
	require.Equal(t, uint64(stepR|stepW|stepH), late.count.Load())

	// A writer's claim is heeded for a while, and then dropped by who waited.
	rw := set(stepC, false)
	require.True(t, rw.lockAwake(false))
	require.Equal(t, uint64(stepL), flagsIn(rw))
	rw = set(stepC+stepR, false)
	left, ok := rw.rlockAwake(stepR)
	require.True(t, ok)
	require.Zero(t, left)
	require.Equal(t, uint64(stepR), rw.count.Load(), "nobody else is in the count: the claim is dropped")
	rw = set(stepC+2*stepR, false)
	_, ok = rw.rlockAwake(stepR)
	require.True(t, ok)
	require.Equal(t, uint64(stepC+2*stepR), rw.count.Load(), "a reader holds the lock: the claim stays")
	rw = set(stepC|stepW|stepS, false)
	require.True(t, tryLockSlow(rw))
	require.Equal(t, uint64(stepL|stepW|stepS), flagsIn(rw), "the claim ends")
}

func TestStepPreferReader(t *testing.T) {
	stepPolicy(t)
	policy.readerFirst = true
	policy.handoffTime = time.Second
	each := int64(policy.readerEach)
	for _, c := range []struct {
		name    string
		count   uint64
		readers int
		waited  int64 // the first reader
		late    bool  // the writer is of age
		after   bool  // a writer has just released the lock
		change  func(h, r *waiter)
		want    bool
		passed  bool
	}{
		{"one reader", stepL, 1, each, false, false, nil, true, false},
		{"for one it is soon enough", stepL, 1, each / 2, false, false, nil, false, false},
		{"three, too soon", stepL, 3, 3*each - each/2, false, false, nil, false, false},
		{"three", stepL, 3, 3 * each, false, false, nil, true, false},
		{"the reader is not due", stepL, 1, each, false, false, func(_, r *waiter) { r.due = nanotime() + int64(time.Hour) }, false, false},
		{"nobody behind", stepL, 0, 0, false, false, nil, false, false},
		{"passed already", stepL, 1, each, false, false, func(h, _ *waiter) { h.passed = true }, false, true},
		{"urgent", stepL, 1, each, false, false, func(h, _ *waiter) { h.urgent = true }, true, false},
		{"woken", stepL, 1, each, false, false, func(h, _ *waiter) { h.woken = true }, true, false},
		{"urgent and woken", stepL, 1, each, false, false, func(h, _ *waiter) { h.urgent, h.woken = true, true }, false, false},
		{"a writer of age, in a writer's time", stepL, 1, each, true, false, nil, true, true},
		{"a writer of age, after a writer", 0, 1, each, true, true, nil, true, true},
		{"a writer of age, in readers' time", stepR, 1, each, true, false, nil, false, false},
		{"a writer of age, free", 0, 1, each, true, false, nil, false, false},
		{"handoff, in a writer's time", stepL | stepH, 1, each, false, false, nil, true, true},
		{"handoff, in readers' time", stepR | stepH, 1, each, false, false, nil, false, false},
		{"in readers' time", stepR, 1, each, false, false, nil, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rw RWMutex
			rw.count.Store(c.count | stepW | stepC)
			rw.steals.Store(5)
			h := queuedWaiter(&rw, "writer")
			now := nanotime()
			if c.late {
				h.since = now - int64(policy.handoffTime)
			}
			var r *waiter
			for range c.readers {
				w := queuedWaiter(&rw, "reader")
				w.since, w.due = now-c.waited, now
				if r == nil {
					r = w
				}
			}
			queuedWaiter(&rw, "writer")
			if c.change != nil {
				c.change(h, r)
			}
			rw.preferReader(now, c.after)
			require.Equal(t, c.passed, h.passed)
			if c.want {
				require.Same(t, r, rw.head)
				require.Same(t, h, rw.writers)
				require.Equal(t, c.count|stepW|stepS, rw.count.Load(), "count %#x", rw.count.Load())
				require.Zero(t, rw.steals.Load())
			} else {
				require.Same(t, h, rw.head)
				require.Equal(t, c.count|stepW|stepC, rw.count.Load(), "count %#x", rw.count.Load())
			}
		})
	}
	var rw RWMutex
	rw.preferReader(nanotime(), true) // nobody waits
	require.Nil(t, rw.head)
}

// A reader's spin: what it has in the count before and after, and what is learned
// of it for the next one.
func TestStepReaderSpin(t *testing.T) {
	setHandoffTime(t, time.Hour)
	letSpin(t)
	const init = ctlEnableInit / ctlEnable
	for _, c := range []struct {
		name        string
		count       uint64
		owner       uintptr
		limit       time.Duration
		bias        uint64
		left        uint64
		ok          bool
		want        uint64
		enable      uint32
		noSpin, won uint64 // events
	}{
		{"free", stepR, 0, time.Microsecond, stepR, 0, true, stepR, init + 1, 0, 1},
		{"free, not counted", 0, 0, time.Microsecond, 0, 0, true, stepR, init + 1, 0, 1},
		{"held", stepL + stepR, 0, time.Microsecond, stepR, stepR, false, stepL + stepR, init - 1, 0, 0},
		{"held, not counted", stepL, 0, time.Microsecond, 0, stepR, false, stepL + stepR, init - 1, 0, 0},
		{"switched off", stepL + stepR, 0, 0, stepR, stepR, false, stepL + stepR, init, 1, 0},
		{"nonspinnable", stepL + stepR, rdNonspinnable, time.Microsecond, stepR, stepR, false, stepL + stepR, init, 1, 0},
		{"not for readers only", stepL + stepR, wrNonspinnable, time.Microsecond, stepR, stepR, false, stepL + stepR, init - 1, 0, 0},
		{"too many readers", flagReadFail + stepL + stepR, 0, time.Microsecond, stepR, 0, false, flagReadFail + stepL, init - 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rw RWMutex
			rw.SetReaderSpin(c.limit)
			rw.count.Store(c.count)
			rw.owner.Store(c.owner)
			before := ReadEvents()
			left, ok := rw.rlockSpin(c.bias)
			after := ReadEvents()
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.left, left)
			require.Equal(t, c.want, rw.count.Load(), "count %#x", rw.count.Load())
			require.Equal(t, c.enable, rw.ctl.Load()&ctlEnableMask/ctlEnable)
			require.Zero(t, rw.ctl.Load()&ctlSpinners)
			require.Equal(t, c.noSpin, after.OptNoRSpin-before.OptNoRSpin)
			require.Equal(t, c.won, after.OptRLock-before.OptRLock)
			require.Equal(t, c.enable < init, after.OptFail > before.OptFail)
		})
	}
}

func TestStepEvents(t *testing.T) {
	stepPolicy(t)
	var rw RWMutex
	counted := func(f func()) (e Events) {
		before := ReadEvents()
		f()
		after := ReadEvents()
		e.RLockFast = after.RLockFast - before.RLockFast
		e.RLockSteal = after.RLockSteal - before.RLockSteal
		e.RLockHandoff = after.RLockHandoff - before.RLockHandoff
		e.WLockHandoff = after.WLockHandoff - before.WLockHandoff
		e.OptNoSpin = after.OptNoSpin - before.OptNoSpin
		e.OptFail = after.OptFail - before.OptFail
		return e
	}
	reset := func(count uint64, kind string) *waiter {
		rw = RWMutex{}
		rw.count.Store(count)
		if kind == "" {
			return nil
		}
		return queuedWaiter(&rw, kind)
	}
	reset(0, "")
	require.Equal(t, Events{RLockFast: 1}, counted(func() { rw.rlockAwake(0) }))
	reset(stepW|stepS, "writer")
	require.Equal(t, Events{RLockSteal: 1}, counted(func() { rw.rlockAwake(0) }))
	reset(stepR, "")
	require.Equal(t, Events{RLockSteal: 1}, counted(func() { rw.rejoin() }))
	w := reset(stepR|stepW|stepS, "writer")
	require.Equal(t, Events{WLockHandoff: 1}, counted(func() { rw.setHandoff(w) }))
	require.Zero(t, counted(func() { rw.setHandoff(w) }), "once")
	w = reset(stepL|stepW|stepS, "reader")
	require.Equal(t, Events{RLockHandoff: 1}, counted(func() { rw.setHandoff(w) }))
	require.Zero(t, counted(func() { rw.setHandoff(w) }), "once")
	reset(stepR, "")
	require.Equal(t, Events{RLockFast: 1}, counted(func() { rw.rlockAwake(0) }))
	reset(stepR, "")
	rw.owner.Store(ownerFlags)
	require.Equal(t, Events{OptNoSpin: 1}, counted(func() { rw.lockAwake(false) }))
	letSpin(t)
	reset(stepR, "")
	rw.owner.Store(ownerUnknown)
	require.Equal(t, Events{OptFail: 1}, counted(func() { rw.lockAwake(false) }))
}

// By how much those who pass are let off the next look, for each time that they
// What a waiter that is passed at its time, or not the first, is due.
func TestStepStartTurn(t *testing.T) {
	stepPolicy(t)
	var rw RWMutex
	h := queuedWaiter(&rw, "writer")
	h.due = nanotime() + int64(time.Hour)
	due := h.due
	rw.steals.Store(5)
	rw.startTurn()
	require.Equal(t, due, h.due, "no sooner than it was")
	require.Zero(t, rw.steals.Load())
	h.due = 0
	rw.startTurn()
	require.NotZero(t, h.due)

	rw = RWMutex{}
	rw.steals.Store(5)
	rw.startTurn() // nobody waits
	require.Zero(t, rw.steals.Load())
}

// Those that queue are due after their time, whatever they are.
func TestStepIsDue(t *testing.T) {
	stepPolicy(t)
	var rw RWMutex
	const due = 1000
	for _, c := range []struct {
		now           int64
		urgent, woken bool
		off           bool
		want          bool
	}{
		{due - 1, false, false, false, false},
		{due, false, false, false, true},
		{due + 1, false, false, false, true},
		{due + 1, false, false, true, false},
		{due - 1, true, false, false, false},
		{due - 1, false, true, false, false},
		{due - 1, true, true, false, true},
		{due - 1, true, true, true, false},
	} {
		policy.handoff = !c.off
		require.Equal(t, c.want, rw.isDue(&waiter{due: due, urgent: c.urgent, woken: c.woken}, c.now), "%+v", c)
	}
}

// Everybody who looks at the first waiter for another reason puts a reader first
// whose time it is, and only an unlocking writer does so where readers hold the lock.
func TestStepPrefersReader(t *testing.T) {
	stepPolicy(t)
	policy.readerFirst = true
	for _, c := range []struct {
		name  string
		look  func(*RWMutex)
		after bool
	}{
		{"enqueue", func(rw *RWMutex) { rw.enqueue(&waiter{}, 0) }, false},
		{"firstIsDue", func(rw *RWMutex) { rw.firstIsDue(false, 0) }, false},
		{"wakeUp", func(rw *RWMutex) { rw.wakeUp(false) }, false},
		{"downgradeSlow", downgradeSlow, false},
		{"releaseSlow", releaseSlow, false},
		{"unlockSlow", unlockSlow, true},
	} {
		for _, late := range []bool{false, true} {
			var rw RWMutex
			rw.count.Store(stepL | stepW | stepS)
			if late {
				rw.count.Store(stepR | stepW | stepS)
			}
			h := queuedWaiter(&rw, "writer")
			r := queuedWaiter(&rw, "reader")
			now := nanotime()
			r.since, r.due = now-int64(time.Minute), now
			if late {
				h.since = now - int64(policy.handoffTime)
			}
			c.look(&rw)
			first := rw.head == r || r.state.Load() == granted // among readers it comes in
			require.Equal(t, !late || c.after, first, "%s, late %t", c.name, late)
		}
	}
}

func TestStepHandoffTime(t *testing.T) {
	keepPolicy(t)
	var rw RWMutex
	countAsLong(&rw)
	require.Equal(t, policy.readerTime, rw.handoffTime(true))
	policy.readerFirst = false
	require.Equal(t, policy.handoffTime, rw.handoffTime(true))
}

// A first waiter that was woken in vain sleeps again after its time, also where
// another processor runs and nobody waits for this one.
func TestStepFirstSpinEnds(t *testing.T) {
	stepPolicy(t)
	setProcs(t, 2)
	var stop atomic.Bool
	runs := start(func() {
		for !stop.Load() {
		}
	})
	for _, kind := range []string{"writer", "reader"} {
		var took []int64
		for range 21 {
			var rw RWMutex
			rw.count.Store(writerWord(ownerAnonymous) | stepW)
			rw.owner.Store(ownerAnonymous)
			w := queuedWaiter(&rw, kind)
			for end := nanotime() + int64(time.Millisecond); !canSpin() && before(end); {
			}
			began := nanotime()
			require.False(t, rw.tryFirst(w))
			took = append(took, nanotime()-began)
			require.Equal(t, uint64(stepL|stepW|stepS), flagsIn(&rw))
		}
		slices.Sort(took)
		require.Less(t, took[len(took)/2], int64(time.Millisecond), "half of the times") // it may lose its processor
	}
	stop.Store(true)
	<-runs
}

// The count changes between a look and the step that follows it: the step is tried
// anew, whatever it was, and nothing of it is left.
func TestStepCountChanges(t *testing.T) {
	stepPolicy(t)
	setProcs(t, 2)
	const rounds = 20_000
	for name, step := range map[string]func(*RWMutex) bool{
		"enqueue": func(rw *RWMutex) bool {
			return !rw.enqueue(&waiter{reader: true}, 0)
		},
		"grantReaders": func(rw *RWMutex) bool {
			w := queuedWaiter(rw, "reader")
			rw.count.Or(stepW | stepS)
			var l wakeList
			return rw.grantReaders(&l, false) && l.first == w
		},
		"tryFirstOnce": func(rw *RWMutex) bool {
			w := queuedWaiter(rw, "reader")
			rw.count.Or(stepW)
			return rw.tryFirstOnce(w, false) == tryDecided
		},
		"rlockAwake":   func(rw *RWMutex) bool { _, ok := rw.rlockAwake(0); return ok },
		"rejoin":       func(rw *RWMutex) bool { _, ok := rw.rejoin(); return ok },
		"tryRLockSlow": tryRLockSlow,
		"TryRLock":     (*RWMutex).TryRLock,
		"tryRLockStub": tryRLockStub,
	} {
		var rw RWMutex
		var stop atomic.Bool
		passes := start(func() { // readers that come and go
			for !stop.Load() {
				rw.count.Add(readerBias)
				rw.count.Add(^uint64(readerBias - 1))
			}
		})
		held, ok := uint64(0), true
		for held < rounds && ok {
			ok = step(&rw) && rw.head == nil
			if ok {
				rw.count.Add(^uint64(readerBias - 1))
				held++
			}
		}
		stop.Store(true)
		awaitDone(t, &rw, "the readers", passes)
		require.True(t, ok, name)
		require.Zero(t, rw.count.Load(), "%s: count %#x", name, rw.count.Load())
	}
}

// A reader that backs out of an otherwise free lock leaves nothing, and has done
// nothing wrong.
func TestStepBackOut(t *testing.T) {
	for _, others := range []uint64{0, stepR, stepL, stepL | stepW | stepS} {
		var rw RWMutex
		rw.count.Store(others + stepR)
		rw.backOut()
		require.Equal(t, others, rw.count.Load())
	}
}
