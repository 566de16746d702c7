package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// check is a figure beside the target it has to meet.
type check struct {
	name, figure, target string
	ok                   bool
}

// slowCell is the ratio below which a cell of the grid counts as slow.
const slowCell = 0.9

func atMost(name string, r ratio, limit float64) check {
	return check{name, r.full(), fmt.Sprintf("<= %.2fx", limit), r.median <= limit}
}

func atLeast(name string, r ratio, limit float64) check {
	return check{name, r.full(), fmt.Sprintf(">= %.2fx", limit), r.median >= limit}
}

const checkRow = "%-48s %24s  %-15s %s"

func printChecks(s *session) {
	if len(s.checks) == 0 {
		return
	}
	s.title("Targets")
	s.row(checkRow, "figure", "measured", "target", "")
	for _, c := range s.checks {
		verdict := "short"
		if c.ok {
			verdict = "ok"
		}
		if strings.HasPrefix(c.name, meanCheck) {
			verdict += fmt.Sprintf("  (against itself: %s)", cmp.Or(s.itself, "-"))
		}
		s.row(checkRow, c.name, c.figure, c.target, verdict)
	}
}

// checkLocks are rwsem and what it is checked against, where they were not
// left out.
func (o options) checkLocks() []lockKind {
	return slices.DeleteFunc(slices.Clone(o.locks), func(k lockKind) bool {
		return k.key != "rwsem" && k.key != "sync"
	})
}

func planChecks(s *session) time.Duration {
	n := time.Duration(len(s.checkLocks()))
	return n * (s.classTime()*time.Duration(s.classRounds()) + time.Duration(s.relayWaits())*3*relayHold)
}

func runChecks(s *session) error {
	locks := s.checkLocks()
	s.runClasses(locks)
	s.runRelay(locks)
	return nil
}

// Readers and writers as classes of their own.

const classSize = 8

func (s *session) classRounds() int { return s.sized(5, 2) }

func (s *session) classTime() time.Duration {
	if s.quick {
		return 500 * time.Millisecond
	}
	return 5 * time.Second
}

// classSeries is one lock's rounds, by class.
type classSeries struct{ readers, writers series }

const classRow = "%-14s %-8s %9s %9s %9s %9s %9s"

func (s *session) runClasses(locks []lockKind) {
	s.title(fmt.Sprintf("%d readers and %d writers on short sections: operations per goroutine", classSize, classSize))
	fmt.Fprintf(s.out, "%d runs of %v, medians over the runs\n", s.classRounds(), s.classTime())
	ld := load{
		procs:    s.procs,
		readPcts: slices.Concat(uniform(classSize, 100), uniform(classSize, 0)),
		steps:    s.sizes[0].steps,
		dur:      s.classTime(),
	}
	all := map[string]*classSeries{}
	total := s.classRounds() * len(locks)
	done := 0
	roundsOf(locks, s.classRounds(), func(_, i int) {
		finished := s.prog.step("readers and writers", done, total, s.classTime())
		done++
		t := ld.run(locks[i], nil)
		finished()
		d := all[locks[i].key]
		if d == nil {
			d = new(classSeries)
			all[locks[i].key] = d
		}
		d.readers.add(tally{Ops: t.Ops[:classSize], Elapsed: t.Elapsed})
		d.writers.add(tally{Ops: t.Ops[classSize:], Elapsed: t.Elapsed})
	})

	s.row(classRow, "lock", "class", "Mops/s", "min", "mean", "max", "slow/mean")
	for _, kind := range locks {
		d := all[kind.key]
		s.data.add(record{Table: "readers and writers", Cell: fmt.Sprintf("p%d/%d+%d/%s", s.procs, classSize, classSize, s.sizes[0].name), Lock: kind.key,
			Metrics: map[string][]float64{
				"readers-" + metricThroughput: d.readers.mops, "writers-" + metricThroughput: d.writers.mops,
				"readers-" + metricFairness: d.readers.slowest, "writers-" + metricFairness: d.writers.slowest,
			}})
		s.classRow(kind.name, "readers", &d.readers)
		s.classRow(kind.name, "writers", &d.writers)
	}
	if ours := all["rwsem"]; ours != nil {
		s.checkClasses(ours, all["sync"])
	}
}

func (s *session) classRow(name, class string, d *series) {
	s.row(classRow, name, class, fmt.Sprintf("%.3f", median(d.mops)), count(median(d.min)),
		count(median(d.mean)), count(median(d.max)), fmt.Sprintf("%.2f", median(d.slowest)))
}

