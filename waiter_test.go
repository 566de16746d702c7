package rwsem

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// queue is the waiters from the first one on. It checks that the ring is whole:
// the first waiter, then readers, then writers from rw.writers on, each kind in
// the order of age.
func queue(t *testing.T, rw *RWMutex) []*waiter {
	t.Helper()
	if rw.head == nil {
		require.Nil(t, rw.writers)
		return nil
	}
	var all []*waiter
	for w := rw.head; ; w = w.next {
		require.Same(t, w, w.next.prev)
		require.Same(t, w, w.prev.next)
		all = append(all, w)
		if w.next == rw.head {
			break
		}
	}
	rest := all[1:]
	firstWriter := slices.IndexFunc(rest, func(w *waiter) bool { return !w.reader })
	if firstWriter < 0 {
		require.Nil(t, rw.writers)
		firstWriter = len(rest)
	} else {
		require.Same(t, rest[firstWriter], rw.writers)
	}
	for i, w := range rest {
		require.Equal(t, i < firstWriter, w.reader, "readers before writers")
		if i > 0 && rest[i-1].reader == w.reader {
			require.LessOrEqual(t, rest[i-1].since, w.since, "in the order of age")
		}
	}
	if firstWriter > 0 {
		// Those that leave in between leave gaps, and one that comes back shares a number.
		span := rest[firstWriter-1].place - rest[0].place
		require.Less(t, span, uint32(1000), "readers are numbered")
	}
	return all
}

// requireSame compares the waiters themselves, in any order.
func requireSame(t *testing.T, want, got []*waiter) {
	t.Helper()
	require.Len(t, got, len(want))
	in := map[*waiter]bool{}
	for _, w := range got {
		in[w] = true
	}
	require.Len(t, in, len(got), "each once")
	for _, w := range want {
		require.True(t, in[w])
	}
}

func TestQueueOrder(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var rw RWMutex
		var in, out []*waiter // out: readers that may come back
		for now := range int64(200) {
			switch op := rng.IntN(10); {
			case op < 5:
				w := &waiter{reader: rng.IntN(2) == 0, since: now, place: rng.Uint32()}
				rw.push(w, false)
				in = append(in, w)
			case op < 6 && len(out) > 0:
				w := out[0]
				out = out[1:]
				rw.push(w, true)
				in = append(in, w)
				seen["came back"] = true
			case op < 7 && rw.head != nil && !rw.head.reader && rw.head.next.reader:
				was, r := rw.head, rw.head.next
				rw.makeFirst(r)
				require.Same(t, r, rw.head)
				require.Same(t, was, rw.writers, "the one that was passed is the first of its kind")
				seen["reader first"] = true
			case len(in) > 0:
				i := rng.IntN(len(in))
				w := in[i]
				if rng.IntN(2) == 0 {
					w = rw.head
					i = slices.Index(in, w)
				}
				first := rw.head
				firstReader, firstWriter := first.next, rw.writers
				rw.unlink(w)
				require.Nil(t, w.next)
				require.Nil(t, w.prev)
				in = slices.Delete(in, i, i+1)
				switch {
				case w != first:
					require.Same(t, first, rw.head)
				case len(in) == 0:
					require.Nil(t, rw.head)
				case firstWriter == nil || firstReader.reader && firstReader.since <= firstWriter.since:
					require.Same(t, firstReader, rw.head, "the older one is next")
					seen["reader next"] = true
				default:
					require.Same(t, firstWriter, rw.head, "the older one is next")
					seen["writer next"] = true
				}
				if w.reader {
					out = append(out, w)
				}
			}
			requireSame(t, in, queue(t, &rw))
		}
	}
	require.Len(t, seen, 4, "all of it was tried: %v", seen)
}

// Whoever wakes many wakes a few, and these wake the others.
func TestWakeListDealsOut(t *testing.T) {
	for _, n := range []int{0, 1, wakeFan - 1, wakeFan, wakeFan + 1, maxWake} {
		var l wakeList
		var all []*waiter
		for range n {
			w := &waiter{reader: true}
			l.tell(w, dismissed)
			all = append(all, w)
		}
		require.Equal(t, n, l.told)
		var found []*waiter
		var follow func(w *waiter, depth int)
		follow = func(w *waiter, depth int) {
			for range wakeFan {
				if w == nil {
					return
				}
				require.LessOrEqual(t, depth, 4)
				found = append(found, w)
				follow(w.wakes, depth+1)
				w = w.next
			}
		}
		follow(l.first, 1)
		requireSame(t, all, found)
		for _, w := range all {
			require.Equal(t, uint32(1), w.promised)
			require.Equal(t, uint32(dismissed), w.state.Load())
		}
	}
}

// TestLooks checks how often the first waiter is passed between two looks at its
// age: by the clock, which is looked at often enough for sections of any length.
func TestLooks(t *testing.T) {
	var rw RWMutex
	now := int64(time.Hour)
	passes := func() (n int) {
		for ; !rw.stealDue(); n++ {
			require.LessOrEqual(t, n, maxSteals)
		}
		return n
	}
	after := func(d time.Duration) (later bool) {
		now += int64(d)
		if later = rw.lookLater(now); !later {
			rw.nextLook(false, now)
		}
		return later
	}
	require.Zero(t, passes(), "at once past a new first waiter")
	require.False(t, after(0))
	require.Zero(t, passes())
	for want := 1; want < maxSteals; want = 2*want + 1 {
		require.True(t, after(lookTime/20), "only the clock")
		require.Equal(t, want, passes())
	}
	require.True(t, after(lookTime/20))
	require.Equal(t, maxSteals, passes())
	require.False(t, after(lookTime))
	require.Equal(t, maxSteals, passes())
	require.False(t, after(time.Millisecond), "sections have become long")
	require.Zero(t, passes(), "each looks then")
	require.False(t, after(time.Second))
	require.Zero(t, passes())

	for unit := range int64(1 << 17) { // of times at which it wraps
		now = unit << lookUnit
		rw.nextLook(false, now)
		require.Equal(t, rw.steals.Load() != 0, rw.lookLater(now))
		require.False(t, rw.lookLater(now+int64(lookTime)+1<<lookUnit))
		require.False(t, rw.lookLater(now-1<<lookUnit))
	}

	for late, given := range []uint32{7, 0} { // by so many units more than what is in time
		rw.steals.Store(stealsWord(uint16(now>>lookUnit)-lookUnits-uint16(late), 7))
		rw.nextLook(false, now)
		require.Equal(t, given, stealsGiven(rw.steals.Load()))
	}

	rw.steals.Store(stealsWord(uint16(now>>lookUnit), 7))
	rw.nextLook(true, now)
	require.Equal(t, 7, passes(), "where it is due no more than that go by without a look at it")
	require.False(t, rw.lookLater(now))

	rw.Lock()
	rw.nextLook(false, nanotime())
	rw.lookLater(nanotime())
	done := start(func() {
		rw.Lock()
		defer rw.Unlock()
	})
	awaitQueued(t, &rw, 0, 1)
	require.Zero(t, rw.steals.Load(), "at once past a new first waiter")
	rw.Unlock()
	awaitDone(t, &rw, "the writer", done)
}
