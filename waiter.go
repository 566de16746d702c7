package rwsem

import "time"

// A waiter is one sleeping call. While it is queued waitLock guards all of it
// but state, sema, taken and claimed.
//
// A waker takes what it needs from the waiter, tells it, releases sema once and
// never touches it again. The waiter acquires sema once for each such promise
// before its call is over, so no wake-up is left to hit the next user of it; and
// until it has, next, wakes and more are the wakers', with or without waitLock.
type waiter struct {
	next, prev *waiter // the ring of waiters, prev nil outside it; next also links a wake list
	wakes      *waiter // the first of those on the wake list that this one wakes

	since int64   // when it queued, in ns of nanotime
	due   int64   // when it has waited its handoff time
	owner uintptr // what a writer stores in the owner word when it gets the lock
	word  uint64  // what it is in the count then

	reader bool
	place  uint32 // a reader behind the first waiter: its number in that part of the queue, from any start
	urgent bool   // from LockUrgent
	woken  bool   // was woken before without being granted the lock
	more   bool   // it lets in a further batch of readers
	passed bool   // a writer: readers went before it although it was due

	promised uint32 // wake-ups it was promised
	taken    uint32 // wake-ups it took; its own goroutine's
	claimed  bool   // it has set flagClaim; its own goroutine's

	state word32 // one of the constants below
	sema  parker // where it parks
}

// States of a waiter, changed under waitLock only while it is queued.
const (
	waiting   = iota
	granted   // it holds the lock; the count says so already
	dismissed // a reader that has left the queue to try for the lock anew
	cancelled // it has left the queue, or must not enter it
)

var waiterPool = pool{New: func() any { return new(waiter) }}

//go:norace
func newWaiter(reader, urgent bool) *waiter {
	w := waiterPool.Get().(*waiter)
	w.reader, w.urgent = reader, urgent
	return w
}

//go:norace
func freeWaiter(w *waiter) {
	w.next, w.since = nil, 0
	w.woken, w.passed = false, false
	w.promised, w.taken = 0, 0
	w.state.Store(waiting)
	waiterPool.Put(w)
}

// The queue is a ring: the first waiter, behind it the readers and behind those
// the writers, both in the order of age or nearly. So readers that come in
// together stand together, and who is next among either kind is found at once.

// push puts w into the queue: behind its kind, or in the order of age if it was
// dismissed before, but not in front of the first waiter. In a long queue the
// latter is behind at least maxLook older ones. The caller holds waitLock.
//
//go:norace
func (rw *RWMutex) push(w *waiter, again bool) {
	h := rw.head
	switch {
	case h == nil:
		w.next, w.prev = w, w
		rw.head = w
	case !w.reader:
		w.enter(h)
		if rw.writers == nil {
			rw.writers = w
		}
	case !again:
		next := rw.writersOr(h)
		w.place = next.prev.place + 1
		w.enter(next)
	default:
		next := h.next
		for looked := 0; looked < maxLook && next != h && next.reader && next.since <= w.since; looked++ {
			next = next.next
		}
		w.place = next.prev.place
		if next.reader && next != h { // the one in front may be a writer, whose place says nothing
			w.place = next.place
		}
		w.enter(next)
	}
}

// unlink takes w out of the queue. If it was the first waiter, the older one of
// the first reader and the first writer is the next; it is for the caller to
// say in the count that it sleeps. The caller holds waitLock.
//
//go:norace
func (rw *RWMutex) unlink(w *waiter) {
	next := w.next
	if next == w {
		rw.head = nil
		w.next, w.prev = nil, nil
		return
	}
	rw.leaveWriters(w)
	w.leave()
	if w != rw.head {
		return
	}
	rw.head = next
	rw.leaveWriters(next)
	if x := rw.writers; x != nil && next.reader && x.since < next.since {
		rw.makeFirst(x)
	}
}

// makeFirst puts w in front of the first waiter, which goes to the front of its
// own kind. It is for the caller to say in the count that w sleeps. The caller
// holds waitLock.
//
//go:norace
func (rw *RWMutex) makeFirst(w *waiter) {
	rw.leaveWriters(w)
	w.leave()
	front := rw.head
	if h := rw.head; !h.reader {
		if h.next.reader {
			front = h.next
			h.leave()
			h.enter(rw.writersOr(front))
		}
		rw.writers = h
	}
	w.enter(front)
	rw.head = w
}

// leaveWriters has rw.writers go on from w, which leaves that part of the queue.
//
//go:norace
func (rw *RWMutex) leaveWriters(w *waiter) {
	if w != rw.writers {
		return
	}
	rw.writers = nil
	if w.next != rw.head {
		rw.writers = w.next
	}
}

// writersOr is the first of the writers behind the first waiter, or else w.
//
//go:norace
func (rw *RWMutex) writersOr(w *waiter) *waiter {
	if rw.writers != nil {
		return rw.writers
	}
	return w
}

// enter puts w into a ring in front of next, leave takes it out.
//
//go:norace
func (w *waiter) enter(next *waiter) {
	w.next, w.prev = next, next.prev
	w.prev.next, next.prev = w, w
}

//go:norace
func (w *waiter) leave() {
	w.prev.next, w.next.prev = w.next, w.prev
	w.next, w.prev = nil, nil
}

// A wakeList holds the waiters that are to be woken once waitLock is dropped.
type wakeList struct {
	woken               *waiter // woken to try; it stays in the queue
	first, last, parent *waiter // granted the lock or dismissed, linked by next; parent wakes last
	told                int     // how many these are
	yield               bool    // switch to the first of them at once
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
func (l *wakeList) tell(w *waiter, state uint32) {
	w.promised++
	w.state.Store(state)
	if l.first == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	if l.told >= wakeFan && l.told%wakeFan == 0 {
		if l.parent == nil {
			l.parent = l.first
		} else {
			l.parent = l.parent.next
		}
		l.parent.wakes = w
	}
	l.told++
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
	wakeFrom(l.first, l.yield)
}

// wakeFrom wakes first and those behind it that the same waker wakes. With yield
// it switches to first, when the others have been woken.
//
//go:norace
func wakeFrom(first *waiter, yield bool) {
	for w, n := first, 0; w != nil && n < wakeFan; n++ {
		next := w.next
		if w != first || !yield {
			hook(hookWake)
			unpark(w, false)
		}
		w = next
	}
	if yield && first != nil {
		hook(hookWake)
		unpark(first, true)
	}
}

// wakeOthers wakes those that w was left to wake.
//
//go:norace
func (w *waiter) wakeOthers() {
	first := w.wakes
	w.next, w.wakes = nil, nil
	wakeFrom(first, false)
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
