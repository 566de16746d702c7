package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newSetup(quick bool) *setup {
	ext := rowsExtents.full
	if quick {
		ext = rowsExtents.quick
	}
	o := options{quick: quick, rounds: ext.rounds, dur: ext.dur, turn: ext.turn}
	return &setup{session: &session{options: o, procs: 2, sizes: sectionSizes}, steps: []int{5, 10}}
}

// publishedCurves are all published curves.
func publishedCurves() map[string]curve {
	all := map[string]curve{
		"A9": publishedA9, "A10": publishedA10, "A12": publishedA12, "A13": publishedA13,
		"A14 faults": publishedA14.pageFaults, "A14 short": publishedA14.short,
		"A17 writers": publishedA17.writers, "A17 mixed": publishedA17.mixed, "A17 urgent": publishedA17.urgent,
		"all": publishedAll.halves, "D held": publishedD.held,
	}
	for name, m := range map[string]machines{"A3 writers": publishedA3.writers, "A3 readers": publishedA3.readers, "D": publishedD.free} {
		for arch, c := range m {
			all[name+" "+arch] = c
		}
	}
	return all
}

func TestPublished(t *testing.T) {
	for name, c := range publishedCurves() {
		assert.True(t, slices.IsSorted(c.threads), name)
		assert.Len(t, c.before, len(c.threads), name)
		assert.Len(t, c.after, len(c.threads), name)
		assert.Positive(t, slices.Min(slices.Concat(c.before, c.after)), name)
	}
	// A12 is measured on top of A10, and A13 on top of A12: what one has after,
	// the next has before.
	assert.Equal(t, publishedA10.after[:5], publishedA12.before[:5])
	assert.Equal(t, publishedA12.after, publishedA13.before[1:])

	for _, s := range []shares{publishedA7, publishedA7Early[0], publishedA7Early[1], publishedAll.readers, publishedAll.writers} {
		for _, side := range []share{s.before, s.after} {
			assert.True(t, slices.IsSorted([]float64{side.min, side.mean, side.max}), side)
		}
	}
	_, c := publishedA3.writers.onThisKind()
	assert.NotEmpty(t, c.threads)
	assert.Equal(t, "Published for others: arm64 1.03x/1.23x/0.70x/0.61x with 1/2/4/8 threads.", publishedD.free.elsewhere("amd64"))
}

func TestFigures(t *testing.T) {
	tests := map[string]struct {
		figures
		want      []string
		direction int
	}{
		"none":   {figures{}, []string{"-", "-", "-"}, 1},
		"gain":   {figures{before: 39, after: 78.4}, []string{"39", "78.4", "2.01x"}, 1},
		"loss":   {figures{before: 1000, after: 900}, []string{"1000", "900", "0.90x"}, -1},
		"small":  {figures{before: 100, after: 104.9}, []string{"100", "105", "1.05x"}, 0},
		"times":  {figures{before: 1000, after: 900, times: true}, []string{"1000", "900", "1.11x"}, 1},
		"falls":  {figures{before: 2.64, falls: true}, []string{"2.64", "unseen", "less"}, -1},
		"called": {figures{before: 10, after: 20, level: true}, []string{"10", "20", "2.00x"}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, after, ratio := tt.figures.cells()
			assert.Equal(t, tt.want, []string{before, after, ratio})
			if tt.figures.known() {
				assert.Equal(t, tt.direction, tt.figures.direction())
			}
		})
	}
}

