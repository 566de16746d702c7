package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// soakKind is a kind of phase. Shares are percentages.
type soakKind struct {
	name, about string
	workers     int // for each processor; those of crowd in all
	crowd       int
	locks       int
	reads       int
	tries       int // of calls
	timed       int // of the others, with a time or a context
	urgent      int // of writers' calls that wait
	downgrade   int
	handOver    int           // locks that another goroutine releases; the goroutine then ends
	long        int           // in 10,000 sections that sleep or work for up to longest
	longest     time.Duration // of a section
	patience    time.Duration // the most of a timed call
	round       time.Duration // until all pause, if not soakRound

	storm   bool // garbage and its collections all the while
	burners bool // goroutines that only work, more than processors
	resize  bool // GOMAXPROCS changes all the while
}

var soakKinds = []soakKind{
	{name: "mixed", about: "some goroutines for each processor, calls of all kinds",
		workers: 4, locks: 1, reads: 60, tries: 15, timed: 30, urgent: 10, downgrade: 20, handOver: 1, long: 10, longest: 200 * time.Microsecond, patience: 60 * time.Microsecond},
	{name: "readers", about: "few writers among readers that overlap",
		workers: 4, locks: 1, reads: 98, tries: 5, timed: 10, urgent: 10, downgrade: 20, long: 200, longest: 500 * time.Microsecond, patience: time.Millisecond},
	{name: "writers", about: "few readers among writers",
		workers: 4, locks: 1, reads: 10, tries: 10, timed: 20, urgent: 5, downgrade: 10, long: 10, longest: 200 * time.Microsecond, patience: 100 * time.Microsecond},
	{name: "cancels", about: "waits that are given up, most of them, many at a time",
		workers: 16, locks: 1, reads: 50, tries: 5, timed: 95, urgent: 10, downgrade: 20, long: 300, longest: 200 * time.Microsecond, patience: 100 * time.Microsecond},
	{name: "pauses", about: "all pause every few milliseconds, so that nobody comes to let in a waiter that was forgotten",
		workers: 2, round: 2 * time.Millisecond, locks: 1, reads: 50, tries: 10, timed: 50, urgent: 20, downgrade: 20, handOver: 5, long: 300, longest: 700 * time.Microsecond, patience: 700 * time.Microsecond},
	{name: "urgent", about: "urgent writers and downgrades",
		workers: 4, locks: 1, reads: 60, tries: 5, timed: 10, urgent: 60, downgrade: 60, long: 50, longest: 500 * time.Microsecond, patience: 200 * time.Microsecond},
	{name: "handed", about: "goroutines that leave their lock to another and end while others wait",
		workers: 8, locks: 2, reads: 60, tries: 10, timed: 30, urgent: 10, downgrade: 20, handOver: 100, long: 50, longest: 200 * time.Microsecond, patience: 100 * time.Microsecond},
	{name: "crowd", about: "thousands of goroutines, most of which wait",
		crowd: 3000, round: time.Second, locks: 1, reads: 70, tries: 5, timed: 20, urgent: 5, downgrade: 20, handOver: 1, long: 100, longest: 2 * time.Millisecond, patience: 20 * time.Millisecond},
	{name: "several", about: "several locks, also held together",
		workers: 8, locks: 6, reads: 60, tries: 15, timed: 30, urgent: 10, downgrade: 20, handOver: 1, long: 20, longest: 200 * time.Microsecond, patience: 100 * time.Microsecond},
	{name: "storm", about: "garbage collections, one after the other",
		workers: 8, locks: 2, reads: 60, tries: 10, timed: 40, urgent: 10, downgrade: 20, handOver: 1, long: 20, longest: 200 * time.Microsecond, patience: 200 * time.Microsecond, storm: true},
	{name: "preempt", about: "goroutines in tight loops, so that who holds a lock loses its processor",
		workers: 2, round: 500 * time.Millisecond, locks: 1, reads: 60, tries: 10, timed: 20, urgent: 10, downgrade: 20, handOver: 1, long: 20, longest: 15 * time.Millisecond, patience: 10 * time.Millisecond, burners: true},
	{name: "resize", about: "GOMAXPROCS changes every few milliseconds",
		workers: 8, locks: 1, reads: 60, tries: 10, timed: 30, urgent: 10, downgrade: 20, handOver: 1, long: 20, longest: 200 * time.Microsecond, patience: 200 * time.Microsecond, resize: true},
}

// soakSteps is some microseconds of work.
const soakSteps = 20_000

// soakProcs are the values of GOMAXPROCS, beside the number of CPUs.
var soakProcs = []int{1, 2, 3, 4, 8, 16}

