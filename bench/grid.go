package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cell is one point of the contended grid, or of what another command measures.
type cell struct {
	procs, goroutines, readPct int
	size                       int // index into the section sizes

	// These are not used in the grid.
	urgent  bool   // writers call LockUrgent
	pause   string // what each section is instead of work, named in pauses
	burners int    // goroutines beside them that only work
}

// name is what -cells matches and what parseCell reads.
func (c cell) name() string {
	kind, rest := "r", ""
	if c.urgent {
		kind = "u"
	}
	if c.burners > 0 {
		rest = fmt.Sprintf("/b%d", c.burners)
	}
	return fmt.Sprintf("p%d/g%d/%s%d/%s%s", c.procs, c.goroutines, kind, c.readPct, c.section(), rest)
}

// section is the name of what is done inside the lock.
func (c cell) section() string { return cmp.Or(c.pause, sectionSizes[c.size].name) }

// setSection reports whether there is a section of that name.
func (c *cell) setSection(name string) bool {
	if pauses[name] != nil {
		c.size, c.pause = 0, name
		return true
	}
	c.size, c.pause = slices.IndexFunc(sectionSizes, func(s sectionSize) bool { return s.name == name }), ""
	return c.size >= 0
}

var cellPattern = regexp.MustCompile(`^p([1-9]\d*)/g([1-9]\d*)/([ru])(\d+)/(\w+)(?:/b(\d+))?$`)

func parseCell(name string) (cell, error) {
	m := cellPattern.FindStringSubmatch(name)
	if m == nil {
		return cell{}, fmt.Errorf("no cell %q", name)
	}
	c := cell{urgent: m[3] == "u"}
	for field, digits := range map[*int]string{&c.procs: m[1], &c.goroutines: m[2], &c.readPct: m[4], &c.burners: cmp.Or(m[6], "0")} {
		var err error
		if *field, err = strconv.Atoi(digits); err != nil {
			return cell{}, fmt.Errorf("cell %q: %w", name, err)
		}
	}
	if !c.setSection(m[5]) {
		return cell{}, fmt.Errorf("cell %q: no section %q", name, m[5])
	}
	return c, nil
}

// bound is the throughput in million operations per second of a lock without any
// cost: readers work on all the CPUs, a writer on one. It is 0 if that is not known
// or, as with sections of some nanoseconds, says nothing.
func (c cell) bound(cpus int) float64 {
	const shortest = 100 * time.Nanosecond // several times what an uncontended pair of calls takes
	parallel := float64(min(cpus, c.procs, c.goroutines))
	want := sectionSizes[c.size].want
	if c.pause != "" || want < shortest || parallel == 0 {
		return 0
	}
	reads := float64(c.readPct) / 100
	return 1e3 / (float64(want) * (1 - reads + reads/parallel))
}

// manyProcs stands for a machine, or a container, whose GOMAXPROCS is far
// above the processors it gets.
const manyProcs = 16

func allCells(procs int) []cell {
	var cells []cell
	for _, p := range slices.Compact([]int{procs, manyProcs}) {
		for _, g := range []int{2, 8, 64} {
			for _, r := range []int{100, 99, 90, 50, 0} {
				for size := range sectionSizes {
					cells = append(cells, cell{procs: p, goroutines: g, readPct: r, size: size})
				}
			}
		}
	}
	return cells
}

// choose returns the cells matching -cells, or without it those matching
// usual; nil matches everything.
func (s *session) choose(usual *regexp.Regexp) []cell {
	want := usual
	if s.cells != nil {
		want = s.cells
	}
	return matching(s.all, want)
}

// chooseDefaultProcs leaves the second GOMAXPROCS out of the usual cells.
func (s *session) chooseDefaultProcs(usual *regexp.Regexp) []cell {
	if s.cells != nil {
		return s.choose(nil)
	}
	return slices.DeleteFunc(s.choose(usual), func(c cell) bool { return c.procs != s.procs })
}

func matching(cells []cell, re *regexp.Regexp) []cell {
	var out []cell
	for _, c := range cells {
		if re == nil || re.MatchString(c.name()) {
			out = append(out, c)
		}
	}
	return out
}

// A turn is how much processor time every one of n goroutines gets in a round:
// more than the 10 ms for which the scheduler lets one run.
type turn func(n int) time.Duration

func shortTurn(int) time.Duration { return 20 * time.Millisecond }

