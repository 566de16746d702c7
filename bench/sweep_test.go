package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSweepPoints(t *testing.T) {
	points := map[string][2]int{"goroutines": {13, 5}, "section": {10, 4}, "reads": {7, 4}}
	if runtime.NumCPU() > 1 {
		points["processors"] = [2]int{5, 3}
	}
	names := map[string]bool{}
	for _, k := range sweepKinds {
		for i, quick := range []bool{false, true} {
			tables := k.tables(3, quick)
			require.Len(t, tables, 2-i, k.name)
			for _, tab := range tables {
				if want, ok := points[k.name]; ok {
					assert.Len(t, tab.points, want[i], tab.name)
				}
				checkPoints(t, tab)
				assert.Equal(t, quick, names[tab.name], "tables of the same name: %s", tab.name)
			}
			for _, tab := range tables {
				names[tab.name] = true
			}
		}
	}
	assert.Contains(t, names, "sweep/goroutines r90 180ns")
	assert.Contains(t, names, "sweep/reads g8 6ns")
}

// checkPoints checks that the points of a table can be told apart and measured.
func checkPoints(t *testing.T, tab sweepTable) {
	seen := map[string]bool{}
	for _, p := range tab.points {
		assert.False(t, seen[p.name()], "%s: %s twice", tab.name, p.name())
		seen[p.name()] = true
		assert.Positive(t, p.procs, p.name())
		assert.Positive(t, p.goroutines, p.name())
		w := &sweeps{session: &session{sizes: sweepSizes}}
		assert.Equal(t, p.section, w.size(p).name)
		if tab.kind.name != "processors" {
			assert.Equal(t, 3, p.procs)
		}
	}
}

func TestSweepValues(t *testing.T) {
	assert.Equal(t, []int{1, 2, 4, 8}, powersOfTwo(8))
	assert.Equal(t, []int{1, 2, 4, 6, 8}, procsAround(2))
	assert.Equal(t, []int{1, 2, 3, 4}, procsAround(1))
	assert.Equal(t, "p2/g8/r99.9/6ns", point{procs: 2, goroutines: 8, reads: 99.9, section: "6ns"}.name())
}

func TestSweepAxis(t *testing.T) {
	for table, want := range map[string]struct {
		label string
		log   bool
	}{
		"sweep/goroutines r90 180ns":     {"goroutines", true},
		"sweep/processors g8 r90 180ns":  {"GOMAXPROCS, multiples of the CPUs", false},
		"sweep/section g8 r0":            {"call and work inside the lock, ns", true},
		"sweep/reads":                    {"reads, %", false},
		"sweep/readsome":                 {"", false},
		"grid":                           {"", false},
		"":                               {"", false},
		"reads g8 180ns, sweep/section ": {"", false},
	} {
		label, log := sweepAxis(table)
		assert.Equal(t, want.label, label, table)
		assert.Equal(t, want.log, log, table)
	}
}

func TestSweepRound(t *testing.T) {
	o := options{dur: 100 * time.Millisecond, turn: shortTurn}
	tests := map[string]struct {
		goroutines int
		want       time.Duration
		turns      bool
	}{
		"least":   {1, 100 * time.Millisecond, true},
		"longer":  {20, 400 * time.Millisecond, true},
		"longest": {21, 400 * time.Millisecond, false},
		"many":    {4096, 400 * time.Millisecond, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, turns := o.sweepRound(point{procs: 1, goroutines: tt.goroutines})
			assert.Equal(t, tt.want, d)
			assert.Equal(t, tt.turns, turns)
		})
	}
}

func TestLoadAt(t *testing.T) {
	w := &sweeps{session: &session{options: options{dur: time.Second, turn: shortTurn}}}
	w.sizes = []sectionSize{{name: "0"}, {name: "6ns", steps: 7}}
	got := w.loadAt(point{procs: 3, goroutines: 2, reads: 99.9, section: "6ns"})
	assert.Equal(t, load{procs: 3, readPcts: []float64{99.9, 99.9}, steps: 7, dur: time.Second}, got)
}

