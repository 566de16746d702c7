package rwsem

import (
	"context"
	"time"
)

// Calls that may end without the lock. Their waiters are not pooled: the cancel
// that ends them runs in a goroutine of its own.

func (rw *RWMutex) lockContext(ctx context.Context, reader bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if rw.tryAwake(reader) {
		return nil
	}
	ok := rw.waitUntil(reader, func(cancel func()) func() bool { return context.AfterFunc(ctx, cancel) })
	if !ok {
		return ctx.Err()
	}
	return nil
}

func (rw *RWMutex) tryLockFor(d time.Duration, reader bool) bool {
	if d <= 0 {
		if reader {
			return tryRLock(rw)
		}
		return tryLock(rw)
	}
	return rw.tryAwake(reader) ||
		rw.waitUntil(reader, func(cancel func()) func() bool { return time.AfterFunc(d, cancel).Stop })
}

// waitUntil waits for the lock until the function that it gives to arm is
// called, and reports whether it has it. arm returns how to prevent that call.
func (rw *RWMutex) waitUntil(reader bool, arm func(cancel func()) (stop func() bool)) bool {
	w := &waiter{reader: reader}
	// Locked until the cancel is over. A channel would not do: a context that ends
	// outside the caller's synctest bubble has cancel run there.
	done := new(mutex)
	done.Lock()
	stop := arm(func() {
		rw.cancel(w)
		done.Unlock()
	})
	ok := rw.waitCancellable(w)
	if !stop() {
		done.Lock() // the lock's memory is the caller's own again when this call ends
	}
	return ok
}

func (rw *RWMutex) tryAwake(reader bool) bool {
	if reader && tryRLock(rw) || !reader && tryLock(rw) {
		return true
	}
	raceEnter(rw)
	var ok bool
	if reader {
		var bias uint64
		if bias, ok = rw.rlockAwake(0); bias != 0 {
			rw.backOut()
		}
	} else {
		ok = rw.lockAwake(false)
	}
	raceLeave()
	if ok {
		rw.raceLocked(reader)
	}
	return ok
}

func (rw *RWMutex) waitCancellable(w *waiter) bool {
	raceEnter(rw)
	state, bias, ok := rw.wait(w, 0), uint64(0), false
	for state == dismissed {
		if bias, ok = rw.rejoin(); ok {
			state = granted
		} else {
			state = rw.wait(w, bias)
		}
	}
	raceLeave()
	if state == granted {
		rw.raceLocked(w.reader)
	}
	return state == granted
}

func (rw *RWMutex) raceLocked(reader bool) {
	if reader {
		raceReadLocked(rw)
	} else {
		raceWriteLocked(rw)
	}
}

// cancel takes w out of the queue unless it was granted the lock.
//
//go:norace
func (rw *RWMutex) cancel(w *waiter) {
	raceIgnore()
	defer raceLeave()
	var l wakeList
	rw.waitLock.Lock()
	if s := w.state.Load(); s == granted || s == cancelled {
		rw.waitLock.Unlock()
		return
	}
	if w.prev == nil { // not queued yet, or any more
		w.state.Store(cancelled)
		rw.waitLock.Unlock()
		return
	}
	first := rw.head == w
	rw.unlink(w)
	w.promised++
	w.state.Store(cancelled)
	switch {
	case rw.head == nil:
		rw.count.And(^uint64(flagWaiters | flagHandoff | flagAsleep | flagClaim))
	case first:
		// The heir does not inherit handoff: it gets its own when it is due, in
		// wakeFirst at the latest.
		rw.renewFirst(flagHandoff | flagClaim)
		rw.wakeFirst(&l)
	}
	rw.waitLock.Unlock()
	unpark(w, false)
	l.wake()
}
