package rwsem

import "sync/atomic"

// Events are counts of what happened on the slow paths of all locks since the
// program started, by the names under which the kernel publishes them. The
// fast paths count nothing.
type Events struct {
	SleepReader  uint64 // readers that slept
	SleepWriter  uint64 // writers that slept
	WakeReader   uint64 // readers woken
	WakeWriter   uint64 // writers woken
	OptRLock     uint64 // read locks taken by optimistic spinning
	OptWLock     uint64 // write locks taken by optimistic spinning
	OptFail      uint64 // optimistic spinning that ended without the lock
	OptNoSpin    uint64 // writers that did not spin since readers were marked nonspinnable
	OptNoRSpin   uint64 // readers that did not spin since spinning was disabled for them
	RLock        uint64 // read locks granted to or taken by queued readers
	RLockFast    uint64 // read locks taken on the slow path with nobody queued
	RLockFail    uint64 // queued readers that left without the lock
	RLockHandoff uint64 // times a reader set handoff
	RLockSteal   uint64 // read locks taken past waiters on the slow path
	WLock        uint64 // write locks granted to or taken by queued writers
	WLockFail    uint64 // queued writers that left without the lock
	WLockHandoff uint64 // times a writer set handoff
}

type event int

const (
	evSleepReader event = iota
	evSleepWriter
	evWakeReader
	evWakeWriter
	evOptRLock
	evOptWLock
	evOptFail
	evOptNoSpin
	evOptNoRSpin
	evRLock
	evRLockFast
	evRLockFail
	evRLockHandoff
	evRLockSteal
	evWLock
	evWLockFail
	evWLockHandoff
	numEvents
)

// eventShards keeps processors from counting in the same cache line.
const eventShards = 16

var events [eventShards]struct {
	n [numEvents]atomic.Uint64
	_ [64]byte
}

// tally counts one e. Relaxed: the counts order nothing.
func tally(e event) { events[shardHint()%eventShards].n[e].Add(1) }

// tallyBy counts r for readers and w for writers.
func tallyBy(reader bool, r, w event) {
	if reader {
		tally(r)
	} else {
		tally(w)
	}
}

// ReadEvents returns the counts. They are read one after the other while
// others go on counting.
func ReadEvents() Events {
	var n [numEvents]uint64
	for i := range events {
		for e := range n {
			n[e] += events[i].n[e].Load()
		}
	}
	return Events{
		SleepReader:  n[evSleepReader],
		SleepWriter:  n[evSleepWriter],
		WakeReader:   n[evWakeReader],
		WakeWriter:   n[evWakeWriter],
		OptRLock:     n[evOptRLock],
		OptWLock:     n[evOptWLock],
		OptFail:      n[evOptFail],
		OptNoSpin:    n[evOptNoSpin],
		OptNoRSpin:   n[evOptNoRSpin],
		RLock:        n[evRLock],
		RLockFast:    n[evRLockFast],
		RLockFail:    n[evRLockFail],
		RLockHandoff: n[evRLockHandoff],
		RLockSteal:   n[evRLockSteal],
		WLock:        n[evWLock],
		WLockFail:    n[evWLockFail],
		WLockHandoff: n[evWLockHandoff],
	}
}
