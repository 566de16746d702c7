package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tooLong is when a test gives up waiting for what must happen.
const tooLong = 20 * time.Second

// await polls until cond holds.
func await(t testing.TB, rw *RWMutex, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(tooLong); !cond(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			require.FailNow(t, "waited in vain for "+what, "%s\n%s", Describe(rw), allStacks())
		}
	}
}

// awaitDone waits for a channel to be closed.
func awaitDone(t testing.TB, rw *RWMutex, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(tooLong):
		require.FailNow(t, "waited in vain for "+what, "%s\n%s", Describe(rw), allStacks())
	}
}

func allStacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// start runs f in a goroutine and returns what is closed at its end.
func start(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// queued returns how many readers and writers wait in the queue.
func queued(rw *RWMutex) (readers, writers int) {
	raceEnter(rw)
	_, _, r, w, _ := rw.look()
	raceLeave()
	return int(r), int(w)
}

// awaitQueued waits until so many are in the queue.
func awaitQueued(t testing.TB, rw *RWMutex, readers, writers int) {
	t.Helper()
	await(t, rw, fmt.Sprintf("%d readers and %d writers in the queue", readers, writers), func() bool {
		r, w := queued(rw)
		return r == readers && w == writers
	})
}

// requireAtRest checks that nothing is left of past calls in a lock that
// nobody uses.
func requireAtRest(t testing.TB, rw *RWMutex) {
	t.Helper()
	await(t, rw, "a lock at rest", func() bool {
		r, w := queued(rw)
		return rw.count.Load() == 0 && r+w == 0 && rw.ctl.Load()&ctlSpinners == 0
	})
}

// setProcs sets GOMAXPROCS for the rest of the test.
func setProcs(t testing.TB, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// buildTags are the build tags of this test binary.
func buildTags() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				return s.Value
			}
		}
	}
	return ""
}

// command is a go command that runs in this module, whatever the workspace, and
// builds with the tags of this test binary.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, slices.Insert(slices.Clone(args), 1, "-tags="+buildTags())...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// hostCommand is command for the machine's own architecture: an emulator runs
// no race detector.
func hostCommand(name string, args ...string) *exec.Cmd {
	cmd := command(name, args...)
	cmd.Env = append(cmd.Env, "GOOS=", "GOARCH=", "GOARM64=")
	return cmd
}

// emulated reports whether this test runs under an emulator.
func emulated() bool { return os.Getenv("RWSEM_TEST_EXEC") != "" }

// thisTest is a command that runs this test's binary, under an emulator if it runs
// under one itself: RWSEM_TEST_EXEC then says the same as go test's -exec.
func thisTest(ctx context.Context, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	line := append(strings.Fields(os.Getenv("RWSEM_TEST_EXEC")), exe)
	line = append(line, args...)
	return exec.CommandContext(ctx, line[0], line[1:]...)
}

func TestMethodSet(t *testing.T) {
	ours, theirs := reflect.TypeFor[*RWMutex](), reflect.TypeFor[*sync.RWMutex]()
	var names []string
	for m := range ours.Methods() {
		names = append(names, m.Name)
	}
	want := []string{
		"Downgrade", "LockContext", "LockUrgent", "RLockContext", "SetReaderSpin", "TryLockFor", "TryRLockFor",
	}
	signature := func(m reflect.Method) string {
		return strings.ReplaceAll(m.Type.String(), strings.TrimPrefix(m.Type.In(0).String(), "*"), "RWMutex")
	}
	for m := range theirs.Methods() {
		want = append(want, m.Name)
		o, ok := ours.MethodByName(m.Name)
		if assert.True(t, ok, m.Name) {
			assert.Equal(t, signature(m), signature(o), m.Name)
		}
	}
	slices.Sort(want)
	assert.Equal(t, want, names, "every further method is promoted to types that embed the lock")
}

func TestSize(t *testing.T) {
	want := uintptr(48)
	if unsafe.Sizeof(want) == 4 {
		want = 40
	} else if debugEnabled {
		want = 56
	}
	assert.Equal(t, want, unsafe.Sizeof(RWMutex{}), "as README.md says")
}

// The count is updated by 64-bit atomics also where words are shorter.
const _ = -(unsafe.Offsetof(RWMutex{}.count) % 8)

func TestAlignment(t *testing.T) {
	var s struct {
		_  uint32
		rw RWMutex
		_  bool
	}
	assert.Zero(t, uintptr(unsafe.Pointer(&s.rw.count))%8)
}

