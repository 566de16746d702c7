package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTailsUsage(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":         {[]string{"-h"}, 0, "-only parts"},
		"unknown part": {[]string{"-only", "open"}, 2, `no part "open"; there are: closed, scheduled, unlock`},
		"unknown lock": {[]string{"-locks", "x"}, 2, `no lock "x"`},
		"no such cell": {[]string{"-cells", "g7"}, 2, "matches none of the"},
		"no rounds":    {[]string{"-rounds", "0"}, 2, "must be positive"},
		"argument":     {[]string{"x"}, 2, `unexpected argument "x"`},
		"unlock alone": {[]string{"-locks", "mutex"}, 2, "needs rwsem or sync among -locks"},
		"no file":      {[]string{"-json", "/nonexistent/file"}, 1, "-json"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			assert.Equal(t, tt.code, realMain(append([]string{"tails"}, tt.args...), &out, &out))
			assert.Contains(t, out.String(), tt.want)
		})
	}
}

func TestTailCells(t *testing.T) {
	for quick, want := range map[bool][2]int{false: {8, 4}, true: {4, 2}} {
		tl := &tails{session: &session{options: options{quick: quick}, procs: 2, all: allCells(2)}}
		assert.Len(t, tl.cells(), want[0])
		assert.Len(t, tl.scheduledCells(), want[1])
	}
}

func TestTinyTails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tails.json")
	out := tiny(t, "tails", "-only", "closed,scheduled", "-cells", `^p16/g2/r50/(6ns|3us)$`, "-locks", "rwsem,sync", "-json", file)
	for _, lock := range []string{"rwsem.RWMutex", "sync.RWMutex", "sync.RWMutex again"} {
		assert.Regexp(t, `(?m)^p16/g2/r50/6ns +read +`+lock+` +\d`, out)
		assert.Regexp(t, `(?m)^p16/g2/r50/3us +write +`+lock+` +\d`, out)
		assert.Regexp(t, `(?m)^p16/g2/r50/3us@80% +write +`+lock+` +`, out)
	}
	assert.Regexp(t, `(?m)^p16/g2/r50/3us@50% +read +a lock each +`, out)
	assert.NotContains(t, out, "6ns@")
	assert.Regexp(t, `saturated by \d+k? arrivals/s; @50% is \d`, out)
	assert.Regexp(t, `(?m)^sync\.RWMutex again +closed +2 +\d`, out)
	assert.Contains(t, out, "<= 0.70x")

	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	records, err := readRecords(f)
	require.NoError(t, err)
	cells := map[string]record{}
	for _, r := range records {
		cells[r.Table+" "+r.Cell+" "+r.Lock] = r
	}
	closed := cells["closed p16/g2/r50/6ns rwsem"]
	for _, metric := range []string{metricP50, metricP90, metricP99, metricP999, metricP9999, metricMax, metricWorst, metricWaiting} {
		assert.Len(t, closed.Metrics["read-"+metric], 1, metric)
		assert.Len(t, closed.Metrics["write-"+metric], 1, metric)
	}
	assert.Nil(t, closed.X)
	scheduled := cells["scheduled p16/g2/r50/3us@50% sync again"]
	assert.Len(t, scheduled.Metrics[metricBacklog], 1)
	require.NotNil(t, scheduled.X)
	assert.Positive(t, *scheduled.X)
}

func TestTailsWithoutSchedule(t *testing.T) {
	out := tiny(t, "tails", "-only", "scheduled", "-cells", `^p16/g2/r50/6ns$`)
	assert.Contains(t, out, "none of the cells has sections of 1µs or more")
	assert.NotContains(t, out, "Targets")
}

