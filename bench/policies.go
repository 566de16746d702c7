package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// policyVar is where rwsem reads its settings at program start.
const policyVar = "RWSEMDEBUG"

// defaultSettings turns one mechanism off at a time; urgent is not among them,
// as nothing here calls LockUrgent.
const defaultSettings = ";readerspin=0;writerspin=0;adaptive=0;shortpark=0;claim=0;wakemany=0;" +
	"handoff=0;handoff=20us;handoff=100us;handoff=1ms;handoff=4ms;handoffspin=0;ownercheck=0;" + plainQueue

// plainQueue is every mechanism off.
const plainQueue = "readerspin=0,writerspin=0,adaptive=0,shortpark=0,claim=0,wakemany=0," +
	"handoff=0,handoffspin=0,ownercheck=0"

const policiesHelp = `Policies measures rwsem.RWMutex with one of its mechanisms off, or set otherwise,
at a time. The settings are those of the environment variable RWSEMDEBUG, which
is read at program start, so every round of every setting is a process of its
own.

    go run ./bench policies [flags]

Every round runs sync's locks once and then every setting once, starting with
another setting each time. The table has three kinds of figure:

    throughput  "vs best" is a round's geometric mean over the cells of the ratio
                to the better of sync.RWMutex and sync.Mutex in the same round,
                "vs default" its ratio to that of rwsem as it is: medians over
                the rounds, and the least and the greatest. Higher is better.
                The cells below 0.9x and the worst one are by the medians.
    fairness    the cells that are unfair by the grid's rule, and the geometric
                mean over the cells of what the slowest goroutine got, of the
                mean; a cell in which that is less than 0.01 counts as 0.01.
    latency     in rounds of their own, geometric means, over the cells and over
                readers and writers, of the ratio to sync.RWMutex in the same
                round: of the p99.9 of all waits, and of the median of the
                goroutines' worst waits. Lower is better.

Cells are named as in the main command. Without -cells, throughput and latency
take a few of those at the GOMAXPROCS there is.

A setting that fails or hangs is reported and left out of what follows. Exit
status: 0 if everything ran; 1 if something failed; 2 for a mistake in the
command line.

Flags:
`

var policyExtents = extents{
	full:  extent{4, 100 * time.Millisecond, shortTurn, "15 minutes"},
	quick: extent{3, 80 * time.Millisecond, shortTurn, "a minute"},
}

var (
	usualPolicyGrid    = regexp.MustCompile(`/r(99|90|50|0)/`)
	usualPolicyLatency = regexp.MustCompile(`/g8/r(90|50)/(6ns|3us)$|/g64/r90/(6ns|3us)$`)
)

// setting is a way to set rwsem's mechanisms, and how it fared.
type setting struct {
	value  string // of policyVar
	failed bool

	throughput map[string]*series // by cell
	vsBest     []float64          // by round, as are these
	tail       []float64
	worst      []float64
}

func (st *setting) name() string {
	switch st.value {
	case "":
		return "default"
	case plainQueue:
		return "plain queue"
	default:
		return st.value
	}
}

// parseSettings puts the default setting first if the list is without it: the
// others are compared with it.
func parseSettings(list string) ([]*setting, error) {
	values := strings.Split(list, ";")
	seen := map[string]bool{}
	var settings []*setting
	add := func(v string) {
		seen[v] = true
		settings = append(settings, &setting{value: v, throughput: map[string]*series{}})
	}
	for i, v := range values {
		v = strings.TrimSpace(v)
		if i == 0 && v != "" {
			add("")
		}
		switch {
		case !seen[v]:
			add(v)
		case v != "":
			return nil, usagef("-settings: %q is there twice", v)
		}
	}
	return settings, nil
}

// policies is a run of the command.
type policies struct {
	*session
	stderr          io.Writer
	exe             string
	settings        []*setting
	grid, latency   []cell
	peers           map[string]map[string]*series // by lock and cell
	processes, done int
}

// peerLocks are what throughput is compared with; latency is compared with the
// first.
var peerLocks = []string{"sync", "mutex"}

func policiesCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	fs := flag.NewFlagSet("bench policies", flag.ContinueOnError)
	list := fs.String("settings", defaultSettings, "the `settings`, semicolons between them, each a value of RWSEMDEBUG")
	if err := o.parseRounds(fs, policyExtents, args, policiesHelp, stdout); err != nil {
		return err
	}
	settings, err := parseSettings(*list)
	if err != nil {
		return err
	}
	s, err := newSession(o, stdout)
	if err != nil {
		return err
	}
	p := &policies{session: s, stderr: stderr, settings: settings}
	if p.exe, err = os.Executable(); err != nil {
		return err
	}
	p.chooseCells()
	if err := p.checkSettings(); err != nil {
		return err
	}
	p.begin()
	p.plan()
	if err := p.runThroughput(); err != nil {
		return err
	}
	if err := p.runLatency(); err != nil {
		return err
	}
	p.table()
	return p.failures()
}