func TestEmbeddingChangesNoType(t *testing.T) {
	// A method such as String or Error on the lock would be promoted, or hide
	// the one of what is embedded beside it.
	type bare struct{ Name string }
	type ours struct {
		RWMutex
		Name string
	}
	type theirs struct {
		sync.RWMutex
		Name string
	}
	o, s := &ours{Name: "x"}, &theirs{Name: "x"}

	for _, format := range []string{"%d", "%x", "%q"} {
		assert.Equal(t, strings.Count(fmt.Sprintf(format, s), "x"), strings.Count(fmt.Sprintf(format, o), "x"), format)
	}
	printed := fmt.Sprintf("%+v", o)
	assert.True(t, strings.HasPrefix(printed, "&{RWMutex:{") && strings.HasSuffix(printed, " Name:x}"), printed)
	printed = fmt.Sprintf("%#v", o)
	assert.Contains(t, printed, "RWMutex:rwsem.RWMutex{")

	var wantJSON, gotJSON []byte
	wantJSON, err := json.Marshal(s)
	require.NoError(t, err)
	gotJSON, err = json.Marshal(o)
	require.NoError(t, err)
	assert.Equal(t, string(wantJSON), string(gotJSON))
	require.NoError(t, json.Unmarshal([]byte(`{"Name":"y"}`), o))
	assert.Equal(t, "y", o.Name)

	type oursBesideError struct {
		RWMutex
		error
	}
	type theirsBesideError struct {
		sync.RWMutex
		error
	}
	err = errors.New("broken")
	assert.EqualError(t, &oursBesideError{error: err}, "broken")
	assert.Equal(t, fmt.Sprint(&theirsBesideError{error: err}), fmt.Sprint(&oursBesideError{error: err}))

	type oursBesideStringer struct {
		RWMutex
		time.Duration
	}
	type theirsBesideStringer struct {
		sync.RWMutex
		time.Duration
	}
	assert.Equal(t, "1s", fmt.Sprint(&oursBesideStringer{Duration: time.Second}))
	assert.Equal(t, fmt.Sprint(&theirsBesideStringer{Duration: time.Second}), fmt.Sprint(&oursBesideStringer{Duration: time.Second}))

	// What the printing of values that hold no lock looks like does not depend
	// on the lock either: a locked one prints its fields, nothing else.
	o.Lock()
	assert.Contains(t, fmt.Sprintf("%+v", o), "Name:y")
	o.Unlock()
	assert.Equal(t, "{x}", fmt.Sprint(bare{"x"}))

	var _ sync.Locker = o
}

func TestExclusion(t *testing.T) {
	var rw RWMutex
	rw.RLock()
	rw.RLock()
	assert.False(t, rw.TryLock())
	rw.RUnlock()
	assert.False(t, rw.TryLock())
	rw.RUnlock()
	requireAtRest(t, &rw)

	rw.Lock()
	assert.False(t, rw.TryLock())
	assert.False(t, rw.TryRLock())
	rw.Unlock()
	requireAtRest(t, &rw)
}

func TestReadersShare(t *testing.T) {
	// All of them hold the lock before any of them gives it up.
	const n = 600
	var rw RWMutex
	var in sync.WaitGroup
	in.Add(n)
	rw.Lock()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			rw.RLock()
			in.Done()
			in.Wait()
			rw.RUnlock()
		})
	}
	awaitQueued(t, &rw, n, 0)
	rw.Unlock()
	awaitDone(t, &rw, "all readers", start(all.Wait))
	requireAtRest(t, &rw)
}

func TestLockBelongsToNoGoroutine(t *testing.T) {
	var rw RWMutex
	rw.Lock()
	awaitDone(t, &rw, "Unlock", start(rw.Unlock))
	awaitDone(t, &rw, "RLock", start(rw.RLock))
	rw.RUnlock()
	awaitDone(t, &rw, "Lock", start(rw.Lock))
	awaitDone(t, &rw, "Downgrade", start(rw.Downgrade))
	rw.RUnlock()

	// Also with somebody asleep, who looks at the owner.
	rw.Lock()
	waiter := start(rw.Lock)
	awaitQueued(t, &rw, 0, 1)
	awaitDone(t, &rw, "Unlock", start(rw.Unlock))
	awaitDone(t, &rw, "the waiter", waiter)
	rw.Unlock()
	requireAtRest(t, &rw)
}

