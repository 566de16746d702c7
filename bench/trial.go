package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// trial is a run that compares variants of rwsem which cannot be had in one
// process, so that every round of each is a process of its own.
type trial struct {
	*session
	stderr          io.Writer
	variants        []*variant // the first is what the others are compared with
	processes, done int

	peers map[string]map[string]*series // of sync's locks by lock and cell
}

// variant is rwsem built, or set, in one way, and how it fared.
type variant struct {
	name   string
	exe    string
	env    []string // beside what there is
	failed bool

	throughput map[string]*series // by cell
	vsBest     []float64          // by round: the mean over the cells of the grid
}

// withDefault splits a list given to a flag, and puts "" first: what the
// others are compared with.
func withDefault(flagName, list string) ([]string, error) {
	values := []string{""}
	seen := map[string]bool{}
	for v := range strings.SplitSeq(list, ";") {
		v = strings.TrimSpace(v)
		switch {
		case v == "":
		case seen[v]:
			return nil, usagef("-%s: %q is there twice", flagName, v)
		default:
			seen[v] = true
			values = append(values, v)
		}
	}
	return values, nil
}

// peerLocks are what throughput is compared with; latency is compared with the
// first.
var peerLocks = []string{"sync", "mutex"}

// child is a process that runs some cells once.
type child struct {
	exe   string
	env   []string
	locks []string
	cells []cell
	timed bool
}

// run returns what the child measured and what it wrote to its standard error.
func (t *trial) run(c child) ([]outcome, string, error) {
	return t.ask(c.exe, c.env, t.onceThrough(c.cells, len(c.locks)), len(c.cells)*len(c.locks), roundsChild,
		"-cells", formatCells(c.cells), "-locks", strings.Join(c.locks, ","),
		"-dur", t.dur.String(), "-timed="+strconv.FormatBool(c.timed), "-steps", formatSteps(t.sizes))
}

// ask runs a program with an environment beside what there is, for so many
// outcomes in a time of planned length.
func (t *trial) ask(exe string, env []string, planned time.Duration, want int, args ...string) ([]outcome, string, error) {
	ctx, cancel := withLimit(context.Background(), childLimit(planned))
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", t.procs))
	cmd.Env = append(cmd.Env, env...)
	return readChild(ctx, cmd, want)
}

func readChild(ctx context.Context, cmd *exec.Cmd, want int) ([]outcome, string, error) {
	stdout, stderr, err := capture(ctx, cmd)
	if err != nil {
		return nil, string(stderr), err
	}
	got, err := readOutcomes(bytes.NewReader(stdout))
	if err == nil && len(got) != want {
		err = fmt.Errorf("%d results instead of %d", len(got), want)
	}
	if err != nil {
		return nil, string(stderr), fmt.Errorf("%s: %w\n%s", cmd.Args[1], err, stderr)
	}
	return got, string(stderr), nil
}

// complaint starts rwsem once with the environment of every variant and returns
// what it first complains of, "" for nothing.
func (t *trial) complaint() (string, error) {
	for _, v := range t.variants {
		_, stderr, err := t.run(child{exe: v.exe, env: v.env, locks: []string{"rwsem"}})
		switch {
		case err != nil:
			return "", err
		case strings.Contains(stderr, policyVar):
			return strings.TrimSpace(stderr), nil
		}
	}
	return "", nil
}

// step announces a process as a step of the whole and runs it.
func (t *trial) step(what string, planned time.Duration, process func() error) error {
	finished := t.prog.step(what, t.done, t.processes, planned)
	t.done++
	defer finished()
	return process()
}

// inTurn starts the process of every variant in a round, each round starting
// with another one. A variant that fails is reported and left out from then on.
func (t *trial) inTurn(what string, round int, planned time.Duration, process func(i int, v *variant) error) {
	for i := range rotated(len(t.variants), round) {
		v := t.variants[i]
		if v.failed {
			t.done++
			t.prog.skip(planned)
			continue
		}
		if err := t.step(what+" of "+v.name, planned, func() error { return process(i, v) }); err != nil {
			t.fail(v, err)
		}
	}
}

func (t *trial) fail(v *variant, err error) {
	v.failed = true
	fmt.Fprintf(t.stderr, "%s: left out from here on: %v\n", v.name, err)
}

// overVariants calls one in every round with what the peers measured and with
// what each variant did, the peers first and the variants in turn. The peers
// run as the first variant does. one may be nil.
func (t *trial) overVariants(what string, peers child, one func(i int, peers, own []outcome)) error {
	peers.exe, peers.env = t.variants[0].exe, t.variants[0].env
	for r := range t.rounds {
		var ref []outcome
		err := t.step(what+" of sync's locks", t.onceThrough(peers.cells, len(peers.locks)), func() (err error) {
			ref, _, err = t.run(peers)
			return err
		})
		if err != nil {
			return fmt.Errorf("sync's locks: %w", err)
		}
		if !peers.timed {
			for _, o := range ref {
				addTo(t.peers[o.Lock], o)
			}
		}
		t.inTurn(what, r, t.onceThrough(peers.cells, 1), func(i int, v *variant) error {
			own, _, err := t.run(child{v.exe, v.env, []string{"rwsem"}, peers.cells, peers.timed})
			if err != nil {
				return err
			}
			if !peers.timed {
				for _, o := range own {
					addTo(v.throughput, o)
				}
			}
			if one != nil {
				one(i, ref, own)
			}
			return nil
		})
	}
	return nil
}