func TestSweepPlan(t *testing.T) {
	for quick, most := range map[bool]time.Duration{false: 8 * time.Minute, true: 40 * time.Second} {
		ext := sweepExtents.full
		if quick {
			ext = sweepExtents.quick
		}
		o := options{quick: quick, rounds: ext.rounds, dur: ext.dur, turn: ext.turn, locks: allLocks}
		tables, err := chooseTables(sweepKinds, o)
		require.NoError(t, err)
		w := &sweeps{session: &session{options: o}, tables: tables}
		assert.Less(t, w.plan(), most)
		assert.Greater(t, w.plan(), most/2, "more could be measured")
	}
}

func TestDrawsBelow(t *testing.T) {
	assert.Zero(t, drawsBelow(0))
	assert.EqualValues(t, 1<<31, drawsBelow(50))
	assert.EqualValues(t, 1<<32, drawsBelow(100), "every draw is a read")
	assert.InDelta(t, 0.001, 1-float64(drawsBelow(99.9))/(1<<32), 1e-9)
}

// TestReadShare runs the loops, and counts what they recorded.
func TestReadShare(t *testing.T) {
	ld := load{procs: 2, readPcts: uniform(2, 99.5), dur: 10 * time.Millisecond}
	timings := sweepTimings(2)
	ld.runTimed(lockByKey("rwsem"), timings)
	var reads, writes float64
	for _, tm := range timings {
		reads += float64(tm.reads.hist.TotalCount())
		writes += float64(tm.writes.hist.TotalCount())
	}
	require.Greater(t, reads, 10_000.0)
	assert.InDelta(t, 0.005, writes/(reads+writes), 0.003)
}

func TestCalibrate(t *testing.T) {
	sizes := calibrate([]sectionSize{{name: "0"}, {name: "20ns", want: 20}, {name: "100us", want: 100 * time.Microsecond}})
	assert.Zero(t, sizes[0].steps)
	assert.Positive(t, sizes[0].measured, "a call takes its time")
	assert.Greater(t, sizes[1].measured, 18.5)
	assert.Greater(t, sizes[2].measured, 99_990.0)
}

func TestSweepTimings(t *testing.T) {
	ts := sweepTimings(2)
	for i := range 1000 {
		ts[i%2].reads.record(time.Duration(i+1) * time.Microsecond)
	}
	got := sumWaits([]*waits{ts[0].reads, ts[1].reads})
	assert.InEpsilon(t, 500e3, got.P50, 0.07)
	assert.InEpsilon(t, 999e3, got.P999, 0.07)
	assert.Equal(t, 1e6, got.Max)
	assert.Nil(t, sumWaits([]*waits{ts[0].writes, ts[1].writes}))
}

func TestInAll(t *testing.T) {
	var q quantiles
	q.add(&roundWaits{P999: 1, Max: 2})
	q.add(nil)
	assert.Empty(t, q.inAll(2).p999, "a round had none")
	assert.Equal(t, []float64{1}, q.inAll(1).p999)
}

func TestSweepNote(t *testing.T) {
	var all, some swept
	all.addRan(tally{Ops: []float64{1, 2}})
	some.addRan(tally{Ops: append(make([]float64, 1), uniform(299, 5)...)})
	assert.Empty(t, all.note())
	assert.Equal(t, "99% ran", some.note(), "not all, if nearly")
}