func TestBlockedLockKeepsReadersOut(t *testing.T) {
	var rw RWMutex
	rw.RLock()
	writer := start(rw.Lock)
	awaitQueued(t, &rw, 0, 1)
	await(t, &rw, "readers to be kept out", func() bool {
		if rw.TryRLock() {
			rw.RUnlock()
			return false
		}
		return true
	})
	reader := start(rw.RLock)
	awaitQueued(t, &rw, 1, 1)
	rw.RUnlock()
	awaitDone(t, &rw, "the writer", writer)
	assert.Contains(t, Describe(&rw), "write-locked")
	rw.Unlock()
	awaitDone(t, &rw, "the reader", reader)
	rw.RUnlock()
	requireAtRest(t, &rw)
}

func TestWritersInOrder(t *testing.T) {
	// Nobody arrives any more, so the queue is served from its front.
	var rw RWMutex
	var got []int
	var all sync.WaitGroup
	rw.Lock()
	for i := range 10 {
		all.Go(func() {
			rw.Lock()
			got = append(got, i)
			rw.Unlock()
		})
		awaitQueued(t, &rw, 0, i+1)
	}
	rw.Unlock()
	all.Wait()
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, got)
	requireAtRest(t, &rw)
}

func TestRLocker(t *testing.T) {
	var rw RWMutex
	l := rw.RLocker()
	l.Lock()
	l.Lock()
	assert.False(t, rw.TryLock())
	assert.True(t, rw.TryRLock())
	l.Unlock()
	l.Unlock()
	rw.RUnlock()
	requireAtRest(t, &rw)

	var ready bool
	cond := sync.NewCond(rw.RLocker())
	done := start(func() {
		cond.L.Lock()
		for !ready {
			cond.Wait()
		}
		cond.L.Unlock()
	})
	rw.Lock()
	ready = true
	rw.Unlock()
	await(t, &rw, "the condition", func() bool {
		cond.Broadcast()
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	requireAtRest(t, &rw)
}

// tryStates are the states a lock can be in when nobody is in the middle of a
// call, and what the tries must answer.
var tryStates = []struct {
	name        string
	handoffTime time.Duration
	enter       func(t *testing.T, rw *RWMutex) (leave func())
	read, write bool
}{
	{"free", 0, func(*testing.T, *RWMutex) func() { return func() {} }, true, true},
	{"used and free", 0, func(_ *testing.T, rw *RWMutex) func() {
		rw.Lock()
		rw.Downgrade()
		rw.RUnlock()
		rw.RLock()
		rw.RUnlock()
		return func() {}
	}, true, true},
	{"read-locked", 0, func(_ *testing.T, rw *RWMutex) func() {
		rw.RLock()
		return rw.RUnlock
	}, true, false},
	{"read-locked often", 0, func(_ *testing.T, rw *RWMutex) func() {
		for range 1000 {
			rw.RLock()
		}
		return func() {
			for range 1000 {
				rw.RUnlock()
			}
		}
	}, true, false},
	{"write-locked", 0, func(_ *testing.T, rw *RWMutex) func() {
		rw.Lock()
		return rw.Unlock
	}, false, false},
	{"downgraded", 0, func(_ *testing.T, rw *RWMutex) func() {
		rw.Lock()
		rw.Downgrade()
		return rw.RUnlock
	}, true, false},
	{"read-locked, young writer waits", time.Hour, func(t *testing.T, rw *RWMutex) func() {
		rw.RLock()
		w := start(func() { rw.Lock(); rw.Unlock() })
		awaitQueued(t, rw, 0, 1)
		return func() { rw.RUnlock(); awaitDone(t, rw, "the writer", w) }
	}, true, false},
	{"read-locked, old writer waits", 1, func(t *testing.T, rw *RWMutex) func() {
		rw.RLock()
		w := start(func() { rw.Lock(); rw.Unlock() })
		awaitQueued(t, rw, 0, 1)
		return func() { rw.RUnlock(); awaitDone(t, rw, "the writer", w) }
	}, false, false},
	{"write-locked, writer waits", time.Hour, func(t *testing.T, rw *RWMutex) func() {
		rw.Lock()
		w := start(func() { rw.Lock(); rw.Unlock() })
		awaitQueued(t, rw, 0, 1)
		return func() { rw.Unlock(); awaitDone(t, rw, "the writer", w) }
	}, false, false},
	{"write-locked, reader waits", time.Hour, func(t *testing.T, rw *RWMutex) func() {
		rw.Lock()
		r := start(func() { rw.RLock(); rw.RUnlock() })
		awaitQueued(t, rw, 1, 0)
		return func() { rw.Unlock(); awaitDone(t, rw, "the reader", r) }
	}, false, false},
	{"write-locked, old reader waits", 1, func(t *testing.T, rw *RWMutex) func() {
		rw.Lock()
		r := start(func() { rw.RLock(); rw.RUnlock() })
		awaitQueued(t, rw, 1, 0)
		return func() { rw.Unlock(); awaitDone(t, rw, "the reader", r) }
	}, false, false},
	{"free after waiters", 0, func(t *testing.T, rw *RWMutex) func() {
		rw.Lock()
		r := start(func() { rw.RLock(); rw.RUnlock() })
		awaitQueued(t, rw, 1, 0)
		rw.Unlock()
		awaitDone(t, rw, "the reader", r)
		requireAtRest(t, rw)
		return func() {}
	}, true, true},
	{"read-locked after a writer gave up", 1, func(t *testing.T, rw *RWMutex) func() {
		rw.RLock()
		ctx, cancel := context.WithCancel(t.Context())
		w := start(func() { assert.Equal(t, context.Canceled, rw.LockContext(ctx)) })
		awaitQueued(t, rw, 0, 1)
		assert.False(t, rw.TryRLock(), "the writer has handoff")
		cancel()
		awaitDone(t, rw, "the writer", w)
		return rw.RUnlock
	}, true, false},
}

func TestTriesAreExact(t *testing.T) {
	for _, s := range tryStates {
		t.Run(s.name, func(t *testing.T) {
			if s.handoffTime != 0 {
				setHandoffTime(t, s.handoffTime)
			}
			for _, try := range []struct {
				name string
				try  func(*RWMutex) bool
				undo func(*RWMutex)
				want bool
			}{
				{"TryRLock", (*RWMutex).TryRLock, (*RWMutex).RUnlock, s.read},
				{"TryLock", (*RWMutex).TryLock, (*RWMutex).Unlock, s.write},
				{"TryRLockFor 0", func(rw *RWMutex) bool { return rw.TryRLockFor(0) }, (*RWMutex).RUnlock, s.read},
				{"TryLockFor 0", func(rw *RWMutex) bool { return rw.TryLockFor(0) }, (*RWMutex).Unlock, s.write},
				{"TryRLockFor -1", func(rw *RWMutex) bool { return rw.TryRLockFor(-1) }, (*RWMutex).RUnlock, s.read},
				{"TryLockFor -1", func(rw *RWMutex) bool { return rw.TryLockFor(-1) }, (*RWMutex).Unlock, s.write},
				{"TryLockFor least", func(rw *RWMutex) bool { return rw.TryLockFor(-1 << 63) }, (*RWMutex).Unlock, s.write},
			} {
				var rw RWMutex
				leave := s.enter(t, &rw)
				for range 50 {
					before := ReadEvents()
					got := try.try(&rw)
					assert.Equal(t, try.want, got, try.name)
					if got {
						try.undo(&rw)
					}
					after := ReadEvents()
					assert.Equal(t, before.RLockFail+before.WLockFail, after.RLockFail+after.WLockFail, "%s queued", try.name)
				}
				leave()
				requireAtRest(t, &rw)
			}
		})
	}
}

func TestTriesByWord(t *testing.T) {
	// Words that a lock shows only for an instant.
	const waiters = flagWaiters | flagAsleep
	for _, s := range []struct {
		count       uint64
		read, write bool
	}{
		{flagClaim, true, true},
		{waiters, true, true},
		{flagWaiters, true, true}, // the first waiter is on its way
		{waiters | flagClaim, true, true},
		{waiters | flagHandoff, false, false},
		{flagWaiters | flagHandoff, false, false},
		{3*readerBias | flagWaiters, true, false},
		{3*readerBias | waiters | flagHandoff, false, false},
		{writerLocked | 2*readerBias, false, false}, // readers that pass
		{writerLocked | waiters | flagClaim, false, false},
		{flagReadFail, false, false},
		{readerMask - 2*readerBias, false, false},
	} {
		for name, try := range map[string]func(*RWMutex) bool{
			"TryRLock": (*RWMutex).TryRLock,
			"TryLock":  (*RWMutex).TryLock,
		} {
			var rw RWMutex
			rw.count.Store(s.count)
			want, taken := s.write, s.count&^flagClaim|writerWord(self())
			if name == "TryRLock" {
				want, taken = s.read, s.count+readerBias
			}
			if !want {
				taken = s.count
			}
			assert.Equal(t, want, try(&rw), "%s at %#x", name, s.count)
			assert.Equal(t, fmt.Sprintf("%#x", taken), fmt.Sprintf("%#x", rw.count.Load()), "%s at %#x", name, s.count)
		}
	}
}

func TestTryFor(t *testing.T) {
	for _, reader := range []bool{false, true} {
		t.Run(fmt.Sprintf("reader=%v", reader), func(t *testing.T) {
			var rw RWMutex
			try, undo := rw.TryLockFor, rw.Unlock
			if reader {
				try, undo = rw.TryRLockFor, rw.RUnlock
			}

			for _, d := range []time.Duration{1, time.Millisecond, 1<<63 - 1} {
				require.True(t, try(d), "a free lock")
				undo()
			}

			rw.Lock()
			for _, d := range []time.Duration{1, 10 * time.Microsecond, 20 * time.Millisecond} {
				begin := time.Now()
				require.False(t, try(d), "a locked lock")
				took := time.Since(begin)
				assert.GreaterOrEqual(t, took, d)
				assert.Less(t, took, d+5*time.Second)
				assert.EqualValues(t, writerLocked, flagsIn(&rw), "after %v", d)
			}

			var got bool
			done := start(func() { got = try(time.Hour) })
			await(t, &rw, "somebody to sleep", func() bool { r, w := queued(&rw); return r+w == 1 })
			rw.Unlock()
			awaitDone(t, &rw, "the timed try", done)
			require.True(t, got)
			undo()
			requireAtRest(t, &rw)
		})
	}
}

func TestTryForEndsAsLockIsUnlocked(t *testing.T) {
	// Whichever comes first, the answer says whether the lock is held.
	for i := range 300 {
		var rw RWMutex
		reader := i%2 == 0
		rw.Lock()
		unlocked := start(func() {
			time.Sleep(50 * time.Microsecond)
			rw.Unlock()
		})
		d := time.Duration(i%100+1) * time.Microsecond
		if reader && rw.TryRLockFor(d) {
			require.Equal(t, uint64(readerBias), rw.count.Load()&held)
			rw.RUnlock()
		} else if !reader && rw.TryLockFor(d) {
			require.EqualValues(t, writerLocked, flagsIn(&rw)&held)
			rw.Unlock()
		}
		<-unlocked
		requireAtRest(t, &rw)
	}
}

// A plainContext is a context of a type that the context package does not
// know, with methods that take locks.
type plainContext struct {
	mu   sync.Mutex
	done chan struct{}
	err  error
}

func (c *plainContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *plainContext) Value(any) any               { return nil }

func (c *plainContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

func (c *plainContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *plainContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.done)
}

func bothContext(t *testing.T, f func(t *testing.T, rw *RWMutex, lock func(context.Context) error, unlock func())) {
	t.Run("LockContext", func(t *testing.T) {
		var rw RWMutex
		f(t, &rw, rw.LockContext, rw.Unlock)
		requireAtRest(t, &rw)
	})
	t.Run("RLockContext", func(t *testing.T) {
		var rw RWMutex
		f(t, &rw, rw.RLockContext, rw.RUnlock)
		requireAtRest(t, &rw)
	})
}

func TestContextOnFreeLock(t *testing.T) {
	bothContext(t, func(t *testing.T, rw *RWMutex, lock func(context.Context) error, unlock func()) {
		require.NoError(t, lock(context.Background()))
		assert.NotZero(t, rw.count.Load())
		unlock()

		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, lock(ctx))
		cancel()
		assert.NotZero(t, rw.count.Load(), "a context that ends later does not unlock")
		unlock()

		require.Equal(t, context.Canceled, lock(ctx), "a context that has ended gives its error")
		assert.Zero(t, rw.count.Load(), "an error means that the lock is not held")

		past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, lock(past))
		assert.Zero(t, rw.count.Load())

		cause, end := context.WithCancelCause(t.Context())
		end(errors.New("a cause"))
		require.Equal(t, context.Canceled, lock(cause), "the context's error, not its cause")

		broken := errors.New("broken")
		plain := &plainContext{done: make(chan struct{})}
		require.NoError(t, lock(plain))
		unlock()
		plain.end(broken)
		require.Equal(t, broken, lock(plain))
	})
}