// planVariants is the time that overVariants takes.
func (t *trial) planVariants(cells []cell, peers int) time.Duration {
	return t.planCells(cells, peers+len(t.variants))
}

// start starts the clock of a run planned to take that time in so many processes.
func (t *trial) start(planned time.Duration, processes int) {
	t.processes = processes
	t.prog = newProgress(t.stderr, planned)
	t.clear()
}

// clear makes room for another table, which may have cells of the same names.
func (t *trial) clear() {
	t.peers = map[string]map[string]*series{}
	for _, key := range peerLocks {
		t.peers[key] = map[string]*series{}
	}
	for _, v := range t.variants {
		v.throughput = map[string]*series{}
	}
}

func addTo(byCell map[string]*series, o outcome) {
	if byCell[o.Cell] == nil {
		byCell[o.Cell] = new(series)
	}
	byCell[o.Cell].add(o.Tally)
}

// runThroughput runs cells of the grid.
func (t *trial) runThroughput(cells []cell) error {
	return t.overVariants("throughput", child{locks: peerLocks, cells: cells}, func(i int, ref, own []outcome) {
		t.variants[i].vsBest = append(t.variants[i].vsBest, throughputRatio(own, ref))
	})
}

// throughputRatio is the geometric mean over the cells of a round's throughput
// to the best of the peers'.
func throughputRatio(own, peers []outcome) float64 {
	best := map[string]float64{}
	for _, o := range peers {
		best[o.Cell] = max(best[o.Cell], o.Tally.mops())
	}
	var ratios []float64
	for _, o := range own {
		ratios = append(ratios, o.Tally.mops()/best[o.Cell])
	}
	return geomean(ratios)
}

// leastShare stands for shares so small that a mean of logarithms would be of
// them alone.
const leastShare = 0.01

// results are the grid's for this variant, with its fairness: the geometric
// mean over the cells of the slowest goroutine's part of the mean.
func (t *trial) results(cells []cell, v *variant) (standing, float64) {
	var results []*cellResult
	var shares []float64
	for _, c := range cells {
		res := &cellResult{name: c.name(), byLock: map[string]*series{"rwsem": v.throughput[c.name()]}}
		for key, byCell := range t.peers {
			res.byLock[key] = byCell[c.name()]
		}
		res.judge()
		results = append(results, res)
		shares = append(shares, math.Max(leastShare, res.slowest("rwsem")))
	}
	return standingOf(results), geomean(shares)
}

const standingRow = "%8s %12s %10s %12s %5s  %-26s %6s %9s"

func standingHead() []any {
	return []any{"vs best", "spread", "vs default", "spread", fmt.Sprintf("<%.1fx", slowCell), "worst cell", "unfair", "slow/mean"}
}

// standingCells are a row of what runThroughput measured.
func (t *trial) standingCells(cells []cell, v *variant) []any {
	vsBest, vsDefault := overRounds(v.vsBest), ratioOf(v.vsBest, t.variants[0].vsBest)
	st, fairness := t.results(cells, v)
	return []any{vsBest, vsBest.spread(), vsDefault, vsDefault.spread(),
		fmt.Sprint(len(st.slow)), st.worst, fmt.Sprint(len(st.unfair)), fmt.Sprintf("%.2f", fairness)}
}

// nameWidth is that of a column of the variants' names.
func (t *trial) nameWidth() int {
	var width int
	for _, v := range t.variants {
		width = max(width, len(v.name))
	}
	return width
}

// saveThroughput records what overVariants measured since the last clear.
func (t *trial) saveThroughput(table string) {
	save := func(lock string, byCell map[string]*series) {
		for _, cell := range slices.Sorted(maps.Keys(byCell)) {
			t.data.add(record{Table: table, Cell: cell, Lock: lock, Metrics: byCell[cell].metrics()})
		}
	}
	for _, key := range peerLocks {
		save(key, t.peers[key])
	}
	for _, v := range t.variants {
		save("rwsem "+v.name, v.throughput)
	}
}

// end closes the data file and reports what failed.
func (t *trial) end() error { return errors.Join(t.failures(), t.data.close()) }

func (t *trial) failures() error {
	var failed []string
	for _, v := range t.variants {
		if v.failed {
			failed = append(failed, v.name)
		}
	}
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, "; "))
	}
	return nil
}
