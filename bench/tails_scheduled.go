package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// loads are per cents of saturation.
var loads = []int{50, 80}

// leastScheduled is the shortest section for which there are schedules.
const leastScheduled = time.Microsecond

// napLimit is how far ahead of its schedule a goroutine sleeps: twice what
// sleeping may take too long where the timer's thread waits in epoll, whose
// time limit is in milliseconds.
const napLimit = 2 * time.Millisecond

// arrivals is one goroutine's schedule for a round.
type arrivals struct {
	rng   *rand.Rand
	gap   float64       // ns between two arrivals, on average
	lasts time.Duration // arrivals are planned for so long

	planned, late int // arrivals, and those that still waited at the schedule's end
}

// schedule gives every goroutine arrivals that amount to rate per second. The
// round is the seed, so all of a round's locks get the same.
func schedule(timings []timing, rate float64, lasts time.Duration, round int) {
	for i := range timings {
		timings[i].arrivals = &arrivals{
			rng:   rand.New(rand.NewPCG(uint64(round), uint64(i))),
			gap:   float64(len(timings)) / rate * 1e9,
			lasts: lasts,
		}
	}
}

// timedLoop is what every goroutine runs in a timed round.
func timedLoop(t target, timings []timing) func(*worker) {
	if timings[0].arrivals != nil {
		return t.scheduled
	}
	return t.timed
}

// come yields each planned arrival when its time has come, or as soon as those
// before it are done. Arrivals in which the goroutine is late by a whole
// schedule are given up, so that the round ends.
func (a *arrivals) come(yield func(planned time.Time) bool) {
	began := time.Now()
	for at := a.next(0); at < a.lasts; at = a.next(at) {
		a.planned++
		planned := began.Add(at)
		awaitTime(planned)
		now := time.Since(began)
		if now >= a.lasts {
			a.late++
		}
		if now < 2*a.lasts && !yield(planned) {
			return
		}
	}
}

// next is the arrival after one at the given time, a Poisson process.
func (a *arrivals) next(at time.Duration) time.Duration {
	return at + time.Duration(a.rng.ExpFloat64()*a.gap)
}

func awaitTime(t time.Time) {
	if ahead := time.Until(t); ahead > napLimit {
		time.Sleep(ahead - napLimit)
	}
	for time.Until(t) > 0 {
		runtime.Gosched()
	}
}

// backlogOf is the part of a round's arrivals that still waited at its end, and
// whether that is more than chance may leave behind.
func backlogOf(timings []timing) (backlog float64, saturated bool) {
	planned, late := 0, 0
	for _, t := range timings {
		planned += t.arrivals.planned
		late += t.arrivals.late
	}
	if planned == 0 {
		return 0, false
	}
	return float64(late) / float64(planned), late > max(planned/100, 2*len(timings))
}

// apart stands for every goroutine having a lock to itself: what waits are
// left are the schedule's and the scheduler's.
type apart struct{ target }

func (apart) scheduled(w *worker) { new(syncLoops).scheduled(w) }

func (apart) describe() string { return "a lock for each goroutine" }

var apartKind = lockKind{key: "apart", name: "a lock each", fresh: func() target { return apart{} }}

func (t *tails) scheduledCells() []cell {
	return slices.DeleteFunc(t.cells(), func(c cell) bool { return sectionSizes[c.size].want < leastScheduled })
}

func (t *tails) scheduledLocks() []lockKind { return append([]lockKind{apartKind}, t.twins...) }

// runOnSchedule runs a round with rate arrivals per second.
func (ld load) runOnSchedule(kind lockKind, timings []timing, rate float64, round int) (t tally, reads, writes *roundWaits) {
	schedule(timings, rate, ld.dur, round)
	return ld.runTimed(kind, timings)
}

// bisections is how often the range in which saturation lies is halved.
const bisections = 5

// saturation is the greatest rate per second at which sync.RWMutex keeps up. A
// closed loop does not tell: its goroutines barge, and then take the lock more
// often than if each waits for its time.
func (t *tails) saturation(c cell, timings []timing) float64 {
	kind := lockByKey("sync")
	ld := t.load(c)
	ld.dur = t.dur
	low, high := 0.0, ld.run(kind, nil).mops()*1e6
	for range bisections {
		if mid := (low + high) / 2; ld.keepsUp(kind, timings, mid) {
			low = mid
		} else {
			high = mid
		}
	}
	if low == 0 {
		return high
	}
	return low
}

// keepsUp tries twice, as one failure may be somebody else's work on this
// machine.
func (ld load) keepsUp(kind lockKind, timings []timing, rate float64) bool {
	for try := range 2 {
		ld.runOnSchedule(kind, timings, rate, try)
		if _, saturated := backlogOf(timings); !saturated {
			return true
		}
	}
	return false
}

func (t *tails) planSaturation(cells []cell) time.Duration {
	return time.Duration(len(cells)) * 2 * bisections * t.dur
}

func (t *tails) planScheduled() time.Duration {
	cells := t.scheduledCells()
	return t.planSaturation(cells) + time.Duration(len(loads))*t.planCells(cells, len(t.scheduledLocks()))
}

func (t *tails) runScheduled() error {
	t.title(fmt.Sprintf("Waits from the planned arrival, %d rounds", t.rounds))
	cells := t.scheduledCells()
	if len(cells) == 0 {
		fmt.Fprintf(t.out, "none of the cells has sections of %v or more\n", leastScheduled)
		return nil
	}
	rates := t.saturations(cells)
	t.tailHead()
	done := 0
	for i, c := range cells {
		for _, percent := range loads {
			finished := t.prog.step("scheduled "+c.name(), done, len(cells)*len(loads), t.planCell(c, len(t.scheduledLocks())))
			done++
			res := t.onSchedule(c, percent, rates[i]*float64(percent)/100)
			finished()
			t.report("scheduled", res, t.scheduledLocks())
		}
	}
	return nil
}

// saturations finds and prints that of each cell.
func (t *tails) saturations(cells []cell) []float64 {
	var rates []float64
	for i, c := range cells {
		finished := t.prog.step("saturation "+c.name(), i, len(cells), t.planSaturation([]cell{c}))
		rate := t.saturation(c, newTimings(c.goroutines))
		finished()
		rates = append(rates, rate)
		fmt.Fprintf(t.out, "%s: sync.RWMutex is saturated by %s arrivals/s;", c.name(), count(rate))
		for _, percent := range loads {
			fmt.Fprintf(t.out, " @%d%% is %s/s", percent, count(rate*float64(percent)/100))
		}
		fmt.Fprintln(t.out)
	}
	return rates
}

func (t *tails) onSchedule(c cell, percent int, rate float64) *tailCell {
	locks := t.scheduledLocks()
	ld, timings := t.load(c), newTimings(c.goroutines)
	res := newTailCell(c, percent, t.rounds, locks)
	res.rate = rate
	roundsOf(locks, t.rounds, func(round, i int) {
		d := res.byLock[locks[i].key]
		d.add(ld.runOnSchedule(locks[i], timings, rate, round))
		backlog, saturated := backlogOf(timings)
		d.backlog = append(d.backlog, backlog)
		if saturated {
			d.saturated++
		}
	})
	return res
}