func TestTinyUnlock(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds")
	}
	file := filepath.Join(t.TempDir(), "tails.json")
	out := tiny(t, "tails", "-only", "unlock", "-json", file)
	for _, lock := range []string{"rwsem", "sync"} {
		assert.Regexp(t, `(?m)^0 +`+lock+`\.RWMutex +80 .* -$`, out)
		assert.Regexp(t, `(?m)^1024 +`+lock+`\.RWMutex +10 +\d`, out)
		assert.Regexp(t, `(?m)^`+lock+`\.RWMutex +\S*`+lock+`\.\(\*\w+\)\.\S+ +writer's Unlock +\d`, out)
	}
	tables := tablesOf(readFile(t, file)[1:])
	require.Len(t, tables, 1)
	pictures, err := tables[0].pictures()
	require.NoError(t, err)
	assert.Len(t, pictures, 1)
}

// walk takes all arrivals of a schedule, working for so long on each.
func walk(a *arrivals, work time.Duration) (planned []time.Time, lateness []time.Duration) {
	for at := range a.come {
		now := time.Now()
		planned, lateness = append(planned, at), append(lateness, now.Sub(at))
		for time.Since(now) < work {
		}
	}
	return planned, lateness
}

// requireAsPlanned compares what walk got with the same schedule drawn again.
func requireAsPlanned(t *testing.T, again *arrivals, planned []time.Time) {
	t.Helper()
	require.NotEmpty(t, planned)
	first := again.next(0)
	for at, i := first, 0; i < len(planned); i, at = i+1, again.next(at) {
		require.Equal(t, at-first, planned[i].Sub(planned[0]), "waits do not count from the plan")
	}
}

func TestSchedule(t *testing.T) {
	timings := newTimings(4)
	starts := func(round int) (all []time.Duration) {
		schedule(timings, 1000, time.Second, round)
		for _, timing := range timings {
			all = append(all, timing.arrivals.next(0))
		}
		return all
	}
	first := starts(0)
	assert.Equal(t, first, starts(0), "another lock of the round has other arrivals")
	assert.NotEqual(t, first, starts(1), "all rounds are the same")
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(first))), 4, "goroutines in step")

	// Four goroutines share 1000 a second: gaps of 4 ms, which are exponential
	// and so spread by as much.
	var gaps, squares float64
	const n = 20_000
	for range n {
		ms := float64(timings[0].arrivals.next(0)) / 1e6
		gaps += ms
		squares += ms * ms
	}
	assert.InDelta(t, 4, gaps/n, 0.2)
	assert.InDelta(t, 32, squares/n, 3)
}

func TestArrivals(t *testing.T) {
	timings, again := newTimings(1), newTimings(1)
	schedule(timings, 20_000, 20*time.Millisecond, 0)
	schedule(again, 20_000, 20*time.Millisecond, 0)
	a := timings[0].arrivals
	planned, lateness := walk(a, 0)
	assert.InDelta(t, 400, a.planned, 100)
	assert.GreaterOrEqual(t, slices.Min(lateness), time.Duration(0), "before its time")
	requireAsPlanned(t, again[0].arrivals, planned)
}

// TestArrivalsLate works for four times as long as there is: half of the time
// needed is there until the schedule is given up.
func TestArrivalsLate(t *testing.T) {
	const lasts = 20 * time.Millisecond
	timings, again := newTimings(1), newTimings(1)
	schedule(timings, 5000, lasts, 0)
	schedule(again, 5000, lasts, 0)
	a := timings[0].arrivals
	planned, _ := walk(a, 800*time.Microsecond)
	requireAsPlanned(t, again[0].arrivals, planned)
	assert.Positive(t, a.late)
	assert.Greater(t, a.planned, len(planned), "nothing given up")
	backlog, saturated := backlogOf(timings)
	assert.True(t, saturated)
	assert.Greater(t, backlog, 0.3)
}