func (p *policies) chooseCells() {
	grid, latency := usualPolicyGrid, usualPolicyLatency
	if p.quick {
		grid, latency = quickGrid, quickLatency
	}
	p.grid, p.latency = p.chooseDefaultProcs(grid), p.chooseDefaultProcs(latency)
}

// plan starts the clock and sets up what is filled by rounds.
func (p *policies) plan() {
	n := len(p.settings)
	p.processes = 2 * p.rounds * (1 + n)
	p.prog = newProgress(p.stderr,
		p.planCells(p.grid, len(peerLocks)+n)+p.planCells(p.latency, 1+n))
	p.peers = map[string]map[string]*series{}
	for _, key := range peerLocks {
		p.peers[key] = map[string]*series{}
	}
}

// child is a process that runs some cells once.
type child struct {
	value string // of policyVar
	locks []string
	cells []cell
	timed bool
}

// run returns what the child measured and what it wrote to its standard error.
func (p *policies) run(c child) ([]outcome, string, error) {
	var names []string
	for _, cell := range c.cells {
		names = append(names, regexp.QuoteMeta(cell.name()))
	}
	ctx, cancel := withLimit(childLimit(p.onceThrough(c.cells, len(c.locks))))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.exe, policiesChild,
		"-cells", "^("+strings.Join(names, "|")+")$", "-locks", strings.Join(c.locks, ","),
		"-dur", p.dur.String(), "-timed="+strconv.FormatBool(c.timed), "-steps", formatSteps(p.sizes))
	cmd.Env = append(os.Environ(), policyVar+"="+c.value, fmt.Sprintf("GOMAXPROCS=%d", p.procs))
	return p.outcomes(ctx, cmd, len(c.cells)*len(c.locks))
}

func (p *policies) outcomes(ctx context.Context, cmd *exec.Cmd, want int) ([]outcome, string, error) {
	stdout, stderr, err := capture(ctx, cmd)
	if err != nil {
		return nil, string(stderr), err
	}
	got, err := readOutcomes(bytes.NewReader(stdout))
	if err == nil && len(got) != want {
		err = fmt.Errorf("%d results instead of %d", len(got), want)
	}
	if err != nil {
		return nil, string(stderr), fmt.Errorf("%s: %w\n%s", policiesChild, err, stderr)
	}
	return got, string(stderr), nil
}

// checkSettings starts rwsem once with every setting, to hear it complain.
func (p *policies) checkSettings() error {
	for _, st := range p.settings {
		_, stderr, err := p.run(child{value: st.value, locks: []string{"rwsem"}})
		switch {
		case err != nil:
			return err
		case strings.Contains(stderr, policyVar):
			return usagef("-settings: %s", strings.TrimSpace(stderr))
		}
	}
	return nil
}

// step runs a child as a step of the whole.
func (p *policies) step(what string, c child) ([]outcome, error) {
	finished := p.prog.step(what, p.done, p.processes, p.onceThrough(c.cells, len(c.locks)))
	p.done++
	defer finished()
	out, _, err := p.run(c)
	return out, err
}

// overSettings calls one in every round with what the peers measured and with
// what each setting did, the peers first and the settings in turn.
func (p *policies) overSettings(what string, peers child, one func(peers, own []outcome, st *setting)) error {
	for r := range p.rounds {
		ref, err := p.step(what+" of sync's locks", peers)
		if err != nil {
			return fmt.Errorf("sync's locks: %w", err)
		}
		p.addPeers(ref, peers.timed)
		for i := range rotated(len(p.settings), r) {
			st := p.settings[i]
			c := peers
			c.value, c.locks = st.value, []string{"rwsem"}
			if st.failed {
				p.done++
				p.prog.skip(p.onceThrough(c.cells, 1))
				continue
			}
			own, err := p.step(what+" of "+st.name(), c)
			if err != nil {
				st.failed = true
				fmt.Fprintf(p.stderr, "%s: left out from here on: %v\n", st.name(), err)
				continue
			}
			one(ref, own, st)
		}
	}
	return nil
}

func (p *policies) addPeers(ref []outcome, timed bool) {
	if timed {
		return
	}
	for _, o := range ref {
		addTo(p.peers[o.Lock], o)
	}
}