func TestContextEndsWhileWaiting(t *testing.T) {
	bothContext(t, func(t *testing.T, rw *RWMutex, lock func(context.Context) error, unlock func()) {
		rw.Lock()

		ctx, cancel := context.WithCancel(t.Context())
		var err error
		done := start(func() { err = lock(ctx) })
		await(t, rw, "somebody to sleep", func() bool { r, w := queued(rw); return r+w == 1 })
		cancel()
		awaitDone(t, rw, "the cancelled wait", done)
		require.Equal(t, context.Canceled, err)
		assert.EqualValues(t, writerLocked, flagsIn(rw))

		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, lock(ctx))
		assert.EqualValues(t, writerLocked, flagsIn(rw))

		broken := errors.New("broken")
		plain := &plainContext{done: make(chan struct{})}
		done = start(func() { err = lock(plain) })
		await(t, rw, "somebody to sleep", func() bool { r, w := queued(rw); return r+w == 1 })
		plain.end(broken)
		awaitDone(t, rw, "the wait whose context broke", done)
		require.Equal(t, broken, err)
		assert.EqualValues(t, writerLocked, flagsIn(rw))

		ctx, cancel = context.WithCancel(t.Context())
		done = start(func() { err = lock(ctx) })
		await(t, rw, "somebody to sleep", func() bool { r, w := queued(rw); return r+w == 1 })
		rw.Unlock()
		awaitDone(t, rw, "the wait", done)
		require.NoError(t, err)
		cancel()
		unlock()
	})
}

