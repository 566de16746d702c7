//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package main

import (
	_ "unsafe" // for go:linkname

	"github.com/rwsem/rwsem"
)

// The two forms of TryRLock, of which the package exports the one that its
// architecture has by measurement.

//go:linkname tryRLockLoad github.com/rwsem/rwsem.tryRLock
//go:noescape
func tryRLockLoad(rw *rwsem.RWMutex) bool

//go:linkname tryRLockExpect github.com/rwsem/rwsem.tryRLockExpect
//go:noescape
func tryRLockExpect(rw *rwsem.RWMutex) bool

// tryForms are locks whose mixed loop tries to read-lock, in one of the forms,
// free and with a reader that stays.
var tryForms = []lockKind{
	{key: tryLoadLock, name: "TryRLock, load first", fresh: func() target { return new(tryLoadLoops) }},
	{key: tryExpectLock, name: "TryRLock, expect unlocked", fresh: func() target { return new(tryExpectLoops) }},
	{key: tryLoadHeldLock, name: "TryRLock with a reader, load first", fresh: func() target {
		l := new(tryLoadLoops)
		l.mu.RLock()
		return l
	}},
	{key: tryExpectHeldLock, name: "TryRLock with a reader, expect unlocked", fresh: func() target {
		l := new(tryExpectLoops)
		l.mu.RLock()
		return l
	}},
}

// tryBatch is how many tries are between two looks at whether to stop.
const tryBatch = 64

type (
	tryLoadLoops   struct{ rwsemLoops }
	tryExpectLoops struct{ rwsemLoops }
)

// The loops differ in nothing but the call.

func (l *tryLoadLoops) mixed(w *worker) {
	ops := uint64(0)
	for !w.stop.set.Load() {
		for range tryBatch {
			if tryRLockLoad(&l.mu) {
				l.mu.RUnlock()
				ops++
			}
		}
	}
	w.ops = ops
}

func (l *tryExpectLoops) mixed(w *worker) {
	ops := uint64(0)
	for !w.stop.set.Load() {
		for range tryBatch {
			if tryRLockExpect(&l.mu) {
				l.mu.RUnlock()
				ops++
			}
		}
	}
	w.ops = ops
}
