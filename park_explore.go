//go:build rwsemexplore

package rwsem

import (
	"runtime"
	"sync/atomic"
	"time"
)

// What the lock takes from the runtime, under the explorer: a goroutine that parks
// does not go on until it has been unparked, the clock stands unless the explorer
// moves it, and a goroutine is its number. Where no exploration is going on a simple
// form of each stands in.

// A parker is where a waiter sleeps: the wake-ups that it has not taken.
type parker struct{ tokens atomic.Int32 }

func park(w *waiter) {
	if x := exploring; x != nil {
		x.park(w)
		return
	}
	for {
		n := w.sema.tokens.Load()
		if n > 0 && w.sema.tokens.CompareAndSwap(n, n-1) {
			return
		}
		runtime.Gosched()
	}
}

// unpark wakes w. To switch to it at once is one of the orders that are tried
// anyway.
func unpark(w *waiter, yield bool) {
	if x := exploring; x != nil {
		x.unpark(w)
		return
	}
	w.sema.tokens.Add(1)
}

var began = time.Now()

func nanotime() int64 {
	if x := exploring; x != nil {
		return x.now()
	}
	return int64(time.Since(began))
}

func canSpin() bool {
	if x := exploring; x != nil {
		return x.canSpin()
	}
	return runtime.GOMAXPROCS(0) > 1
}

func fatal(s string) {
	if x := exploring; x != nil {
		x.failed("fatal error: " + s)
	}
	panic("fatal error: " + s)
}

func self() uintptr {
	if x := exploring; x != nil {
		return x.self()
	}
	return ownerAnonymous
}

// loadStatus answers for the goroutine that self names g.
func loadStatus(g, off uintptr) uint32 { return exploring.status(g) }

// pause ends a spinner's round, after which it is for others to change something.
func pause(uint32) {
	if x := exploring; x != nil {
		x.pause()
	}
}

func cycles() uint64        { return 0 }
func cyclesInvariant() bool { return false }
func relax(uint32)          {}
func shardHint() uintptr    { return 0 }

//lint:ignore U1000 a test of what stands in for it elsewhere calls it
func procyield(uint32) {}
