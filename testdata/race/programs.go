//go:build race

package main

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	racy  = "racy"
	clean = "clean"
)

// programs name what they show and the verdict that is due.
var programs = []struct {
	name, verdict string
	goroutines    []func(*world)
}{
	{"writer before writer", clean, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.x = 2; w.Unlock() },
	}},
	{"writer before reader", clean, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
	}},
	{"writer before reader that does not lock", racy, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); _ = w.x },
	}},
	{"reader before writer", clean, []func(*world){
		func(w *world) { w.RLock(); _ = w.x; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.x = 1; w.Unlock() },
	}},
	{"several readers before writer", clean, []func(*world){
		func(w *world) {
			w.RLock()
			w.x = 1
			w.done(1)
			w.at(2)
			w.RUnlock()
			w.done(3)
		},
		func(w *world) { w.at(1); w.RLock(); w.y = 1; w.RUnlock(); w.done(2) },
		func(w *world) { w.at(3); w.Lock(); w.x, w.y = 2, 2; w.Unlock() },
	}},
	{"reader before reader", racy, []func(*world){
		func(w *world) { w.RLock(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.RLock(); w.x = 2; w.RUnlock() },
	}},
	{"reader beside reader", racy, []func(*world){
		func(w *world) { w.RLock(); w.x = 1; w.done(1); w.at(2); w.RUnlock() },
		func(w *world) { w.at(1); w.RLock(); w.x = 2; w.RUnlock(); w.done(2) },
	}},
	{"writer between readers", clean, []func(*world){
		func(w *world) { w.RLock(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.Unlock(); w.done(2) },
		func(w *world) { w.at(2); w.RLock(); w.x = 2; w.RUnlock() },
	}},
	{"unlocked by another goroutine", racy, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.done(1) },
		func(w *world) { w.at(1); w.Unlock(); w.done(2) },
		func(w *world) { w.at(2); w.Lock(); w.x = 2; w.Unlock() },
	}},
	{"RLocker before writer", clean, []func(*world){
		func(w *world) { l := w.RLocker(); l.Lock(); w.x = 1; l.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.x = 2; w.Unlock() },
	}},
	{"RLocker before RLocker", racy, []func(*world){
		func(w *world) { l := w.RLocker(); l.Lock(); w.x = 1; l.Unlock(); w.done(1) },
		func(w *world) { w.at(1); l := w.RLocker(); l.Lock(); w.x = 2; l.Unlock() },
	}},

	// Calls that sleep.
	{"writer that slept", clean, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.x = 1; w.Unlock() },
		func(w *world) { w.at(1); w.Lock(); w.x = 2; w.Unlock() },
		func(w *world) { w.at(1); w.Lock(); w.x = 3; w.Unlock() },
	}},
	{"writer that slept behind readers", clean, []func(*world){
		func(w *world) { w.RLock(); w.done(1); rest(); w.x = 1; w.RUnlock() },
		func(w *world) { w.at(1); w.Lock(); w.x = 2; w.Unlock() },
		func(w *world) { w.at(1); w.Lock(); w.x = 3; w.Unlock() },
	}},
	{"readers that slept", clean, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.x = 1; w.Unlock() },
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
	}},
	{"readers that slept and write", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.Unlock() },
		func(w *world) { w.at(1); w.RLock(); w.x = 1; w.RUnlock() },
		func(w *world) { w.at(1); w.RLock(); w.x = 2; w.RUnlock() },
		func(w *world) { w.at(1); w.RLock(); w.x = 3; w.RUnlock() },
	}},
	{"all calls at once", clean, []func(*world){
		mixed, mixed, mixed, mixed, mixed, mixed, mixed, mixed,
	}},

	// Downgrade.
	{"downgrade before reader", clean, []func(*world){
		func(w *world) {
			w.Lock()
			w.x = 1
			w.Downgrade()
			w.done(1)
			w.at(2)
			w.RUnlock()
		},
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock(); w.done(2) },
	}},
	{"downgrade before readers that slept", clean, []func(*world){
		func(w *world) {
			w.Lock()
			w.done(1)
			rest()
			w.x = 1
			w.Downgrade()
			w.RUnlock()
		},
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
	}},
	{"write after downgrade", racy, []func(*world){
		func(w *world) { w.Lock(); w.Downgrade(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
	}},
	{"write after downgrade before writer", clean, []func(*world){
		func(w *world) { w.Lock(); w.Downgrade(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); _ = w.x; w.Unlock() },
	}},
	{"reader before writer that downgrades", clean, []func(*world){
		func(w *world) { w.RLock(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) {
			w.at(1)
			w.Lock()
			w.x = 2
			w.Downgrade()
			w.x = 3
			w.RUnlock()
		},
	}},

	// Tries.
	{"writer before TryLock", clean, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.TryLock()); w.x = 2; w.Unlock() },
	}},
	{"writer before TryRLock", clean, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.TryRLock()); _ = w.x; w.RUnlock() },
	}},
	{"reader before TryLock", clean, []func(*world){
		func(w *world) { w.RLock(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.TryLock()); w.x = 2; w.Unlock() },
	}},
	{"reader before TryRLock", racy, []func(*world){
		func(w *world) { w.RLock(); w.x = 1; w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.TryRLock()); w.x = 2; w.RUnlock() },
	}},
	{"TryLock before TryLock", clean, []func(*world){
		func(w *world) { must(w.TryLock()); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.TryLock()); w.x = 2; w.Unlock() },
	}},
	{"TryLock that fails acquires nothing", racy, []func(*world){
		relocked,
		func(w *world) { w.at(1); must(!w.TryLock()); w.done(2); _ = w.x },
	}},
	{"TryRLock that fails acquires nothing", racy, []func(*world){
		relocked,
		func(w *world) { w.at(1); must(!w.TryRLock()); w.done(2); _ = w.x },
	}},
	{"TryLock that fails releases nothing", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); w.at(2); w.Unlock(); w.done(3) },
		func(w *world) { w.at(1); w.x = 1; must(!w.TryLock()); w.done(2) },
		func(w *world) { w.at(3); w.Lock(); _ = w.x; w.Unlock() },
	}},
	{"TryRLock that fails releases nothing", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); w.at(2); w.Unlock(); w.done(3) },
		func(w *world) { w.at(1); w.x = 1; must(!w.TryRLock()); w.done(2) },
		func(w *world) { w.at(3); w.Lock(); _ = w.x; w.Unlock() },
	}},

	// Calls with a time or a context.
	{"TryLockFor that succeeds", clean, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.x = 1; w.Unlock() },
		func(w *world) { w.at(1); must(w.TryLockFor(time.Minute)); w.x = 2; w.Unlock() },
	}},
	{"TryRLockFor that succeeds", clean, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.x = 1; w.Unlock() },
		func(w *world) { w.at(1); must(w.TryRLockFor(time.Minute)); _ = w.x; w.RUnlock() },
	}},
	{"TryRLockFor beside TryRLockFor", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.Unlock() },
		func(w *world) { w.at(1); must(w.TryRLockFor(time.Minute)); w.x = 1; w.RUnlock() },
		func(w *world) { w.at(1); must(w.TryRLockFor(time.Minute)); w.x = 2; w.RUnlock() },
	}},
	{"TryLockFor that fails acquires nothing", racy, []func(*world){
		relocked,
		func(w *world) { w.at(1); must(!w.TryLockFor(5 * time.Millisecond)); w.done(2); _ = w.x },
	}},
	{"TryRLockFor that fails acquires nothing", racy, []func(*world){
		relocked,
		func(w *world) { w.at(1); must(!w.TryRLockFor(5 * time.Millisecond)); w.done(2); _ = w.x },
	}},
	{"LockContext on a free lock", clean, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.LockContext(context.Background()) == nil); w.x = 2; w.Unlock() },
	}},
	{"RLockContext on a free lock", clean, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.RLockContext(context.Background()) == nil); _ = w.x; w.RUnlock() },
	}},
	{"LockContext that slept", clean, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.x = 1; w.Unlock() },
		func(w *world) { w.at(1); must(w.LockContext(context.Background()) == nil); w.x = 2; w.Unlock() },
		func(w *world) { w.at(1); must(w.LockContext(context.Background()) == nil); w.x = 3; w.Unlock() },
	}},
	{"RLockContext that slept", clean, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.x = 1; w.Unlock() },
		func(w *world) { w.at(1); must(w.RLockContext(context.Background()) == nil); _ = w.x; w.RUnlock() },
	}},
	{"RLockContext beside RLockContext", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); rest(); w.Unlock() },
		func(w *world) { w.at(1); must(w.RLockContext(context.Background()) == nil); w.x = 1; w.RUnlock() },
		func(w *world) { w.at(1); must(w.RLockContext(context.Background()) == nil); w.x = 2; w.RUnlock() },
	}},
	{"LockContext that is cancelled acquires nothing", racy, []func(*world){
		relocked,
		func(w *world) { w.at(1); timeout(w.LockContext); w.done(2); _ = w.x },
	}},
	{"RLockContext that is cancelled acquires nothing", racy, []func(*world){
		relocked,
		func(w *world) { w.at(1); timeout(w.RLockContext); w.done(2); _ = w.x },
	}},
	{"LockContext that is cancelled releases nothing", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); w.at(2); w.Unlock(); w.done(3) },
		func(w *world) { w.at(1); w.x = 1; timeout(w.LockContext); w.done(2) },
		func(w *world) { w.at(3); w.Lock(); _ = w.x; w.Unlock() },
	}},
	{"heir of a cancelled writer", clean, []func(*world){
		func(w *world) {
			w.Lock()
			w.x = 1
			w.Downgrade()
			w.done(1)
			w.at(3)
			w.RUnlock()
		},
		func(w *world) { w.at(1); timeout(w.LockContext); w.done(3) },
		func(w *world) { w.at(1); time.Sleep(2 * time.Millisecond); w.RLock(); _ = w.x; w.RUnlock() },
	}},
	{"LockUrgent", clean, []func(*world){
		func(w *world) { w.RLock(); w.done(1); rest(); w.x = 1; w.RUnlock() },
		func(w *world) { w.at(1); w.LockUrgent(); w.x = 2; w.Unlock() },
		func(w *world) { w.at(1); w.LockUrgent(); w.x = 3; w.Unlock() },
	}},

	// Calls that take no lock.
	{"Describe acquires nothing", racy, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.describe(); _ = w.x },
	}},
	{"SetReaderSpin acquires nothing", racy, []func(*world){
		func(w *world) { w.Lock(); w.x = 1; w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.SetReaderSpin(-1); _ = w.x },
	}},
	{"SetReaderSpin releases nothing", racy, []func(*world){
		func(w *world) { w.x = 1; w.SetReaderSpin(-1); w.done(1) },
		func(w *world) { w.at(1); w.RLock(); _ = w.x; w.RUnlock() },
	}},

	// The lock's memory.
	{"overwritten while read-locked", racy, []func(*world){
		func(w *world) { w.RLock(); w.done(1); w.at(2) },
		func(w *world) { w.at(1); w.overwrite(); w.done(2) },
	}},
	{"overwritten while write-locked", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1); w.at(2) },
		func(w *world) { w.at(1); w.overwrite(); w.done(2) },
	}},
	{"overwritten before RLock", racy, []func(*world){
		func(w *world) { w.overwrite(); w.done(1) },
		func(w *world) { w.at(1); w.RLock(); w.RUnlock() },
	}},
	{"overwritten before Lock", racy, []func(*world){
		func(w *world) { w.overwrite(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.Unlock() },
	}},
	{"overwritten before TryLock", racy, []func(*world){
		func(w *world) { w.overwrite(); w.done(1) },
		func(w *world) { w.at(1); w.TryLock() },
	}},
	{"overwritten before TryRLock", racy, []func(*world){
		func(w *world) { w.overwrite(); w.done(1) },
		func(w *world) { w.at(1); w.TryRLock() },
	}},
	{"overwritten after Unlock", racy, []func(*world){
		func(w *world) { w.Lock(); w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.overwrite() },
	}},
	{"overwritten after RUnlock", racy, []func(*world){
		func(w *world) { w.RLock(); w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.overwrite() },
	}},
	{"overwritten by who locked it last", clean, []func(*world){
		func(w *world) { w.Lock(); w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.overwrite() },
	}},
	{"overwritten by a writer after a reader", clean, []func(*world){
		func(w *world) { w.RLock(); w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.overwrite() },
	}},
	{"overwritten by a writer after Downgrade", clean, []func(*world){
		func(w *world) { w.Lock(); w.Downgrade(); w.RUnlock(); w.done(1) },
		func(w *world) { w.at(1); w.Lock(); w.overwrite() },
	}},
	{"overwritten by who locked it after LockContext", clean, []func(*world){
		func(w *world) { must(w.LockContext(context.Background()) == nil); w.Unlock(); w.done(1) },
		func(w *world) { w.at(1); must(w.LockContext(context.Background()) == nil); w.overwrite() },
	}},
	{"overwritten after TryLock that failed", racy, []func(*world){
		func(w *world) { w.Lock(); w.done(1) },
		func(w *world) { w.at(1); w.TryLock(); w.done(2) },
		func(w *world) { w.at(2); w.overwrite() },
	}},
	{"overwritten after a context ended late", clean, []func(*world){late(func(w *world, ctx context.Context) bool {
		return w.LockContext(ctx) == nil
	})}},
	{"overwritten after a time ended late", clean, []func(*world){late(func(w *world, _ context.Context) bool {
		return w.TryLockFor(20 * time.Microsecond)
	})}},
	{"overwritten by who used it alone", clean, []func(*world){
		func(w *world) {
			w.Lock()
			w.Unlock()
			w.RLock()
			w.RUnlock()
			w.overwrite()
			w.Lock()
			w.Unlock()
		},
	}},
}