// soakPhaseRun is a phase under way.
type soakPhaseRun struct {
	*soak
	kind    soakKind
	locks   []*guarded
	workers []*soaker
	began   time.Time

	stop    stopFlag
	all     sync.WaitGroup // workers, and what runs beside them
	handed  chan handedLock
	wrong   chan error // the first violation
	current atomic.Pointer[cancellable]

	grace time.Duration // see goroutineGrace

	mostWaiting  int
	collections  int64
	procsChanges int
	rests        int // how often nobody used the locks
}

// cancellable is a context that many wait with.
type cancellable struct {
	context.Context
	cancel context.CancelFunc
}

// handedLock is a lock in the state in which another goroutine is to release it.
type handedLock struct {
	g                *guarded
	write, viaLocker bool
}

// soakCounts is what a goroutine, or all of them, did, by call.
type soakCounts struct {
	taken, vain        [numSoakCalls]uint64
	worst              [numSoakCalls]time.Duration
	downgrades, handed uint64
}

func (c *soakCounts) add(other *soakCounts) {
	for i := range c.taken {
		c.taken[i] += other.taken[i]
		c.vain[i] += other.vain[i]
		c.worst[i] = max(c.worst[i], other.worst[i])
	}
	c.downgrades += other.downgrades
	c.handed += other.handed
}

// soaker is a goroutine that uses the locks, or a chain of such, each of which
// starts the next one when it ends.
type soaker struct {
	*soakPhaseRun
	rng *rand.Rand
	soakCounts
	reads, writes *waits
	wrote         []uint64 // by lock
	result        uint64

	// Only the watch reads these, so that they order no two of those who use a
	// lock.
	_       pad
	since   atomic.Int64 // when the wait began, in ns of the phase; 0 while it does not wait
	waitsOn atomic.Int64 // the call, and the lock behind it
	laps    atomic.Uint64
	_       pad
}

// phase runs a phase and takes in what it did. The error is a violation.
func (s *soak) phase(ctx context.Context, kind soakKind, index int, d time.Duration) error {
	rng := rand.New(rand.NewPCG(s.seed, uint64(index)))
	procs := append([]int{runtime.NumCPU()}, soakProcs...)[rng.IntN(len(soakProcs)+1)]
	runtime.GOMAXPROCS(procs)
	p := &soakPhaseRun{soak: s, kind: kind, wrong: make(chan error, 1), grace: goroutineGrace}
	for i := range kind.locks {
		g := &guarded{soakLock: s.fresh(), watched: s.watchAll || (index+index/len(s.kinds)+i)%2 == 0}
		if rng.IntN(3) == 0 {
			g.SetReaderSpin(time.Duration(rng.IntN(20)) * time.Microsecond)
		}
		p.locks = append(p.locks, g)
	}
	for i := range max(kind.crowd, kind.workers*procs, 2) {
		p.workers = append(p.workers, &soaker{
			soakPhaseRun: p, rng: rand.New(rand.NewPCG(rng.Uint64(), uint64(i))),
			reads: waitsTo(1), writes: waitsTo(1), wrote: make([]uint64, kind.locks),
		})
	}

	runtime.GC() // what earlier phases left behind
	goroutines := runtime.NumGoroutine()
	collected := collections()
	p.began = time.Now()
	for took := time.Duration(0); took < d && ctx.Err() == nil; took = time.Since(p.began) {
		if err := p.use(ctx, min(d-took, cmp.Or(kind.round, soakRound))); err != nil {
			return err
		}
		if err := p.checkRest(); err != nil {
			return err
		}
	}
	took := time.Since(p.began)
	p.collections = collections() - collected
	if err := p.checkLeft(goroutines); err != nil {
		return err
	}
	s.add(p, took)
	return nil
}

// soakRound is how long the locks are used until all pause: as long as somebody
// comes, a waiter that nobody wakes may still be let in.
const soakRound = 200 * time.Millisecond

func collections() int64 {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return stats.NumGC
}

// use has the locks used for the given time, or until ctx ends.
func (p *soakPhaseRun) use(ctx context.Context, d time.Duration) error {
	p.stop.set.Store(false)
	p.handed = make(chan handedLock, 64)
	beside := new(sync.WaitGroup)
	p.renew(nil)
	beside.Go(p.cancelAll)
	if p.kind.storm {
		beside.Go(p.collect)
	}
	if p.kind.resize {
		beside.Go(p.resize)
	}
	if p.kind.burners {
		for range 2 * runtime.GOMAXPROCS(0) {
			beside.Go(func() { new(burner).burn(soakSteps, &p.stop) })
		}
	}
	for range 4 {
		beside.Go(func() {
			for h := range p.handed {
				h.g.release(h.write, h.viaLocker)
			}
		})
	}
	for _, w := range p.workers {
		p.all.Go(w.use)
	}
	over := make(chan struct{})
	go func() {
		p.all.Wait()
		close(p.handed)
		beside.Wait()
		close(over)
	}()
	return p.watch(ctx, d, over)
}