func TestContextEndsAsLockIsUnlocked(t *testing.T) {
	// Whichever comes first, nil says that the lock is held and an error that
	// it is not.
	bothContext(t, func(t *testing.T, rw *RWMutex, lock func(context.Context) error, unlock func()) {
		for i := range 300 {
			rw.Lock()
			ctx, cancel := context.WithCancel(context.Background())
			unlocked := start(func() {
				time.Sleep(20 * time.Microsecond)
				if i%2 == 0 {
					cancel()
					rw.Unlock()
				} else {
					rw.Unlock()
					cancel()
				}
			})
			err := lock(ctx)
			if err == nil {
				require.NotZero(t, rw.count.Load()&held)
				unlock()
			} else {
				require.Equal(t, context.Canceled, err)
			}
			<-unlocked
			requireAtRest(t, rw)
		}
	})
}

func TestCancelledFirstWaiterWakesHeir(t *testing.T) {
	// The writer keeps the readers behind it out; when it leaves, nothing does.
	setHandoffTime(t, 1)
	var rw RWMutex
	rw.RLock()
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	writer := start(func() { err = rw.LockContext(ctx) })
	awaitQueued(t, &rw, 0, 1)
	reader := start(rw.RLock)
	awaitQueued(t, &rw, 1, 1)
	cancel()
	awaitDone(t, &rw, "the writer", writer)
	require.Equal(t, context.Canceled, err)
	awaitDone(t, &rw, "the reader behind the writer that left", reader)
	rw.RUnlock()
	rw.RUnlock()
	requireAtRest(t, &rw)
}

