package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestFastPathsDoNotAllocate(t *testing.T) {
	var rw RWMutex
	l := rw.RLocker()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, f := range map[string]func(){
		"RLock":        func() { rw.RLock(); rw.RUnlock() },
		"Lock":         func() { rw.Lock(); rw.Unlock() },
		"LockUrgent":   func() { rw.LockUrgent(); rw.Unlock() },
		"Downgrade":    func() { rw.Lock(); rw.Downgrade(); rw.RUnlock() },
		"TryRLock":     func() { rw.TryRLock(); rw.RUnlock() },
		"TryLock":      func() { rw.TryLock(); rw.TryLock(); rw.TryRLock(); rw.Unlock() },
		"RLocker":      func() { l.Lock(); l.Unlock(); _ = rw.RLocker() },
		"TryLockFor":   func() { rw.TryLockFor(time.Second); rw.TryRLockFor(0); rw.Unlock() },
		"TryRLockFor":  func() { rw.TryRLockFor(time.Second); rw.TryLockFor(-1); rw.RUnlock() },
		"LockContext":  func() { _ = rw.LockContext(ctx); rw.Unlock() },
		"RLockContext": func() { _ = rw.RLockContext(ctx); rw.RUnlock() },
		"ReadEvents":   func() { _ = ReadEvents() },
		"SetReaderSpin": func() {
			rw.SetReaderSpin(0)
			rw.SetReaderSpin(-1)
		},
	} {
		n := testing.AllocsPerRun(1000, f)
		if raceEnabled && debugEnabled {
			continue // sync.Pool drops some of what it is given
		}
		assert.Zero(t, n, name)
	}
}

// sleepOften has a goroutine sleep n times in lock, and returns how many
// objects were allocated meanwhile.
func sleepOften(t *testing.T, n int, lock, unlock func(*RWMutex)) uint64 {
	var rw RWMutex
	begin, done := make(chan struct{}), make(chan struct{})
	go func() {
		for range begin {
			lock(&rw)
			unlock(&rw)
			done <- struct{}{}
		}
	}()
	defer close(begin)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.Mallocs
	for range n {
		rw.Lock()
		begin <- struct{}{}
		for end := time.Now().Add(tooLong); ; runtime.Gosched() {
			if r, w := queued(&rw); r+w == 1 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("nobody sleeps")
			}
		}
		rw.Unlock()
		<-done
	}
	runtime.ReadMemStats(&m)
	return m.Mallocs - before
}

func TestSlowPathsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		// sync.Pool drops some of what it is given there.
		t.Log("race build: only the calls are made")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools
	const n = 2000
	for name, f := range map[string]struct{ lock, unlock func(*RWMutex) }{
		"Lock":       {(*RWMutex).Lock, (*RWMutex).Unlock},
		"LockUrgent": {(*RWMutex).LockUrgent, (*RWMutex).Unlock},
		"RLock":      {(*RWMutex).RLock, (*RWMutex).RUnlock},
	} {
		sleepOften(t, 100, f.lock, f.unlock)
		got := sleepOften(t, n, f.lock, f.unlock)
		if !raceEnabled {
			// The runtime has a few of its own.
			assert.Less(t, got, uint64(n/20), "%s: objects in %d sleeps", name, n)
		}
	}
}