// watch waits for the end of the phase and tells it to end.
func (p *soakPhaseRun) watch(ctx context.Context, d time.Duration, over <-chan struct{}) error {
	end := time.NewTimer(d)
	defer end.Stop()
	ticks := time.NewTicker(min(50*time.Millisecond, p.stuck/4))
	defer ticks.Stop()
	interrupt := ctx.Done()
	laps, lapped := uint64(0), time.Now()
	for {
		select {
		case <-over:
			select {
			case err := <-p.wrong:
				return err
			default:
				return nil
			}
		case err := <-p.wrong:
			p.stop.set.Store(true)
			return err
		case <-interrupt:
			interrupt = nil
			p.stop.set.Store(true)
		case <-end.C:
			p.stop.set.Store(true)
		case <-ticks.C:
			waiting, n, oldest := p.look()
			p.mostWaiting = max(p.mostWaiting, waiting)
			if n != laps {
				laps, lapped = n, time.Now()
			}
			var stuck error
			switch {
			case oldest != nil:
				stuck = oldest.stuckError()
			case time.Since(lapped) > p.stuck:
				stuck = fmt.Errorf("nobody got a lock for %v", p.stuck)
			}
			if stuck != nil {
				p.stop.set.Store(true)
				for _, g := range p.locks {
					fmt.Fprintln(p.stderr, g.describe())
				}
				dumpGoroutines(p.stderr)
				return stuck
			}
		}
	}
}

// look counts who waits and what was done, and finds the one that has waited for
// the longest time, if that is too long.
func (p *soakPhaseRun) look() (waiting int, laps uint64, oldest *soaker) {
	first := int64(time.Since(p.began) - p.stuck)
	for _, w := range p.workers {
		laps += w.laps.Load()
		since := w.since.Load()
		if since == 0 {
			continue
		}
		waiting++
		if since < first {
			first, oldest = since, w
		}
	}
	return waiting, laps, oldest
}

func (w *soaker) stuckError() error {
	on := w.waitsOn.Load()
	call, g := on%numSoakCalls, w.locks[on/numSoakCalls]
	return fmt.Errorf("a call of %s has waited for more than %v: %s", soakCalls[call].name, w.stuck, g.describe())
}

// violated ends the run.
func (p *soakPhaseRun) violated(g *guarded, wrong string) {
	select {
	case p.wrong <- fmt.Errorf("%s: %s", wrong, g.describe()):
	default: // not the first
	}
	p.stop.set.Store(true)
}

// goroutineGrace is how long goroutines that have nothing left to do may take to
// end.
const goroutineGrace = 5 * time.Second

// checkRest looks at the locks when nobody uses them.
func (p *soakPhaseRun) checkRest() error {
	p.rests++
	var all []error
	for i, g := range p.locks {
		writes := uint64(0)
		for _, w := range p.workers {
			writes += w.wrote[i]
		}
		if wrong := g.rest(writes); wrong != "" {
			all = append(all, errors.New(wrong))
		}
	}
	return errors.Join(all...)
}

// checkLeft looks for goroutines that should have ended.
func (p *soakPhaseRun) checkLeft(goroutines int) error {
	for end := time.Now().Add(p.grace); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			dumpGoroutines(p.stderr)
			return fmt.Errorf("%d goroutines where there were %d", runtime.NumGoroutine(), goroutines)
		}
	}
	return nil
}

// renew replaces the context that many wait with.
func (p *soakPhaseRun) renew(old *cancellable) {
	ctx, cancel := context.WithCancel(context.Background())
	p.current.Store(&cancellable{ctx, cancel})
	if old != nil {
		old.cancel()
	}
}

// cancelAll ends the context that many wait with, again and again.
func (p *soakPhaseRun) cancelAll() {
	for !p.stop.set.Load() {
		time.Sleep(2 * p.kind.patience)
		p.renew(p.current.Load())
	}
	p.current.Load().cancel()
}

// collect makes garbage and has it collected.
func (p *soakPhaseRun) collect() {
	var kept [][]byte
	for !p.stop.set.Load() {
		for range 100 {
			kept = append(kept, make([]byte, 10_000))
		}
		runtime.GC()
		kept = kept[:0]
	}
}