func TestBacklog(t *testing.T) {
	tests := map[string]struct {
		planned, late int
		backlog       float64
		saturated     bool
	}{
		"none planned": {0, 0, 0, false},
		"all in time":  {1000, 0, 0, false},
		"some left":    {1000, 5, 0.005, false},
		"few in all":   {4, 2, 0.5, false},
		"too many":     {1000, 11, 0.011, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			timings := newTimings(2)
			for i := range timings {
				timings[i].arrivals = &arrivals{planned: tt.planned / 2}
			}
			timings[0].arrivals.late = tt.late
			backlog, saturated := backlogOf(timings)
			assert.InDelta(t, tt.backlog, backlog, 1e-9)
			assert.Equal(t, tt.saturated, saturated)
		})
	}
	timings := newTimings(1)
	timings[0].arrivals = &arrivals{planned: 10_000, late: 100}
	_, saturated := backlogOf(timings)
	assert.False(t, saturated, "one in a hundred")
	timings[0].arrivals.late++
	_, saturated = backlogOf(timings)
	assert.True(t, saturated)
}

func TestSumWaits(t *testing.T) {
	low, high := newWaits(), newWaits()
	for i := 1; i <= 5000; i++ {
		low.record(time.Duration(i))
		high.record(time.Duration(5000 + i))
	}
	w := sumWaits([]*waits{low, newWaits(), high})
	for want, got := range map[float64]float64{5000: w.P50, 9000: w.P90, 9900: w.P99, 9990: w.P999, 9999: w.P9999} {
		assert.InEpsilon(t, want, got, 0.01)
	}
	assert.Equal(t, 10_000.0, w.Max)
	assert.Equal(t, 7500.0, w.WorstMid)
	assert.Equal(t, int64(10_000), w.Count)
	assert.Equal(t, 10_000.0*10_001/2, w.Total)
	low.reset()
	assert.Nil(t, sumWaits([]*waits{low}))
	assert.Zero(t, low.total)
}

// tailOf is a lock's p99.9, of readers and of writers, by round.
func tailOf(reads, writes []float64) *tailSeries {
	d := new(tailSeries)
	d.classes[0].p999, d.classes[1].p999 = reads, writes
	return d
}

func TestQuotients(t *testing.T) {
	saturated := tailOf([]float64{1, 1}, []float64{1, 1})
	saturated.backlog, saturated.saturated = []float64{0.5, 0.5}, 2
	tests := map[string]struct {
		own, ref *tailSeries
		want     []float64
	}{
		"both classes": {tailOf([]float64{8, 1}, []float64{2, 1}), tailOf([]float64{2, 1}, []float64{2, 4}), []float64{2, 0.5}},
		"readers only": {tailOf([]float64{8, 1}, nil), tailOf([]float64{2, 2}, nil), []float64{4, 0.5}},
		"a round less": {tailOf([]float64{8, 1}, []float64{1}), tailOf([]float64{2, 2}, []float64{5, 5}), []float64{4, 0.5}},
		"nothing":      {tailOf(nil, nil), tailOf(nil, nil), nil},
		"not run":      {nil, tailOf([]float64{1, 1}, nil), nil},
		"saturated":    {saturated, tailOf([]float64{1, 1}, []float64{1, 1}), nil},
		"sync was":     {tailOf([]float64{1, 1}, []float64{1, 1}), saturated, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &tailCell{rounds: 2, byLock: map[string]*tailSeries{"rwsem": tt.own, "sync": tt.ref}}
			got := c.quotients("rwsem", tailP999)
			require.Len(t, got, len(tt.want))
			assert.InDeltaSlice(t, tt.want, got, 1e-9)
		})
	}
}

// resultsOf are schedules on which rwsem's p99.9, by round, and its worst are
// those of sync.RWMutex multiplied. It does not keep up with some of them.
func resultsOf(tail []float64, worst float64, behind int) []*tailCell {
	series := func(tail []float64, worst float64) *tailSeries {
		d := new(tailSeries)
		for i := range d.classes {
			d.classes[i].p999, d.classes[i].worstMid = tail, []float64{worst, worst}
		}
		d.backlog = []float64{0, 0}
		return d
	}
	one := []float64{1, 1}
	var cells []*tailCell
	for i := range 4 {
		own := series(tail, worst)
		if i < behind {
			own.saturated = 2
		}
		cells = append(cells, &tailCell{name: fmt.Sprint(i), load: loads[0], rounds: 2, byLock: map[string]*tailSeries{
			"rwsem": own, "sync": series(one, 1), twinKey: series(one, 1), apartKind.key: series(one, 1)}})
	}
	return cells
}