func TestPointRows(t *testing.T) {
	lock := func(mops, readTail float64) swept {
		return swept{
			series: series{mops: []float64{mops}, slowest: []float64{0.5}, cpuEach: []float64{nan}},
			reads:  quantiles{p999: []float64{readTail}, max: []float64{readTail}},
			ran:    []float64{1},
		}
	}
	var out bytes.Buffer
	w := &sweeps{session: &session{options: options{locks: allLocks, dur: time.Second, turn: shortTurn}, out: &out}}
	p := point{procs: 2, goroutines: 8, reads: 99.9, section: "6ns"}
	reads := sweepKinds[3]
	w.pointRows(reads.tables(2, false)[1], p, []swept{lock(30, 500), lock(10, 1000), lock(20, 2000), lock(40, 0)})
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	assert.Equal(t, []string{
		"99.9% rwsem.RWMutex 30.000 1.50x 1.50..1.50 - 500ns 0.50x 0.50..0.50 - - - 0.50",
		"99.9% sync.RWMutex 10.000 0.50x 0.50..0.50 - 1µs 1.00x 1.00..1.00 - - - 0.50",
		"99.9% sync.Mutex 20.000 1.00x 1.00..1.00 - 2µs 2.00x 2.00..2.00 - - - 0.50",
		"99.9% xsync.RBMutex 40.000 2.00x 2.00..2.00 - 0s 0.00x 0.00..0.00 - - - 0.50",
	}, rows)

	out.Reset()
	p.goroutines = 4096
	w.pointRows(reads.tables(2, false)[1], p, []swept{lock(30, 500), lock(10, 1000), lock(20, 2000), lock(40, 0)})
	assert.Regexp(t, `(?m)0\.50\.\.0\.50 +- +- +- +-$`, out.String(), "slowest/mean after too short a round")
}

func TestSweepUsage(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(data, []byte("precious"), 0o600))
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":          {[]string{"-h"}, 0, "-only sweeps"},
		"unknown sweep": {[]string{"-only", "reads,x"}, 2, `no sweep "x"; there are: goroutines, processors, section, reads`},
		"unknown lock":  {[]string{"-locks", "x"}, 2, `no lock "x"`},
		"no such point": {[]string{"-only", "reads", "-cells", "g7", "-json", data}, 2, "-cells \"g7\" matches none of the 14 points, such as p"},
		"no time":       {[]string{"-dur", "0", "-json", data}, 2, "must be positive"},
		"no such place": {[]string{"-json", filepath.Join(data, "x")}, 1, "-json: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			assert.Equal(t, tt.code, realMain(append([]string{"sweep"}, tt.args...), &out, &out))
			assert.Contains(t, out.String(), tt.want)
		})
	}
	kept, err := os.ReadFile(data)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(kept), "a mistake in the command line cost a data file")
}

func TestTinySweep(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	out := tiny(t, "sweep", "-json", data, "-cells", `g1/|g4096/|r100/|r90/0$`)
	assert.Regexp(t, `(?m)^1 +rwsem\.RWMutex +\d.* 1\.00$`, out)
	assert.Regexp(t, `(?m)^4096 +xsync\.RBMutex +\d.* -(  +\d+% ran)?$`, out)
	assert.Regexp(t, `(?m)^0 +sync\.Mutex +\d`, out)
	assert.NotContains(t, out, "NaN")
	assert.NotContains(t, out, "sweep/processors", "no point of it was asked for")

	all := savedRecords(t, data)
	require.Len(t, all, 4*len(allLocks))
	for _, r := range all {
		require.NotNil(t, r.X, r.Cell)
		if _, log := sweepAxis(r.Table); log {
			assert.Positive(t, *r.X, "has no place on a logarithmic axis")
		}
		for name, values := range r.Metrics {
			assert.Len(t, values, 1, name)
		}
		assert.Contains(t, r.Metrics, metricThroughput)
		assert.Contains(t, r.Metrics, "read-"+metricP999)
		assert.Equal(t, strings.Contains(r.Cell, "/g1/"), r.Metrics[metricFairness] != nil, "%s: with others there is no turn for all", r.Cell)
		assert.Equal(t, !strings.Contains(r.Cell, "r100"), r.Metrics["write-"+metricP50] != nil, r.Cell)
	}
	assert.Equal(t, "sweep/goroutines r90 180ns", all[0].Table)
	assert.Equal(t, 1.0, *all[0].X)
	assert.Equal(t, "rwsem", all[0].Lock)
	assert.Equal(t, 100.0, *all[len(all)-1].X)
}

// savedRecords are those of a data file with one run.
func savedRecords(t *testing.T, name string) []record {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	all, err := readRecords(file)
	require.NoError(t, err)
	require.NotNil(t, all[0].Run)
	return all[1:]
}