// resize changes GOMAXPROCS every few milliseconds.
func (p *soakPhaseRun) resize() {
	for !p.stop.set.Load() {
		runtime.GOMAXPROCS(soakProcs[rand.IntN(len(soakProcs))])
		p.procsChanges++
		time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
	}
}

// use makes visits until the phase is over, or this goroutine is to end and
// another one to go on.
func (w *soaker) use() {
	for !w.stop.set.Load() {
		if w.visit() {
			w.all.Go(w.use)
			return
		}
	}
}

func (w *soaker) percent(n int) bool { return w.rng.IntN(100) < n }

// visit is one section or an attempt at one, at times with another lock inside.
// It reports whether it left the lock to another goroutine to release.
func (w *soaker) visit() (handed bool) {
	i := w.rng.IntN(len(w.locks))
	g := w.locks[i]
	call := w.draw()
	if !w.take(i, call) {
		return false
	}
	write, ok := w.section(i, call)
	if !ok {
		return false
	}
	if i+1 < len(w.locks) && w.percent(10) { // in one order, so that nobody waits in a circle
		j := i + 1 + w.rng.IntN(len(w.locks)-i-1)
		if inner := w.draw(); w.take(j, inner) {
			if innerWrite, ok := w.section(j, inner); ok {
				w.locks[j].release(innerWrite, inner == callRLocker)
			}
		}
	}
	h := handedLock{g, write, call == callRLocker}
	if w.percent(w.kind.handOver) {
		w.soakCounts.handed++
		w.soakPhaseRun.handed <- h
		return true
	}
	g.release(h.write, h.viaLocker)
	return false
}

// draw is what call comes next.
func (w *soaker) draw() int {
	write := 0
	if !w.percent(w.kind.reads) {
		write = callLock - callRLock
	}
	switch {
	case w.percent(w.kind.tries):
		return write + callTryRLock
	case w.percent(w.kind.timed):
		return write + callTryRLockFor + w.rng.IntN(2)
	case write != 0 && w.percent(w.kind.urgent) || write == 0 && w.percent(10):
		return write + 1 // LockUrgent or RLocker
	default:
		return write
	}
}

// take makes a call on a lock and reports whether it has it.
func (w *soaker) take(i, call int) bool {
	ctx, d := context.Background(), time.Duration(0)
	switch call {
	case callTryRLockFor, callTryLockFor:
		d = time.Duration(w.rng.Int64N(int64(w.kind.patience))) - w.kind.patience/16
	case callRLockContext, callLockContext:
		switch n := w.rng.IntN(8); {
		case n == 0:
		case n < 4:
			ctx = w.current.Load()
		default:
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rng.Int64N(int64(w.kind.patience)))-w.kind.patience/16)
			defer cancel()
		}
	}
	w.waitsOn.Store(int64(i*numSoakCalls + call))
	from := time.Since(w.began)
	w.since.Store(max(1, int64(from)))
	ok := soakCalls[call].take(w.locks[i], ctx, d)
	w.since.Store(0)
	waited := time.Since(w.began) - from
	w.laps.Add(1)
	if !ok {
		w.vain[call]++
		return false
	}
	w.taken[call]++
	w.worst[call] = max(w.worst[call], waited)
	if soakCalls[call].write {
		w.writes.record(waited)
	} else {
		w.reads.record(waited)
	}
	return true
}

// section is what happens inside a lock that call has taken. It reports how the
// lock is held then, and false if that is not to be released as something is
// wrong.
func (w *soaker) section(i, call int) (write, ok bool) {
	g := w.locks[i]
	write = soakCalls[call].write
	wrong := g.enter(write)
	switch {
	case wrong != "": // the data are not to be touched
	case write:
		n := g.writes + 1
		w.wrote[i]++
		if wrong = g.change(w.stay); wrong == "" && w.percent(w.kind.downgrade) {
			g.lower()
			w.downgrades++
			write = false
			w.stay()
			wrong = g.compare(n)
		}
	default:
		n := g.writes
		w.stay()
		wrong = g.compare(n)
	}
	if wrong != "" {
		w.violated(g, wrong)
	}
	return write, wrong == ""
}

// stay makes a section short, mostly.
func (w *soaker) stay() {
	switch n := w.rng.IntN(10_000); {
	case n < w.kind.long:
		d := time.Duration(w.rng.Int64N(int64(w.kind.longest)))
		if n%2 == 0 {
			time.Sleep(d)
		} else {
			for end := time.Since(w.began) + d; time.Since(w.began) < end; {
			}
		}
	case n < w.kind.long+100:
		runtime.Gosched()
	case n < w.kind.long+1100:
		w.result += section(w.rng.IntN(soakSteps))
	}
}
