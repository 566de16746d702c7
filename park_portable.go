//go:build !(go1.26 && !go1.28 && !rwsem_nolinkname) && !rwsemexplore

package rwsem

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// What park_linkname.go takes from the runtime, on public API: for releases of
// Go that it was not tested with, and under the tag rwsem_nolinkname.

// A parker is where a waiter sleeps: a semaphore made of a mutex that is kept
// locked. A channel would not do: waiters are pooled, and one made inside a
// synctest bubble may not be used outside it, while a mutex belongs to no bubble.
type parker struct {
	tokens atomic.Int32 // wake-ups not taken, -1 while its goroutine sleeps or is about to
	mu     sync.Mutex   // locked but between an unpark and the end of the park that it ends
	locked bool         // mu was locked for the first time; the parking goroutine's own
}

// park sleeps until w is woken, once for each unpark. Acquire: it pairs with
// the release in unpark, so that a granted waiter needs no other edge.
//
//go:norace
func park(w *waiter) {
	p := &w.sema
	if !p.locked {
		// Nobody unlocks it before tokens was negative.
		p.locked = true
		p.mu.Lock()
	}
	if p.tokens.Add(-1) < 0 {
		p.mu.Lock()
	}
}

// unpark wakes w, and with yield lets it run at once if it sleeps. It touches w
// no more once it has unlocked: an unlock that is not over yet does a later
// use of the mutex no harm.
//
//go:norace
func unpark(w *waiter, yield bool) {
	p := &w.sema
	if p.tokens.Add(1) <= 0 {
		p.mu.Unlock() // makes w the next to run on this processor
		if yield {
			runtime.Gosched()
		}
	}
}

var (
	began     = time.Now()
	beganWall = began.UnixNano()
	looks     atomic.Int64 // at a clock that there is not
)

// nanotime is the monotonic clock in nanoseconds.
//
// In a synctest bubble package time's clock begins in the year 2000 and stands
// still while a goroutine of the bubble runs: a spinner would never find its
// time over. There it is the system's time of day instead.
func nanotime() int64 {
	const uptime = 10 * 365 * 24 * time.Hour // more than any
	if d := time.Since(began); uint64(d) < uint64(uptime) {
		return int64(d)
	}
	var tv syscall.Timeval
	if syscall.Gettimeofday(&tv) != nil { // js
		return looks.Add(int64(time.Microsecond))
	}
	return int64(tv.Sec)*1e9 + int64(tv.Usec)*1e3 - beganWall
}

var (
	manyCPUs = runtime.NumCPU() > 1
	procs    atomic.Int32 // GOMAXPROCS
	procsAt  atomic.Int64 // when that was read
)

// canSpin is true if another processor could release the lock. That none of
// them runs, or that goroutines wait for this one, public API does not say: who
// spins here keeps its processor until its time is over.
func canSpin() bool {
	// To read GOMAXPROCS takes a lock of the scheduler.
	const maxAge = 100 * time.Microsecond
	if now := nanotime(); uint64(now-procsAt.Load()) > uint64(maxAge) { // also if the clock was set back
		procsAt.Store(now)
		procs.Store(int32(runtime.GOMAXPROCS(0)))
	}
	return manyCPUs && procs.Load() > 1
}

var dying sync.Mutex

// fatal ends the process with a message and a traceback in the runtime's form,
// but of the calling goroutine only.
func fatal(s string) {
	dying.Lock()                                             // for good: there is one message
	print("fatal error: ", s, "\n\n", string(debug.Stack())) // whatever became of os.Stderr
	os.Exit(2)
}

// procyield takes the time of n pauses, some ten processor cycles each.
//
//lint:ignore U1000 called where Go stands in for assembly
func procyield(n uint32) {
	x := n
	for range 3 * uint64(n) { // a round waits for the one before it: 4 cycles
		x = x*1664525 + 1013904223
	}
	pauseSink(x)
}

// pauseSink uses x, so that the compiler has to compute it.
//
//go:noinline
func pauseSink(uint32) {}
