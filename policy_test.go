package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// keepPolicy restores the policy at the end of the test.
func keepPolicy(t *testing.T) {
	old := policy
	t.Cleanup(func() { policy = old })
}

// policySwitches are the names of the settings and of the fields they set.
var policySwitches = map[string]string{
	"readerspin":  "readerSpin",
	"writerspin":  "writerSpin",
	"adaptive":    "adaptive",
	"shortpark":   "shortPark",
	"claim":       "claim",
	"wakemany":    "wakeMany",
	"handoff":     "handoff",
	"handoffspin": "handoffSpin",
	"ownercheck":  "ownerCheck",
	"urgent":      "urgent",
	"readerfirst": "readerFirst",
}

func policyField(name string) bool { return reflect.ValueOf(policy).FieldByName(name).Bool() }

func TestPolicySwitches(t *testing.T) {
	keepPolicy(t)
	fields := reflect.TypeOf(policy)
	bools := 0
	for f := range fields.Fields() {
		if f.Type.Kind() == reflect.Bool {
			bools++
		}
	}
	assert.Len(t, policySwitches, bools, "each mechanism has a switch")

	for name, field := range policySwitches {
		for other := range policySwitches {
			assert.Empty(t, setPolicy(other+"=1"))
		}
		assert.Empty(t, setPolicy(name+"=0"))
		for otherName, other := range policySwitches {
			assert.Equal(t, otherName != name, policyField(other), "%s after %s=0", otherName, name)
		}
		assert.Empty(t, setPolicy(name+"=1"))
		assert.True(t, policyField(field), name)
	}
}

func TestPolicySettings(t *testing.T) {
	keepPolicy(t)
	start := policy
	for _, s := range []struct {
		set, bad string
		handoff  time.Duration // 0: as at the start
	}{
		{"", "", 0},
		{",", "", 0},
		{"handoff=1", "", 0},
		{"handoff=4ms", "", 4 * time.Millisecond},
		{"handoff=1ns", "", 1},
		{"handoff=2562047h", "", longestHandoff},
		{"handoff=0,handoff=2ms", "", 2 * time.Millisecond},
		{"readerspin=0,handoff=3ms,writerspin=0", "", 3 * time.Millisecond},
		{"handoff=-1ms", "handoff=-1ms", 0},
		{"handoff=0s", "handoff=0s", 0},
		{"handoff=2", "handoff=2", 0},
		{"handoff", "handoff", 0},
		{"readerspin", "readerspin", 0},
		{"readerspin=", "readerspin=", 0},
		{"readerspin=yes", "readerspin=yes", 0},
		{"readerspin=1ms", "readerspin=1ms", 0},
		{"nosuch=1", "nosuch=1", 0},
		{"=1", "=1", 0},
		{"nosuch=1,handoff=5ms,another=2", "nosuch=1", 5 * time.Millisecond},
		{" handoff=1", " handoff=1", 0},
	} {
		policy = start
		assert.Equal(t, s.bad, setPolicy(s.set), "%q", s.set)
		want := s.handoff
		if want == 0 {
			want = start.handoffTime
		}
		assert.Equal(t, want, policy.handoffTime, "%q", s.set)
		assert.True(t, policy.handoff, "%q", s.set)
	}
}

func TestPolicyReaderTime(t *testing.T) {
	keepPolicy(t)
	assert.Empty(t, setPolicy("readerfirst=0,readerfirst=50us"))
	assert.True(t, policy.readerFirst)
	var rw RWMutex
	assert.Equal(t, policy.handoffTime, rw.handoffTime(false))
	assert.Equal(t, policy.handoffTime, rw.handoffTime(true))
	countAsLong(&rw)
	assert.Equal(t, policy.handoffTime, rw.handoffTime(false))
	assert.Equal(t, 50*time.Microsecond, rw.handoffTime(true), "where sections are long")
	assert.Empty(t, setPolicy("readerfirst=1h"))
	assert.Equal(t, policy.handoffTime, rw.handoffTime(true), "no longer than a writer")
}

func TestTurns(t *testing.T) {
	for _, ctl := range []struct {
		name string
		ctl  uint32
		turn time.Duration
	}{
		{"short", ctlShortMask, shortTurnTime},
		{"neither", 0, turnTime},
		{"long", ctlLongMask, 0},
	} {
		for _, passed := range []bool{false, true} {
			w := &waiter{passed: passed}
			rw := RWMutex{head: w}
			rw.ctl.Store(ctl.ctl)
			before := nanotime()
			rw.startTurn()
			after := nanotime()
			if ctl.turn == 0 || passed {
				assert.Zero(t, w.due, "%s, passed %t", ctl.name, passed)
				continue
			}
			assert.GreaterOrEqual(t, w.due, before+int64(ctl.turn), ctl.name)
			assert.LessOrEqual(t, w.due, after+int64(ctl.turn), ctl.name)
		}
	}
}

