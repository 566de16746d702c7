package rwsem

import (
	"sync"
	"sync/atomic"
	"time"
)

// A waiter is one sleeping call. While it is queued waitLock guards all of it
// but state, sema, taken and claimed.
//
// A waker takes what it needs from the waiter, tells it, releases sema once and
// never touches it again. The waiter acquires sema once for each such promise
// before its call is over, so no wake-up is left to hit the next user of it.
type waiter struct {
	next, prev *waiter // the ring of waiters, prev nil outside it; next also links a wake list

	since int64   // when it queued, in ns of nanotime
	due   int64   // when it has waited its handoff time
	owner uintptr // what a writer stores in the owner word when it gets the lock
	word  uint64  // what it is in the count then

	reader bool
	urgent bool // from LockUrgent
	woken  bool // was woken before without being granted the lock
	yield  bool // granted: switch to it at once

	promised uint32 // wake-ups it was promised
	taken    uint32 // wake-ups it took; its own goroutine's
	claimed  bool   // it has set flagClaim; its own goroutine's

	state atomic.Uint32 // one of the constants below
	sema  parker        // where it parks
}

// States of a waiter, changed under waitLock only while it is queued.
const (
	waiting   = iota
	granted   // it holds the lock; the count says so already
	dismissed // a reader that has left the queue to try for the lock anew
	cancelled // it has left the queue, or must not enter it
)

var waiterPool = sync.Pool{New: func() any { return new(waiter) }}

//go:norace
func newWaiter(reader, urgent bool) *waiter {
	w := waiterPool.Get().(*waiter)
	w.reader, w.urgent = reader, urgent
	return w
}

//go:norace
func freeWaiter(w *waiter) {
	w.next, w.since = nil, 0
	w.woken, w.yield = false, false
	w.promised, w.taken = 0, 0
	w.state.Store(waiting)
	waiterPool.Put(w)
}

// push puts w into the ring: at its end, or in the order of age, but behind the
// first waiter, if it was dismissed before. In a long ring that is behind at
// least maxLook older ones. The caller holds waitLock.
//
//go:norace
func (rw *RWMutex) push(w *waiter, again bool) {
	h := rw.head
	if h == nil {
		w.next, w.prev = w, w
		rw.head = w
		return
	}
	next := h
	if again && w.since < h.prev.since {
		next = h.next
		for looked := 0; looked < maxLook && next != h && next.since <= w.since; looked++ {
			next = next.next
		}
	}
	w.next, w.prev = next, next.prev
	w.prev.next, w.next.prev = w, w
}

// unlink takes w out of the ring. The caller holds waitLock.
//
//go:norace
func (rw *RWMutex) unlink(w *waiter) {
	if w.next == w {
		rw.head = nil
	} else {
		w.prev.next, w.next.prev = w.next, w.prev
		if rw.head == w {
			rw.head = w.next
		}
	}
	w.next, w.prev = nil, nil
}

// A wakeList holds the waiters that are to be woken once waitLock is dropped.
type wakeList struct {
	woken       *waiter // woken to try; it stays in the ring
	first, last *waiter // granted the lock or dismissed, linked by next
	more        bool    // a further batch of readers is due
}

// wakeToTry puts the first waiter on l, which tries for the lock itself.
//
//go:norace
func (l *wakeList) wakeToTry(w *waiter) {
	w.woken = true
	w.promised++
	l.woken = w
	tallyBy(w.reader, evWakeReader, evWakeWriter)
}

// tell tells w, which left the queue, its state and puts it on l.
//
//go:norace
func (l *wakeList) tell(w *waiter, state uint32, yield bool) {
	w.yield = yield
	w.promised++
	w.state.Store(state)
	if l.first == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	tallyBy(w.reader, evWakeReader, evWakeWriter)
}

// wake wakes the waiters on l. The caller has dropped waitLock.
//
//go:norace
func (l *wakeList) wake() {
	if l.woken != nil {
		hook(hookWake)
		unpark(l.woken, false)
	}
	for w := l.first; w != nil; {
		next, yield := w.next, w.yield
		hook(hookWake)
		unpark(w, yield)
		w = next
	}
}

// settle takes the wake-ups that w was promised and has not taken: nobody
// promises it any more.
//
//go:norace
func (w *waiter) settle() {
	for w.taken != w.promised {
		park(w)
		w.taken++
	}
}

// look returns the state of rw for Describe.
//
//go:norace
func (rw *RWMutex) look() (c uint64, o uintptr, readers, writers uint64, age time.Duration) {
	rw.waitLock.Lock()
	defer rw.waitLock.Unlock()
	c = rw.count.Load()
	o = rw.loadOwner(c)
	if w := rw.head; w != nil {
		age = time.Duration(nanotime() - w.since)
		for {
			if w.reader {
				readers++
			} else {
				writers++
			}
			if w = w.next; w == rw.head {
				break
			}
		}
	}
	return
}
