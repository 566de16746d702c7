package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parks parks on w n times in another goroutine, and counts the returns in back.
func parks(w *waiter, n int, back *atomic.Int32) (done <-chan struct{}) {
	return start(func() {
		for range n {
			park(w)
			back.Add(1)
		}
	})
}

// stays checks that back is n and stays n.
func stays(t *testing.T, back *atomic.Int32, n int32) {
	t.Helper()
	awaitTrue(t, "as many parks as unparks", func() bool { return back.Load() >= n })
	for range 100 {
		runtime.Gosched()
	}
	time.Sleep(time.Millisecond)
	require.Equal(t, n, back.Load(), "parks that are over")
}

// Each park takes one wake-up, whichever comes first and however many are
// outstanding.
func TestParkTakesOneToken(t *testing.T) {
	for _, reader := range []bool{false, true} {
		w := &waiter{reader: reader}
		for range 3 { // as when it is used again
			var back atomic.Int32
			unpark(w, false)
			unpark(w, false)
			require.EqualValues(t, 2, leftover(w))
			done := parks(w, 7, &back)
			stays(t, &back, 2) // token, token, park
			unpark(w, false)
			stays(t, &back, 3) // park, token
			unpark(w, true)
			unpark(w, false)
			stays(t, &back, 5) // park, token, token
			unpark(w, false)
			unpark(w, true)
			<-done
			require.Zero(t, leftover(w))
		}
	}
}

// Two goroutines wake each other thousands of times, with one to three
// wake-ups promised at a time.
func TestParkRounds(t *testing.T) {
	const rounds = 20_000
	var ws [2]waiter
	ws[1].reader = true
	var all sync.WaitGroup
	var sent, taken [2]atomic.Int64
	for i := range ws {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, 1)) // both draw the same
			for n := range rounds {
				tokens := 1 + r.IntN(3)
				for range tokens {
					sent[1-i].Add(1)
					unpark(&ws[1-i], n%8 == 0)
				}
				for range tokens {
					park(&ws[i])
					if now := taken[i].Add(1); now > sent[i].Load() {
						t.Errorf("%d parks are over, %d wake-ups were made", now, sent[i].Load())
						return
					}
				}
			}
		})
	}
	select {
	case <-start(all.Wait):
	case <-time.After(tooLong):
		require.FailNow(t, "a wake-up was lost", "%s", allStacks())
	}
	assert.Equal(t, sent[0].Load(), taken[0].Load())
	assert.Equal(t, sent[1].Load(), taken[1].Load())
	assert.Zero(t, leftover(&ws[0]))
	assert.Zero(t, leftover(&ws[1]))
}

