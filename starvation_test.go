//go:build !js

// Not on js, which cannot take the processor from a goroutine that never sleeps:
// there such readers or writers keep the others from running whatever lock they
// use.

package rwsem

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each of these fails with RWSEMDEBUG=handoff=0.

// A crowd keeps a lock busy while a test measures.
type crowd struct {
	all  sync.WaitGroup
	stop atomic.Bool
	laps atomic.Int64
}

// join adds n goroutines that repeat f until the test is over, and waits until
// they are under way.
func (c *crowd) join(t *testing.T, n int, f func()) {
	for range n {
		c.all.Go(func() {
			for !c.stop.Load() {
				f()
				c.laps.Add(1)
			}
		})
	}
	t.Cleanup(c.leave)
	for end := time.Now().Add(tooLong); c.laps.Load() < int64(2*n); time.Sleep(100 * time.Microsecond) {
		require.True(t, time.Now().Before(end), "the crowd does not run")
	}
}

func (c *crowd) leave() {
	c.stop.Store(true)
	c.all.Wait()
}

// waits measures n waits of one goroutine, which must not take longer than
// enough in all.
func (c *crowd) waits(t *testing.T, rw *RWMutex, n int, enough time.Duration, lock, unlock func(*RWMutex)) []time.Duration {
	t.Helper()
	var times []time.Duration
	done := start(func() {
		for range n {
			begin := time.Now()
			lock(rw)
			times = append(times, time.Since(begin))
			unlock(rw)
			if c.stop.Load() {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	select {
	case <-done:
	case <-time.After(enough):
		described := Describe(rw)
		c.stop.Store(true)
		<-done
		require.FailNow(t, "starved", "%d of %d waits over in %v: %s", len(times)-1, n, enough, described)
	}
	slices.Sort(times)
	t.Logf("median %v, worst %v", times[n/2], times[n-1])
	return times
}

// bound is d, but for an emulator and the debug build, whose times say little.
func bound(d time.Duration) time.Duration {
	if emulated() || debugEnabled {
		return 10 * d
	}
	return d
}

func TestStarvationWriterUnderReaderRelay(t *testing.T) {
	// A reader gives the lock up when the next one has it, or when that one
	// does not come for a while: while newcomers are let in somebody always
	// holds the lock.
	const patience = 10 * time.Millisecond
	var rw RWMutex
	var c crowd
	var turn atomic.Int64
	c.join(t, 3, func() {
		rw.RLock()
		mine := turn.Add(1)
		time.Sleep(50 * time.Microsecond)
		for end := time.Now().Add(patience); turn.Load() == mine && time.Now().Before(end); {
			time.Sleep(50 * time.Microsecond)
		}
		rw.RUnlock()
	})
	times := c.waits(t, &rw, 10, 5*time.Second, (*RWMutex).Lock, (*RWMutex).Unlock)
	assert.Less(t, times[5], bound(10*patience))
}

func TestStarvationWriterUnderSpinningReaders(t *testing.T) {
	// More readers than processors, none of which ever sleeps, hold the lock
	// nearly all the time.
	var rw RWMutex
	var c crowd
	c.join(t, 2*max(2, runtime.GOMAXPROCS(0)), func() {
		rw.RLock()
		spinFor(200 * time.Microsecond)
		rw.RUnlock()
	})
	c.waits(t, &rw, 10, 5*time.Second, (*RWMutex).Lock, (*RWMutex).Unlock)
}

func TestStarvationReaderAmongWriters(t *testing.T) {
	var rw RWMutex
	var c crowd
	c.join(t, 2*max(2, runtime.GOMAXPROCS(0)), func() {
		rw.Lock()
		spinFor(200 * time.Microsecond)
		rw.Unlock()
	})
	times := c.waits(t, &rw, 10, 5*time.Second, (*RWMutex).RLock, (*RWMutex).RUnlock)
	assert.Less(t, times[5], bound(75*time.Millisecond))
}

func TestStarvationWriterAmongWriters(t *testing.T) {
	var rw RWMutex
	var c crowd
	c.join(t, 2*max(2, runtime.GOMAXPROCS(0)), func() {
		rw.Lock()
		spinFor(200 * time.Microsecond)
		rw.Unlock()
	})
	times := c.waits(t, &rw, 10, 5*time.Second, (*RWMutex).Lock, (*RWMutex).Unlock)
	assert.Less(t, times[5], bound(75*time.Millisecond))
}

func TestStarvationWokenWhileProcessorsAreBusy(t *testing.T) {
	// The first waiter is woken but there is no processor for it: who takes
	// the lock past it has to give up its own, which otherwise happens every
	// 10 ms, with the lock held.
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprintf("procs=%d", procs), func(t *testing.T) {
			setProcs(t, procs)
			var rw RWMutex
			var c crowd
			c.join(t, procs, func() {
				if rw.TryLock() {
					spinFor(20 * time.Microsecond)
					rw.Unlock()
				}
			})
			times := c.waits(t, &rw, 20, 5*time.Second, (*RWMutex).Lock, (*RWMutex).Unlock)
			assert.Less(t, times[len(times)/2], bound(5*time.Millisecond))
		})
	}
}
