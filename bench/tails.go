package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const tailsHelp = `Tails measures how long readers and writers wait, as distributions: most waits
are short, and a program is as slow as the rare long ones.

    go run ./bench tails [flags]

Parts, for -only:

%s
A closed loop hides long waits: a goroutine that waits asks for nothing
meanwhile, and one that barges in again and again adds short waits that nobody
needed. So in scheduled rounds each goroutine has a schedule of its own, with
exponential gaps from a fixed seed, the same for every lock in a round, and a
wait counts from the planned arrival to the lock's acquisition. A goroutine that
is late does what is due at once, and its arrivals count as waiting meanwhile.
The rates are 50 %% and 80 %% of saturation, which is the greatest rate at which
sync.RWMutex keeps up with such a schedule in that cell, found first by
bisection. Sections shorter than 1us are left out: the schedule would cost more
than they do.

A goroutine ahead of its schedule yields until its time has come, and sleeps
only while that is more than 2ms off, as sleeping is precise to a millisecond.
What that and the scheduler add to a wait is in the row "a lock each", for which
every goroutine has a lock to itself. Yielding has a price: processors are never
idle, so locks whose goroutines spin only when there is nothing else to run spin
less than they would on an idle machine; and with many goroutines a turn around
those that yield takes microseconds.

A round in which more than one arrival in a hundred, and more than two for each
goroutine, still wait at the schedule's end counts as saturated. A lock for which
more than half the rounds are has no figures there, since they would tell how
long the round was. Other late arrivals are waited for, and counted. Where
sync.RWMutex does not keep up, or not even a lock each, as on a machine that has
other work, the cell is left out of the means.

    waits     waits timed in a round; of fewer than 10,000 p99.99 is the longest
    max       the longest wait of all rounds
    worst     the worst wait of each goroutine: the median over the goroutines
    waiting   the sum of the waits, of all goroutines' time; on a schedule the mean
              number of arrivals that wait for each goroutine, which may exceed 100%%

Figures are medians over the rounds, clock reading included. Ratios are to
sync.RWMutex in the same round: the median over the rounds, and the least and
the greatest as its spread; below 1x is better. "sync.RWMutex again" is the same
lock once more in every round: how far it is from 1x is noise.

In the part unlock a writer holds the lock until a dump of all goroutines shows
every reader waiting for it, so with many readers the first has waited for
milliseconds. The writer then times its Unlock, and each reader notes when it has
the lock and releases it. Of fewer than 100 times a round p99 is the longest. The
mutex profile charges a wait to who ended it: shares are of the delay with 256
readers, by the innermost function outside of the runtime and by who had called
into the lock; those below 0.1 %% are not shown.

Under Targets the geometric means are over the cells, of which each round is one
quotient, that of readers and of writers together. Intervals of 95 %% are
bootstrapped: every cell's rounds are drawn anew, with replacement.

Cells are named as in the main command. Without -cells, those at the GOMAXPROCS
there is with 8 and 64 goroutines, 90 and 50 %% reads, sections of 6ns and 3us;
-quick takes those with 8 goroutines. The part unlock has no cells.

Exit status: 0 if everything ran, whoever won; 1 if something failed or a lock
hung; 2 for a mistake in the command line.

Flags:
`

func tailsHelpText() string {
	return fmt.Sprintf(tailsHelp, described(tailParts, func(p part[*tails]) (string, string) { return p.name, p.about }))
}

var tailsExtents = extents{
	full:  extent{5, 200 * time.Millisecond, longTurn, "8 minutes"},
	quick: extent{3, 100 * time.Millisecond, shortTurn, "half a minute"},
}

// quickTails leaves out the many goroutines, which take long rounds.
var quickTails = regexp.MustCompile(`/g8/r(90|50)/(6ns|3us)$`)

var tailParts = []part[*tails]{
	{"closed", "every goroutine takes the lock again as soon as it has released it", (*tails).planClosed, (*tails).runClosed},
	{"scheduled", "the lock is wanted at times planned before, whoever is late", (*tails).planScheduled, (*tails).runScheduled},
	{"unlock", "how long Unlock takes that wakes 0 to 1024 readers, and whom that is charged to", (*tails).planUnlock, (*tails).runUnlock},
}

// tails is a run of the command.
type tails struct {
	*session
	twins   []lockKind // the locks, and sync.RWMutex again if it is among them
	results []*tailCell
}

// twinKey is that of sync.RWMutex run a second time in every round.
const twinKey = "sync" + againSuffix

func tailsCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	var parts []part[*tails]
	fs := flag.NewFlagSet("bench tails", flag.ContinueOnError)
	partsFlag(fs, &parts, tailParts)
	locksFlag(fs, &o.locks)
	if err := o.parseRounds(fs, tailsExtents, args, tailsHelpText(), stdout); err != nil {
		return err
	}
	if hasPart(parts, "unlock") && len(o.checkLocks()) == 0 {
		return usagef("the part unlock needs rwsem or sync among -locks; -only leaves it out")
	}
	s, err := newSession(o, allCells(runtime.GOMAXPROCS(0)), stdout)
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(s.procs)
	t := &tails{session: s, twins: withTwin(o.locks)}
	s.begin()
	if err := runParts(s, t, parts, stderr); err != nil {
		return err
	}
	t.summarize()
	printChecks(s)
	return s.data.close()
}

