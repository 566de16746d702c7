//go:build rwsemhooks

package rwsem

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Steps for which a goroutine has to be stopped.

// A dismissed reader that does not get the lock queues anew, is woken in vain and
// goes on waiting: it waits like one that has just come.
func TestStepDismissedWaitsAgain(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	a := inBackground(func() { readOnce(&rw) })
	awaitParked(t, 1)
	b := inBackground(rw.RLock)
	awaitParked(t, 2)
	second := waiterBehind(&rw, firstWaiter(&rw))

	// The first comes and goes, and the lock is taken before the second runs.
	wake := stopAt(t, hookWake)
	unlock := inBackground(rw.Unlock)
	wake.wait(t)
	wake2 := stopAt(t, hookWake)
	wake.release()
	wake2.wait(t)
	a.wait(t, "the first reader comes and goes")
	require.Equal(t, uint32(dismissed), stateOf(&rw, second))
	require.True(t, rw.TryLock())
	wake2.release()
	unlock.wait(t, "the unlocker ends")
	awaitQueue(t, &rw, 1)
	require.Equal(t, second, firstWaiter(&rw))
	require.Equal(t, uint32(waiting), stateOf(&rw, second))

	// Woken in vain.
	waker, unlock := retake(t, &rw)
	parks := faultHooks[hookPark].passed.Load()
	waker.release()
	unlock.wait(t, "the waker ends")
	awaitParked(t, parks+1)
	require.Equal(t, second, firstWaiter(&rw), "it still waits")
	require.False(t, b.done.Load())
	require.Zero(t, readersIn(&rw))
	rw.Unlock()
	b.wait(t, "it gets the lock")
	require.Equal(t, uint64(1), readersIn(&rw))
	rw.RUnlock()
	requireRest(t, &rw)
}

// A reader that is about to queue finds readers holding the lock and nobody
// waiting: it joins them, whether it was in the count or not.
func TestStepQueuesBehindNoReader(t *testing.T) {
	for _, counted := range []bool{true, false} {
		useHooks(t)
		setHandoffTime(t, time.Hour)
		var rw RWMutex
		rw.Lock()
		queueing := stopAt(t, hookQueue)
		r := inBackground(func() {
			if counted {
				rw.RLock()
			} else if err := rw.RLockContext(t.Context()); err != nil {
				t.Error(err)
			}
		})
		queueing.wait(t)
		require.Equal(t, counted, readersIn(&rw) == 1)
		rw.Unlock()
		require.True(t, rw.TryRLock())
		queueing.release()
		r.wait(t, "the reader gets the lock from a reader")
		require.Equal(t, uint64(2), readersIn(&rw))
		require.Zero(t, rw.count.Load()&flagWaiters)
		rw.RUnlock()
		rw.RUnlock()
		requireRest(t, &rw)
	}
}

// setLate sets what w has to see to when it comes back, and returns what was set.
//
//go:norace
func setLate(w *waiter, late bool) (claimed, more bool) {
	claimed, more = w.claimed, w.more
	w.claimed, w.more = late, late
	return claimed, more
}

// A first waiter claims the lock after it was granted it: the claim ends with its
// call.
func TestStepLateClaim(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	rw.Lock()
	c := inBackground(rw.Lock)
	awaitParked(t, 1)
	w := firstWaiter(&rw)
	makeDue(&rw)
	wake := stopAt(t, hookWake)
	unlock := inBackground(rw.Unlock)
	wake.wait(t)
	require.Equal(t, uint32(granted), stateOf(&rw, w))
	setLate(w, true) // its goroutine sleeps
	rw.count.Or(flagClaim)
	wake.release()
	unlock.wait(t, "the unlocker ends")
	c.wait(t, "the waiter gets the lock")
	require.Equal(t, uint64(writerLocked), flagsIn(&rw))
	claimed, more := setLate(w, false)
	require.False(t, claimed || more, "not for the next who uses it")
	rw.Unlock()
	requireRest(t, &rw)
}

//go:norace
func kindOf(w *waiter) (reader, urgent bool) { return w.reader, w.urgent }

// What each call waits as.
func TestStepKinds(t *testing.T) {
	useHooks(t)
	setHandoffTime(t, time.Hour)
	for _, c := range []struct {
		lock, release  func(*RWMutex)
		reader, urgent bool
	}{
		{(*RWMutex).RLock, (*RWMutex).RUnlock, true, false},
		{(*RWMutex).Lock, (*RWMutex).Unlock, false, false},
		{(*RWMutex).LockUrgent, (*RWMutex).Unlock, false, true},
		{func(rw *RWMutex) { rw.TryRLockFor(time.Hour) }, (*RWMutex).RUnlock, true, false},
		{func(rw *RWMutex) { rw.TryLockFor(time.Hour) }, (*RWMutex).Unlock, false, false},
	} {
		var rw RWMutex
		rw.Lock()
		call := inBackground(func() { c.lock(&rw) })
		awaitQueue(t, &rw, 1)
		w := firstWaiter(&rw)
		reader, urgent := kindOf(w)
		require.Equal(t, c.reader, reader)
		require.Equal(t, c.urgent, urgent)
		rw.Unlock()
		call.wait(t, "the waiter gets the lock")
		c.release(&rw)
		requireRest(t, &rw)
	}
}