// longTurn lets each be scheduled several times, so that how they fare says
// more about the lock than about the scheduler.
func longTurn(n int) time.Duration {
	if n <= 8 {
		return 100 * time.Millisecond
	}
	return 40 * time.Millisecond
}

// roundTime is long enough for every goroutine to have its turn on the CPUs
// there are, whatever GOMAXPROCS beyond them says.
func (o options) roundTime(c cell) time.Duration {
	cpus := min(c.procs, runtime.NumCPU())
	n := c.goroutines + c.burners
	return max(o.dur, time.Duration(n)*o.turn(n)/time.Duration(cpus))
}

func (s *session) load(c cell) load {
	return load{
		procs:     c.procs,
		readPcts:  uniform(c.goroutines, float64(c.readPct)),
		steps:     s.sizes[c.size].steps,
		pause:     pauses[c.pause],
		urgent:    c.urgent,
		dur:       s.roundTime(c),
		burners:   c.burners,
		burnSteps: s.sizes[burnSize].steps,
	}
}

// onceThrough is the time that one round of n locks on each of the cells takes.
func (o options) onceThrough(cells []cell, n int) time.Duration {
	var total time.Duration
	for _, c := range cells {
		total += o.roundTime(c) * time.Duration(n)
	}
	return total
}

// planCells is the time that all rounds take.
func (s *session) planCells(cells []cell, n int) time.Duration {
	return s.onceThrough(cells, n) * time.Duration(s.rounds)
}

func (s *session) planCell(c cell, n int) time.Duration { return s.planCells([]cell{c}, n) }

// quickGrid keeps both ends of the section sizes and of the read shares, and
// one cell with many goroutines.
var quickGrid = regexp.MustCompile(`/g8/r(90|0)/(6ns|3us)$|/g64/r90/6ns$`)

func (s *session) gridCells() []cell {
	if s.quick {
		return s.choose(quickGrid)
	}
	return s.choose(nil)
}

// series is what one lock did in a cell, round by round.
type series struct {
	mops, min, mean, max, slowest []float64

	cpuEach []float64 // CPU seconds for a million operations, whatever they went into
	cpus    []float64 // CPUs in use, on average
	burnt   []float64 // the burners' pieces of work, in millions per second
}

func (d *series) add(t tally) {
	sh := shareOf(t.Ops)
	d.mops = append(d.mops, t.mops())
	d.min = append(d.min, sh.min)
	d.mean = append(d.mean, sh.mean)
	d.max = append(d.max, sh.max)
	d.slowest = append(d.slowest, sh.slowest())
	cpu := t.CPU.Seconds()
	if t.CPU == 0 {
		cpu = nan
	}
	d.cpuEach = append(d.cpuEach, cpu/sum(t.Ops)*1e6)
	d.cpus = append(d.cpus, cpu/t.Elapsed.Seconds())
	d.burnt = append(d.burnt, t.Burnt/float64(t.Elapsed.Microseconds()))
}

// cellResult is what every lock did in a cell; only those that ran are there.
type cellResult struct {
	name    string
	byLock  map[string]*series
	vsBest  ratio // rwsem against the better of sync's locks
	starved bool
}

func (r *cellResult) mops(key string) []float64 {
	if d := r.byLock[key]; d != nil {
		return d.mops
	}
	return nil
}

func (r *cellResult) slowest(key string) float64 {
	if d := r.byLock[key]; d != nil {
		return median(d.slowest)
	}
	return median(nil)
}

func (s *session) runCell(c cell) *cellResult {
	res := &cellResult{name: c.name(), byLock: map[string]*series{}}
	ld := s.load(c)
	roundsOf(s.locks, s.rounds, func(_, i int) {
		kind := s.locks[i]
		if res.byLock[kind.key] == nil {
			res.byLock[kind.key] = new(series)
		}
		res.byLock[kind.key].add(ld.run(kind, nil))
	})
	res.judge()
	return res
}

// judge compares rwsem with the others. RBMutex is there to be seen: it gives
// up cheap writes, so it does not count among the best.
func (r *cellResult) judge() {
	r.vsBest = overRounds(r.quotients())
	r.starved = notWon(r.slowest("rwsem"), r.slowest("sync"))
}

// quotients are rwsem's throughput to that of the best of sync's locks, by
// round.
func (r *cellResult) quotients() []float64 {
	var others [][]float64
	for _, key := range peerLocks {
		if m := r.mops(key); m != nil {
			others = append(others, m)
		}
	}
	return quotients(r.mops("rwsem"), best(others...))
}