func TestRowVerdicts(t *testing.T) {
	band := bandOf([]float64{1.02, 0.8, 1.1})
	assert.Equal(t, ratio{1, 0.8, 1.25}, band)
	assert.False(t, bandOf(nil).known())
	assert.False(t, bandOf([]float64{1, math.Inf(1)}).known())
	assert.False(t, bandOf([]float64{1, 0}).known())

	gain, loss := figures{before: 1, after: 2}, figures{before: 2, after: 1}
	tests := map[string]struct {
		published figures
		ours      float64
		less      bool
		want      verdict
	}{
		"gain as published":   {gain, 1.3, false, same},
		"loss as published":   {loss, 0.7, false, same},
		"loss, published not": {gain, 0.7, false, opposite},
		"gain, published not": {loss, 1.3, false, opposite},
		"in the band":         {gain, 1.2, false, neutral},
		"in the band below":   {gain, 0.85, false, neutral},
		"no way published":    {figures{before: 1, after: 1.04}, 1.3, false, level},
		"a time that falls":   {figures{before: 1, falls: true}, 0.7, true, same},
		"a time that rises":   {figures{before: 1, falls: true}, 1.3, true, opposite},
		"unpublished gain":    {figures{}, 1.3, false, gains},
		"unpublished loss":    {figures{}, 0.7, false, loses},
		"shorter wait":        {figures{}, 0.7, true, gains},
		"longer wait":         {figures{}, 1.3, true, loses},
		"unpublished, band":   {figures{}, 1, false, neutral},
		"no rounds":           {gain, nan, false, notMeasurable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, judge(tt.published, ratio{tt.ours, tt.ours, tt.ours}, band, tt.less))
		})
	}
	assert.Equal(t, notMeasurable, judge(gain, ratio{2, 2, 2}, bandOf(nil), false), "no band")
}

func TestRoundMeans(t *testing.T) {
	assert.InDeltaSlice(t, []float64{2, 4}, roundMeans([][]float64{{1, 2}, {4, 8}}), 1e-9)
	assert.Empty(t, roundMeans([][]float64{{1, 2}, nil}))
}

// TestExperiments checks what a run would only show as a panic, or not at all.
func TestExperiments(t *testing.T) {
	var keys []string
	for _, k := range rowLocks() {
		keys = append(keys, k.key)
	}
	for _, quick := range []bool{false, true} {
		s := newSetup(quick)
		seen := map[string]bool{}
		for _, e := range s.experiments(rowList, nil) {
			name := e.row + ", " + e.name
			var scenes []string
			for _, sc := range e.scenes {
				assert.False(t, seen[e.row+sc.Name], "%s: two scenes %s", name, sc.Name)
				seen[e.row+sc.Name] = true
				scenes = append(scenes, sc.Name)
				assert.GreaterOrEqual(t, sc.Dur, s.dur, name)
				assert.Positive(t, sc.Procs, name)
				assert.NotEqual(t, sc.RelayWaits > 0, sc.goroutines() > 0, name)
			}
			for _, side := range e.sides {
				if e.unless == "" {
					assert.Contains(t, keys, side.lock, name)
				}
			}
			require.NotEmpty(t, e.comparisons, name)
			for _, c := range e.comparisons {
				assert.NotEqual(t, c.before, c.after, name)
				assert.Less(t, max(c.before, c.after), len(e.sides), name)
				require.NotEmpty(t, c.points, name)
				labels := map[string]bool{}
				for _, p := range c.points {
					assert.Contains(t, scenes, p.scene, name)
					label := p.label + p.measure.unit
					assert.False(t, labels[label], "%s: two points %s", name, label)
					labels[label] = true
				}
			}
		}
	}
}

func TestEveryRowHasExperiments(t *testing.T) {
	s := newSetup(true)
	for _, r := range rowList {
		assert.NotEmpty(t, s.experiments([]row{r}, nil), r.name)
	}
	one := s.experiments(rowList, regexp.MustCompile(`^mixed/g64/5steps$`))
	var rows []string
	for _, e := range one {
		rows = append(rows, e.row)
		assert.Len(t, e.scenes, 1)
		assert.Len(t, e.comparisons[0].points, 1)
	}
	assert.Equal(t, []string{"A10", "A12", "A13", "A17"}, rows)
}

func TestKept(t *testing.T) {
	threads := publishedA13.threads
	assert.Equal(t, threads, newSetup(false).kept(threads))
	assert.Equal(t, []int{2, 64}, newSetup(true).kept(threads))
}

// TestSettings asks rwsem whether it knows the settings of all sides.
func TestSettings(t *testing.T) {
	tried := map[string]bool{}
	for _, e := range newSetup(true).experiments(rowList, nil) {
		for _, side := range e.sides {
			if tried[side.settings] {
				continue
			}
			tried[side.settings] = true
			cmd := exec.Command(os.Args[0], rowsChild, "-scenes", "[]")
			cmd.Env = append(os.Environ(), policyVar+"="+side.settings)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err)
			assert.Empty(t, string(out), side.settings)
		}
	}
	assert.Len(t, tried, 11)
}