func TestCancelledWaiterInTheMiddle(t *testing.T) {
	// The queue stays whole whoever leaves it.
	for leaver := range 4 {
		var rw RWMutex
		rw.Lock()
		var got atomic.Int32
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 4 {
			all.Go(func() {
				c := context.Background()
				if i == leaver {
					c = ctx
				}
				if rw.LockContext(c) == nil {
					got.Add(1)
					rw.Unlock()
				}
			})
			awaitQueued(t, &rw, 0, i+1)
		}
		cancel()
		awaitQueued(t, &rw, 0, 3)
		rw.Unlock()
		awaitDone(t, &rw, "the other writers", start(all.Wait))
		assert.EqualValues(t, 3, got.Load())
		requireAtRest(t, &rw)
	}
}

func TestDowngrade(t *testing.T) {
	var rw RWMutex
	rw.Lock()
	rw.Downgrade()
	assert.True(t, rw.TryRLock())
	assert.False(t, rw.TryLock())
	rw.RUnlock()
	assert.False(t, rw.TryLock())
	rw.RUnlock()
	requireAtRest(t, &rw)
}

func TestDowngradeLetsReadersIn(t *testing.T) {
	var rw RWMutex
	rw.Lock()
	var in, out sync.WaitGroup
	const n = 300
	in.Add(n)
	for i := range n {
		out.Go(func() {
			rw.RLock()
			in.Done()
			in.Wait()
			rw.RUnlock()
		})
		if i == 0 {
			awaitQueued(t, &rw, 1, 0)
		}
	}
	awaitQueued(t, &rw, n, 0)
	writer := start(rw.Lock)
	awaitQueued(t, &rw, n, 1)
	rw.Downgrade()
	awaitDone(t, &rw, "the readers", start(in.Wait))
	awaitDone(t, &rw, "the readers' end", start(out.Wait))
	_, writers := queued(&rw)
	assert.Equal(t, 1, writers, "the writer waits for who downgraded")
	rw.RUnlock()
	awaitDone(t, &rw, "the writer", writer)
	rw.Unlock()
	requireAtRest(t, &rw)
}