// relocked releases x in one section and holds the lock in the next, so that
// a call that fails would order x if it acquired anything.
func relocked(w *world) {
	w.Lock()
	w.x = 1
	w.Unlock()
	w.Lock()
	w.done(1)
	w.at(2)
	w.Unlock()
}

// late has a wait end just as the lock is unlocked, and overwrites the lock
// when nobody uses it any more.
func late(lock func(*world, context.Context) bool) func(*world) {
	return func(w *world) {
		for i := range 300 {
			ctx, cancel := context.WithCancel(context.Background())
			w.Lock()
			var wg sync.WaitGroup
			wg.Go(func() {
				for range i % 50 {
					runtime.Gosched()
				}
				cancel()
				w.Unlock()
			})
			if lock(w, ctx) {
				w.Unlock()
			}
			wg.Wait()
			w.overwrite()
		}
	}
}

func timeout(lock func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	must(lock(ctx) == context.DeadlineExceeded)
}

// mixed makes every call of a correct program on x.
func mixed(w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range 400 {
		switch i % 10 {
		case 0:
			w.Lock()
		case 1:
			w.LockUrgent()
		case 2:
			if w.LockContext(ctx) != nil {
				continue
			}
		case 3:
			if !w.TryLock() {
				continue
			}
		case 4:
			if !w.TryLockFor(50 * time.Microsecond) {
				continue
			}
		case 5:
			w.Lock()
			w.x++
			w.Downgrade()
			_ = w.x
			w.RUnlock()
			continue
		case 6:
			w.RLock()
			_ = w.x
			w.RUnlock()
			continue
		case 7:
			if w.RLockContext(ctx) == nil {
				_ = w.x
				w.RUnlock()
			}
			continue
		case 8:
			if w.TryRLockFor(50 * time.Microsecond) {
				_ = w.x
				w.RUnlock()
			}
			continue
		case 9:
			w.describe()
			continue
		}
		w.x++
		if i%7 == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		w.Unlock()
	}
}

func must(ok bool) {
	if !ok {
		panic("the program does not show what it is for")
	}
}