func (s *session) checkClasses(ours, ref *classSeries) {
	for _, class := range []struct {
		name string
		d    *series
	}{{"slowest reader", &ours.readers}, {"slowest writer", &ours.writers}} {
		slowest := median(class.d.slowest)
		s.checks = append(s.checks, check{"8+8: " + class.name + ", of its class's mean",
			fmt.Sprintf("%.2f", slowest), ">= 0.50", slowest >= 0.5})
	}
	classes := ratioOf(ours.readers.mean, ours.writers.mean)
	s.checks = append(s.checks, check{"8+8: reader's mean to writer's mean",
		fmt.Sprintf("%v (%s)", classes, classes.spread()), "within 20x", classes.median <= 20 && classes.median >= 1.0/20})
	if ref != nil {
		s.checks = append(s.checks,
			atLeast("8+8: throughput, to sync.RWMutex", ratioOf(ours.mops(), ref.mops()), 1))
	}
}

// mops is the throughput of both classes together.
func (c *classSeries) mops() []float64 {
	out := slices.Clone(c.readers.mops)
	for i := range out {
		out[i] += c.writers.mops[i]
	}
	return out
}

// A writer under a relay of readers.

// relayHold is how long a reader of the relay holds the lock.
const relayHold = time.Millisecond

// relayLimit ends a round of the relay in which the writer gets nowhere.
const relayLimit = 20 * time.Second

// relay is a chain of readers, each of which starts the next while it holds
// the lock, and a writer that has to get in between.
type relay struct {
	hold    time.Duration
	over    atomic.Bool
	readers sync.WaitGroup
	want    int
	waits   []float64 // the writer's, in ns
}

// next starts the reader that follows, unless the relay is over.
func (r *relay) next(reader func(*relay)) {
	if !r.over.Load() {
		r.readers.Add(1)
		go reader(r)
	}
}

// more pauses until the relay is under way again and tells whether the writer
// is to go on.
func (r *relay) more() bool {
	if len(r.waits) == r.want || r.over.Load() {
		return false
	}
	time.Sleep(r.hold)
	// Sleeps end on ticks of one clock, those of the readers too: without a
	// pause of random length, awake, every wait would begin at the same phase
	// of the relay.
	for until := time.Now().Add(rand.N(r.hold)); time.Now().Before(until); {
	}
	return true
}

func (r *relay) record(wait time.Duration) { r.waits = append(r.waits, float64(wait)) }

// runRelayRound returns the waits, fewer than wanted if time ran out. Ending
// the relay lets in even a writer that its readers kept out.
func runRelayRound(kind lockKind, want int, limit time.Duration) []float64 {
	t := kind.fresh()
	r := &relay{hold: relayHold, want: want}
	defer watch(kind, t, limit).Stop()
	defer time.AfterFunc(limit, func() { r.over.Store(true) }).Stop()
	r.next(t.relayReader)
	t.relayWriter(r)
	r.over.Store(true)
	r.readers.Wait()
	return r.waits
}

func (s *session) relayWaits() int  { return s.sized(2000, 100) }
func (s *session) relayRounds() int { return s.sized(10, 2) }

const relayRow = "%-14s %8s %9s %9s %9s"

func (s *session) runRelay(locks []lockKind) {
	rounds, each := s.relayRounds(), s.relayWaits()/s.relayRounds()
	s.title(fmt.Sprintf("Writer under a relay of readers that hold the lock %v each: its wait", relayHold))
	pooled := make([][]float64, len(locks))
	mid, p99 := map[string][]float64{}, map[string][]float64{}
	done := 0
	roundsOf(locks, rounds, func(_, i int) {
		planned := time.Duration(each) * 3 * relayHold
		finished := s.prog.step("writer under relay", done, rounds*len(locks), planned)
		done++
		waits := runRelayRound(locks[i], each, relayLimit)
		finished()
		pooled[i] = append(pooled[i], waits...)
		mid[locks[i].key] = append(mid[locks[i].key], quantile(waits, 0.5))
		p99[locks[i].key] = append(p99[locks[i].key], quantile(waits, 0.99))
	})
	s.row(relayRow, "lock", "waits", "median", "p99", "max")
	for i, kind := range locks {
		s.data.add(record{Table: "writer under a relay", Cell: relayHold.String() + " readers", Lock: kind.key,
			Metrics: map[string][]float64{"write-" + metricP50: mid[kind.key], "write-" + metricP99: p99[kind.key]}})
		s.row(relayRow, kind.name, fmt.Sprint(len(pooled[i])), duration(quantile(pooled[i], 0.5)),
			duration(quantile(pooled[i], 0.99)), duration(slices.Max(pooled[i])))
	}
	if len(locks) == 2 {
		s.checks = append(s.checks,
			atMost("writer under relay: median wait, to sync.RWMutex", ratioOf(mid["rwsem"], mid["sync"]), 1.5),
			atMost("writer under relay: p99 wait, to sync.RWMutex", ratioOf(p99["rwsem"], p99["sync"]), 1.5))
	}
}
