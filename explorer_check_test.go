//go:build rwsemexplore

package rwsem

import "fmt"

// What has to hold in a run.

// counted follows what a step of t did to the count.
func (x *explorer) counted(t *thread, before, after uint64) {
	d := int(int64(after>>readerShift) - int64(before>>readerShift))
	t.counted += d
	if taken := ^before & after & writerLocked; taken != 0 || d > 0 {
		t.unowed = before&flagHandoff == 0
	} else if x.writer != t && before&flagHandoff == 0 {
		t.unowed = true
	}
	if t.releasing && d == -1 {
		t.releasing = false
		t.reads--
	}
	switch was, is := before&writerLocked != 0, after&writerLocked != 0; {
	case !was && is:
		if before&readerMask != 0 {
			x.fail("a writer takes the lock from readers")
		}
		x.writer = t
	case was && !is:
		if x.writer != t || !t.writes {
			x.fail("gives up the lock for a writer that did not")
		}
		x.writer, t.writes = nil, false
		if d == 1 {
			t.reads++ // Downgrade
		}
	}
}

// told follows that t tells the waiter s that it has the lock: what t has in the
// count for it is the waiter's from now on.
func (x *explorer) told(t *thread, s *waiterSeen) {
	if s.w.reader {
		t.counted--
		s.thread.counted++
		s.thread.granted = true
		if t.counted < t.reads {
			x.fail("a reader is told before it is counted")
		}
		return
	}
	if x.writer != t {
		x.fail("a writer is told before the count says so")
	}
	x.writer = s.thread
}

// took checks that t, whose call has got the lock, was not to leave it to the first
// waiter. Who was told may have been dismissed: it may join those it was let in with.
func (x *explorer) took(t *thread) {
	if !t.told && !t.unowed {
		x.fail("thread %d takes the lock past hand-off", t.id)
	}
}

// returned checks what a call of t leaves behind.
func (x *explorer) returned(t *thread) {
	t.granted = false
	switch {
	case x.over:
	case t.releasing || t.counted != t.reads:
		x.fail("thread %d holds %d read locks and counts as %d readers when its call returns", t.id, t.reads, t.counted)
	case t.writes != (x.writer == t):
		x.fail("thread %d holds the write lock: %v, but the count has it: %v", t.id, t.writes, x.writer == t)
	}
}

// check is for every state.
func (x *explorer) check() {
	c := x.rw.count.v.Load()
	counted, reads := x.unowned, x.unowned
	queueing := 0   // readers that wait for waitLock and are in the count
	resting := true // no call is to see to the waiters: each has not begun, sleeps or is about to queue
	for _, t := range x.threads {
		if t.counted < t.reads {
			x.fail("thread %d holds %d read locks and counts as %d readers", t.id, t.reads, t.counted)
		}
		if t.writes && x.writer != t {
			x.fail("two writers: %d holds the lock", t.id)
		}
		counted += t.counted
		queueing += int(truth(t.queues && t.counted > t.reads))
		reads += max(t.reads, int(truth(t.granted)))
		asleep := t.op == opPark && !x.enabled(t)
		resting = resting && (t.done || t.inCall == 0 && (t.owner == nil || !t.begun) || asleep || t.queues && t.counted == t.reads)
		if asleep && t.timer != nil && t.timer.begun && t.timer.done && t.on.w.promised == t.on.w.taken {
			x.fail("thread %d sleeps though its timer has fired", t.id)
		}
	}
	if n := int(c >> readerShift); n != counted {
		x.fail("the count has %d readers, the calls have %d there", n, counted)
	}
	if limit := int(flagReadFail>>readerShift) - 1; reads+queueing > limit {
		x.fail("%d readers hold the lock and %d wait in the count, where %d are the limit", reads, queueing, limit)
	}
	if (c&writerLocked != 0) != (x.writer != nil) {
		x.fail("the count has a writer: %v, a call has put it there: %v", c&writerLocked != 0, x.writer != nil)
	}
	if x.writer != nil && reads > 0 {
		x.fail("a writer with %d readers", reads)
	}
	if x.holder != nil {
		return
	}
	if broken := x.checkRing(); broken != "" {
		x.fail("the queue is broken: %s", broken)
		return
	}
	h := x.rw.head
	if h == nil {
		if c&(flagWaiters|flagHandoff|flagAsleep) != 0 {
			x.fail("nobody waits, but the count says %s", countString(c))
		}
		return
	}
	if c&flagWaiters == 0 {
		x.fail("somebody waits, but the count says %s", countString(c))
	}
	if c&flagHandoff != 0 && !x.due(h) {
		x.fail("handoff, but the first waiter has not waited its time")
	}
	s := x.see(h)
	asleep := s.thread.op == opPark && s.thread.on == s && h.sema.tokens.Load() == 0 && h.promised == h.taken
	if asleep && c&flagAsleep == 0 {
		x.fail("the first waiter sleeps and nobody is to wake it: the count says %s", countString(c))
	}
	if resting && asleep && !h.blocked(c) {
		x.fail("the first waiter sleeps though nobody keeps it out: the count says %s", countString(c))
	}
}

// due is isDue for a check, which takes no step.
func (x *explorer) due(w *waiter) bool {
	return policy.handoff && (x.clock >= w.due || w.urgent && w.woken)
}

// checkRing checks the queue as the test of the queue does, but for the order of
// age: who queues looks at the clock before it has waitLock.
func (x *explorer) checkRing() string {
	h := x.rw.head
	if h == nil {
		if x.rw.writers != nil {
			return "writers, but no first waiter"
		}
		return ""
	}
	var firstWriter *waiter
	n := 0
	for w := h; ; w = w.next {
		if w.next == nil || w.prev == nil || w.next.prev != w || w.prev.next != w {
			return "no ring"
		}
		if s := w.state.v.Load(); s != waiting {
			return fmt.Sprintf("a waiter in it has state %d", s)
		}
		if x.see(w).free {
			return "a waiter in it is free"
		}
		if w != h {
			switch {
			case !w.reader && firstWriter == nil:
				firstWriter = w
			case w.reader && firstWriter != nil:
				return "a reader behind a writer"
			}
		}
		if n++; n > len(x.waiters) {
			return "no end"
		}
		if w.next == h {
			break
		}
	}
	if firstWriter != x.rw.writers {
		return "writers is not the first writer behind the first waiter"
	}
	return ""
}

// checkRest is for the end of a run.
func (x *explorer) checkRest() {
	switch c := x.rw.count.v.Load(); {
	case c != uint64(x.unowned)<<readerShift:
		x.fail("at the end the count says %s", countString(c))
	case x.rw.head != nil:
		x.fail("at the end somebody waits")
	case x.holder != nil:
		x.fail("at the end waitLock is held")
	case x.rw.ctl.v.Load()&ctlSpinners != 0:
		x.fail("at the end somebody spins")
	}
	for _, s := range x.waiters {
		if s.w.sema.tokens.Load() != 0 {
			x.fail("at the end a wake-up is left over")
		}
	}
}
