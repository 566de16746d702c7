//go:build race

// Race runs one of the programs in programs.go with one of the locks, under
// the race detector. The detector's report ends it with status 66.
//
//	race LOCK PROGRAM
//	race list
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rwsem/rwsem"
)

// A locker is what the programs use of a lock.
type locker interface {
	Lock()
	Unlock()
	RLock()
	RUnlock()
	TryLock() bool
	TryRLock() bool
	RLocker() sync.Locker

	LockUrgent()
	Downgrade()
	LockContext(context.Context) error
	RLockContext(context.Context) error
	TryLockFor(time.Duration) bool
	TryRLockFor(time.Duration) bool
	SetReaderSpin(time.Duration)

	describe()
	overwrite()
}

type rwsemLock struct{ rwsem.RWMutex }

func (l *rwsemLock) describe()  { _ = rwsem.Describe(&l.RWMutex) }
func (l *rwsemLock) overwrite() { l.RWMutex = rwsem.RWMutex{} }

// A syncLock has rwsem's further methods made of those of sync.RWMutex.
type syncLock struct{ sync.RWMutex }

func (l *syncLock) LockUrgent()                 { l.Lock() }
func (l *syncLock) SetReaderSpin(time.Duration) {}
func (l *syncLock) describe()                   {}
func (l *syncLock) overwrite()                  { l.RWMutex = sync.RWMutex{} }

func (l *syncLock) Downgrade() {
	l.Unlock()
	l.RLock()
}

func (l *syncLock) LockContext(ctx context.Context) error  { return poll(ctx, l.TryLock) }
func (l *syncLock) RLockContext(ctx context.Context) error { return poll(ctx, l.TryRLock) }

func (l *syncLock) TryLockFor(d time.Duration) bool  { return pollFor(d, l.TryLock) }
func (l *syncLock) TryRLockFor(d time.Duration) bool { return pollFor(d, l.TryRLock) }

func poll(ctx context.Context, try func() bool) error {
	for ctx.Err() == nil {
		if try() {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

func pollFor(d time.Duration, try func() bool) bool {
	for end := time.Now().Add(d); !try(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// A world is what the goroutines of a program share.
type world struct {
	locker
	step atomic.Int32
	x, y int
}

// at waits for step n, which the detector does not see: the goroutines of a
// program are ordered in time by nothing but the lock under test.
func (w *world) at(n int32) {
	runtime.RaceDisable()
	for w.step.Load() < n {
		runtime.Gosched()
	}
	runtime.RaceEnable()
}

// done ends step n-1.
func (w *world) done(n int32) {
	runtime.RaceDisable()
	w.step.Store(n)
	runtime.RaceEnable()
}

// rest gives the other goroutines the time to go to sleep in a call.
func rest() { time.Sleep(20 * time.Millisecond) }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		for _, p := range programs {
			fmt.Println(p.verdict, p.name)
		}
		return
	}
	w := &world{}
	switch os.Args[1] {
	case "rwsem":
		w.locker = new(rwsemLock)
	case "sync":
		w.locker = new(syncLock)
	default:
		panic("unknown lock " + os.Args[1])
	}
	for _, p := range programs {
		if p.name != os.Args[2] {
			continue
		}
		var wg sync.WaitGroup
		for _, f := range p.goroutines {
			wg.Go(func() { f(w) })
		}
		wg.Wait()
		fmt.Println("finished")
		return
	}
	panic("unknown program " + os.Args[2])
}
