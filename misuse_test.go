//go:build !js

package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// misuseEnv names the misuse that a child process is to make.
const misuseEnv = "RWSEM_TEST_MISUSE"

const (
	misuseRUnlock   = "fatal error: rwsem: RUnlock of unlocked RWMutex"
	misuseUnlock    = "fatal error: rwsem: Unlock of unlocked RWMutex"
	misuseDowngrade = "fatal error: rwsem: Downgrade of RWMutex not locked for writing"
)

var misuses = []struct {
	name, message string
	prepare       func(*testing.T, *RWMutex)
	misuse        func(*RWMutex)
}{
	{"RUnlock, new", misuseRUnlock, nil, (*RWMutex).RUnlock},
	{"Unlock, new", misuseUnlock, nil, (*RWMutex).Unlock},
	{"Downgrade, new", misuseDowngrade, nil, (*RWMutex).Downgrade},
	{"RLocker, new", misuseRUnlock, nil, func(rw *RWMutex) { rw.RLocker().Unlock() }},

	{"Unlock, os.Stderr is another", misuseUnlock, func(*testing.T, *RWMutex) { os.Stderr = nil }, (*RWMutex).Unlock},

	{"RUnlock, used", misuseRUnlock, useLock, (*RWMutex).RUnlock},
	{"Unlock, used", misuseUnlock, useLock, (*RWMutex).Unlock},
	{"Downgrade, used", misuseDowngrade, useLock, (*RWMutex).Downgrade},

	{"RUnlock, write-locked", misuseRUnlock, writeLock, (*RWMutex).RUnlock},
	{"RLocker, write-locked", misuseRUnlock, writeLock, func(rw *RWMutex) { rw.RLocker().Unlock() }},
	{"Unlock, read-locked", misuseUnlock, readLock, (*RWMutex).Unlock},
	{"Downgrade, read-locked", misuseDowngrade, readLock, (*RWMutex).Downgrade},
	{"Unlock, downgraded", misuseUnlock, downgradeLock, (*RWMutex).Unlock},
	{"Downgrade, downgraded", misuseDowngrade, downgradeLock, (*RWMutex).Downgrade},

	// Only one of them reports.
	{"Unlock, by many", misuseUnlock, nil, func(rw *RWMutex) {
		var ready atomic.Int32
		for range 4 {
			go func() {
				for ready.Add(1); ready.Load() < 4; {
					runtime.Gosched()
				}
				rw.Unlock()
			}()
		}
		time.Sleep(tooLong)
	}},

	// Somebody sleeps.
	{"RUnlock, write-locked, writer waits", misuseRUnlock, all(writeLock, writerWaits), (*RWMutex).RUnlock},
	{"RUnlock, write-locked, reader waits", misuseRUnlock, all(writeLock, readerWaits), (*RWMutex).RUnlock},
	{"RUnlock, write-locked, both wait", misuseRUnlock, all(writeLock, readerWaits, writerWaits), (*RWMutex).RUnlock},
	{"Unlock, read-locked, writer waits", misuseUnlock, all(readLock, writerWaits), (*RWMutex).Unlock},
	{"Unlock, read-locked, both wait", misuseUnlock, all(oldWaiters, readLock, writerWaits, readerWaits), (*RWMutex).Unlock},
	{"Downgrade, read-locked, writer waits", misuseDowngrade, all(readLock, writerWaits), (*RWMutex).Downgrade},
	{"Downgrade, read-locked, both wait", misuseDowngrade, all(oldWaiters, readLock, writerWaits, readerWaits), (*RWMutex).Downgrade},
	{"RUnlock, write-locked, old waiters", misuseRUnlock, all(oldWaiters, writeLock, writerWaits, readerWaits), (*RWMutex).RUnlock},

	// Readers pass that do not hold the lock, or only for a moment.
	{"RUnlock, write-locked, readers pass", misuseRUnlock, all(writeLock, readersPass), (*RWMutex).RUnlock},
	{"Unlock, readers pass", misuseUnlock, readersPass, (*RWMutex).Unlock},
	{"Downgrade, readers pass", misuseDowngrade, readersPass, (*RWMutex).Downgrade},
	{"Unlock, a reader finds it first", misuseUnlock, readLock, foundFirst(-writerLocked, unlockMisuse)},
	{"Downgrade, a reader finds it first", misuseDowngrade, readLock, foundFirst(readerBias-writerLocked, downgradeMisuse)},
	{"Unlock, a reader on its way out finds it first", misuseUnlock, nil, foundFirst(-writerLocked, unlockMisuse)},
	{"RUnlock, readers pass", misuseRUnlock, readersPass, func(rw *RWMutex) {
		// It may take another reader's share out of the count, which shows
		// when that one unlocks.
		rw.RUnlock()
		time.Sleep(tooLong)
	}},
}

func all(fs ...func(*testing.T, *RWMutex)) func(*testing.T, *RWMutex) {
	return func(t *testing.T, rw *RWMutex) {
		for _, f := range fs {
			f(t, rw)
		}
	}
}