// A waiter belongs to no synctest bubble: it comes out of the pool in another
// one than it was made in, and may be woken from another.
func TestParkAcrossBubbles(t *testing.T) {
	use := func(w *waiter) {
		unpark(w, false)
		park(w)
		var back atomic.Int32
		done := parks(w, 2, &back)
		for range 1000 { // to sleep would stop the bubble: who parks is not durably blocked
			runtime.Gosched()
		}
		unpark(w, false)
		unpark(w, true)
		<-done
	}
	inside := func(f func()) { synctest.Test(t, func(*testing.T) { f() }) }

	w := new(waiter)
	inside(func() { use(w) }) // made outside
	use(w)
	inside(func() {
		w = new(waiter) // made inside
		use(w)
	})
	use(w)
	inside(func() { use(w) })

	var back atomic.Int32
	done := parks(w, 1, &back) // sleeps outside
	time.Sleep(time.Millisecond)
	inside(func() { unpark(w, true) })
	<-done

	var parked atomic.Bool
	waker := start(func() { // sleeps inside
		for !parked.Load() {
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(time.Millisecond)
		unpark(w, true)
	})
	inside(func() {
		parked.Store(true)
		park(w)
	})
	<-waker
	assert.Zero(t, leftover(w))
}

// The lock works inside a bubble, outside and from both at once.
func TestLockAcrossBubbles(t *testing.T) {
	var rw RWMutex
	n := 0
	use := func() {
		var all sync.WaitGroup
		for range 20 {
			rw.Lock()
			r, w := queued(&rw)
			for i := range 4 {
				all.Go(func() {
					if i%2 == 0 {
						rw.Lock()
						n++
						rw.Unlock()
					} else {
						rw.RLock()
						_ = n
						rw.RUnlock()
					}
				})
			}
			for r+w < 4 { // to sleep would stop the bubble
				runtime.Gosched()
				r, w = queued(&rw)
			}
			rw.Unlock()
			all.Wait()
		}
	}
	inside := func() { synctest.Test(t, func(*testing.T) { use() }) }
	inside()
	use()
	inside()
	outside := start(use)
	inside()
	awaitDone(t, &rw, "those outside", outside)
	assert.Equal(t, 5*2*20, n)
	requireAtRest(t, &rw)
}

// A call inside a bubble may be given up by a context that ends outside it.
func TestContextEndsOutsideBubble(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ctx.Done() // which belongs to no bubble then
	var waits atomic.Bool
	outside := start(func() {
		for !waits.Load() {
			runtime.Gosched()
		}
		cancel()
	})
	synctest.Test(t, func(t *testing.T) {
		for _, lock := range []func(*RWMutex, context.Context) error{(*RWMutex).LockContext, (*RWMutex).RLockContext} {
			var rw RWMutex
			rw.Lock()
			done := start(func() { assert.ErrorIs(t, lock(&rw, ctx), context.Canceled) })
			for r, w := queued(&rw); r+w == 0 && ctx.Err() == nil; r, w = queued(&rw) {
				runtime.Gosched()
			}
			waits.Store(true)
			<-done
			rw.Unlock()
			requireAtRest(t, &rw)
		}
	})
	<-outside
}

// nanotime goes on inside a bubble, where package time's clock stands still: a
// spinner would never find its time over and a waiter would never be due. It
// is about the same inside and outside: the two may meet at a lock.
func TestNanotimeInBubble(t *testing.T) {
	const near = 500 * time.Millisecond // a time of day, on a busy machine
	outside := nanotime()
	synctest.Test(t, func(t *testing.T) {
		inside := nanotime()
		assert.InDelta(t, outside, inside, float64(near))
		spun := 0
		for nanotime() < inside+int64(time.Millisecond) {
			spun++
			require.Less(t, spun, 100_000_000, "the clock stands still")
		}

		// The holder sleeps where the bubble's clock cannot see it.
		var rw RWMutex
		rw.Lock()
		rw.count.Add(readerBias)
		assert.False(t, rw.spinRead(spinTime), "it got a lock that is held")
		rw.count.Add(^uint64(readerBias - 1))
		rw.Unlock()
	})
	assert.InDelta(t, outside, nanotime(), float64(near))
	for last, end := nanotime(), nanotime()+int64(time.Millisecond); last < end; {
		now := nanotime()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

// With yield the goroutine that is woken runs before the waker goes on.
func TestUnparkYields(t *testing.T) {
	setProcs(t, 1)
	const tries = 100
	ranFirst := func(yield bool) (n int) {
		for range tries {
			w := new(waiter)
			var back atomic.Int32
			done := parks(w, 1, &back)
			for range 3 {
				runtime.Gosched() // it sleeps
			}
			unpark(w, yield)
			n += int(back.Load())
			<-done
		}
		return n
	}
	assert.Greater(t, ranFirst(true), tries*3/4)
	assert.Less(t, ranFirst(false), tries/4)
}

func TestProcyieldTakesTime(t *testing.T) {
	const n = 100_000
	begin := nanotime()
	procyield(n)
	took := nanotime() - begin
	if runtime.GOARCH == "wasm" || emulated() {
		assert.GreaterOrEqual(t, took, int64(0)) // a pause may be nothing there
		return
	}
	least := int64(2 * n) // ten cycles each
	if linked && runtime.GOARCH == "arm64" {
		least = n / 2 // there the runtime takes n for nanoseconds
	}
	assert.Greater(t, took, least)
}