func (r *cellResult) notes() string {
	var notes []string
	if r.vsBest.median < slowCell {
		notes = append(notes, fmt.Sprintf("below %.1fx", slowCell))
	}
	if r.starved {
		notes = append(notes, "NOT WON: unfair")
	}
	return strings.Join(notes, ", ")
}

const gridRow = "%-15s  %-14s %9s %9s %9s %9s %9s %8s %12s  %s"

func planGrid(s *session) time.Duration { return s.planCells(s.gridCells(), len(s.locks)) }

func runGrid(s *session) error {
	cells := s.gridCells()
	s.title("Contended grid: throughput, operations per goroutine, rwsem against the best of sync's locks")
	fmt.Fprintf(s.out, "%d of %d cells, %d rounds, medians over the rounds\n", len(cells), len(s.all), s.rounds)
	s.row(gridRow, "cell", "lock", "Mops/s", "min", "mean", "max", "slow/mean", "vs best", "spread", "")
	var results []*cellResult
	for i, c := range cells {
		finished := s.prog.step("grid "+c.name(), i, len(cells), s.planCell(c, len(s.locks)))
		res := s.runCell(c)
		finished()
		results = append(results, res)
		for _, kind := range s.locks {
			d := res.byLock[kind.key]
			vs, spread, notes := "", "", ""
			if kind.key == "rwsem" {
				vs, spread, notes = res.vsBest.String(), res.vsBest.spread(), res.notes()
			}
			s.data.add(record{Table: "grid", Cell: res.name, Lock: kind.key, Metrics: d.metrics()})
			s.row(gridRow, res.name, kind.name, fmt.Sprintf("%.3f", median(d.mops)),
				count(median(d.min)), count(median(d.mean)), count(median(d.max)),
				fmt.Sprintf("%.2f", median(d.slowest)), vs, spread, notes)
		}
	}
	s.summarize(results)
	return nil
}

// standing is what rwsem's results in some cells amount to.
type standing struct {
	ratios       []float64   // medians of
	rounds       [][]float64 // each cell's quotients by round
	slow, unfair []string
	worst        string
}

// standingOf leaves out the cells in which there was nothing to compare.
func standingOf(results []*cellResult) standing {
	var st standing
	worst := math.Inf(1)
	for _, r := range results {
		if !r.vsBest.known() {
			continue
		}
		st.ratios = append(st.ratios, r.vsBest.median)
		st.rounds = append(st.rounds, r.quotients())
		figure := fmt.Sprintf("%s (%v)", r.name, r.vsBest)
		if r.vsBest.median < slowCell {
			st.slow = append(st.slow, figure)
		}
		if r.vsBest.median < worst {
			worst, st.worst = r.vsBest.median, figure
		}
		if r.starved {
			st.unfair = append(st.unfair, r.name)
		}
	}
	return st
}

// gridTarget is the geometric mean that the grid is to reach.
const gridTarget = 1.30

// meanOf is the geometric mean of the cells' medians, with its 95 % interval for
// a spread.
func meanOf(cells [][]float64) ratio {
	low, high := bootstrap(cells)
	return ratio{geomeanOfMedians(cells), low, high}
}

// meanCheck begins the name of the check of the grid's mean.
const meanCheck = "grid geometric mean"

// summarize prints what the grid amounts to and puts it up against its
// targets.
func (s *session) summarize(results []*cellResult) {
	st := standingOf(results)
	if len(st.ratios) == 0 {
		return
	}
	mean := meanOf(st.rounds)
	fmt.Fprintf(s.out, "\ngeometric mean over %d cells, with its 95 %% interval: %s\n", len(st.ratios), mean.full())
	fmt.Fprintf(s.out, "below %.1fx: %s\n", slowCell, named(st.slow))
	fmt.Fprintf(s.out, "unfair, so not won: %s\n", named(st.unfair))
	s.checks = append(s.checks,
		atLeast(fmt.Sprintf(meanCheck+" (%d of %d cells)", len(st.ratios), len(s.all)), mean, gridTarget),
		check{fmt.Sprintf("grid cells below %.1fx", slowCell), fmt.Sprint(len(st.slow)), "0", len(st.slow) == 0},
		check{"grid cells not won for unfairness", fmt.Sprint(len(st.unfair)), "0", len(st.unfair) == 0})
}

func named(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
}
