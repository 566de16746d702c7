package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// wokenReaders are how many readers an Unlock wakes.
var wokenReaders = []int{0, 1, 4, 16, 64, 256, 1024}

// profiledReaders is how many there are under the mutex profile.
const profiledReaders = 256

// gatherLimit is how long it may take until all readers wait.
const gatherLimit = 10 * time.Second

// wakeup is a writer that holds the lock, readers that wait for it, and what
// happens when it unlocks.
type wakeup struct {
	n       int
	limit   time.Duration // for the readers to come to wait
	arrived atomic.Int64
	readers sync.WaitGroup
	got     []time.Time // when each reader had the lock
	dump    []byte
	err     error

	unlocks, lasts []float64 // ns
}

func newWakeup(n int) *wakeup {
	return &wakeup{n: n, limit: gatherLimit, got: make([]time.Time, n), dump: make([]byte, 1<<12)}
}

func (k *wakeup) arrive() { k.arrived.Add(1) }

// gather starts the readers and returns when all wait for the lock, or with an
// error in k when time is up.
func (k *wakeup) gather(reader func(*wakeup, int)) {
	k.arrived.Store(0)
	k.readers.Add(k.n)
	for i := range k.n {
		go reader(k, i)
	}
	for began := time.Now(); !k.allWait(); runtime.Gosched() {
		if time.Since(began) > k.limit {
			k.err = fmt.Errorf("not all of %d readers wait after %v", k.n, k.limit)
			return
		}
	}
}

// allWait looks at every goroutine only when all readers are about to take the
// lock, since that stops the world.
func (k *wakeup) allWait() bool {
	return k.arrived.Load() == int64(k.n) && (k.n == 0 || waitingReaders(k.allStacks()) == k.n)
}

func (k *wakeup) allStacks() []byte {
	for {
		if n := runtime.Stack(k.dump, true); n < len(k.dump) {
			return k.dump[:n]
		}
		k.dump = make([]byte, 2*len(k.dump))
	}
}

// waitingReaders counts the readers that sleep in a lock, whichever lock of its
// own that sleeps in. As a dump is of one instant, none of them sleeps for a
// lock's inner one if all do: nobody could hold that.
func waitingReaders(dump []byte) int {
	n := 0
	for g := range bytes.SplitSeq(dump, []byte("\n\n")) {
		header, stack, _ := bytes.Cut(g, []byte("\n"))
		if bytes.Contains(header, []byte(" [sync.")) && bytes.Contains(stack, []byte(").wakeReader(")) {
			n++
		}
	}
	return n
}

// record takes in an Unlock once all readers have had the lock.
func (k *wakeup) record(began, ended time.Time) {
	k.readers.Wait()
	if k.err != nil {
		return
	}
	k.unlocks = append(k.unlocks, float64(ended.Sub(began)))
	if k.n > 0 {
		k.lasts = append(k.lasts, float64(slices.MaxFunc(k.got, time.Time.Compare).Sub(began)))
	}
}

// wake has a writer wake n readers again and again.
func wake(kind lockKind, n, times int) (*wakeup, error) {
	t := kind.fresh()
	k := newWakeup(n)
	runtime.GC()
	defer watch(kind, t, gatherLimit+planWake(n, times)).Stop()
	for range times {
		if t.wakeWriter(k); k.err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, k.err)
		}
	}
	return k, nil
}

// planWake is how long wake takes: most of it goes into dumps.
func planWake(n, times int) time.Duration {
	return time.Duration(times) * (50*time.Microsecond + time.Duration(n)*20*time.Microsecond)
}

// wakeTimes is how often Unlock is timed in a round: less often where it wakes
// many.
func (t *tails) wakeTimes(n int) int { return t.sized(400, 80) * 128 / max(128, n) }

// planWakes is the time that all rounds with n readers take.
func (t *tails) planWakes(n int) time.Duration {
	return planWake(n, t.wakeTimes(n)) * time.Duration(t.rounds*len(t.checkLocks()))
}

func (t *tails) planUnlock() time.Duration {
	total := t.planWakes(profiledReaders)
	for _, n := range wokenReaders {
		total += t.planWakes(n)
	}
	return total
}

