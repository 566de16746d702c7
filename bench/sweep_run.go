package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"time"
)

const sweepHelp = `Sweep measures how the cost of a lock grows, with one parameter at a time and
the others fixed.

    go run ./bench sweep [flags]

Sweeps, for -only, each at two settings of the other parameters (one with -quick,
and fewer points):

%s
Every point runs every lock once in every round, starting with another lock each
time, and each of these runs is two: one that counts operations and one, just
after it, in which every wait is timed, clock reading included.

    Mops/s      millions of operations per second
    vs best     ratio to the best of sync's locks: that of sync.RWMutex and
                sync.Mutex which did more in the same round
    CPU us/op   CPU time of the whole process, user and system, per operation
    p99.9       of all waits of readers, and of writers, to within 7%%; "vs sync" is
                the ratio to sync.RWMutex in the same round
    slow/mean   what the slowest goroutine got, of the mean

Values are medians over the rounds; what stands behind a ratio is the least and
the greatest. Above 1x is better for throughput, below 1x for waits. The data
file of -json has p50, p99 and the worst waits too.

A round is long enough for each goroutine to have 20 ms of a CPU, but at most %d
times as long as -dur. Where that is too short, slow/mean means nothing and is
left out (-), and a line whose goroutines did not even all run once ends in how
many did. No wait can be much longer than its round.

Points are named by GOMAXPROCS, goroutines, percentage of reads and section:
p2/g8/r99.9/180ns. That is what -cells matches, in the sweeps of -only.

Locks, for -locks:

%s
The tables go to standard output and the progress to standard error. Exit
status: 0 if everything ran, whoever won; 1 if something failed or a lock hung;
2 for a mistake in the command line.

Flags:
`

var sweepExtents = extents{
	full:  extent{5, 80 * time.Millisecond, shortTurn, "8 minutes"},
	quick: extent{3, 25 * time.Millisecond, shortTurn, "40 seconds"},
}

func sweepHelpText() string {
	return fmt.Sprintf(sweepHelp,
		described(sweepKinds, func(k sweepKind) (string, string) { return k.name, k.about }), longestRound, describedLocks())
}

// sweeps is a run of the command.
type sweeps struct {
	*session
	tables []sweepTable
	done   int // points
}

func sweepCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	var kinds []sweepKind
	fs := flag.NewFlagSet("bench sweep", flag.ContinueOnError)
	pickFlag(fs, &kinds, "only", "sweep", sweepKinds, func(k sweepKind) string { return k.name })
	locksFlag(fs, &o.locks)
	if err := o.parseRounds(fs, sweepExtents, args, sweepHelpText(), stdout); err != nil {
		return err
	}
	tables, err := chooseTables(kinds, o)
	if err != nil {
		return err
	}
	o.cells = nil // matched points, not the cells that a session has to choose from
	s, err := newSession(o, nil, stdout)
	if err != nil {
		return err
	}
	s.sizes = sweepSizes
	defer runtime.GOMAXPROCS(s.procs)
	w := &sweeps{session: s, tables: tables}
	w.begin()
	w.prog = newProgress(stderr, w.plan())
	for _, t := range tables {
		w.runTable(t)
	}
	return w.data.close()
}

// chooseTables leaves out the points that -cells does not match, and the tables
// without any left.
func chooseTables(kinds []sweepKind, o options) ([]sweepTable, error) {
	var tables []sweepTable
	var all []point
	for _, k := range kinds {
		for _, t := range k.tables(runtime.GOMAXPROCS(0), o.quick) {
			all = append(all, t.points...)
			t.points = matchingPoints(t.points, o.cells)
			if len(t.points) > 0 {
				tables = append(tables, t)
			}
		}
	}
	if len(tables) == 0 {
		return nil, usagef("-cells %q matches none of the %d points, such as %s", o.cells, len(all), all[0].name())
	}
	return tables, nil
}

func matchingPoints(points []point, re *regexp.Regexp) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool {
		return re != nil && !re.MatchString(p.name())
	})
}

// longestRound is a bound, in multiples of the least length: thousands of
// goroutines would need a minute to have a turn each.
const longestRound = 4

// sweepRound is how long a round lasts, and whether that is enough for every
// goroutine to have its turn.
func (o options) sweepRound(p point) (d time.Duration, turns bool) {
	want := o.roundTime(cell{procs: p.procs, goroutines: p.goroutines})
	longest := longestRound * o.dur
	return min(want, longest), want <= longest
}

// planPoint is the time of all rounds, each with a run that is timed and one
// that is not.
func (w *sweeps) planPoint(p point) time.Duration {
	d, _ := w.sweepRound(p)
	return d * time.Duration(2*w.rounds*len(w.locks))
}

func (w *sweeps) plan() time.Duration {
	var total time.Duration
	for _, t := range w.tables {
		for _, p := range t.points {
			total += w.planPoint(p)
		}
	}
	return total
}

func (w *sweeps) points() int {
	n := 0
	for _, t := range w.tables {
		n += len(t.points)
	}
	return n
}

