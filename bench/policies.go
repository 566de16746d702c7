package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"time"
)

// policyVar is where rwsem reads its settings at program start.
const policyVar = "RWSEMDEBUG"

// defaultSettings turns one mechanism off at a time; urgent is not among them,
// as no cell of this command calls LockUrgent.
const defaultSettings = ";readerspin=0;writerspin=0;adaptive=0;shortpark=0;claim=0;wakemany=0;" +
	"handoff=0;handoff=20us;handoff=100us;handoff=1ms;handoff=4ms;handoffspin=0;ownercheck=0;readerfirst=0;" + plainQueue

// plainQueue is every mechanism of defaultSettings off.
const plainQueue = "readerspin=0,writerspin=0,adaptive=0,shortpark=0,claim=0,wakemany=0," +
	"handoff=0,handoffspin=0,ownercheck=0,readerfirst=0"

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

// setting is a way to set rwsem's mechanisms, and how long waits were with it.
type setting struct {
	variant
	tail, worst []float64 // by round
}

func settingName(value string) string {
	switch value {
	case "":
		return "default"
	case plainQueue:
		return "plain queue"
	default:
		return value
	}
}

func newSetting(value, exe string) *setting {
	return &setting{variant: variant{name: settingName(value), exe: exe, env: []string{policyVar + "=" + value}}}
}

// policies is a run of the command.
type policies struct {
	trial
	settings      []*setting // the variants, with more about them
	grid, latency []cell
}

func policiesCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	fs := flag.NewFlagSet("bench policies", flag.ContinueOnError)
	list := fs.String("settings", defaultSettings, "the `settings`, semicolons between them, each a value of RWSEMDEBUG")
	if err := o.parseRounds(fs, policyExtents, args, policiesHelp, stdout); err != nil {
		return err
	}
	values, err := withDefault("settings", *list)
	if err != nil {
		return err
	}
	s, err := newSession(o, allCells(runtime.GOMAXPROCS(0)), stdout)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p := &policies{trial: trial{session: s, stderr: stderr}}
	for _, value := range values {
		st := newSetting(value, exe)
		p.settings = append(p.settings, st)
		p.variants = append(p.variants, &st.variant)
	}
	p.chooseCells()
	switch complaint, err := p.complaint(); {
	case err != nil:
		return err
	case complaint != "":
		return usagef("-settings: %s", complaint)
	}
	p.begin()
	p.start(p.planVariants(p.grid, len(peerLocks))+p.planVariants(p.latency, 1), 2*p.rounds*(1+len(p.variants)))
	if err := p.runThroughput(p.grid); err != nil {
		return err
	}
	if err := p.runLatency(); err != nil {
		return err
	}
	p.saveThroughput("policies")
	p.table()
	return p.end()
}

func (p *policies) chooseCells() {
	grid, latency := usualPolicyGrid, usualPolicyLatency
	if p.quick {
		grid, latency = quickGrid, quickLatency
	}
	p.grid, p.latency = p.chooseDefaultProcs(grid), p.chooseDefaultProcs(latency)
}

func (p *policies) runLatency() error {
	peers := child{locks: peerLocks[:1], cells: p.latency, timed: true}
	return p.overVariants("latency", peers, func(i int, ref, own []outcome) {
		st := p.settings[i]
		st.tail = append(st.tail, waitRatio(own, ref, func(w *roundWaits) float64 { return w.P999 }))
		st.worst = append(st.worst, waitRatio(own, ref, func(w *roundWaits) float64 { return w.WorstMid }))
	})
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

func (p *policies) table() {
	p.title("Policies: rwsem.RWMutex with its mechanisms set otherwise, against the best of sync's locks")
	fmt.Fprintf(p.out, "%d rounds of %d cells for throughput and fairness, %d rounds of %d cells for latency (to sync.RWMutex)\n",
		p.rounds, len(p.grid), p.rounds, len(p.latency))
	width := p.nameWidth()
	row := fmt.Sprintf("%%-%ds", width) + "  " + standingRow + "   %8s %12s %10s %12s"
	head := append([]any{"setting"}, standingHead()...)
	p.row(row, append(head, "p99.9", "spread", "worst wait", "spread")...)
	for _, st := range p.settings {
		if st.failed {
			fmt.Fprintf(p.out, "%-*s  failed\n", width, st.name)
			continue
		}
		tail, worst := overRounds(st.tail), overRounds(st.worst)
		cells := append([]any{st.name}, p.standingCells(p.grid, &st.variant)...)
		p.row(row, append(cells, tail, tail.spread(), worst, worst.spread())...)
	}
}