func withTwin(locks []lockKind) []lockKind {
	locks = slices.Clone(locks)
	if i := lockIndex(locks, "sync"); i >= 0 {
		twin := locks[i]
		twin.key, twin.name = twinKey, twin.name+againSuffix
		locks = append(locks, twin)
	}
	return locks
}

func (t *tails) cells() []cell {
	if t.quick {
		return t.chooseDefaultProcs(quickTails)
	}
	return t.chooseDefaultProcs(usualLatency)
}

// tailClasses are the kinds of wait.
var tailClasses = [...]string{"read", "write"}

// tailClass is how long one lock's readers, or writers, waited, by round.
type tailClass struct {
	quantiles
	waiting []float64
}

func (c *tailClass) add(w *roundWaits, time float64) {
	if w != nil {
		c.quantiles.add(w)
		c.waiting = append(c.waiting, w.Total/time)
	}
}

// tailSeries is what one lock did in a cell.
type tailSeries struct {
	classes   [len(tailClasses)]tailClass
	backlog   []float64 // on a schedule only, as is saturated
	saturated int       // rounds
}

func (d *tailSeries) add(t tally, reads, writes *roundWaits) {
	time := float64(len(t.Ops)) * float64(t.Elapsed)
	d.classes[0].add(reads, time)
	d.classes[1].add(writes, time)
}

// keepsUp tells whether the lock's waits mean anything.
func (d *tailSeries) keepsUp() bool { return 2*d.saturated <= len(d.backlog) }

// metrics leaves out the waits that only tell how long the rounds were.
func (d *tailSeries) metrics() map[string][]float64 {
	m := map[string][]float64{}
	putKnown(m, metricBacklog, d.backlog)
	if !d.keepsUp() {
		return m
	}
	for i, name := range tailClasses {
		d.classes[i].metrics(name, m)
		putKnown(m, name+"-"+metricWaiting, d.classes[i].waiting)
	}
	return m
}

// tailCell is what every lock did in a cell.
type tailCell struct {
	name   string
	load   int     // per cent of saturation; 0 for a closed loop
	rate   float64 // arrivals per second that this is
	rounds int
	byLock map[string]*tailSeries
}

func newTailCell(c cell, load, rounds int, locks []lockKind) *tailCell {
	res := &tailCell{name: c.name(), load: load, rounds: rounds, byLock: map[string]*tailSeries{}}
	if load > 0 {
		res.name += fmt.Sprintf("@%d%%", load)
	}
	for _, k := range locks {
		res.byLock[k.key] = new(tailSeries)
	}
	return res
}

// comparable tells whether the lock's waits can be held against those of
// sync.RWMutex: both kept up, and so did locks that nobody waits for, without
// which the machine and not the lock is what was saturated.
func (c *tailCell) comparable(key string) bool {
	for _, k := range []string{key, "sync"} {
		if d := c.byLock[k]; d == nil || !d.keepsUp() {
			return false
		}
	}
	base := c.byLock[apartKind.key]
	return base == nil || base.keepsUp()
}

// quotients are a figure's to sync.RWMutex's by round, of readers and writers
// together; nil if there is nothing to compare.
func (c *tailCell) quotients(key string, figure func(*quantiles) []float64) []float64 {
	if !c.comparable(key) {
		return nil
	}
	own, ref := c.byLock[key], c.byLock["sync"]
	var all [][]float64
	for class := range tailClasses {
		num, den := figure(&own.classes[class].quantiles), figure(&ref.classes[class].quantiles)
		if len(num) == c.rounds && len(den) == c.rounds { // else a cell without readers or without writers
			all = append(all, quotients(num, den))
		}
	}
	return roundMeans(all)
}

const tailRow = "%-18s  %-6s %-18s %7s %8s %8s %8s %8s %8s %8s %8s %7s   %8s %-12s %8s %-12s  %s"

func (t *tails) tailHead() {
	t.row(tailRow, "", "", "", "", "", "", "", "", "", "", "", "", "ratio to", "sync.RWMutex", "", "", "")
	t.row(tailRow, "cell", "class", "lock", "waits", "p50", "p90", "p99", "p99.9", "p99.99", "max", "worst", "waiting",
		"p99.9", "spread", "worst", "spread", "")
}

// report prints a cell and records it.
func (t *tails) report(table string, c *tailCell, locks []lockKind) {
	t.results = append(t.results, c)
	for class := range tailClasses {
		for _, k := range locks {
			t.tailRow(c, class, k)
		}
	}
	var rate *float64
	if c.load > 0 {
		rate = &c.rate
	}
	for _, k := range locks {
		t.data.add(record{Table: table, Cell: c.name, X: rate, Lock: k.key, Metrics: c.byLock[k.key].metrics()})
	}
}