func TestDowngradeLetsNoWriterBetween(t *testing.T) {
	var rw RWMutex
	var version int
	var all sync.WaitGroup
	var torn atomic.Int32
	for range 4 {
		all.Go(func() {
			for range 2000 {
				rw.Lock()
				version++
				mine := version
				rw.Downgrade()
				if version != mine {
					torn.Add(1)
				}
				rw.RUnlock()
			}
		})
	}
	awaitDone(t, &rw, "the writers", start(all.Wait))
	assert.Zero(t, torn.Load())
	assert.Equal(t, 4*2000, version)
	requireAtRest(t, &rw)
}

func TestLockUrgent(t *testing.T) {
	var rw RWMutex
	rw.LockUrgent()
	assert.False(t, rw.TryRLock())
	done := start(rw.LockUrgent)
	awaitQueued(t, &rw, 0, 1)
	rw.Unlock()
	awaitDone(t, &rw, "the urgent writer", done)
	rw.Unlock()
	requireAtRest(t, &rw)
}

// wokenInVain queues a writer, unlocks and locks again past it until the queue
// shows handoff, and returns whether it did.
func wokenInVain(t *testing.T, lock func(*RWMutex)) bool {
	// With one processor the woken writer cannot run before the lock is taken
	// again, but for preemption.
	setProcs(t, 1)
	var rw RWMutex
	rw.Lock()
	done := start(func() {
		lock(&rw)
		rw.Unlock()
	})
	awaitQueued(t, &rw, 0, 1)
	handoff := false
	for range 20 {
		rw.steals.Store(1) // the next passes without a look at the waiter
		rw.Unlock()
		if !rw.TryLock() {
			rw.Lock()
		}
		if _, w := queued(&rw); w == 0 {
			break // preempted
		}
		await(t, &rw, "the writer's try to end", func() bool { return rw.count.Load()&flagAsleep != 0 })
		if handoff = strings.Contains(Describe(&rw), "handoff"); handoff {
			assert.False(t, rw.TryLock())
			break
		}
	}
	rw.Unlock()
	awaitDone(t, &rw, "the writer", done)
	requireAtRest(t, &rw)
	return handoff
}

func TestUrgentWriterIsNotOvertakenTwice(t *testing.T) {
	setHandoffTime(t, time.Hour)
	assert.True(t, wokenInVain(t, (*RWMutex).LockUrgent), "an urgent writer sets handoff when it was woken in vain")
	assert.False(t, wokenInVain(t, (*RWMutex).Lock), "another one waits its handoff time")
}

func TestSetReaderSpin(t *testing.T) {
	var rw RWMutex
	assert.Equal(t, spinTime, rw.readerSpinTime(), "the zero value decides itself")
	for _, s := range []struct{ set, want time.Duration }{
		{0, 0},
		{-1, spinTime},
		{-1 << 63, spinTime},
		{1, 100 * time.Nanosecond},
		{100, 100 * time.Nanosecond},
		{101, 200 * time.Nanosecond},
		{7 * time.Microsecond, 7 * time.Microsecond},
		{time.Millisecond, time.Millisecond},
		{1<<63 - 1, time.Millisecond},
		{0, 0},
	} {
		rw.SetReaderSpin(s.set)
		assert.Equal(t, s.want, rw.readerSpinTime(), "%v", s.set)
	}

	rw.SetReaderSpin(time.Microsecond)
	rw.addField(ctlEnable, ctlEnableMask, -100)
	assert.Zero(t, rw.readerSpinTime(), "spinning never paid off")
	rw.addField(ctlEnable, ctlEnableMask, 1)
	assert.Equal(t, time.Microsecond, rw.readerSpinTime(), "it does again")
	rw.addField(ctlEnable, ctlEnableMask, -100)
	rw.SetReaderSpin(time.Microsecond)
	assert.Equal(t, time.Microsecond, rw.readerSpinTime(), "a new setting starts anew")
	requireAtRest(t, &rw)
}

func TestSetReaderSpinStopsSpinning(t *testing.T) {
	letSpin(t)
	// With 0 a reader that meets a writer sleeps at once; with much time it
	// tries first, and the enabling count goes down since that is in vain.
	for _, s := range []struct {
		set   time.Duration
		spins bool
	}{{0, false}, {time.Millisecond, true}, {-1, true}} {
		var rw RWMutex
		rw.SetReaderSpin(s.set)
		rw.Lock()
		before := ReadEvents()
		reader := start(func() { rw.RLock(); rw.RUnlock() })
		awaitQueued(t, &rw, 1, 0)
		after := ReadEvents()
		if s.spins {
			assert.Equal(t, before.OptFail+1, after.OptFail, "%v", s.set)
		} else {
			assert.Equal(t, before.OptNoRSpin+1, after.OptNoRSpin, "%v", s.set)
			assert.Equal(t, before.OptFail, after.OptFail, "%v", s.set)
		}
		rw.Unlock()
		awaitDone(t, &rw, "the reader", reader)
		requireAtRest(t, &rw)
	}
}

