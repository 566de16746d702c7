package main

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// soakLock is a lock with all of rwsem's calls.
type soakLock interface {
	RLock()
	RUnlock()
	Lock()
	Unlock()
	TryRLock() bool
	TryLock() bool
	TryRLockFor(time.Duration) bool
	TryLockFor(time.Duration) bool
	RLockContext(context.Context) error
	LockContext(context.Context) error
	LockUrgent()
	Downgrade()
	RLocker() sync.Locker
	SetReaderSpin(time.Duration)
	describe() string
}

// soakCalls are all ways to take the lock. take reports whether it has it.
var soakCalls = [...]struct {
	name    string
	write   bool
	mayFail bool
	take    func(soakLock, context.Context, time.Duration) bool
}{
	callRLock:        {"RLock", false, false, func(l soakLock, _ context.Context, _ time.Duration) bool { l.RLock(); return true }},
	callRLocker:      {"RLocker", false, false, func(l soakLock, _ context.Context, _ time.Duration) bool { l.RLocker().Lock(); return true }},
	callTryRLock:     {"TryRLock", false, true, func(l soakLock, _ context.Context, _ time.Duration) bool { return l.TryRLock() }},
	callTryRLockFor:  {"TryRLockFor", false, true, func(l soakLock, _ context.Context, d time.Duration) bool { return l.TryRLockFor(d) }},
	callRLockContext: {"RLockContext", false, true, func(l soakLock, ctx context.Context, _ time.Duration) bool { return l.RLockContext(ctx) == nil }},
	callLock:         {"Lock", true, false, func(l soakLock, _ context.Context, _ time.Duration) bool { l.Lock(); return true }},
	callLockUrgent:   {"LockUrgent", true, false, func(l soakLock, _ context.Context, _ time.Duration) bool { l.LockUrgent(); return true }},
	callTryLock:      {"TryLock", true, true, func(l soakLock, _ context.Context, _ time.Duration) bool { return l.TryLock() }},
	callTryLockFor:   {"TryLockFor", true, true, func(l soakLock, _ context.Context, d time.Duration) bool { return l.TryLockFor(d) }},
	callLockContext:  {"LockContext", true, true, func(l soakLock, ctx context.Context, _ time.Duration) bool { return l.LockContext(ctx) == nil }},
}

const (
	callRLock = iota
	callRLocker
	callTryRLock
	callTryRLockFor
	callRLockContext
	callLock
	callLockUrgent
	callTryLock
	callTryLockFor
	callLockContext
	numSoakCalls
)

// guarded is a lock with what it guards. The counters of who is inside would
// order what only the lock is to order, so not every lock has them; those that
// have not are judged by their data.
type guarded struct {
	soakLock
	watched          bool
	readers, writers atomic.Int32 // who is inside

	// Changed by writers, each of which adds 1 to all, compared by all.
	writes uint64
	words  [6]uint64
}

// enter begins a section, and describes what is wrong if it is not to be there.
func (g *guarded) enter(write bool) (wrong string) {
	if g.watched {
		var r, w int32
		if write {
			w, r = g.writers.Add(1), g.readers.Load()
		} else {
			r, w = g.readers.Add(1), g.writers.Load()
		}
		if write && (w != 1 || r != 0) || !write && w != 0 {
			return fmt.Sprintf("%d writers and %d readers inside", w, r)
		}
	}
	return g.compare(g.writes)
}

// change is what a writer writes, in the middle of which it stays.
func (g *guarded) change(stay func()) (wrong string) {
	n := g.writes
	g.writes++
	stay()
	for i := range g.words {
		g.words[i]++
	}
	return g.compare(n + 1)
}

// compare describes what is wrong with the data if not n writers have been there.
func (g *guarded) compare(n uint64) (wrong string) {
	if g.writes != n {
		return fmt.Sprintf("%d writes where there were %d", g.writes, n)
	}
	for _, word := range g.words {
		if word != n {
			return fmt.Sprintf("the data say %v after %d writes", g.words, n)
		}
	}
	return ""
}

// leave ends a section, before its lock is released.
func (g *guarded) leave(write bool) {
	switch {
	case !g.watched:
	case write:
		g.writers.Add(-1)
	default:
		g.readers.Add(-1)
	}
}

// lower makes the writer inside a reader.
func (g *guarded) lower() {
	if g.watched {
		g.writers.Add(-1)
		g.readers.Add(1)
	}
	g.Downgrade()
}

// release ends a section with the lock.
func (g *guarded) release(write bool, viaLocker bool) {
	g.leave(write)
	switch {
	case write:
		g.Unlock()
	case viaLocker:
		g.RLocker().Unlock()
	default:
		g.RUnlock()
	}
}

// atRest matches the description of a lock that nobody has to do with.
var atRest = regexp.MustCompile(`^unlocked, owner [^,]*, 0 readers, no waiters$`)

// rest describes what is wrong with a lock that nobody uses any more and that
// was locked for writing so often.
func (g *guarded) rest(writes uint64) (wrong string) {
	if d := g.describe(); !atRest.MatchString(d) {
		return "not at rest: " + d
	}
	return g.compare(writes)
}