func TestSectionScores(t *testing.T) {
	var rw RWMutex
	assert.False(t, rw.sectionsAreLong())
	for range longScore {
		assert.False(t, rw.sectionsAreLong())
		rw.noteRest(longRounds + 1)
	}
	assert.True(t, rw.sectionsAreLong())
	rw.noteRest(longRounds)
	assert.False(t, rw.sectionsAreLong())

	rw.ctl.Store(shortScore * ctlShort)
	assert.True(t, rw.sectionsAreShort())
	rw.noteFailure()
	assert.False(t, rw.sectionsAreShort())
}

// meetWriter has a call meet a lock that a writer or a reader holds until it
// sleeps, and returns what was counted.
func meetHolder(t *testing.T, hold, release, lock, unlock func(*RWMutex)) (before, after Events) {
	var rw RWMutex
	hold(&rw)
	before = ReadEvents()
	done := start(func() {
		lock(&rw)
		unlock(&rw)
	})
	await(t, &rw, "somebody to sleep", func() bool { r, w := queued(&rw); return r+w == 1 })
	after = ReadEvents()
	release(&rw)
	awaitDone(t, &rw, "the call", done)
	requireAtRest(t, &rw)
	return before, after
}

func TestPolicyReaderSpin(t *testing.T) {
	letSpin(t)
	keepPolicy(t)
	for _, on := range []bool{true, false} {
		policy.readerSpin = on
		before, after := meetHolder(t, (*RWMutex).Lock, (*RWMutex).Unlock, (*RWMutex).RLock, (*RWMutex).RUnlock)
		assert.Equal(t, !on, after.OptNoRSpin > before.OptNoRSpin)
		assert.Equal(t, on, after.OptFail > before.OptFail)
	}
}

func TestPolicyWriterSpin(t *testing.T) {
	letSpin(t)
	// One that spun on readers in vain says that they are too slow.
	keepPolicy(t)
	if runtime.GOMAXPROCS(0) == 1 { // nobody spins long enough on one processor
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	for _, on := range []bool{true, false} {
		policy.writerSpin = on
		marked := false
		// It may lose its processor before its time is over.
		for range 2000 {
			var rw RWMutex
			rw.RLock()
			done := start(func() {
				rw.Lock()
				rw.Unlock()
			})
			awaitQueued(t, &rw, 0, 1)
			marked = rw.owner.Load()&wrNonspinnable != 0
			rw.RUnlock()
			awaitDone(t, &rw, "the writer", done)
			requireAtRest(t, &rw)
			if marked == on {
				break
			}
		}
		assert.Equal(t, on, marked)
	}
}

func TestPolicyAdaptive(t *testing.T) {
	keepPolicy(t)
	for _, on := range []bool{true, false} {
		policy.adaptive = on
		var rw RWMutex
		rw.RLock()
		rw.markNonspinnable()
		done := start(rw.Lock)
		awaitQueued(t, &rw, 0, 1)
		rw.RUnlock()
		awaitDone(t, &rw, "the writer", done)
		assert.Equal(t, on, rw.owner.Load()&rdNonspinnable != 0)
		assert.Zero(t, rw.owner.Load()&wrNonspinnable)
		rw.Unlock()
		rw.Lock()
		assert.Zero(t, rw.owner.Load()&ownerFlags, "the next writer clears it")
		rw.Unlock()
		requireAtRest(t, &rw)
	}
}

func TestPolicyHandoff(t *testing.T) {
	keepPolicy(t)
	for _, on := range []bool{true, false} {
		policy.handoff, policy.handoffTime = on, 1
		var rw RWMutex
		rw.RLock()
		done := start(func() {
			rw.Lock()
			rw.Unlock()
		})
		awaitQueued(t, &rw, 0, 1)
		for range 2000 {
			got := rw.TryRLock()
			assert.Equal(t, !on, got)
			if got {
				rw.RUnlock()
			}
		}
		rw.RUnlock()
		awaitDone(t, &rw, "the writer", done)
		requireAtRest(t, &rw)
	}
}

func TestPolicyUrgent(t *testing.T) {
	keepPolicy(t)
	policy.handoffTime = time.Hour
	policy.urgent = false
	assert.False(t, wokenInVain(t, (*RWMutex).LockUrgent), "an urgent writer is like any other")
}

func TestPolicyWakeMany(t *testing.T) {
	// Readers behind a writer come in together with those in front of it, or
	// wait for it.
	keepPolicy(t)
	policy.readerFirst = false
	for _, on := range []bool{true, false} {
		policy.wakeMany = on
		var rw RWMutex
		rw.Lock()
		first := start(rw.RLock)
		awaitQueued(t, &rw, 1, 0)
		writer := start(rw.Lock)
		awaitQueued(t, &rw, 1, 1)
		second := start(rw.RLock)
		awaitQueued(t, &rw, 2, 1)
		rw.Downgrade()
		awaitDone(t, &rw, "the first reader", first)
		if on {
			awaitDone(t, &rw, "the second reader", second)
			rw.RUnlock()
		} else {
			awaitQueued(t, &rw, 1, 1)
		}
		rw.RUnlock()
		rw.RUnlock()
		awaitDone(t, &rw, "the writer", writer)
		rw.Unlock()
		if !on {
			awaitDone(t, &rw, "the second reader", second)
			rw.RUnlock()
		}
		requireAtRest(t, &rw)
	}
}