func TestScene(t *testing.T) {
	sc := scene{Name: "x", Procs: 2, Dur: time.Second, Burners: 1, Crews: []crew{
		{N: 2, ReadPct: 100, Steps: 7}, {N: 1, Outside: 3, Urgent: true}, {N: 3, Sleep: time.Microsecond},
	}}
	assert.Equal(t, 7, sc.goroutines())
	text, err := json.Marshal(sc)
	require.NoError(t, err)
	var again scene
	require.NoError(t, json.Unmarshal(text, &again))
	assert.Equal(t, sc, again)

	ld := sc.load()
	require.Len(t, ld.roles, 6)
	assert.Equal(t, role{readPct: 100, steps: 7}, ld.roles[1])
	assert.Equal(t, role{outside: 3, urgent: true}, ld.roles[2])
	assert.NotNil(t, ld.roles[5].pause)

	all := tally{Ops: []float64{1, 2, 3, 4, 5, 6}, Elapsed: time.Second, CPU: 30 * time.Microsecond}
	assert.Equal(t, []float64{1, 2}, crewTally(sc, all, 0).Ops)
	assert.Equal(t, []float64{4, 5, 6}, crewTally(sc, all, 2).Ops)
	assert.Len(t, all.Ops, 6)
	assert.InDelta(t, 15e-6, throughputOf(2, "x").of(sc, outcome{Tally: all}), 1e-12)
	assert.InDelta(t, 2, cpuFor(2, "x").of(sc, outcome{Tally: all}), 1e-9)
	all.Ops[3], all.Elapsed = 0, 2*time.Second
	least := sharePoints(sc, 2, "x", shares{})[0].measure
	assert.InDelta(t, 0.5, least.of(sc, outcome{Tally: all}), 1e-9, "none counts as one, in two seconds")
}

// witness is a target that shows what its goroutines were given.
type witness struct {
	target
	mixedSteps, apartSteps, apartOutside int
}

func (t *witness) mixed(w *worker) { t.mixedSteps = w.steps }
func (t *witness) apart(w *worker) { t.apartSteps, t.apartOutside = w.steps, w.outside }

func TestRunRoles(t *testing.T) {
	got := new(witness)
	ld := load{procs: 2, dur: time.Millisecond, roles: []role{{steps: 3}, {steps: 5, outside: 7}}}
	ld.run(lockKind{fresh: func() target { return got }}, nil)
	assert.Equal(t, &witness{mixedSteps: 3, apartSteps: 5, apartOutside: 7}, got)
}

// askRows runs the child in this process.
func askRows(t *testing.T, lock string, scenes ...scene) []outcome {
	t.Helper()
	text, err := json.Marshal(scenes)
	require.NoError(t, err)
	var out bytes.Buffer
	require.Zero(t, realMain([]string{rowsChild, "-locks", lock, "-scenes", string(text)}, &out, &out), out.String())
	got, err := readOutcomes(&out)
	require.NoError(t, err)
	require.Len(t, got, len(scenes))
	return got
}

func TestRowsChild(t *testing.T) {
	sc := scene{Name: "x", Procs: 2, Dur: 5 * time.Millisecond, Crews: []crew{{N: 2, ReadPct: 100, Steps: 1, Outside: 1}, {N: 1, Steps: 1}}}
	for _, kind := range rowLocks() {
		got := askRows(t, kind.key, sc)[0]
		assert.Equal(t, "x", got.Cell)
		assert.Equal(t, kind.key, got.Lock)
		assert.Len(t, got.Tally.Ops, 3)
		assert.Positive(t, sum(got.Tally.Ops), kind.key)
	}

	relay := scene{Name: "relay", Procs: 2, RelayWaits: 3, Dur: 10 * time.Second}
	got := askRows(t, "rwsem", relay)[0]
	assert.Equal(t, []float64{3}, got.Tally.Ops)
	assert.Positive(t, writerWait.of(relay, got))
	assert.True(t, math.IsNaN(writerWait.of(relay, outcome{})))

	var out bytes.Buffer
	assert.Equal(t, 2, realMain([]string{rowsChild, "-scenes", "x"}, &out, &out))
}

