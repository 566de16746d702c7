package main

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSoak(t *testing.T) {
	file := t.TempDir() + "/soak.jsonl"
	var stdout, stderr bytes.Buffer
	args := []string{"soak", "-for", "1200ms", "-json", file}
	require.Zero(t, realMain(args, &stdout, &stderr), stderr.String())
	out := stdout.String()
	for _, k := range soakKinds {
		assert.Contains(t, stderr.String(), k.name+": ", "progress")
		assert.Regexp(t, `(?m)^`+k.name+` +1 +`, out)
	}
	assert.Regexp(t, `(?m)^no violation: 12 phases in \d`, out)
	for _, c := range soakCalls {
		assert.Regexp(t, `(?m)^`+c.name+` +[1-9]`, out, "not once taken")
		if c.mayFail {
			assert.Regexp(t, `(?m)^`+c.name+` +\d+[kM]? +[1-9]`, out, "not once in vain")
		}
	}
	assert.Regexp(t, `(?m)^[1-9]\d*[kM]? times downgraded, [1-9]\d*[kM]? times unlocked by another`, out)

	recs := readFile(t, file)
	byCell := map[string]map[string][]float64{}
	for _, r := range recs[1:] {
		byCell[r.Cell] = r.Metrics
	}
	assert.Greater(t, byCell["crowd"]["most-waiting"][0], 100.0)
	assert.Positive(t, byCell["storm"]["collections"][0])
	assert.Positive(t, byCell["resize"]["procs-changes"][0])
	assert.Positive(t, byCell["mixed"]["write-"+metricMax][0])
	assert.Positive(t, byCell["LockUrgent"]["taken"][0])
	assert.False(t, recs[0].Run.Ended.IsZero())
}

// testSoak is a run of mixed phases on locks of the caller's, all of them watched
// by counters, so that even under the race detector nobody touches the data once
// a lock has failed.
func testSoak(stuck time.Duration, fresh func() soakLock) (stdout, stderr string, err error) {
	kind := soakKinds[0]
	kind.downgrade = 0 // of a lock that is not locked would end the process
	var out, errOut bytes.Buffer
	s := &soak{
		soakOptions: soakOptions{total: 20 * time.Second, stuck: stuck, seed: 1, kinds: []soakKind{kind}},
		out:         &out, stderr: &errOut, fresh: fresh, watchAll: true,
	}
	err = s.run(context.Background())
	return out.String(), errOut.String(), err
}

// faulty is the lock with something wrong.
type faulty struct {
	soaked
	turns, passed atomic.Int64
	lock          func(*faulty)
	runlock       func(*faulty)
}

func (l *faulty) Lock() {
	if l.lock != nil {
		l.lock(l)
		return
	}
	l.soaked.Lock()
}

// Unlock has nothing to do for one of those that passed.
func (l *faulty) Unlock() {
	for n := l.passed.Load(); n > 0; n = l.passed.Load() {
		if l.passed.CompareAndSwap(n, n-1) {
			return
		}
	}
	l.soaked.Unlock()
}

func (l *faulty) RUnlock() {
	if l.runlock != nil {
		l.runlock(l)
		return
	}
	l.soaked.RUnlock()
}

func (l *faulty) every(n int64) bool { return l.turns.Add(1)%n == 0 }

func TestSoakFindsTwoWriters(t *testing.T) {
	passing := func(l *faulty) {
		if !l.every(50) {
			l.soaked.Lock()
			return
		}
		if !l.soaked.TryLock() {
			l.passed.Add(1)
		}
	}
	out, _, err := testSoak(time.Minute, func() soakLock { return &faulty{lock: passing} })
	require.Error(t, err)
	assert.Regexp(t, `mixed, phase 1, seed 1: \d writers and \d+ readers inside: (un|read-|write-)locked`, err.Error())
	assert.NotContains(t, out, "no violation")
}

func TestSoakFindsLostWakeUp(t *testing.T) {
	repaired := make(chan struct{})
	t.Cleanup(func() { close(repaired) })
	var once sync.Once
	losing := func(l *faulty) {
		if l.every(500) {
			once.Do(func() { <-repaired })
		}
		l.soaked.Lock()
	}
	began := time.Now()
	_, dump, err := testSoak(time.Second, func() soakLock { return &faulty{lock: losing} })
	require.Error(t, err)
	assert.Contains(t, err.Error(), "a call of Lock has waited for more than 1s: ")
	assert.Contains(t, dump, "TestSoakFindsLostWakeUp", "where it waits")
	assert.Less(t, time.Since(began), 10*time.Second, "at once")
}

func TestSoakFindsStandstill(t *testing.T) {
	repaired := make(chan struct{})
	t.Cleanup(func() { close(repaired) })
	stopping := func(l *faulty) {
		l.soaked.RUnlock()
		if l.every(500) {
			<-repaired
		}
	}
	_, dump, err := testSoak(time.Second, func() soakLock { return &faulty{runlock: stopping} })
	require.Error(t, err)
	assert.Regexp(t, `nobody got a lock for 1s|has waited for more than 1s`, err.Error())
	assert.Contains(t, dump, "goroutine ")
}

func TestSoakFindsWhatIsLeft(t *testing.T) {
	t.Run("reader", func(t *testing.T) {
		g := &guarded{soakLock: freshSoaked()}
		assert.Empty(t, g.rest(0))
		g.RLock()
		assert.Contains(t, g.rest(0), "not at rest: read-locked, owner none, 1 reader, no waiters")
		g.RUnlock()
		assert.Empty(t, g.rest(0))
		assert.Contains(t, g.rest(1), "0 writes where there were 1", "a write that was lost")
	})
	t.Run("goroutine", func(t *testing.T) {
		repaired := make(chan struct{})
		t.Cleanup(func() { close(repaired) })
		p := &soakPhaseRun{soak: &soak{stderr: new(bytes.Buffer)}, grace: 100 * time.Millisecond}
		n := runtime.NumGoroutine()
		require.NoError(t, p.checkLeft(n))
		for range 1000 { // more than other tests' that end only now
			go func() { <-repaired }()
		}
		err := p.checkLeft(n)
		require.Error(t, err)
		assert.Contains(t, err.Error(), "goroutines where there were")
	})
}

func TestGuarded(t *testing.T) {
	g := &guarded{soakLock: freshSoaked(), watched: true}
	stay := func() {}
	require.Empty(t, g.enter(true))
	require.Empty(t, g.change(stay))
	assert.Contains(t, g.enter(false), "1 writers and 1 readers inside")
	g.leave(false)
	assert.Contains(t, g.enter(true), "2 writers and 0 readers inside")
	g.leave(true)
	g.leave(true)
	require.Empty(t, g.enter(false))
	require.Empty(t, g.enter(false), "readers together")
	assert.Contains(t, g.enter(true), "1 writers and 2 readers inside")

	g = &guarded{soakLock: freshSoaked()}
	require.Empty(t, g.enter(true))
	assert.Contains(t, g.change(func() { g.writes++ }), "2 writes where there were 1")
	assert.Contains(t, g.enter(false), "after 2 writes")
}

func TestSoakInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out, errOut bytes.Buffer
	s := &soak{
		soakOptions: soakOptions{total: time.Hour, stuck: 10 * time.Second, seed: 1, kinds: soakKinds[:1]},
		out:         &out, stderr: &errOut, fresh: freshSoaked,
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	require.NoError(t, s.run(ctx))
	assert.Regexp(t, `(?m)^interrupted, no violation: 1 phases in`, out.String())
	assert.False(t, strings.Contains(out.String(), "NaN"))
}