func oldWaiters(*testing.T, *RWMutex)         { policy.handoffTime = 1 }
func writeLock(_ *testing.T, rw *RWMutex)     { rw.Lock() }
func readLock(_ *testing.T, rw *RWMutex)      { rw.RLock() }
func downgradeLock(t *testing.T, rw *RWMutex) { rw.Lock(); rw.Downgrade() }

func useLock(_ *testing.T, rw *RWMutex) {
	rw.Lock()
	rw.Unlock()
	rw.RLock()
	rw.RUnlock()
	rw.Lock()
	rw.Downgrade()
	rw.RUnlock()
}

func writerWaits(t *testing.T, rw *RWMutex) {
	r, w := queued(rw)
	go rw.Lock()
	awaitQueued(t, rw, r, w+1)
}

func readerWaits(t *testing.T, rw *RWMutex) {
	r, w := queued(rw)
	go rw.RLock()
	awaitQueued(t, rw, r+1, w)
}

// foundFirst is a call that changes the count of a lock without a writer, and is
// late to report itself: a reader that leaves meanwhile must not be blamed.
func foundFirst(change int64, report func(*RWMutex)) func(*RWMutex) {
	return func(rw *RWMutex) {
		held := rw.count.Load() != 0
		rw.count.Add(uint64(change))
		go func() {
			if held {
				rw.RUnlock()
			} else {
				rw.RLockContext(context.Background())
			}
			panic("the reader came back")
		}()
		time.Sleep(20 * time.Millisecond) // the reader may come later too
		report(rw)
	}
}

func readersPass(_ *testing.T, rw *RWMutex) {
	rw.SetReaderSpin(time.Millisecond)
	for range 4 {
		go func() {
			for {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Microsecond)
				if rw.RLockContext(ctx) == nil {
					rw.RUnlock()
				}
				cancel()
			}
		}()
	}
	time.Sleep(time.Millisecond)
}

func TestMisuse(t *testing.T) {
	if name := os.Getenv(misuseEnv); name != "" {
		misuseChild(t, name)
		return
	}
	for _, m := range misuses {
		for _, how := range []string{"plain", "recover"} {
			t.Run(m.name+", "+how, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*tooLong)
				defer cancel()
				cmd := thisTest(ctx, "-test.run=^TestMisuse$", "-test.count=1")
				cmd.Env = append(os.Environ(), misuseEnv+"="+how+":"+m.name, "GOTRACEBACK=single")
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				err := cmd.Run()

				var exit *exec.ExitError
				require.True(t, errors.As(err, &exit), "%v\n%s", err, &stdout)
				assert.Equal(t, 2, exit.ExitCode(), "%s\n%s", &stdout, &stderr)
				assert.Contains(t, strings.Split(stderr.String(), "\n"), m.message)
				assert.Equal(t, "prepared\n", stdout.String(), "the misuse came back")
				assert.NotContains(t, stderr.String(), "DATA RACE")
				assert.Contains(t, stderr.String(), m.message+"\n\ngoroutine ")
				assert.Contains(t, stderr.String(), "/misuse_test.go:", "who did it")
			})
		}
	}
}

func misuseChild(t *testing.T, name string) {
	how, name, _ := strings.Cut(name, ":")
	for _, m := range misuses {
		if m.name != name {
			continue
		}
		var rw RWMutex
		if m.prepare != nil {
			m.prepare(t, &rw)
		}
		fmt.Println("prepared")
		if how == "recover" {
			defer func() { fmt.Println("recovered", recover()) }()
		}
		m.misuse(&rw)
		fmt.Println("survived")
		return
	}
	t.Fatalf("no such misuse: %s", name)
}

// A reader that finds a count that it cannot leave waits for somebody else's report
// only where there may be one: the lock is in use meanwhile.
func TestMisuseOfOther(t *testing.T) {
	for _, m := range []struct {
		name  string
		state func(*RWMutex)
		want  bool
	}{
		{"RUnlock, nobody holds it", func(rw *RWMutex) { rw.count.Add(^uint64(readerBias - 1)) }, false},
		{"RUnlock under a writer", func(rw *RWMutex) { rw.Lock(); rw.count.Add(^uint64(readerBias - 1)) }, false},
		{"RUnlock under a writer, a reader spins", (*RWMutex).Lock, false},
		{"Unlock, nobody holds it", func(rw *RWMutex) { rw.count.Add(^uint64(0)) }, true},
		{"Unlock under a reader", func(rw *RWMutex) { rw.count.Add(readerBias); rw.count.Add(^uint64(0)) }, true},
		{"Unlock under a reader, waiters", func(rw *RWMutex) { rw.count.Add(readerBias | flagWaiters); rw.count.Add(^uint64(0)) }, !ownerInCount},
		{"Unlock under a reader, waiters, an owner word with flags", func(rw *RWMutex) {
			rw.owner.Store(readerOwned | rdNonspinnable)
			rw.count.Add(readerBias | flagWaiters)
			rw.count.Add(^uint64(0))
		}, !ownerInCount},
		{"Downgrade under a reader", func(rw *RWMutex) { rw.count.Add(2*readerBias - writerLocked) }, true},
	} {
		var rw RWMutex
		m.state(&rw)
		require.Equal(t, m.want, misuseOfOther(&rw), m.name)
	}
}