func TestReaderSpinLocks(t *testing.T) {
	described := map[string]string{}
	for _, kind := range rowLocks() {
		if l, ok := kind.fresh().(*rwsemLoops); ok {
			described[kind.key] = fmt.Sprintf("%+v", l)
		}
	}
	require.Len(t, described, 3)
	assert.NotEqual(t, described["rwsem"], described[spinOffLock])
	assert.NotEqual(t, described["rwsem"], described[spinThresholdLock])
	assert.NotEqual(t, described[spinOffLock], described[spinThresholdLock])
}

func TestMailbox(t *testing.T) {
	var m *mailbox
	kind := lockKind{key: mailboxLock, fresh: func() target {
		m = newMailbox()
		return m
	}}
	sc := scene{Procs: 2, Dur: 50 * time.Millisecond, Crews: []crew{{N: 8}, {N: 8, ReadPct: 100}}}
	got := sc.run(kind).Tally
	sent, received := sum(crewTally(sc, got, 0).Ops), sum(crewTally(sc, got, 1).Ops)
	left := 0
	for i := range m.groups {
		left += m.groups[i].n
	}
	assert.Positive(t, received)
	assert.EqualValues(t, left, sent-received, "a message was lost or doubled")
	assert.EqualValues(t, 8, m.senders.Load())
	assert.EqualValues(t, 8, m.receivers.Load())
}

func TestMailboxWithoutSenders(t *testing.T) {
	sc := scene{Procs: 2, Dur: time.Millisecond, Crews: []crew{{N: 4, ReadPct: 100}}}
	kind := lockKind{key: mailboxLock, fresh: func() target { return newMailbox() }}
	assert.Zero(t, sum(sc.run(kind).Tally.Ops), "they wait until the end")
}

// ran is an experiment that has been run, with two goroutines, for the given
// figures by side and round, in Mops/s.
func ran(e *experiment, mops ...[]float64) *results {
	res := &results{}
	for _, rounds := range mops {
		v := &variant{failed: rounds == nil}
		res.variants = append(res.variants, v)
		got := map[string][]outcome{}
		for _, x := range rounds {
			for _, sc := range e.scenes {
				got[sc.Name] = append(got[sc.Name], outcomeOf(sc.Name, "", x))
			}
		}
		res.got = append(res.got, got)
	}
	return res
}

func TestRowsTable(t *testing.T) {
	c := curve{[]int{2, 4}, []float64{1000, 1000}, []float64{3000, 500}}
	e := newSetup(false).oneCurve("A0", "test", c, []side{{name: "on"}, {name: "off"}}, offOn,
		func(n int) scene { return scene{Name: fmt.Sprint("g", n)} })
	var out bytes.Buffer
	r := &rows{trial: trial{session: &session{out: &out}}}
	r.table(&e, ran(&e, []float64{2, 3, 4}, []float64{1, 1, 1}, []float64{2, 3, 3}))
	assert.Regexp(t, line("off", "->", "on:"), out.String())
	assert.Regexp(t, line("2", "kops/s", "1000", "->", "3000", "3.00x", "1000", "->", "3000", "3.00x", "2.00..4.00", "0.75..1.33", "same"), out.String())
	assert.Regexp(t, line("4", "kops/s", "1000", "->", "500", "0.50x", "1000", "->", "3000", "3.00x", "2.00..4.00", "0.75..1.33", "opposite"), out.String())

	r.table(&e, ran(&e, []float64{2}, nil, []float64{2}))
	e.unless = "there is no such machine"
	r.table(&e, nil)
	assert.Contains(t, out.String(), "not measurable: there is no such machine\n")

	out.Reset()
	r.summary()
	assert.Regexp(t, line("A0", "test", "1.22x", "3.00x", "2.00..4.00", "0.75..1.33", "same", "1 same, 1 opposite"), out.String())
	assert.Regexp(t, line("A0", "test", "1.22x", "-", "-", "1.00..1.00", "failed", "2 failed"), out.String())
	assert.Regexp(t, line("A0", "test", "1.22x", "-", "-", "-", "not measurable", "there is no such machine"), out.String())
	assert.Regexp(t, line("A0", "test: 4, kops/s: published 0.50x, ours 3.00x (2.00..4.00)"), out.String())
	assert.Equal(t, 1, strings.Count(out.String(), ", kops/s: published"))
}

