package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failingSetting in the environment of the test program names the setting with
// which its children fail.
const failingSetting = "BENCH_TEST_FAILING_SETTING"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != roundsChild && os.Args[1] != rowsChild {
		os.Exit(m.Run())
	}
	fails, set := os.LookupEnv(failingSetting)
	measures := !slices.Contains(os.Args, "")
	if set && measures && os.Getenv(policyVar) == fails {
		fmt.Fprintln(os.Stderr, "failing as asked")
		os.Exit(3)
	}
	os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr))
}

func TestWithDefault(t *testing.T) {
	tests := map[string]struct {
		list string
		want []string
	}{
		"default only":     {"", []string{""}},
		"default first":    {";claim=0", []string{"", "claim=0"}},
		"default missing":  {"claim=0;handoff=0,readerspin=0", []string{"", "claim=0", "handoff=0,readerspin=0"}},
		"default last":     {"claim=0;", []string{"", "claim=0"}},
		"spaces":           {"claim=0; handoff=1ms", []string{"", "claim=0", "handoff=1ms"}},
		"default repeated": {";;claim=0;", []string{"", "claim=0"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := withDefault("settings", tt.list)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}

	settings, err := withDefault("settings", defaultSettings)
	require.NoError(t, err)
	require.Len(t, settings, 16)
	assert.Equal(t, "default", settingName(settings[0]))
	assert.Equal(t, "readerspin=0", settingName(settings[1]))
	assert.Equal(t, "plain queue", settingName(settings[15]))
}

func TestPolicyCells(t *testing.T) {
	for quick, want := range map[bool][2]int{false: {36, 6}, true: {5, 2}} {
		p := &policies{trial: trial{session: &session{options: options{quick: quick}, procs: 2, all: allCells(2)}}}
		p.chooseCells()
		assert.Len(t, p.grid, want[0])
		assert.Len(t, p.latency, want[1])
	}
}

func TestSteps(t *testing.T) {
	sizes, err := parseSteps("1,20,300")
	require.NoError(t, err)
	assert.Equal(t, 20, sizes[1].steps)
	assert.Equal(t, "1,20,300", formatSteps(sizes))
	assert.Zero(t, sectionSizes[1].steps, "the original changed")
	_, err = parseSteps("1,2")
	assert.Error(t, err)
	_, err = parseSteps("1,2,x")
	assert.Error(t, err)
}

func outcomeOf(cell, lock string, mops float64) outcome {
	return outcome{Cell: cell, Lock: lock, Tally: tally{Ops: []float64{mops, mops}, Elapsed: 2 * time.Microsecond}}
}

func TestThroughputRatio(t *testing.T) {
	own := []outcome{outcomeOf("a", "rwsem", 20), outcomeOf("b", "rwsem", 10)}
	peers := []outcome{
		outcomeOf("a", "sync", 10), outcomeOf("a", "mutex", 5),
		outcomeOf("b", "sync", 5), outcomeOf("b", "mutex", 20),
	}
	assert.InDelta(t, 1, throughputRatio(own, peers), 1e-9)
	assert.InDelta(t, 2, throughputRatio(own[:1], peers), 1e-9)
}

func TestWaitRatio(t *testing.T) {
	timed := func(cell string, reads, writes *roundWaits) outcome {
		return outcome{Cell: cell, Reads: reads, Writes: writes}
	}
	p999 := func(w *roundWaits) float64 { return w.P999 }
	own := []outcome{timed("a", &roundWaits{P999: 80}, &roundWaits{P999: 10})}
	peer := []outcome{timed("a", &roundWaits{P999: 10}, &roundWaits{P999: 20})}
	assert.InDelta(t, 2, waitRatio(own, peer, p999), 1e-9)
	own[0].Writes = nil
	assert.InDelta(t, 8, waitRatio(own, peer, p999), 1e-9, "readers only")
}

func TestResults(t *testing.T) {
	cells := []cell{{procs: 2, goroutines: 2, readPct: 90}, {procs: 2, goroutines: 2}}
	a, b := cells[0].name(), cells[1].name()
	lock := func(mops, slowest float64) *series {
		return &series{mops: []float64{mops}, slowest: []float64{slowest}}
	}
	tr := &trial{
		peers: map[string]map[string]*series{
			"sync":  {a: lock(10, 0.5), b: lock(10, 0.5)},
			"mutex": {a: lock(20, 0.5), b: lock(5, 0.5)},
		},
	}
	got, fairness := tr.results(cells, &variant{throughput: map[string]*series{a: lock(10, 1), b: lock(30, 0)}})
	assert.InDeltaSlice(t, []float64{0.5, 3}, got.ratios, 1e-9)
	assert.Len(t, got.slow, 1)
	assert.Equal(t, a+" (0.50x)", got.worst)
	assert.Equal(t, []string{b}, got.unfair)
	assert.InDelta(t, 0.1, fairness, 1e-9, "0 counts as 0.01")
}

func TestInTurn(t *testing.T) {
	var stderr bytes.Buffer
	tr := &trial{session: &session{}, stderr: &stderr, variants: []*variant{{name: "a"}, {name: "b"}, {name: "c"}}}
	tr.start(9*time.Second, 9)
	var ran string
	for r := range 3 {
		tr.inTurn("work", r, time.Second, func(i int, v *variant) error {
			assert.Same(t, tr.variants[i], v)
			ran += v.name
			if r == 1 && v.name == "c" {
				return errors.New("broken")
			}
			return nil
		})
	}
	assert.Equal(t, "abc"+"bca"+"ab", ran)
	assert.Contains(t, stderr.String(), "work of b: 4 of 9")
	assert.Contains(t, stderr.String(), "c: left out from here on: broken\n")
	assert.Contains(t, stderr.String(), "work of b: 9 of 9", "what is left out counts as done")
	assert.Equal(t, 8*time.Second, tr.prog.planned)
	assert.Equal(t, tr.prog.planned, tr.prog.done)
	assert.EqualError(t, tr.failures(), "failed: c")
}

func TestOutcomes(t *testing.T) {
	var out bytes.Buffer
	args := []string{roundsChild, "-cells", "p16/g2/r50/6ns", "-locks", "rwsem,sync", "-dur", "1ms", "-steps", "1,2,3", "-timed"}
	require.Zero(t, realMain(args, &out, &out), out.String())
	got, err := readOutcomes(&out)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, "p16/g2/r50/6ns", got[0].Cell)
	assert.Equal(t, "sync", got[1].Lock)
	assert.Len(t, got[0].Tally.Ops, 2)
	assert.Positive(t, got[0].Tally.mops())
	assert.Positive(t, got[0].Writes.P999)
	_, err = readOutcomes(strings.NewReader("{}\nnonsense"))
	assert.Error(t, err)
}

func TestCapture(t *testing.T) {
	ctx, cancel := withLimit(context.Background(), 50*time.Millisecond)
	defer cancel()
	// The test program, asked for a child that runs for longer.
	cmd := exec.CommandContext(ctx, os.Args[0], roundsChild, "-cells", "p2/g2/r0/6ns", "-dur", "1m", "-steps", "1,2,3")
	began := time.Now()
	_, _, err := capture(ctx, cmd)
	assert.ErrorContains(t, err, "not over after 50ms")
	assert.Less(t, time.Since(began), 20*time.Second)

	_, stderr, err := capture(context.Background(), exec.Command(os.Args[0], roundsChild, "-nope"))
	assert.ErrorContains(t, err, "exit status 2\nbench: flag provided but not defined: -nope")
	assert.Contains(t, string(stderr), "-nope")
}

func TestTinyPolicies(t *testing.T) {
	out := tiny(t, "policies", "-cells", `^p16/g2/r50/6ns$`, "-settings", "readerspin=0")
	const ratio = ` +\d+\.\d\dx +[\d.]+`
	assert.Regexp(t, `(?m)^default`+ratio+` +1\.00x +1\.00\.\.1\.00 +[01]  p16/g2/r50/6ns \([\d.]+x\) +[01] +[\d.]+`+ratio+ratio+`$`, out)
	assert.Regexp(t, `(?m)^readerspin=0`+ratio+ratio, out)
	assert.NotContains(t, out, "NaN")
}

func TestFailingSetting(t *testing.T) {
	t.Setenv(failingSetting, "claim=0")
	var stdout, stderr bytes.Buffer
	args := []string{"policies", "-quick", "-rounds", "2", "-dur", "5ms", "-cells", `^p16/g2/r50/6ns$`, "-settings", "claim=0;handoff=0"}
	assert.Equal(t, 1, realMain(args, &stdout, &stderr))
	assert.Regexp(t, `(?s)claim=0: left out.*exit status 3\nfailing as asked\n.*bench: failed: claim=0\n`, stderr.String())
	assert.Equal(t, 1, strings.Count(stderr.String(), "failing as asked"))
	assert.Regexp(t, `(?m)^claim=0 +failed$`, stdout.String())
	assert.Regexp(t, `(?m)^handoff=0 +\d`, stdout.String())
}