// callSeries is how long a call took, by round: without the other quantiles,
// for which there are too few calls.
type callSeries struct{ quantiles }

func (c *callSeries) add(ns []float64) {
	if len(ns) > 0 {
		c.p50 = append(c.p50, quantile(ns, 0.5))
		c.p99 = append(c.p99, quantile(ns, 0.99))
		c.max = append(c.max, slices.Max(ns))
	}
}

// cells are the series' columns in a table.
func (c *callSeries) cells(ref *callSeries) []any {
	if len(c.max) == 0 {
		return []any{"-", "-", "-", "-", ""}
	}
	vs := ratioOf(c.p50, ref.p50)
	return []any{duration(median(c.p50)), duration(median(c.p99)), duration(slices.Max(c.max)), vs, vs.spread()}
}

// wakeSeries is what unlocking was with one lock.
type wakeSeries struct{ unlock, last callSeries }

const wakeRow = "%-7s %-14s %7s   %8s %8s %8s %15s %-13s  %8s %8s %8s %15s %s"

func (t *tails) runUnlock() error {
	t.title(fmt.Sprintf("Unlock that wakes readers: the call, and until the last reader has the lock, %d rounds", t.rounds))
	t.row(wakeRow, "", "", "", "Unlock", "", "", "to sync.RWMutex", "", "last one", "", "", "to sync.RWMutex", "")
	t.row(wakeRow, "readers", "lock", "times", "p50", "p99", "max", "p50", "spread", "p50", "p99", "max", "p50", "spread")
	locks := t.checkLocks()
	for i, n := range wokenReaders {
		finished := t.prog.step(fmt.Sprintf("unlock with %d readers", n), i, len(wokenReaders), t.planWakes(n))
		all, err := t.wakeRounds(locks, n)
		if err != nil {
			return err
		}
		finished()
		for _, kind := range locks {
			t.reportWakes(kind, n, all[kind.key], all["sync"])
		}
	}
	return t.runCharged(locks)
}

// wakeRounds returns a series for each lock, and one without values for
// sync.RWMutex if that is left out.
func (t *tails) wakeRounds(locks []lockKind, n int) (map[string]*wakeSeries, error) {
	all := map[string]*wakeSeries{"sync": {}}
	var failed error
	roundsOf(locks, t.rounds, func(_, i int) {
		if failed != nil {
			return
		}
		k, err := wake(locks[i], n, t.wakeTimes(n))
		if err != nil {
			failed = err
			return
		}
		d := all[locks[i].key]
		if d == nil {
			d = new(wakeSeries)
			all[locks[i].key] = d
		}
		d.unlock.add(k.unlocks)
		d.last.add(k.lasts)
	})
	return all, failed
}

func (t *tails) reportWakes(kind lockKind, n int, d, ref *wakeSeries) {
	row := []any{fmt.Sprint(n), kind.name, fmt.Sprint(t.wakeTimes(n) * t.rounds)}
	row = append(row, d.unlock.cells(&ref.unlock)...)
	t.row(wakeRow, append(row, d.last.cells(&ref.last)...)...)
	m := map[string][]float64{}
	d.unlock.metrics("unlock", m)
	d.last.metrics("last", m)
	x := float64(n)
	t.data.add(record{Table: "unlock", Cell: fmt.Sprintf("n%d", n), X: &x, Lock: kind.key, Metrics: m})
}

// Whom the mutex profile holds responsible.

// charge says who was held responsible: the innermost function outside of the
// runtime, and who had called into the lock.
type charge struct{ function, caller string }

const (
	byWriter = "writer's Unlock"
	byReader = "reader"
	byOther  = "other"
)

// chargeOf is for a stack, innermost function first.
func chargeOf(stack []string) charge {
	c := charge{function: "runtime", caller: byOther}
	if i := slices.IndexFunc(stack, outsideRuntime); i >= 0 {
		c.function = stack[i]
	}
	for i, f := range stack {
		switch called := stack[max(0, i-1)]; {
		case strings.HasPrefix(called, "main.(*wakeup)."):
			// This program's own work, such as a dump.
		case strings.HasSuffix(f, ").wakeWriter"):
			c.caller = byWriter
		case strings.HasSuffix(f, ").wakeReader"):
			c.caller = byReader
		}
	}
	return c
}

