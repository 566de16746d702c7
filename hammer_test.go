package rwsem

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var hammerTime = flag.Duration("rwsem.long", 2*time.Second, "for how long TestHammer runs in all")

// A hammered lock guards data whose writers leave a and b equal. The counters
// are kept beside it, since the lock under test cannot vouch for them.
type hammered struct {
	rw      RWMutex
	a, b    int
	readers atomic.Int32
	writers atomic.Int32
}

func (h *hammered) read(rng *rand.Rand) {
	h.readers.Add(1)
	if w := h.writers.Load(); w != 0 {
		panic(fmt.Sprintf("%d writers beside a reader: %s", w, Describe(&h.rw)))
	}
	a := h.a
	stay(rng)
	if h.a != a || h.b != a {
		panic("the data changed under a reader: " + Describe(&h.rw))
	}
	h.readers.Add(-1)
}

func (h *hammered) write(rng *rand.Rand) {
	w, r := h.writers.Add(1), h.readers.Load()
	if w != 1 || r != 0 {
		panic(fmt.Sprintf("%d writers and %d readers: %s", w, r, Describe(&h.rw)))
	}
	h.a++
	stay(rng)
	h.b++
	if h.a != h.b {
		panic("the data changed under a writer: " + Describe(&h.rw))
	}
	h.writers.Add(-1)
}

// stay makes a section short, mostly.
func stay(rng *rand.Rand) {
	switch n := rng.IntN(1000); {
	case n == 0:
		time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
	case n < 10:
		runtime.Gosched()
	case n < 100:
		spinFor(time.Duration(rng.IntN(20)) * time.Microsecond)
	}
}

func spinFor(d time.Duration) {
	for end := nanotime() + int64(d); before(end); {
	}
}

// before is called so that there is a place to be preempted: the runtime's
// clock has none.
//
//go:noinline
func before(end int64) bool { return nanotime() < end }

// hammerCalls are all ways to take the lock; each reports whether it has it,
// for reading or for writing.
var hammerCalls = []struct {
	name   string
	reader bool
	lock   func(*RWMutex, context.Context, time.Duration) bool
}{
	{"RLock", true, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.RLock(); return true }},
	{"RLock", true, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.RLock(); return true }},
	{"RLock", true, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.RLock(); return true }},
	{"RLocker", true, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.RLocker().Lock(); return true }},
	{"TryRLock", true, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { return rw.TryRLock() }},
	{"TryRLockFor", true, func(rw *RWMutex, _ context.Context, d time.Duration) bool { return rw.TryRLockFor(d) }},
	{"RLockContext", true, func(rw *RWMutex, ctx context.Context, _ time.Duration) bool { return rw.RLockContext(ctx) == nil }},
	{"Lock", false, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.Lock(); return true }},
	{"Lock", false, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.Lock(); return true }},
	{"LockUrgent", false, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { rw.LockUrgent(); return true }},
	{"TryLock", false, func(rw *RWMutex, _ context.Context, _ time.Duration) bool { return rw.TryLock() }},
	{"TryLockFor", false, func(rw *RWMutex, _ context.Context, d time.Duration) bool { return rw.TryLockFor(d) }},
	{"LockContext", false, func(rw *RWMutex, ctx context.Context, _ time.Duration) bool { return rw.LockContext(ctx) == nil }},
}

func (h *hammered) call(i int, rng *rand.Rand) (taken bool) {
	rw, c := &h.rw, hammerCalls[i]
	d := time.Duration(rng.IntN(60_000)) - 5_000
	ctx := context.Background()
	if rng.IntN(4) != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if !c.lock(rw, ctx, d) {
		return false
	}
	if c.reader {
		h.read(rng)
		rw.RUnlock()
		return true
	}
	h.write(rng)
	if rng.IntN(4) == 0 {
		rw.Downgrade()
		h.read(rng)
		rw.RUnlock()
	} else {
		rw.Unlock()
	}
	return true
}

func TestHammer(t *testing.T) {
	for _, procs := range []int{1, 2, 8, 16} {
		t.Run(fmt.Sprintf("procs=%d", procs), func(t *testing.T) {
			setProcs(t, procs)
			h := new(hammered)
			taken := make([]atomic.Int64, len(hammerCalls))
			var all sync.WaitGroup
			stop := time.Now().Add(*hammerTime / 4)
			for range max(8, 2*procs) {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
					for n := 0; ; n++ {
						if n%64 == 0 && time.Now().After(stop) {
							return
						}
						i := rng.IntN(len(hammerCalls))
						if h.call(i, rng) {
							taken[i].Add(1)
						}
						if rng.IntN(1000) == 0 {
							h.rw.SetReaderSpin(time.Duration(rng.IntN(3)-1) * 10 * time.Microsecond)
							_ = Describe(&h.rw)
							_ = ReadEvents()
						}
					}
				})
			}
			select {
			case <-start(all.Wait):
			case <-time.After(*hammerTime + tooLong):
				require.FailNow(t, "stuck", "%s\n%s", Describe(&h.rw), allStacks())
			}
			requireAtRest(t, &h.rw)
			assert.Zero(t, h.rw.count.Load())
			writes := int64(0)
			for i, c := range hammerCalls {
				assert.NotZero(t, taken[i].Load(), c.name)
				if !c.reader {
					writes += taken[i].Load()
				}
			}
			assert.EqualValues(t, writes, h.a)
			assert.EqualValues(t, writes, h.b)
		})
	}
}