func addTo(byCell map[string]*series, o outcome) {
	if byCell[o.Cell] == nil {
		byCell[o.Cell] = new(series)
	}
	byCell[o.Cell].add(o.Tally)
}

func (p *policies) runThroughput() error {
	peers := child{locks: peerLocks, cells: p.grid}
	return p.overSettings("throughput", peers, func(ref, own []outcome, st *setting) {
		for _, o := range own {
			addTo(st.throughput, o)
		}
		st.vsBest = append(st.vsBest, throughputRatio(own, ref))
	})
}

func (p *policies) runLatency() error {
	peers := child{locks: peerLocks[:1], cells: p.latency, timed: true}
	return p.overSettings("latency", peers, func(ref, own []outcome, st *setting) {
		st.tail = append(st.tail, waitRatio(own, ref, func(w *roundWaits) float64 { return w.P999 }))
		st.worst = append(st.worst, waitRatio(own, ref, func(w *roundWaits) float64 { return w.WorstMid }))
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

// waitRatio is the geometric mean over the cells and over readers and writers
// of a round's figure to that of the peer; a cell without readers or without
// writers counts for the others alone.
func waitRatio(own, peer []outcome, figure func(*roundWaits) float64) float64 {
	ref := map[string]outcome{}
	for _, o := range peer {
		ref[o.Cell] = o
	}
	var ratios []float64
	add := func(own, ref *roundWaits) {
		if own != nil && ref != nil {
			ratios = append(ratios, figure(own)/figure(ref))
		}
	}
	for _, o := range own {
		add(o.Reads, ref[o.Cell].Reads)
		add(o.Writes, ref[o.Cell].Writes)
	}
	return geomean(ratios)
}

// leastShare stands for shares so small that a mean of logarithms would be of
// them alone.
const leastShare = 0.01

// results are the grid's for this setting, with its fairness: the geometric
// mean over the cells of the slowest goroutine's part of the mean.
func (p *policies) results(st *setting) (standing, float64) {
	var results []*cellResult
	var shares []float64
	for _, c := range p.grid {
		res := &cellResult{name: c.name(), byLock: map[string]*series{"rwsem": st.throughput[c.name()]}}
		for key, byCell := range p.peers {
			res.byLock[key] = byCell[c.name()]
		}
		res.judge()
		results = append(results, res)
		shares = append(shares, math.Max(leastShare, res.slowest("rwsem")))
	}
	return standingOf(results), geomean(shares)
}

func (p *policies) table() {
	p.title("Policies: rwsem.RWMutex with its mechanisms set otherwise, against the best of sync's locks")
	fmt.Fprintf(p.out, "%d rounds of %d cells for throughput and fairness, %d rounds of %d cells for latency (to sync.RWMutex)\n",
		p.rounds, len(p.grid), p.rounds, len(p.latency))
	var width int
	for _, st := range p.settings {
		width = max(width, len(st.name()))
	}
	row := fmt.Sprintf("%%-%ds", width) + "  %8s %12s %10s %12s %5s  %-26s %6s %9s   %8s %12s %10s %12s"
	p.row(row, "setting", "vs best", "spread", "vs default", "spread", fmt.Sprintf("<%.1fx", slowCell), "worst cell",
		"unfair", "slow/mean", "p99.9", "spread", "worst wait", "spread")
	for _, st := range p.settings {
		if st.failed {
			fmt.Fprintf(p.out, "%-*s  failed\n", width, st.name())
			continue
		}
		p.settingRow(row, st)
	}
}

func (p *policies) settingRow(row string, st *setting) {
	vsBest, vsDefault := overRounds(st.vsBest), ratioOf(st.vsBest, p.reference().vsBest)
	tail, worst := overRounds(st.tail), overRounds(st.worst)
	cells, fairness := p.results(st)
	p.row(row, st.name(), vsBest, vsBest.spread(), vsDefault, vsDefault.spread(),
		fmt.Sprint(len(cells.slow)), cells.worst, fmt.Sprint(len(cells.unfair)), fmt.Sprintf("%.2f", fairness),
		tail, tail.spread(), worst, worst.spread())
}

// reference is the default setting.
func (p *policies) reference() *setting {
	for _, st := range p.settings {
		if st.value == "" {
			return st
		}
	}
	return new(setting)
}

func (p *policies) failures() error {
	var failed []string
	for _, st := range p.settings {
		if st.failed {
			failed = append(failed, st.name())
		}
	}
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, "; "))
	}
	return nil
}