func TestTailTargets(t *testing.T) {
	met := []float64{0.70, 0.70}
	tests := map[string]struct {
		tail   []float64
		worst  float64
		behind int
		want   []bool
	}{
		"met":           {met, 1, 0, []bool{true, true, true, true}},
		"tail":          {[]float64{0.71, 0.71}, 1, 0, []bool{false, true, true, true}},
		"interval":      {[]float64{0.40, 0.90}, 1, 0, []bool{true, false, true, true}},
		"both":          {[]float64{0.80, 0.80}, 1, 0, []bool{false, false, true, true}},
		"worst":         {met, 1.01, 0, []bool{true, true, false, true}},
		"one saturated": {met, 1, 1, []bool{true, true, true, false}},
		"all saturated": {met, 1, 4, []bool{false, false, false, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tl, out := summaryOf(resultsOf(tt.tail, tt.worst, tt.behind))
			var got []bool
			for _, c := range tl.checks {
				got = append(got, c.ok)
			}
			assert.Equal(t, tt.want, got, out)
			assert.Regexp(t, `sync\.RWMutex again +all +4 +1\.00x`, out)
			assert.NotContains(t, out, "left out")
		})
	}
}

func summaryOf(results []*tailCell) (*tails, string) {
	var out bytes.Buffer
	tl := &tails{session: &session{out: &out}, twins: withTwin(allLocks[:2]), results: results}
	tl.summarize()
	return tl, out.String()
}

func TestIncomparable(t *testing.T) {
	results := resultsOf([]float64{0.5, 0.5}, 1, 3)
	results[0].byLock[apartKind.key].saturated = 2
	results[1].byLock["sync"].saturated = 2
	tl, out := summaryOf(results)
	assert.Contains(t, out, "did not keep up: 0, 1\n")
	assert.Regexp(t, `rwsem\.RWMutex +all +1 +0\.50x`, out)
	last := tl.checks[len(tl.checks)-1]
	assert.Equal(t, "1", last.figure, "the machine's fault counts as the lock's")
}

func TestWithTwin(t *testing.T) {
	var keys []string
	for _, k := range withTwin(allLocks[:2]) {
		keys = append(keys, k.key)
	}
	assert.Equal(t, []string{"rwsem", "sync", twinKey}, keys)
	assert.Len(t, withTwin(allLocks[:1]), 1)
	assert.Equal(t, "sync", allLocks[1].key, "argument changed")
}

func TestSaturatedRow(t *testing.T) {
	var out bytes.Buffer
	s := &session{out: &out, options: options{rounds: 3}}
	tl := &tails{session: s}
	d := new(tailSeries)
	for i := range 3 {
		d.add(tally{Ops: []float64{1}, Elapsed: time.Second}, &roundWaits{P999: 1e6, Max: 1e6, Total: 5e8, Count: 10}, nil)
		d.backlog = append(d.backlog, 0.5)
		if i < 2 {
			d.saturated++
		}
	}
	c := &tailCell{name: "c@80%", byLock: map[string]*tailSeries{"rwsem": d}}
	tl.report("scheduled", c, allLocks[:1])
	assert.Regexp(t, `(?m)^c@80% +read +rwsem\.RWMutex +saturated in 2 of 3 rounds$`, out.String())
	assert.Equal(t, map[string][]float64{metricBacklog: {0.5, 0.5, 0.5}}, d.metrics())

	d.saturated = 1
	out.Reset()
	tl.report("scheduled", c, allLocks[:1])
	assert.Regexp(t, `1ms.* 50\.0% .*saturated in 1 of 3 rounds`, out.String())
	assert.Equal(t, 1, strings.Count(out.String(), "\n"), "a row without waits")
	assert.Contains(t, d.metrics(), "read-"+metricP999)
}