func outsideRuntime(function string) bool {
	return !strings.HasPrefix(function, "runtime.") && !strings.HasPrefix(function, "internal/")
}

// charges are the delays in the mutex profile since the program began, in cycles.
func charges() map[charge]float64 {
	var records []runtime.BlockProfileRecord
	n, ok := runtime.MutexProfile(nil)
	for !ok {
		records = make([]runtime.BlockProfileRecord, n+50) // it may grow meanwhile
		n, ok = runtime.MutexProfile(records)
	}
	total := map[charge]float64{}
	for _, r := range records[:n] {
		var stack []string
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			stack = append(stack, f.Function)
		}
		total[chargeOf(stack)] += float64(r.Cycles)
	}
	return total
}

// chargedIn is each charge's share of the delays during work.
func chargedIn(work func() error) (map[charge]float64, error) {
	before := charges()
	old := runtime.SetMutexProfileFraction(1)
	err := work()
	runtime.SetMutexProfileFraction(old)
	if err != nil {
		return nil, err
	}
	shares, total := charges(), 0.0
	for c := range shares {
		shares[c] -= before[c]
		total += shares[c]
	}
	if total <= 0 {
		return nil, errors.New("the mutex profile is empty")
	}
	for c := range shares {
		shares[c] /= total
	}
	return shares, nil
}

// chargeSeries is whom a lock's delays were charged to, by round.
type chargeSeries struct {
	shares    map[charge][]float64 // a charge that a round does not have is 0 in it
	elsewhere []float64            // not to the writer's Unlock
}

func (d *chargeSeries) add(round, rounds int, shares map[charge]float64) {
	elsewhere := 0.0
	for c, share := range shares {
		if d.shares[c] == nil {
			d.shares[c] = make([]float64, rounds)
		}
		d.shares[c][round] = share
		if c.caller != byWriter {
			elsewhere += share
		}
	}
	d.elsewhere = append(d.elsewhere, elsewhere)
}

// leastShown is the share from which a charge has a row of its own.
const leastShown = 0.001

const chargeRow = "%-14s %-40s %-15s %7s"

func (t *tails) runCharged(locks []lockKind) error {
	finished := t.prog.step("mutex profile", 0, 1, t.planWakes(profiledReaders))
	all := map[string]*chargeSeries{}
	var failed error
	roundsOf(locks, t.rounds, func(round, i int) {
		if failed != nil {
			return
		}
		shares, err := chargedIn(func() error {
			_, err := wake(locks[i], profiledReaders, t.wakeTimes(profiledReaders))
			return err
		})
		if err != nil {
			failed = err
			return
		}
		d := all[locks[i].key]
		if d == nil {
			d = &chargeSeries{shares: map[charge][]float64{}}
			all[locks[i].key] = d
		}
		d.add(round, t.rounds, shares)
	})
	if failed != nil {
		return failed
	}
	finished()

	t.title(fmt.Sprintf("Mutex profile of an Unlock that wakes %d readers: who is charged with the delay", profiledReaders))
	t.row(chargeRow, "lock", "function", "called by", "share")
	for _, kind := range locks {
		t.chargeRows(kind, all[kind.key])
	}
	return nil
}

func (t *tails) chargeRows(kind lockKind, d *chargeSeries) {
	shares := map[charge]float64{}
	for c, byRound := range d.shares {
		if share := median(byRound); share >= leastShown {
			shares[c] = share
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(shares), func(a, b charge) int {
		return cmp.Or(cmp.Compare(shares[b], shares[a]), strings.Compare(a.function, b.function))
	}) {
		t.row(chargeRow, kind.name, c.function, c.caller, fmt.Sprintf("%.1f%%", 100*shares[c]))
	}
	t.data.add(record{Table: "unlock", Cell: fmt.Sprintf("n%d/profile", profiledReaders), Lock: kind.key,
		Metrics: map[string][]float64{metricElsewhere: d.elsewhere}})
}
