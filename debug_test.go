//go:build rwsemdebug && !js

package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// caught are the reports of a test.
type caught struct {
	mu  sync.Mutex
	all []string
}

// catch collects the reports from here to the end of the test, which fails if
// some are left that it did not take.
func catch(t *testing.T) *caught {
	c := &caught{}
	SetDebugHandler(func(report string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, report)
	})
	t.Cleanup(func() {
		SetDebugHandler(nil)
		c.none(t)
	})
	return c
}

// take waits for a report and checks its title and what it shows.
func (c *caught) take(t *testing.T, title string, shows ...string) string {
	t.Helper()
	awaitTrue(t, "a report", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.all) > 0
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.all[0]
	c.all = c.all[1:]
	assert.Equal(t, title, strings.SplitN(r, "\n", 2)[0], r)
	for _, s := range shows {
		assert.Contains(t, r, s)
	}
	return r
}

func (c *caught) none(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Empty(t, c.all, "reports")
}

// debugChild runs a test of this binary in a process that a report has to end,
// and returns the report, and behind it what the test has printed.
func debugChild(t *testing.T, test string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	defer cancel()
	cmd := thisTest(ctx, "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(append(os.Environ(), "GOTRACEBACK=single"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "nothing was reported")
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v\n%s", err, &stdout)
	require.Equal(t, 2, exit.ExitCode(), "%s\n%s", &stdout, &stderr)
	report, fatal, ok := strings.Cut(stderr.String(), "fatal error: ")
	require.True(t, ok, "%s", &stderr)
	title, _, _ := strings.Cut(report, "\n")
	assert.True(t, strings.HasPrefix(fatal, title+"\n"), "%s", &stderr)
	return report + stdout.String()
}

// These are for their names to show in reports.

//go:noinline
func takesFirst(rw *RWMutex, lock func(*RWMutex)) { lock(rw) }

//go:noinline
func takesSecond(rw *RWMutex, lock func(*RWMutex)) { lock(rw) }

//go:noinline
func comesBetween(rw *RWMutex) { rw.Lock(); rw.Unlock() }

//go:noinline
func givesBack(rw *RWMutex, unlock func(*RWMutex)) { unlock(rw) }

//go:noinline
func givesAgain(rw *RWMutex, unlock func(*RWMutex)) { unlock(rw) }

func rlockBackground(rw *RWMutex) { _ = rw.RLockContext(context.Background()) }
func lockBackground(rw *RWMutex)  { _ = rw.LockContext(context.Background()) }

func TestDebugSelfLock(t *testing.T) {
	for _, s := range []struct {
		name, title           string
		first, second, unlock func(*RWMutex) // unlock: of first
	}{
		{"Lock, Lock", "rwsem: Lock of RWMutex that this goroutine has locked already",
			(*RWMutex).Lock, (*RWMutex).Lock, (*RWMutex).Unlock},
		{"TryLock, LockUrgent", "rwsem: Lock of RWMutex that this goroutine has locked already",
			func(rw *RWMutex) { rw.TryLock() }, (*RWMutex).LockUrgent, (*RWMutex).Unlock},
		{"TryLockFor, LockContext", "rwsem: Lock of RWMutex that this goroutine has locked already",
			func(rw *RWMutex) { rw.TryLockFor(time.Second) }, lockBackground, (*RWMutex).Unlock},
		{"RLock, Lock", "rwsem: Lock of RWMutex that this goroutine has locked for reading",
			(*RWMutex).RLock, (*RWMutex).Lock, (*RWMutex).RUnlock},
		{"RLocker, Lock", "rwsem: Lock of RWMutex that this goroutine has locked for reading",
			func(rw *RWMutex) { rw.RLocker().Lock() }, (*RWMutex).Lock, func(rw *RWMutex) { rw.RLocker().Unlock() }},
		{"TryRLockFor, Lock", "rwsem: Lock of RWMutex that this goroutine has locked for reading",
			func(rw *RWMutex) { rw.TryRLockFor(time.Second) }, (*RWMutex).Lock, (*RWMutex).RUnlock},
		{"Downgrade, Lock", "rwsem: Lock of RWMutex that this goroutine has locked for reading",
			func(rw *RWMutex) { rw.Lock(); rw.Downgrade() }, (*RWMutex).Lock, (*RWMutex).RUnlock},
		{"Lock, RLock", "rwsem: RLock of RWMutex that this goroutine has locked for writing",
			(*RWMutex).Lock, (*RWMutex).RLock, (*RWMutex).Unlock},
		{"LockContext, RLockContext", "rwsem: RLock of RWMutex that this goroutine has locked for writing",
			lockBackground, rlockBackground, (*RWMutex).Unlock},
	} {
		t.Run(s.name, func(t *testing.T) {
			reports := catch(t)
			var rw RWMutex
			done := start(func() {
				takesFirst(&rw, s.first)
				takesSecond(&rw, s.second)
			})
			reports.take(t, s.title, "rwsem.takesFirst\n", "rwsem.takesSecond\n", "debug_test.go:")
			s.unlock(&rw) // any goroutine may, and the call goes on
			awaitDone(t, &rw, "the second call", done)
		})
	}
}

// What ends by itself, or may be ended, is no deadlock.
func TestDebugSelfLockThatEnds(t *testing.T) {
	catch(t)
	var rw RWMutex
	rw.Lock()
	assert.False(t, rw.TryLock())
	assert.False(t, rw.TryRLock())
	assert.False(t, rw.TryLockFor(time.Millisecond))
	assert.False(t, rw.TryRLockFor(time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.Error(t, rw.LockContext(ctx))
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	assert.Error(t, rw.RLockContext(ctx))
	rw.Unlock()
}

// settings sets this build's policy for the rest of the test.
func settings(t *testing.T, recursive, order bool) {
	set := func(r, o bool) {
		debugMu.Lock()
		defer debugMu.Unlock()
		known.recursive, known.order = r, o
	}
	set(recursive, order)
	t.Cleanup(func() { set(false, true) })
}

func TestDebugRecursiveRead(t *testing.T) {
	for _, s := range []struct {
		name   string
		second func(*RWMutex)
	}{
		{"RLock", (*RWMutex).RLock},
		{"RLocker", func(rw *RWMutex) { rw.RLocker().Lock() }},
		{"RLockContext", rlockBackground},
		{"RLockContext that can be cancelled", func(rw *RWMutex) { _ = rw.RLockContext(t.Context()) }},
	} {
		t.Run(s.name, func(t *testing.T) {
			reports := catch(t)
			var rw RWMutex
			held, waited := make(chan struct{}), make(chan struct{})
			reader := start(func() {
				takesFirst(&rw, (*RWMutex).RLock)
				close(held)
				<-waited
				takesSecond(&rw, s.second)
				rw.RUnlock()
			})
			<-held
			rw.RLock() // another goroutine's is nothing to it
			writer := start(func() { comesBetween(&rw) })
			awaitQueued(t, &rw, 0, 1)
			rw.RUnlock()
			reports.none(t)
			close(waited)
			reports.take(t, debugRecursive, "rwsem.takesFirst\n", "rwsem.takesSecond\n", "rwsem.comesBetween\n")
			rw.RUnlock() // for the reader
			awaitDone(t, &rw, "the writer", writer)
			awaitDone(t, &rw, "the reader", reader)
		})
	}
}

// The second RLock is under way when the writer comes.
func TestDebugRecursiveReadBeforeWriter(t *testing.T) {
	reports := catch(t)
	var rw RWMutex
	takesFirst(&rw, (*RWMutex).RLock)
	var second *debugCall
	takesSecond(&rw, func(rw *RWMutex) { second = debugEnter(rw, true, debugBlocks) })
	reports.none(t)
	writer := start(func() { comesBetween(&rw) })
	reports.take(t, debugRecursive, "rwsem.takesFirst\n", "rwsem.takesSecond\n", "rwsem.comesBetween\n")
	other := start(func() { comesBetween(&rw) }) // it is known already
	awaitQueued(t, &rw, 0, 2)
	debugExit(second, false)
	rw.RUnlock()
	awaitDone(t, &rw, "the writer", writer)
	awaitDone(t, &rw, "the other writer", other)
}

func TestDebugRecursiveReadWithoutWriter(t *testing.T) {
	reports := catch(t)
	var rw RWMutex
	takesFirst(&rw, (*RWMutex).RLock)
	rw.RLock()
	rw.RUnlock()
	reports.none(t)
	settings(t, true, true)
	takesSecond(&rw, (*RWMutex).RLock)
	reports.take(t, debugRecursive, "rwsem.takesFirst\n", "rwsem.takesSecond\n")
	rw.RUnlock()
	rw.RUnlock()
}

func misuseTitle(message string) string { return strings.TrimPrefix(message, "fatal error: ") }

func TestDebugMisuse(t *testing.T) {
	nothing := func(*RWMutex) {}
	for _, s := range []struct {
		name, title            string
		lock, unlock, givesOut func(*RWMutex)
		shows                  []string
	}{
		{"Unlock, new", misuseUnlock, nothing, nothing, (*RWMutex).Unlock, nil},
		{"RUnlock, new", misuseRUnlock, nothing, nothing, (*RWMutex).RUnlock, nil},
		{"Downgrade, new", misuseDowngrade, nothing, nothing, (*RWMutex).Downgrade, nil},
		{"Unlock twice", misuseUnlock, (*RWMutex).Lock, (*RWMutex).Unlock, (*RWMutex).Unlock, []string{"rwsem.givesBack\n"}},
		{"RUnlock twice", misuseRUnlock, (*RWMutex).RLock, (*RWMutex).RUnlock, (*RWMutex).RUnlock, []string{"rwsem.givesBack\n"}},
		{"RLocker twice", misuseRUnlock, (*RWMutex).RLock, (*RWMutex).RUnlock, func(rw *RWMutex) { rw.RLocker().Unlock() }, []string{"rwsem.givesBack\n"}},
		{"Unlock, read-locked", misuseUnlock, (*RWMutex).RLock, nothing, (*RWMutex).Unlock, []string{"rwsem.takesFirst\n"}},
		{"Unlock, downgraded", misuseUnlock, (*RWMutex).Lock, (*RWMutex).Downgrade, (*RWMutex).Unlock, []string{"rwsem.givesBack\n"}},
		{"RUnlock, write-locked", misuseRUnlock, (*RWMutex).Lock, nothing, (*RWMutex).RUnlock, []string{"rwsem.takesFirst\n"}},
		{"Downgrade, read-locked", misuseDowngrade, (*RWMutex).RLock, nothing, (*RWMutex).Downgrade, []string{"rwsem.takesFirst\n"}},
		{"Downgrade twice", misuseDowngrade, (*RWMutex).Lock, (*RWMutex).Downgrade, (*RWMutex).Downgrade, []string{"rwsem.givesBack\n"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			reports := catch(t)
			var rw RWMutex
			takesFirst(&rw, s.lock)
			givesBack(&rw, s.unlock)
			before := rw.count.Load()
			givesAgain(&rw, s.givesOut)
			reports.take(t, misuseTitle(s.title), append(s.shows, "rwsem.givesAgain\n")...)
			assert.Equal(t, before, rw.count.Load(), "it does nothing")
		})
	}
}

// One reader's RUnlock too many ends another's hold, and is shown when that one's
// turn comes.
func TestDebugMisuseOfAnothersHold(t *testing.T) {
	reports := catch(t)
	var rw RWMutex
	awaitDone(t, &rw, "RLock", start(rw.RLock))
	takesFirst(&rw, (*RWMutex).RLock)
	givesBack(&rw, (*RWMutex).RUnlock)
	givesBack(&rw, (*RWMutex).RUnlock)
	reports.none(t)
	givesAgain(&rw, (*RWMutex).RUnlock)
	reports.take(t, "rwsem: RUnlock of unlocked RWMutex", "rwsem.givesAgain\n", "rwsem.givesBack\n")
}

// A release may come before the record of the call that it ends: who wants to know
// whether it is a mistake waits for that.
func TestDebugReleaseBeforeRecord(t *testing.T) {
	defer func(old time.Duration) { debugUnderWay = old }(debugUnderWay)
	debugUnderWay = tooLong
	for _, read := range []bool{true, false} {
		catch(t)
		var rw RWMutex
		rw.RLock()
		rw.RUnlock()
		c := debugEnter(&rw, read, debugBlocks)
		var released <-chan struct{}
		if read {
			rw.count.Add(readerBias)
			released = start(rw.RUnlock)
		} else {
			lock(&rw)
			released = start(rw.Unlock)
		}
		time.Sleep(5 * time.Millisecond)
		debugExit(c, true)
		awaitDone(t, &rw, "the release", released)
		assert.NotContains(t, Holders(&rw), "has held")
		requireAtRest(t, &rw)
	}
}

func TestDebugHandOver(t *testing.T) {
	catch(t)
	var rw RWMutex
	holders := func(n int, want ...string) {
		t.Helper()
		got := Holders(&rw)
		assert.Equal(t, n, strings.Count(got, "has held"), got)
		for _, w := range want {
			assert.Contains(t, got, w)
		}
	}

	takesFirst(&rw, (*RWMutex).Lock)
	holders(1, "for writing", "rwsem.takesFirst\n")
	awaitDone(t, &rw, "Unlock", start(rw.Unlock))
	holders(0)

	takesFirst(&rw, (*RWMutex).RLock)
	awaitDone(t, &rw, "the other's RLock", start(func() { takesSecond(&rw, (*RWMutex).RLock) }))
	holders(2, "for reading", "rwsem.takesFirst\n", "rwsem.takesSecond\n")
	rw.RUnlock() // its own, though the other's is younger
	holders(1, "rwsem.takesSecond\n")
	takesFirst(&rw, (*RWMutex).RLock)
	rw.RUnlock() // its own, though the other's is older
	holders(1, "rwsem.takesSecond\n")
	rw.RUnlock() // the other's: there is none of its own
	holders(0)

	// One that nobody has left behind, the oldest first.
	awaitDone(t, &rw, "RLock", start(func() { takesFirst(&rw, (*RWMutex).RLock) }))
	awaitDone(t, &rw, "RLock", start(func() { takesSecond(&rw, (*RWMutex).RLock) }))
	rw.RUnlock()
	holders(1, "rwsem.takesSecond\n")
	rw.RUnlock()

	takesFirst(&rw, (*RWMutex).Lock)
	awaitDone(t, &rw, "Downgrade", start(func() { givesBack(&rw, (*RWMutex).Downgrade) }))
	holders(1, "for reading", "rwsem.givesBack\n")
	rw.RUnlock()
	holders(0)

	// A lock as a signal between goroutines: without Disown the second Lock is
	// reported.
	rw.Lock()
	Disown(&rw)
	done := start(func() { awaitQueued(t, &rw, 0, 1); rw.Unlock() })
	rw.Lock()
	awaitDone(t, &rw, "the other", done)
	rw.Unlock()
	var other RWMutex
	rw.Lock()
	Disown(&rw)
	other.Lock()
	rw.Unlock()
	rw.Lock() // not the other way round: the former hold was nobody's
	rw.Unlock()
	other.Unlock()
	requireAtRest(t, &rw)
}

func TestDebugWaiters(t *testing.T) {
	catch(t)
	var rw RWMutex
	takesFirst(&rw, (*RWMutex).Lock)
	reader, writer := start(func() { takesSecond(&rw, (*RWMutex).RLock) }), start(func() { comesBetween(&rw) })
	awaitQueued(t, &rw, 1, 1)
	got := Holders(&rw)
	assert.Regexp(t, `^write-locked.*, waiters 1 reader 1 writer, `, got)
	assert.Regexp(t, `(?s)goroutine \d+ has held RWMutex 0x[0-9a-f]+ for writing for \d.*rwsem\.takesFirst\n`, got)
	assert.Regexp(t, `(?s)goroutine \d+ has waited for RWMutex 0x[0-9a-f]+ for reading for \d.*rwsem\.takesSecond\n`, got)
	assert.Regexp(t, `(?s)goroutine \d+ has waited for RWMutex 0x[0-9a-f]+ for writing for \d.*rwsem\.comesBetween\n`, got)
	rw.Unlock()
	awaitDone(t, &rw, "the reader", reader)
	rw.RUnlock()
	awaitDone(t, &rw, "the writer", writer)
	assert.Equal(t, Describe(&rw), Holders(&rw))
}

//go:noinline
func locksAB(a, b *RWMutex, lockA, lockB func(*RWMutex)) { nested(a, b, lockA, lockB) }

//go:noinline
func locksBA(b, a *RWMutex, lockB, lockA func(*RWMutex)) { nested(b, a, lockB, lockA) }

//go:noinline
func locksBC(b, c *RWMutex) { nested(b, c, (*RWMutex).Lock, (*RWMutex).Lock) }

//go:noinline
func locksCA(c, a *RWMutex) { nested(c, a, (*RWMutex).Lock, (*RWMutex).Lock) }

func nested(a, b *RWMutex, lockA, lockB func(*RWMutex)) {
	lockA(a)
	lockB(b)
	release(b)
	release(a)
}

// release releases the hold that a test has of rw.
func release(rw *RWMutex) {
	if rw.count.Load()&writerLocked != 0 {
		rw.Unlock()
	} else {
		rw.RUnlock()
	}
}

func TestDebugOrder(t *testing.T) {
	w, r := (*RWMutex).Lock, (*RWMutex).RLock
	try := func(rw *RWMutex) { rw.TryLock() }
	tryFor := func(rw *RWMutex) { rw.TryLockFor(time.Minute) }
	deadline := func(rw *RWMutex) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = rw.LockContext(ctx)
	}
	cancellable := func(rw *RWMutex) { _ = rw.LockContext(t.Context()) }
	for _, s := range []struct {
		name         string
		a, b, b2, a2 func(*RWMutex)
		reported     bool
	}{
		{"writers", w, w, w, w, true},
		{"readers first", r, w, r, w, true},
		{"readers second", w, r, w, r, true},
		{"readers", r, r, r, r, true},
		{"urgent", (*RWMutex).LockUrgent, (*RWMutex).LockUrgent, w, w, true},
		{"a context that can be cancelled", w, cancellable, w, cancellable, true},
		{"tries first", try, w, try, w, true},
		{"a try second", w, try, w, w, false},
		{"tries second", w, try, w, try, false},
		{"a try second, now", w, w, w, try, false},
		{"one with a time", w, tryFor, w, w, false},
		{"one with a deadline", w, w, w, deadline, false},
	} {
		t.Run(s.name, func(t *testing.T) {
			reports := catch(t)
			var a, b RWMutex
			awaitDone(t, &a, "A, B", start(func() {
				locksAB(&a, &b, s.a, s.b)
				locksAB(&a, &b, s.a, s.b)
			}))
			reports.none(t)
			awaitDone(t, &b, "B, A", start(func() {
				locksBA(&b, &a, s.b2, s.a2)
				if s.reported { // each order is reported once
					locksBA(&b, &a, s.b2, s.a2)
					locksAB(&a, &b, s.a, s.b)
				}
			}))
			if s.reported {
				got := reports.take(t, debugCircle)
				assert.Equal(t, 2, strings.Count(got, "rwsem.locksAB\n"), got)
				assert.Equal(t, 2, strings.Count(got, "rwsem.locksBA\n"), got)
				assert.Regexp(t, `(?s)^.*goroutine \d+ locks .*goroutine \d+ has held .*goroutine \d+ locked .*when it had locked `, got)
			}
		})
	}

	t.Run("switched off", func(t *testing.T) {
		catch(t)
		settings(t, false, false)
		var a, b RWMutex
		locksAB(&a, &b, w, w)
		locksBA(&b, &a, w, w)
	})

	t.Run("three locks", func(t *testing.T) {
		reports := catch(t)
		var a, b, c RWMutex
		locksAB(&a, &b, w, w)
		locksBC(&b, &c)
		nested(&a, &c, w, w) // no circle
		reports.none(t)
		locksCA(&c, &a)
		got := reports.take(t, debugCircle, "rwsem.locksCA\n")
		assert.Contains(t, got, "rwsem.TestDebugOrder", "the shorter way, which A and C have")
	})

	t.Run("round three locks", func(t *testing.T) {
		reports := catch(t)
		var a, b, c RWMutex
		locksAB(&a, &b, w, w)
		locksBC(&b, &c)
		locksCA(&c, &a)
		reports.take(t, debugCircle, "rwsem.locksAB\n", "rwsem.locksBC\n", "rwsem.locksCA\n")
	})

	t.Run("before it hangs", func(t *testing.T) {
		reports := catch(t)
		var a, b RWMutex
		a.Lock()
		haveB := make(chan struct{})
		other := start(func() {
			b.Lock()
			close(haveB)
			a.Lock()
		})
		<-haveB
		awaitQueued(t, &a, 0, 1)
		done := start(func() {
			awaitQueued(t, &b, 0, 1)
			reports.take(t, debugCircle)
			a.Unlock() // for the other goroutine
		})
		inner := start(func() { awaitDone(t, &a, "the other", other); b.Unlock() })
		b.Lock()
		awaitDone(t, &a, "the end", done)
		awaitDone(t, &a, "the end", inner)
	})
}

// What is known of a lock goes with it, also if it was held; what a lock is
// remembered to have been held with is bounded.
func TestDebugMemory(t *testing.T) {
	catch(t)
	var a RWMutex
	var infos []weak.Pointer[debugInfo]
	a.Lock()
	for range debugEdgeLists*debugMaxEdges + 100 {
		b := new(RWMutex)
		b.Lock()
		b.Unlock()
		infos = append(infos, weak.Make(b.debug.info))
	}
	for i, l := range a.debug.info.edges {
		require.LessOrEqual(t, l.n, debugMaxEdges)
		require.Equal(t, l.n, l.length(), i)
	}
	forgets := make(chan struct{})
	go func() {
		defer close(forgets)
		for range debugMaxGone + 100 {
			// With a goroutine for each there is no order.
			<-start(func() {
				b := new(RWMutex)
				b.Lock()
				infos = append(infos, weak.Make(b.debug.info))
			})
		}
	}()
	<-forgets
	gone := func() (n int) {
		for _, p := range infos {
			if p.Value() == nil {
				n++
			}
		}
		return n
	}
	awaitTrue(t, "what was known of locks to go with them", func() bool {
		runtime.GC()
		return gone() > len(infos)-10 // the last may be on some stack
	})

	for range debugBuckets { // each looks through a part of the holds
		<-start(func() { takesFirst(new(RWMutex), func(rw *RWMutex) { rw.TryLock(); rw.Unlock() }) })
	}
	debugMu.Lock()
	n, live := known.gone.n, 0
	for i := range known.holds {
		live += known.holds[i].n
	}
	left := 0
	for i := range a.debug.info.edges {
		l := &a.debug.info.edges[i]
		l.n = debugMaxEdges // as if it were full
		l.trim()
		left += l.length()
	}
	debugMu.Unlock()
	assert.LessOrEqual(t, n, debugMaxGone)
	assert.Greater(t, n, debugMaxGone/2)
	assert.Less(t, live, debugMaxGone/2, "holds of other tests and of the last locks")
	assert.LessOrEqual(t, left, 10)
	a.Unlock()
	assert.ErrorContains(t, CheckHeld(), "rwsem.TestDebugMemory.func", "those that are gone are held still")
}

func (l *debugEdges) length() (n int) {
	for e := l.first; e != nil; e = e.next {
		n++
	}
	return n
}

// Of many locks held at once edges lead from the last ones, and ways over those from
// all: in the other order each is found out.
func TestDebugOrderOfMany(t *testing.T) {
	reports := catch(t)
	locks := make([]RWMutex, 5*debugNearest)
	for range 2 {
		for i := range locks {
			locks[i].Lock()
		}
		for i := range locks {
			locks[i].Unlock()
		}
	}
	edges := 0
	for i := range locks {
		for _, l := range locks[i].debug.info.edges {
			edges += l.n
		}
	}
	assert.LessOrEqual(t, edges, len(locks)*debugNearest)
	reports.none(t)
	last := &locks[len(locks)-1]
	for _, i := range []int{len(locks) - 2, len(locks) - 1 - debugNearest, 0} {
		locksBA(last, &locks[i], (*RWMutex).Lock, (*RWMutex).Lock)
		reports.take(t, debugCircle, "rwsem.locksBA\n")
	}

	// To one taken by a try no ways lead: those before it have edges of their own.
	locks = make([]RWMutex, 5*debugNearest)
	for i := range locks[:len(locks)-1] {
		require.True(t, locks[i].TryLock())
	}
	last = &locks[len(locks)-1]
	last.Lock()
	for i := range locks {
		locks[i].Unlock()
	}
	locksBA(last, &locks[0], (*RWMutex).Lock, (*RWMutex).Lock)
	reports.take(t, debugCircle, "rwsem.locksBA\n")
}

// A goroutine that holds no read lock releases one of two others': which of them
// holds one still is not known.
func TestDebugReadLockOfOneOfTwo(t *testing.T) {
	reports := catch(t)
	var rw RWMutex
	older, done := make(chan func()), make(chan bool)
	go func() {
		for f := range older {
			f()
			done <- true
		}
	}()
	inOlder := func(f func()) { older <- f; <-done }
	defer close(older)
	inOlder(func() { takesFirst(&rw, (*RWMutex).RLock) })
	takesSecond(&rw, (*RWMutex).RLock)
	awaitDone(t, &rw, "another's RUnlock", start(rw.RUnlock)) // of the second

	inOlder(func() { AssertRHeld(&rw) })
	assert.Contains(t, Holders(&rw), "or another, since a goroutine without a read lock released one, has held RWMutex")
	locked := start(rw.Lock)
	awaitQueued(t, &rw, 0, 1)
	inOlder(rw.RUnlock)
	awaitDone(t, &rw, "Lock", locked)
	rw.Unlock()
	assert.NotContains(t, Holders(&rw), "has held")

	// Lock by the one whose read lock was released waits for the other's only.
	inOlder(func() { takesFirst(&rw, (*RWMutex).RLock) })
	takesSecond(&rw, (*RWMutex).RLock)
	awaitDone(t, &rw, "another's RUnlock", start(rw.RUnlock))
	released := start(func() { awaitQueued(t, &rw, 0, 1); inOlder(rw.RUnlock) })
	rw.Lock()
	awaitDone(t, &rw, "the other", released)
	rw.Unlock()

	// Both are the same goroutine's: it holds one.
	takesFirst(&rw, (*RWMutex).RLock)
	takesFirst(&rw, (*RWMutex).RLock)
	awaitDone(t, &rw, "another's RUnlock", start(rw.RUnlock))
	assert.False(t, rw.TryLock())
	unlocks := start(func() { awaitQueued(t, &rw, 0, 1); rw.RUnlock() })
	rw.Lock()
	awaitDone(t, &rw, "the other", unlocks)
	reports.take(t, "rwsem: Lock of RWMutex that this goroutine has locked for reading", "rwsem.takesFirst\n")
	rw.Unlock()
	requireAtRest(t, &rw)
}

// In a bubble, whose clock stands still while somebody waits for the lock.
func TestDebugMisuseInBubble(t *testing.T) {
	defer func(old time.Duration) { debugUnderWay = old }(debugUnderWay)
	debugUnderWay = time.Millisecond
	reports := catch(t)
	synctest.Test(t, func(t *testing.T) {
		var rw RWMutex
		rw.Lock()
		reader := start(func() { rw.RLock(); rw.RUnlock() })
		for r, _ := queued(&rw); r == 0; r, _ = queued(&rw) {
			runtime.Gosched()
		}
		givesBack(&rw, (*RWMutex).RUnlock)
		rw.Unlock()
		<-reader
	})
	reports.take(t, misuseTitle(misuseRUnlock), "rwsem.givesBack\n")
}

// A handler may end its goroutine: later waits are reported all the same. Where many
// are, it is looked once at what all do.
func TestDebugMaxWaitOfMany(t *testing.T) {
	defer SetDebugHandler(nil)
	ended := make(chan string, 100)
	SetDebugHandler(func(report string) {
		ended <- report
		runtime.Goexit()
	})
	defer SetMaxWait(SetMaxWait(time.Millisecond))
	var rw RWMutex
	rw.Lock()
	for range 3 {
		writer := start(func() { comesBetween(&rw) })
		assert.Contains(t, <-ended, "rwsem.comesBetween\n")
		rw.Unlock()
		awaitDone(t, &rw, "the writer", writer)
		rw.Lock()
	}
	rw.Unlock()

	leave := make(chan struct{})
	holder := start(func() { takesFirst(&rw, (*RWMutex).Lock); staysOnChannel(leave); rw.Unlock() })
	await(t, &rw, "the holder", func() bool { return strings.Contains(Holders(&rw), "has held") })
	r := debugHeld()
	var got []string
	SetDebugHandler(func(report string) {
		if got = append(got, report); len(got) == 1 {
			close(leave)
			<-holder
		}
	})
	deliver([]*debugReport{r, r})
	require.Len(t, got, 2)
	assert.Equal(t, strings.Count(got[0], "and is now here"), strings.Count(got[1], "and is now here"))
}

// A stack that is longer than what is on record says so.
func TestDebugDeepStack(t *testing.T) {
	reports := catch(t)
	var deep func(n int)
	deep = func(n int) {
		if n > 0 {
			deep(n - 1)
		} else {
			new(RWMutex).Unlock()
		}
	}
	const more = "\t... its callers are not on record\n"
	deep(2)
	assert.NotContains(t, reports.take(t, misuseTitle(misuseUnlock)), more)
	deep(debugDepth)
	reports.take(t, misuseTitle(misuseUnlock), more)
}

// A copy of an unlocked lock is another lock.
func TestDebugCopy(t *testing.T) {
	catch(t)
	var a RWMutex
	a.Lock()
	a.Unlock()
	b := new(RWMutex)
	b.debug = a.debug // as an assignment of the whole would
	a.Lock()
	b.Lock() // no double Lock
	b.Unlock()
	assert.Contains(t, Holders(&a), "has held")
	a.Unlock()
}

//go:noinline
func staysOnChannel(c chan struct{}) { <-c }

func TestDebugMaxWait(t *testing.T) {
	reports := catch(t)
	const limit = 20 * time.Millisecond
	assert.Zero(t, SetMaxWait(limit))
	defer SetMaxWait(0)
	title := "rwsem: a call has waited for RWMutex for more than 20ms"
	var rw RWMutex
	leave := make(chan struct{})
	holder := start(func() {
		takesFirst(&rw, (*RWMutex).RLock)
		staysOnChannel(leave)
		rw.RUnlock()
	})
	awaitDone(t, &rw, "one that forgets", start(func() { takesSecond(&rw, (*RWMutex).RLock) }))
	await(t, &rw, "the holder", func() bool { return strings.Count(Holders(&rw), "has held") == 2 })
	began := time.Now()
	writer := start(func() { comesBetween(&rw) })
	got := reports.take(t, title, "rwsem.takesFirst\n", "rwsem.takesSecond\n", "rwsem.comesBetween\n",
		"and is now here:\n\tgoroutine ", "rwsem.staysOnChannel(", "and has ended since.")
	assert.GreaterOrEqual(t, time.Since(began), limit)
	assert.Equal(t, 1, strings.Count(got, "rwsem.comesBetween\n"))
	assert.Empty(t, debugLook(), "each wait is reported once")

	// Others wait with it, and calls that will end count as well.
	other := start(func() {
		if assert.True(t, rw.TryLockFor(tooLong)) {
			rw.Unlock()
		}
	})
	reports.take(t, title, "(*RWMutex).TryLockFor\n", "rwsem.takesFirst\n", "rwsem.comesBetween\n")

	close(leave)
	awaitDone(t, &rw, "the holder", holder)
	rw.RUnlock()
	awaitDone(t, &rw, "the writer", writer)
	awaitDone(t, &rw, "TryLockFor", other)
	assert.Equal(t, limit, SetMaxWait(0))
}

// Nobody is waited for for longer than it lasts.
func TestDebugWatchRests(t *testing.T) {
	catch(t)
	var rw RWMutex
	rw.Lock()
	rw.Unlock()
	awaitTrue(t, "nobody to look after", func() bool {
		debugMu.Lock()
		defer debugMu.Unlock()
		return known.look == debugNever
	})
}

func TestDebugSettings(t *testing.T) {
	settings(t, false, true)
	defer SetMaxWait(0)
	assert.Empty(t, setPolicy("maxwait=10s,recursive=1,order=0"))
	assert.True(t, known.recursive)
	assert.False(t, known.order)
	assert.Equal(t, 10*time.Second, SetMaxWait(0))
	for _, bad := range []string{"maxwait=-1s", "maxwait=x", "maxwait", "recursive=2", "order=", "orders=1"} {
		assert.Equal(t, bad, setPolicy(bad))
	}
	assert.Empty(t, setPolicy("maxwait=0,recursive=0,order=1"))
	assert.False(t, known.recursive)
	assert.True(t, known.order)
}

func TestDebugAssert(t *testing.T) {
	const writing, reading = "rwsem: AssertHeld of RWMutex not locked for writing", "rwsem: AssertRHeld of unlocked RWMutex"
	reports := catch(t)
	var rw RWMutex
	AssertHeld(&rw)
	reports.take(t, writing, "rwsem.TestDebugAssert\n")
	AssertRHeld(&rw)
	reports.take(t, reading, "rwsem.TestDebugAssert\n")

	takesFirst(&rw, (*RWMutex).RLock)
	AssertRHeld(&rw)
	reports.none(t)
	AssertHeld(&rw)
	reports.take(t, writing+" by this goroutine", "rwsem.takesFirst\n")
	awaitDone(t, &rw, "another", start(func() { AssertRHeld(&rw) }))
	reports.take(t, reading+" by this goroutine", "rwsem.takesFirst\n")
	givesBack(&rw, (*RWMutex).RUnlock)
	AssertRHeld(&rw)
	reports.take(t, reading, "rwsem.givesBack\n")

	takesFirst(&rw, (*RWMutex).Lock)
	AssertHeld(&rw)
	AssertRHeld(&rw)
	reports.none(t)
	awaitDone(t, &rw, "another", start(func() { AssertHeld(&rw) }))
	reports.take(t, writing+" by this goroutine", "rwsem.takesFirst\n")
	Disown(&rw)
	awaitDone(t, &rw, "another", start(func() { AssertHeld(&rw); AssertRHeld(&rw) }))
	reports.none(t)
	rw.Unlock()
}

// The queue is brought into a state in which no lock may rest, as by an Unlock or
// a Downgrade that forgets to wake.
func TestDebugBehindNobody(t *testing.T) {
	restTime := func(d time.Duration) {
		debugMu.Lock()
		debugRestTime = d
		debugMu.Unlock()
	}
	defer restTime(debugRestTime)
	look := func(*RWMutex) {
		restTime(0)
		deliver(debugLook())
	}
	free := func(rw *RWMutex) { rw.count.And(^uint64(writerMask)) }
	share := func(rw *RWMutex) { rw.count.Add(readerBias - rw.count.Load()&writerMask) }
	for _, s := range []struct {
		name     string
		wait     func(*RWMutex)
		forget   func(*RWMutex)
		find     func(*RWMutex)
		reported bool
	}{
		{"held", (*RWMutex).RLock, func(*RWMutex) {}, look, false},
		{"a reader, free", (*RWMutex).RLock, free, look, true},
		{"a writer, free", (*RWMutex).Lock, free, look, true},
		{"a reader, read-locked", (*RWMutex).RLock, share, look, true},
		{"a writer, read-locked", (*RWMutex).Lock, share, look, false},
		{"a reader, read-locked, found by a call", (*RWMutex).RLock, share, func(rw *RWMutex) { rw.TryLock() }, true},
		{"a writer, read-locked, looked at by a call", (*RWMutex).Lock, share, func(rw *RWMutex) { rw.TryLock() }, false},
	} {
		t.Run(s.name, func(t *testing.T) {
			reports := catch(t)
			restTime(time.Hour)
			var rw RWMutex
			takesFirst(&rw, (*RWMutex).Lock)
			waiter := start(func() { takesSecond(&rw, s.wait) })
			await(t, &rw, "a waiter", func() bool { return rw.count.Load()&flagAsleep != 0 })
			raceIgnore()
			s.forget(&rw)
			raceLeave()
			s.find(&rw)
			if s.reported {
				reports.take(t, "rwsem: waiters behind nobody: a wake-up was lost", "rwsem.takesSecond\n")
				look(&rw)
			}
			reports.none(t) // or no other
			raceIgnore()
			rw.count.And(flagMask &^ writerMask)
			rw.wakeUp(false)
			raceLeave()
			awaitDone(t, &rw, "the waiter", waiter)
		})
	}
}

// What the handler does is not reported to it.
func TestDebugHandlerUsesLocks(t *testing.T) {
	calls := 0
	defer SetDebugHandler(nil)
	SetDebugHandler(func(string) {
		calls++
		new(RWMutex).Unlock()
	})
	new(RWMutex).Unlock()
	assert.Equal(t, 1, calls)
	awaitDone(t, new(RWMutex), "one whose handler ends it", start(func() {
		SetDebugHandler(func(string) { runtime.Goexit() })
		new(RWMutex).Unlock()
	}))
	assert.Zero(t, known.inside.n)

	// A call whose handler does not come back is over.
	SetDebugHandler(func(report string) { panic(report) })
	var rw RWMutex
	rw.Lock()
	assert.Panics(t, rw.Lock)
	assert.NotContains(t, Holders(&rw), "has waited")
	rw.Unlock()
	requireAtRest(t, &rw)
}

const debugEnv = "RWSEM_TEST_DEBUG"

// debugDeaths are what ends a process whose handler is not set.
var debugDeaths = map[string]struct {
	title string
	shows []string
	f     func()
}{
	"self": {"rwsem: Lock of RWMutex that this goroutine has locked already", []string{"rwsem.takesFirst\n", "rwsem.takesSecond\n"}, func() {
		var rw RWMutex
		takesFirst(&rw, (*RWMutex).Lock)
		takesSecond(&rw, (*RWMutex).Lock)
	}},
	"assert": {assertHeldFailed, []string{"rwsem.takesFirst\n"}, func() {
		takesFirst(new(RWMutex), AssertHeld)
	}},
	"while another is reported": {"rwsem: Unlock of unlocked RWMutex", []string{"rwsem.givesBack\n", "it waits"}, func() {
		debugDying.Lock()
		go givesBack(new(RWMutex), (*RWMutex).Unlock)
		for !regexp.MustCompile(`(?s)sync\.\(\*Mutex\)\.Lock\([^\n]*\n[^\n]*\n[^\n]*rwsem\.deliver\(`).MatchString(allStacks()) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("it waits")
		debugDying.Unlock()
		select {}
	}},
	"wait": {"rwsem: a call has waited for RWMutex for more than 10ms", []string{"rwsem.takesFirst\n", "rwsem.takesSecond\n"}, func() {
		var rw RWMutex
		takesFirst(&rw, (*RWMutex).Lock)
		go takesSecond(&rw, (*RWMutex).RLock)
		select {}
	}},
}

func TestDebugDeath(t *testing.T) {
	if name := os.Getenv(debugEnv); name != "" {
		defer func() { fmt.Println("recovered", recover()) }()
		debugDeaths[name].f()
		return
	}
	for name, d := range debugDeaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := debugChild(t, "TestDebugDeath", debugEnv+"="+name, "RWSEMDEBUG=maxwait=10ms")
			assert.Equal(t, d.title, strings.SplitN(report, "\n", 2)[0], report)
			assert.Equal(t, 1, strings.Count(report, d.title), report)
			for _, s := range d.shows {
				assert.Contains(t, report, s)
			}
		})
	}
}

// Who holds what is known to TestMain, in a process in which nobody else holds
// anything.
func TestDebugCheckHeld(t *testing.T) {
	if os.Getenv(debugEnv) != "" {
		var a, b RWMutex
		require.NoError(t, CheckHeld())
		takesFirst(&a, (*RWMutex).Lock)
		awaitDone(t, &b, "RLock", start(func() { takesSecond(&b, (*RWMutex).RLock) }))
		err := CheckHeld()
		require.ErrorContains(t, err, "rwsem: locks are held: 2\n\ngoroutine ")
		require.Regexp(t, `(?s)for writing for .*rwsem\.takesFirst\n.*and is now here:.*for reading for .*rwsem\.takesSecond\n.*and has ended since\.$`, err.Error())
		require.NotErrorIs(t, err, errors.ErrUnsupported)
		a.Unlock()
		b.RUnlock()
		require.NoError(t, CheckHeld())
		return
	}
	cmd := thisTest(t.Context(), "-test.run=^TestDebugCheckHeld$", "-test.count=1")
	cmd.Env = append(os.Environ(), debugEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