func TestWaitingReaders(t *testing.T) {
	dump := strings.Join([]string{
		"goroutine 1 [running]:\nmain.(*wakeup).allStacks(0x1)\n\t/x.go:1",
		"goroutine 2 [sync.RWMutex.RLock]:\nsync.runtime_SemacquireRWMutexR(0x1)\nmain.(*syncLoops).wakeReader(0x1)\ncreated by main.(*wakeup).gather",
		"goroutine 3 [sync.Mutex.Lock, 2 minutes]:\nsync.(*Mutex).Lock(0x1)\nmain.(*rwsemLoops).wakeReader(0x1)",
		"goroutine 4 [runnable]:\nmain.(*syncLoops).wakeReader(0x1)",
		"goroutine 5 [running]:\nmain.(*syncLoops).wakeReader(0x1)",
		"goroutine 6 [sync.RWMutex.RLock]:\nmain.(*rwsemLoops).timed(0x1)",
		"goroutine 7 [chan receive]:\nmain.(*syncLoops).wakeReader(0x1)",
	}, "\n\n")
	assert.Equal(t, 2, waitingReaders([]byte(dump)))
}

func TestWake(t *testing.T) {
	for _, key := range []string{"rwsem", "sync"} {
		k, err := wake(lockByKey(key), 20, 3)
		require.NoError(t, err)
		assert.Len(t, k.unlocks, 3)
		require.Len(t, k.lasts, 3)
		assert.Positive(t, slices.Min(k.lasts), "a reader had the lock before it was released")
	}
}

// TestGatherFails has readers that wait for something else.
func TestGatherFails(t *testing.T) {
	k := newWakeup(3)
	k.limit = 20 * time.Millisecond
	release := make(chan struct{})
	k.gather(func(k *wakeup, _ int) {
		k.arrive()
		<-release
		k.readers.Done()
	})
	assert.ErrorContains(t, k.err, "not all of 3 readers wait after 20ms")
	close(release)
	k.record(time.Now(), time.Now())
	assert.Empty(t, k.unlocks)
}

func TestChargeOf(t *testing.T) {
	tests := map[string]struct {
		stack []string
		want  charge
	}{
		"sync":    {[]string{"sync.(*RWMutex).Unlock", "main.(*syncLoops).wakeWriter", "main.wake"}, charge{"sync.(*RWMutex).Unlock", byWriter}},
		"helper":  {[]string{"internal/sync.(*Mutex).Unlock", "r.(*RWMutex).wakeUp", "main.(*rwsemLoops).wakeWriter"}, charge{"r.(*RWMutex).wakeUp", byWriter}},
		"reader":  {[]string{"r.(*RWMutex).wakeUp", "main.(*rwsemLoops).wakeReader"}, charge{"r.(*RWMutex).wakeUp", byReader}},
		"runtime": {[]string{"runtime.unlock", "runtime.schedule"}, charge{"runtime", byOther}},
		"dump": {[]string{"runtime.Stack", "main.(*wakeup).allStacks", "main.(*wakeup).gather", "main.(*rwsemLoops).wakeWriter"},
			charge{"main.(*wakeup).allStacks", byOther}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, chargeOf(tt.stack)) })
	}
}

func TestChargeSeries(t *testing.T) {
	writer, reader := charge{"a", byWriter}, charge{"a", byReader}
	d := &chargeSeries{shares: map[charge][]float64{}}
	d.add(0, 2, map[charge]float64{writer: 1})
	d.add(1, 2, map[charge]float64{writer: 0.75, reader: 0.25})
	assert.Equal(t, map[charge][]float64{writer: {1, 0.75}, reader: {0, 0.25}}, d.shares)
	assert.Equal(t, []float64{0, 0.25}, d.elsewhere)
}