// size is the section of a point, as it is on this machine.
func (w *sweeps) size(p point) sectionSize {
	return w.sizes[slices.IndexFunc(w.sizes, func(s sectionSize) bool { return s.name == p.section })]
}

// swept is what one lock did at a point, round by round.
type swept struct {
	series
	reads, writes quantiles
	ran           []float64 // part of the goroutines that did anything
}

func (d *swept) addRan(t tally) {
	ran := 0
	for _, ops := range t.Ops {
		if ops > 0 {
			ran++
		}
	}
	d.ran = append(d.ran, float64(ran)/float64(len(t.Ops)))
}

// note is empty where all goroutines ran.
func (d *swept) note() string {
	ran := median(d.ran)
	if ran == 1 {
		return ""
	}
	return fmt.Sprintf("%.0f%% ran", math.Floor(100*ran))
}

// inAll returns q if it has a value for each round, and otherwise nothing: a
// round without any writes would let the values after it stand beside those of
// other rounds.
func (q quantiles) inAll(rounds int) quantiles {
	if len(q.max) < rounds {
		return quantiles{}
	}
	return q
}

// sweepTimings have histograms of one digit. Those of two would take up 70 kB
// for each of thousands of goroutines.
func sweepTimings(n int) []timing { return timingsTo(1, n) }

func (w *sweeps) loadAt(p point) load {
	dur, _ := w.sweepRound(p)
	return load{procs: p.procs, readPcts: uniform(p.goroutines, p.reads), steps: w.size(p).steps, dur: dur}
}

// runPoint returns what each lock did.
func (w *sweeps) runPoint(p point) []swept {
	ld := w.loadAt(p)
	timings := sweepTimings(p.goroutines)
	all := make([]swept, len(w.locks))
	roundsOf(w.locks, w.rounds, func(_, i int) {
		t := ld.run(w.locks[i], nil)
		_, reads, writes := ld.runTimed(w.locks[i], timings)
		all[i].add(t)
		all[i].addRan(t)
		all[i].reads.add(reads)
		all[i].writes.add(writes)
	})
	for i := range all {
		all[i].reads, all[i].writes = all[i].reads.inAll(w.rounds), all[i].writes.inAll(w.rounds)
	}
	return all
}

const sweepRow = "%-10s  %-14s %9s %8s %12s  %9s   %8s %8s %12s   %8s %8s %12s  %9s  %s"

func (w *sweeps) runTable(t sweepTable) {
	w.title(t.name)
	fmt.Fprintf(w.out, "%d rounds, medians over the rounds\n", w.rounds)
	w.row(sweepRow, "", "", "", "to best", "of sync's", "", "read", "", "", "write", "", "", "", "")
	w.row(sweepRow, t.kind.name, "lock", "Mops/s", "vs best", "spread", "CPU us/op",
		"p99.9", "vs sync", "spread", "p99.9", "vs sync", "spread", "slow/mean", "")
	for _, p := range t.points {
		finished := w.prog.step(t.name+" "+p.name(), w.done, w.points(), w.planPoint(p))
		all := w.runPoint(p)
		w.done++
		finished()
		w.savePoint(t, p, all)
		w.pointRows(t, p, all)
	}
}

func (w *sweeps) savePoint(t sweepTable, p point, all []swept) {
	_, turns := w.sweepRound(p)
	x := t.kind.x(p, w.size(p))
	for i, kind := range w.locks {
		m := all[i].metrics()
		if !turns {
			delete(m, metricFairness)
		}
		all[i].reads.metrics("read", m)
		all[i].writes.metrics("write", m)
		w.data.add(record{Table: t.name, Cell: p.name(), X: &x, Lock: kind.key, Metrics: m})
	}
}

func (w *sweeps) pointRows(t sweepTable, p point, all []swept) {
	_, turns := w.sweepRound(p)
	var peers [][]float64
	var ref swept
	for i, kind := range w.locks {
		if slices.Contains(peerLocks, kind.key) {
			peers = append(peers, all[i].mops)
		}
		if kind.key == peerLocks[0] {
			ref = all[i]
		}
	}
	for i, d := range all {
		fairness := "-"
		if turns {
			fairness = fmt.Sprintf("%.2f", median(d.slowest))
		}
		vs := ratioOf(d.mops, best(peers...))
		reads, writes := ratioOf(d.reads.p999, ref.reads.p999), ratioOf(d.writes.p999, ref.writes.p999)
		w.row(sweepRow, t.kind.label(p), w.locks[i].name, fmt.Sprintf("%.3f", median(d.mops)), vs, vs.spread(),
			figure("%.3g", median(d.cpuEach)), wait(d.reads.p999), reads, reads.spread(),
			wait(d.writes.p999), writes, writes.spread(), fairness, d.note())
	}
}

// wait is the median of waits in ns; there may be none.
func wait(ns []float64) string {
	if len(ns) == 0 {
		return "-"
	}
	return duration(median(ns))
}
