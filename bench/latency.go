package main

import (
	"regexp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// waits is how long one goroutine, or all of a kind, waited.
type waits struct {
	hist         *hdrhistogram.Histogram
	worst, total time.Duration
}

// longestWait is above what any wait can be: the watchdog ends the program
// first.
const longestWait = 10 * time.Minute

// usualDigits keep a histogram small enough not to turn over the caches.
const usualDigits = 2

func newWaits() *waits { return waitsTo(usualDigits) }

// waitsTo is for figures with so many digits.
func waitsTo(digits int) *waits {
	return &waits{hist: hdrhistogram.New(1, longestWait.Nanoseconds(), digits)}
}

func (w *waits) record(d time.Duration) {
	w.worst = max(w.worst, d)
	w.total += d
	_ = w.hist.RecordValue(min(d, longestWait).Nanoseconds())
}

func (w *waits) reset() {
	w.hist.Reset()
	w.worst, w.total = 0, 0
}

// timing is where a goroutine records its waits.
type timing struct {
	reads, writes *waits
	arrivals      *arrivals // nil where the next comes when the last is done
}

func newTimings(n int) []timing { return timingsTo(usualDigits, n) }

func timingsTo(digits, n int) []timing {
	ts := make([]timing, n)
	for i := range ts {
		ts[i] = timing{reads: waitsTo(digits), writes: waitsTo(digits)}
	}
	return ts
}

// reset prepares timings for another round.
func reset(ts []timing) {
	for _, t := range ts {
		t.reads.reset()
		t.writes.reset()
	}
}

// roundWaits is how long the goroutines of a round waited, in ns.
type roundWaits struct {
	P50, P90, P99, P999, P9999, Max float64
	WorstMin, WorstMid, WorstMax    float64
	Total                           float64
	Count                           int64
}

// sumWaits sums up a round from the waits of its goroutines; one that had none
// is left out, and nil is for all of them.
func sumWaits(all []*waits) *roundWaits {
	total := newWaits()
	var worst []float64
	for _, w := range all {
		if w.hist.TotalCount() > 0 {
			total.hist.Merge(w.hist)
			total.total += w.total
			worst = append(worst, float64(w.worst))
		}
	}
	if len(worst) == 0 {
		return nil
	}
	at := func(p float64) float64 { return float64(total.hist.ValueAtPercentile(p)) }
	return &roundWaits{
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: slices.Max(worst),
		WorstMin: slices.Min(worst), WorstMid: median(worst), WorstMax: slices.Max(worst),
		Total: float64(total.total), Count: total.hist.TotalCount(),
	}
}

// runTimed runs one round in which every acquisition is timed.
func (ld load) runTimed(kind lockKind, timings []timing) (t tally, reads, writes *roundWaits) {
	reset(timings)
	t = ld.run(kind, timings)
	var rs, ws []*waits
	for _, t := range timings {
		rs, ws = append(rs, t.reads), append(ws, t.writes)
	}
	return t, sumWaits(rs), sumWaits(ws)
}

// quantiles are in ns, one value for each round.
type quantiles struct {
	p50, p90, p99, p999, p9999, max []float64
	worstMin, worstMid, worstMax    []float64
	count                           []float64
}

// add takes in a round, unless nobody waited in it.
func (q *quantiles) add(w *roundWaits) {
	if w == nil {
		return
	}
	q.p50 = append(q.p50, w.P50)
	q.p90 = append(q.p90, w.P90)
	q.p99 = append(q.p99, w.P99)
	q.p999 = append(q.p999, w.P999)
	q.p9999 = append(q.p9999, w.P9999)
	q.max = append(q.max, w.Max)
	q.worstMin = append(q.worstMin, w.WorstMin)
	q.worstMid = append(q.worstMid, w.WorstMid)
	q.worstMax = append(q.worstMax, w.WorstMax)
	q.count = append(q.count, float64(w.Count))
}

var (
	usualLatency = regexp.MustCompile(`^p\d+/g(8|64)/r(90|50)/(6ns|3us)$`)
	quickLatency = regexp.MustCompile(`/g8/r90/(6ns|3us)$`)
)

func (s *session) latencyCells() []cell {
	usual := usualLatency
	if s.quick {
		usual = quickLatency
	}
	return s.chooseDefaultProcs(usual)
}

const latencyRow = "%-15s  %-6s %-14s %8s %8s %8s %8s   %8s %8s %8s   %8s %-12s %8s %s"

func planLatency(s *session) time.Duration { return s.planCells(s.latencyCells(), len(s.locks)) }

func runLatency(s *session) error {
	cells := s.latencyCells()
	s.title("Acquire latency: every wait timed, clock reading included, in rounds of its own; medians over the rounds, max of all")
	s.row(latencyRow, "", "", "", "", "", "", "", "each", "goroutine's", "worst", "ratio to", "sync.RWMutex", "", "")
	s.row(latencyRow, "cell", "class", "lock", "p50", "p99", "p99.9", "max",
		"min", "median", "max", "p99.9", "spread", "worst", "spread")
	for i, c := range cells {
		finished := s.prog.step("latency "+c.name(), i, len(cells), s.planCell(c, len(s.locks)))
		s.latencyCell(c)
		finished()
	}
	return nil
}

func (s *session) latencyCell(c cell) {
	timings := newTimings(c.goroutines)
	reads, writes := make([]quantiles, len(s.locks)), make([]quantiles, len(s.locks))
	ld := s.load(c)
	roundsOf(s.locks, s.rounds, func(_, i int) {
		_, r, w := ld.runTimed(s.locks[i], timings)
		reads[i].add(r)
		writes[i].add(w)
	})
	for i, kind := range s.locks {
		m := map[string][]float64{}
		reads[i].metrics("read", m)
		writes[i].metrics("write", m)
		s.data.add(record{Table: "latency", Cell: c.name(), Lock: kind.key, Metrics: m})
	}
	s.latencyRows(c, "read", reads)
	s.latencyRows(c, "write", writes)
}

func (s *session) latencyRows(c cell, class string, qs []quantiles) {
	var ref quantiles
	if i := lockIndex(s.locks, "sync"); i >= 0 {
		ref = qs[i]
	}
	for i, q := range qs {
		if len(q.max) == 0 {
			continue
		}
		tail, worst := ratioOf(q.p999, ref.p999), ratioOf(q.worstMid, ref.worstMid)
		mid := func(xs []float64) string { return duration(median(xs)) }
		s.row(latencyRow, c.name(), class, s.locks[i].name,
			mid(q.p50), mid(q.p99), mid(q.p999), duration(slices.Max(q.max)),
			mid(q.worstMin), mid(q.worstMid), mid(q.worstMax),
			tail, tail.spread(), worst, worst.spread())
	}
}