func TestTooFewCPUs(t *testing.T) {
	r := &rows{trial: trial{session: &session{procs: 2}}}
	for needs, want := range map[int]string{0: "", 1: "", runtime.NumCPU() + 1: "CPUs at once"} {
		e := &experiment{needs: needs}
		r.prepare(e, "")
		assert.Equal(t, want != "", e.unless != "", needs)
		assert.Contains(t, e.unless, want)
	}
}

func readFile(t *testing.T, name string) []record {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	all, err := readRecords(f)
	require.NoError(t, err)
	return all
}

func TestTinyRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.json")
	out := tiny(t, "rows", "-only", "A12,A7,D", "-cells", "^(mixed/g4|relay|tries/g1)", "-steps", "5,20", "-json", file)
	const ours = ` +[\d.]+ -> [\d.]+ +[\d.]+x +[\d.]+ +[\d.]+  (same|opposite|neutral|level)\n`
	if runtime.NumCPU() > 1 {
		assert.Regexp(t, `(?s)A12: half reads, half writes, 5 steps.*\n4 +kops/s +1674 -> 1684 +1.01x`+ours, out)
		assert.Regexp(t, `(?s)A12: half reads, half writes, 20 steps.*\n4 +kops/s +1674 -> 1684 +1.01x`+ours, out)
	}
	assert.Regexp(t, `writer +wait p50, us +- -> - +- +[\d.]+ -> [\d.]+ `, out)
	assert.Contains(t, out, "== Summary")
	assert.NotContains(t, out, "NaN")

	seen := map[string]record{}
	for _, rec := range readFile(t, file)[1:] {
		key := rec.Table + " " + rec.Cell + " " + rec.Lock
		assert.NotContains(t, seen, key, "twice")
		seen[key] = rec
	}
	for _, lock := range []string{"rwsem default", "rwsem handoff=0", "rwsem default again"} {
		assert.Len(t, seen["rows/A7 relay "+lock].Metrics["write-p50-ns"], 1, lock)
	}
	if runtime.NumCPU() > 1 {
		assert.Len(t, seen["rows/A12 mixed/g4/5steps rwsem readerspin=0"].Metrics[metricThroughput], 1)
	}
	var doc strings.Builder
	for _, table := range tablesOf(readFile(t, file)[1:]) {
		table.write(&doc)
	}
	assert.Contains(t, doc.String(), "| rwsem default to side | rwsem default to itself |")
	assert.Contains(t, doc.String(), "| relay | write-p50-ns | less | rwsem handoff=0 |")
}

func TestTinyOtherBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	if runtime.NumCPU() == 1 {
		t.Skip("not measurable")
	}
	out := tiny(t, "rows", "-only", "A17", "-cells", "^writers/g1/")
	if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" {
		assert.Regexp(t, `1 +kops/s +30422 -> 30323 +1.00x +[\d.]+ -> [\d.]+ +[\d.]+x`, out)
	} else {
		assert.Contains(t, out, "not measurable: the build is made from the same files")
	}
}

func TestFailingSide(t *testing.T) {
	t.Setenv(failingSetting, "handoff=0")
	var stdout, stderr bytes.Buffer
	args := []string{"rows", "-only", "A7", "-cells", "^(relay|readers40)", "-quick", "-rounds", "2", "-dur", "5ms"}
	assert.Equal(t, 1, realMain(args, &stdout, &stderr))
	assert.Regexp(t, `(?s)handoff=0: left out.*exit status 3\nfailing as asked\n.*bench: A7, a writer under a relay of readers: failed: rwsem handoff=0\n`, stderr.String())
	assert.Regexp(t, `(?m)^writer +wait p50, us .*  failed$`, stdout.String())
	assert.Regexp(t, `(?m)^readers, each +min in 5 s +1793 -> 43 .*  (same|neutral|opposite)$`, stdout.String())
	assert.Regexp(t, `(?m)^A7 +a writer under a relay .*  failed$`, stdout.String())
}

func TestUnknownSetting(t *testing.T) {
	e := &experiment{scenes: []scene{{Name: "x", Procs: 1, Dur: time.Millisecond, Crews: []crew{{N: 1}}}}}
	r := &rows{trial: trial{session: &session{procs: 1}}}
	_, err := r.runScenes(&variant{exe: os.Args[0], env: []string{policyVar + "=nope=0"}}, "rwsem", e)
	assert.ErrorContains(t, err, "nope=0")
}