func (t *tails) tailRow(c *tailCell, class int, kind lockKind) {
	d := c.byLock[kind.key]
	q := &d.classes[class]
	note := ""
	if d.saturated > 0 {
		note = fmt.Sprintf("saturated in %d of %d rounds", d.saturated, len(d.backlog))
	}
	switch {
	case len(q.max) == 0:
		return
	case !d.keepsUp():
		t.row("%-18s  %-6s %-18s %s", c.name, tailClasses[class], kind.name, note)
		return
	}
	var ref quantiles
	if r := c.byLock["sync"]; r != nil && r.keepsUp() {
		ref = r.classes[class].quantiles
	}
	mid := func(xs []float64) string { return duration(median(xs)) }
	tail, worst := ratioOf(q.p999, ref.p999), ratioOf(q.worstMid, ref.worstMid)
	t.row(tailRow, c.name, tailClasses[class], kind.name, count(median(q.count)),
		mid(q.p50), mid(q.p90), mid(q.p99), mid(q.p999), mid(q.p9999),
		duration(slices.Max(q.max)), mid(q.worstMid), fmt.Sprintf("%.1f%%", 100*median(q.waiting)),
		tail, tail.spread(), worst, worst.spread(), note)
}

func (t *tails) planClosed() time.Duration { return t.planCells(t.cells(), len(t.twins)) }

// runClosed does what the part latency of the main command does.
func (t *tails) runClosed() error {
	t.title(fmt.Sprintf("Waits in a closed loop, %d rounds", t.rounds))
	t.tailHead()
	cells := t.cells()
	for i, c := range cells {
		finished := t.prog.step("closed "+c.name(), i, len(cells), t.planCell(c, len(t.twins)))
		ld, timings := t.load(c), newTimings(c.goroutines)
		res := newTailCell(c, 0, t.rounds, t.twins)
		roundsOf(t.twins, t.rounds, func(_, i int) {
			res.byLock[t.twins[i].key].add(ld.runTimed(t.twins[i], timings))
		})
		finished()
		t.report("closed", res, t.twins)
	}
	return nil
}

// over collects the cells' quotients at the given loads.
func (t *tails) over(loads []int, key string, figure func(*quantiles) []float64) [][]float64 {
	var all [][]float64
	for _, c := range t.results {
		if qs := c.quotients(key, figure); qs != nil && slices.Contains(loads, c.load) {
			all = append(all, qs)
		}
	}
	return all
}

func tailP999(q *quantiles) []float64  { return q.p999 }
func tailWorst(q *quantiles) []float64 { return q.worstMid }

const tailSummaryRow = "%-18s %-13s %6s %9s %-12s %9s %-12s"

// summarize prints the means over the cells, those of sync.RWMutex to itself
// among them, and puts rwsem's up against their targets.
func (t *tails) summarize() {
	if len(t.results) == 0 || !hasLock(t.twins, twinKey) {
		return
	}
	t.title("Geometric means over the cells to sync.RWMutex, with their 95 % intervals")
	t.row(tailSummaryRow, "lock", "of", "cells", "p99.9", "interval", "worst", "interval")
	everything := append([]int{0}, loads...)
	t.summaryRows("closed", []int{0})
	for _, load := range loads {
		t.summaryRows(fmt.Sprintf("scheduled@%d%%", load), []int{load})
	}
	t.summaryRows("all", everything)
	if out := t.incomparable(); len(out) > 0 {
		fmt.Fprintf(t.out, "left out, since sync.RWMutex or a lock each did not keep up: %s\n", strings.Join(out, ", "))
	}
	if t.results[0].byLock["rwsem"] != nil {
		t.check(t.over(everything, "rwsem", tailP999), t.over(everything, "rwsem", tailWorst))
	}
}

func (t *tails) summaryRows(name string, loads []int) {
	for _, k := range t.twins {
		cells := t.over(loads, k.key, tailP999)
		if len(cells) == 0 || k.key == "sync" {
			continue
		}
		tail, worst := meanOf(cells), meanOf(t.over(loads, k.key, tailWorst))
		t.row(tailSummaryRow, k.name, name, fmt.Sprint(len(cells)), tail, tail.spread(), worst, worst.spread())
	}
}

// incomparable are the cells with which nothing can be compared.
func (t *tails) incomparable() []string {
	var names []string
	for _, c := range t.results {
		if !c.comparable("sync") {
			names = append(names, c.name)
		}
	}
	return names
}

func (t *tails) check(tails, worsts [][]float64) {
	tail := meanOf(tails)
	of := fmt.Sprintf(", to sync.RWMutex (%d cells)", len(tails))
	t.checks = append(t.checks,
		atMost("p99.9 wait"+of, tail, 0.70),
		check{"the same, upper end of its interval", figure("%.2fx", tail.max), "< 0.80x", tail.max < 0.80},
		atMost("each one's worst wait"+of, meanOf(worsts), 1))
	scheduled, behind := 0, 0
	for _, c := range t.results {
		if c.load > 0 {
			scheduled++
		}
		if c.comparable("sync") && !c.comparable("rwsem") {
			behind++
		}
	}
	if scheduled > 0 {
		t.checks = append(t.checks, check{fmt.Sprintf("of %d schedules, only rwsem does not keep up with", scheduled),
			fmt.Sprint(behind), "0", behind == 0})
	}
}