func TestDescribe(t *testing.T) {
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	assert.Equal(t, "unlocked, owner none, 0 readers, no waiters", Describe(&rw))
	rw.RLock()
	assert.Regexp(t, `^read-locked, owner (none|readers), 1 reader, no waiters$`, Describe(&rw))
	rw.RLock()
	assert.Regexp(t, `^read-locked, owner (none|readers), 2 readers, no waiters$`, Describe(&rw))
	rw.RUnlock()
	writer := start(rw.Lock)
	awaitQueued(t, &rw, 0, 1)
	assert.Regexp(t, `^read-locked( claim)?, owner (none|readers)( rd-nonspinnable)?( wr-nonspinnable)?, 1 reader, waiters 0 readers 1 writer, first for [0-9.]+[nµm]?s$`, Describe(&rw))
	rw.RUnlock()
	awaitDone(t, &rw, "the writer", writer)
	assert.Regexp(t, `^write-locked, owner (unnamed|g 0x[0-9a-f]+)( rd-nonspinnable)?, 0 readers, no waiters$`, Describe(&rw))
	reader := start(rw.RLock)
	awaitQueued(t, &rw, 1, 0)
	assert.Contains(t, Describe(&rw), "waiters 1 reader 0 writers, first for ")
	rw.Downgrade()
	awaitDone(t, &rw, "the reader", reader)
	assert.Regexp(t, `^read-locked, owner readers( rd-nonspinnable)?, 2 readers, no waiters$`, Describe(&rw))
	rw.RUnlock()
	rw.RUnlock()
	assert.NotContains(t, Describe(&rw), "\n")
	requireAtRest(t, &rw)
}

func TestReadEvents(t *testing.T) {
	diff := func(f func()) Events {
		before := reflect.ValueOf(ReadEvents())
		f()
		var d Events
		after := reflect.ValueOf(ReadEvents())
		for i := range after.NumField() {
			reflect.ValueOf(&d).Elem().Field(i).SetUint(after.Field(i).Uint() - before.Field(i).Uint())
		}
		return d
	}
	var rw RWMutex

	assert.Zero(t, diff(func() {
		for range 100 {
			rw.Lock()
			rw.Unlock()
			rw.RLock()
			rw.RUnlock()
			rw.TryLock()
			rw.Downgrade()
			rw.TryRLock()
			rw.RUnlock()
			rw.RUnlock()
		}
	}), "the fast paths count nothing")

	setHandoffTime(t, time.Hour)
	d := diff(func() {
		rw.Lock()
		writer := start(func() { rw.Lock(); rw.Unlock() })
		awaitQueued(t, &rw, 0, 1)
		rw.Unlock()
		awaitDone(t, &rw, "the writer", writer)
	})
	assert.EqualValues(t, 1, d.SleepWriter)
	assert.EqualValues(t, 1, d.WakeWriter)
	assert.EqualValues(t, 1, d.WLock)
	assert.Zero(t, d.SleepReader+d.WakeReader+d.RLock+d.WLockFail+d.WLockHandoff)

	d = diff(func() {
		rw.Lock()
		reader := start(func() { rw.RLock(); rw.RUnlock() })
		awaitQueued(t, &rw, 1, 0)
		rw.Downgrade()
		awaitDone(t, &rw, "the reader", reader)
		rw.RUnlock()
	})
	assert.EqualValues(t, 1, d.SleepReader)
	assert.EqualValues(t, 1, d.WakeReader)
	assert.EqualValues(t, 1, d.RLock)
	assert.Zero(t, d.SleepWriter+d.WakeWriter+d.WLock+d.RLockFail)

	d = diff(func() {
		rw.Lock()
		assert.False(t, rw.TryLockFor(time.Millisecond))
		assert.False(t, rw.TryRLockFor(time.Millisecond))
		rw.Unlock()
	})
	assert.EqualValues(t, 1, d.WLockFail)
	assert.EqualValues(t, 1, d.RLockFail)
	assert.Zero(t, d.WLock+d.RLock)
	requireAtRest(t, &rw)
}
