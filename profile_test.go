package rwsem

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waits are the calls that can sleep, the state in which a goroutine dump has
// to show them, and what their waiting ends with.
var waits = []struct {
	name, state string
	lock        func(*RWMutex)
	unlock      func(*RWMutex)
}{
	{"Lock", lockState, (*RWMutex).Lock, (*RWMutex).Unlock},
	{"LockUrgent", lockState, (*RWMutex).LockUrgent, (*RWMutex).Unlock},
	{"LockContext", lockState, func(rw *RWMutex) { _ = rw.LockContext(context.Background()) }, (*RWMutex).Unlock},
	{"TryLockFor", lockState, func(rw *RWMutex) { rw.TryLockFor(time.Hour) }, (*RWMutex).Unlock},
	{"RLock", rlockState, (*RWMutex).RLock, (*RWMutex).RUnlock},
	{"RLockContext", rlockState, func(rw *RWMutex) { _ = rw.RLockContext(context.Background()) }, (*RWMutex).RUnlock},
	{"TryRLockFor", rlockState, func(rw *RWMutex) { rw.TryRLockFor(time.Hour) }, (*RWMutex).RUnlock},
}

// waitInProfile waits for a lock; its name is looked for in dumps.
//
//go:noinline
func waitInProfile(lock, unlock func(*RWMutex), rw *RWMutex) {
	lock(rw)
	unlock(rw)
}

// sleepsInProfile reports whether a dump shows waitInProfile in a call of the
// lock that sleeps in the given state.
func sleepsInProfile(state string) bool {
	g := regexp.MustCompile(`(?s)^goroutine \d+ \[` + regexp.QuoteMeta(state) +
		`[^]]*\]:\n.*rwsem\.\(\*RWMutex\)\..*rwsem\.waitInProfile\(`)
	return slices.ContainsFunc(strings.Split(allStacks(), "\n\n"), g.MatchString)
}

func TestGoroutineDump(t *testing.T) {
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			var rw RWMutex
			rw.Lock()
			done := start(func() { waitInProfile(w.lock, w.unlock, &rw) })
			await(t, &rw, "somebody to sleep", func() bool { r, w := queued(&rw); return r+w == 1 })

			// It is in the queue a moment before it sleeps.
			await(t, &rw, "the dump to show "+w.state, func() bool { return sleepsInProfile(w.state) })

			var profile bytes.Buffer
			require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
			assert.Regexp(t, `(?s)`+sleepFrame+`.*rwsem\.\(\*RWMutex\)\..*rwsem\.waitInProfile\+`, profile.String())

			profile.Reset()
			require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 2))
			assert.Contains(t, profile.String(), "["+w.state)

			rw.Unlock()
			awaitDone(t, &rw, w.name, done)
			requireAtRest(t, &rw)
		})
	}
}

// stacksOf returns the stacks of a block or mutex profile that contain name,
// and the number of events there.
func stacksOf(t *testing.T, records func([]runtime.BlockProfileRecord) (int, bool), name string) (stacks []string, events int64) {
	t.Helper()
	p := make([]runtime.BlockProfileRecord, 10_000)
	n, ok := records(p)
	require.True(t, ok)
	for _, r := range p[:n] {
		var stack strings.Builder
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			stack.WriteString(f.Function + "\n")
			if !more {
				break
			}
		}
		if strings.Contains(stack.String(), name) && r.Cycles > 0 && r.Count > 0 {
			stacks = append(stacks, stack.String())
			events += r.Count
		}
	}
	return stacks, events
}

// TestContentionProfiles has each call wait once and looks for it in the block
// profile, and for who made it wait in the mutex profile.
func TestContentionProfiles(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	old := runtime.SetMutexProfileFraction(1)
	defer runtime.SetMutexProfileFraction(old)
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			_, blockedBefore := stacksOf(t, runtime.BlockProfile, "rwsem.waitInProfile")
			_, heldBefore := stacksOf(t, runtime.MutexProfile, "rwsem.unlockInProfile")

			var rw RWMutex
			rw.Lock()
			done := start(func() { waitInProfile(w.lock, w.unlock, &rw) })
			await(t, &rw, "the dump to show "+w.state, func() bool { return sleepsInProfile(w.state) })
			unlockInProfile(&rw)
			awaitDone(t, &rw, w.name, done)

			stacks, blocked := stacksOf(t, runtime.BlockProfile, "rwsem.waitInProfile")
			assert.Greater(t, blocked, blockedBefore)
			for _, s := range stacks {
				assert.Regexp(t, `(?s)rwsem\.\(\*RWMutex\)\..*rwsem\.waitInProfile`, s)
			}
			stacks, held := stacksOf(t, runtime.MutexProfile, "rwsem.unlockInProfile")
			assert.Greater(t, held, heldBefore)
			for _, s := range stacks {
				assert.Regexp(t, `(?s)rwsem\.\(\*RWMutex\)\..*rwsem\.unlockInProfile`, s)
			}
		})
	}
}

// unlockInProfile is who made others wait.
//
//go:noinline
func unlockInProfile(rw *RWMutex) { rw.Unlock() }
