package main

//go:generate go run gen_loops.go

import (
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pad keeps its neighbours off each other's cache lines; two lines, as
// processors prefetch them in pairs.
type pad [128]byte

// target is a lock with the loops that measure it. A call through target
// starts a loop; inside the loop the lock's methods are called directly.
type target interface {
	mixed(*worker)     // sections until told to stop
	urgent(*worker)    // the same, writers with LockUrgent where there is one
	pausing(*worker)   // the same, not working but pausing in each section
	apart(*worker)     // as mixed, with work between the sections
	timed(*worker)     // as mixed, recording every wait
	scheduled(*worker) // a section for each arrival, recording every wait
	readPairs(n int)
	writePairs(n int)
	tryReadPairs(n int)
	tryWritePairs(n int)
	relayReader(*relay)
	relayWriter(*relay)
	wakeReader(*wakeup, int)
	wakeWriter(*wakeup)
	describe() string
}

// lockKind is one of the locks compared.
type lockKind struct {
	key, name string
	fresh     func() target
}

// lockIndex is -1 if no lock has the key.
func lockIndex(locks []lockKind, key string) int {
	return slices.IndexFunc(locks, func(l lockKind) bool { return l.key == key })
}

func hasLock(locks []lockKind, key string) bool { return lockIndex(locks, key) >= 0 }

// lockByKey is one of those compared.
func lockByKey(key string) lockKind { return allLocks[lockIndex(allLocks, key)] }

// stopFlag is read by every goroutine each time around and written once.
type stopFlag struct {
	_   pad
	set atomic.Bool
	_   pad
}

// worker is one goroutine's share of a round.
type worker struct {
	_         pad
	readBelow uint64 // draws of 32 bits below this are reads
	seed      uint64
	steps     int
	outside   int    // in apart rounds only
	pause     func() // in pausing rounds only
	stop      *stopFlag
	ops       uint64
	timing    // in timed rounds only
	_         pad
}

// load is what the goroutines of a round do.
type load struct {
	procs    int       // GOMAXPROCS
	readPcts []float64 // each goroutine's share of reads
	steps    int       // of each critical section
	pause    func()    // what each does instead, if not nil
	urgent   bool      // writers are urgent
	dur      time.Duration

	roles []role // instead of readPcts, steps, pause and urgent, if not nil

	burners, burnSteps int // goroutines beside the lock that only work, and the steps of each piece
}

// role is what one goroutine of a round does.
type role struct {
	readPct float64
	steps   int    // of each critical section
	outside int    // steps of the work after each, outside
	pause   func() // what each section is instead, if not nil
	urgent  bool
}

// everyRole is what each goroutine does.
func (ld load) everyRole() []role {
	if ld.roles != nil {
		return ld.roles
	}
	var roles []role
	for _, pct := range ld.readPcts {
		roles = append(roles, role{readPct: pct, steps: ld.steps, pause: ld.pause, urgent: ld.urgent})
	}
	return roles
}

// uniform is the read share of n goroutines that all do the same.
func uniform(n int, readPct float64) []float64 { return slices.Repeat([]float64{readPct}, n) }

// drawsBelow bounds the draws of 32 bits that make up a percentage of them all.
func drawsBelow(pct float64) uint64 { return uint64(pct * (1 << 32) / 100) }

// tally is the outcome of a round.
type tally struct {
	Ops     []float64 // of each goroutine
	Elapsed time.Duration
	CPU     time.Duration // of the whole process meanwhile; 0 if not known
	Burnt   float64       // pieces of work that the burners did
}

func (t tally) mops() float64 { return sum(t.Ops) / float64(t.Elapsed.Microseconds()) }

// overrun is how long after its planned end a round may last.
const overrun = 30 * time.Second

// run runs one round on a fresh lock. With timings, one for each
// goroutine, every acquisition is timed.
func (ld load) run(kind lockKind, timings []timing) tally {
	runtime.GOMAXPROCS(ld.procs)
	t := kind.fresh()
	stop := new(stopFlag)
	roles := ld.everyRole()
	workers := make([]worker, len(roles))
	burnt := make([]burner, ld.burners)
	// What earlier rounds left behind is not to be collected during this one.
	runtime.GC()

	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(len(workers))
	for i := range workers {
		w := &workers[i]
		w.readBelow = drawsBelow(roles[i].readPct)
		w.seed = uint64(i+1) * 0x9E3779B97F4A7C15
		w.steps, w.outside = roles[i].steps, roles[i].outside
		w.pause = roles[i].pause
		w.stop = stop
		loop := roles[i].loop(t)
		if timings != nil {
			loop = timedLoop(t, timings)
			w.timing = timings[i]
		}
		done.Go(func() {
			ready.Done()
			<-start
			loop(w)
		})
	}
	for i := range burnt {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			burnt[i].burn(ld.burnSteps, stop)
		})
	}
	ready.Wait()

	defer watch(kind, t, ld.dur).Stop()
	began, cpu := time.Now(), cpuTime()
	close(start)
	time.Sleep(ld.dur)
	stop.set.Store(true)
	res := tally{Elapsed: time.Since(began), CPU: cpuTime() - cpu}
	if s, ok := t.(stopper); ok {
		s.stopped()
	}
	done.Wait()

	for i := range workers {
		res.Ops = append(res.Ops, float64(workers[i].ops))
	}
	for i := range burnt {
		res.Burnt += float64(burnt[i].pieces)
	}
	return res
}

// stopper is a target whose goroutines may wait for each other, and have to be
// told that nobody will come any more.
type stopper interface{ stopped() }

// loop is what the goroutine runs in rounds that are not timed.
func (r role) loop(t target) func(*worker) {
	switch {
	case r.pause != nil:
		return t.pausing
	case r.urgent:
		return t.urgent
	case r.outside > 0:
		return t.apart
	default:
		return t.mixed
	}
}

// burner counts what a goroutine did that has nothing to do with the lock.
type burner struct {
	_      pad
	pieces uint64
	result uint64
	_      pad
}

func (b *burner) burn(steps int, stop *stopFlag) {
	for !stop.set.Load() {
		b.result += section(steps)
		b.pieces++
	}
}

// childLimit is how long a child process may take over rounds planned to take
// the given time: enough for its own watch to end it with a report.
func childLimit(planned time.Duration) time.Duration { return 2*planned + 2*overrun }

// watch ends the program with a report if the round is not over long after
// its planned end.
func watch(kind lockKind, t target, planned time.Duration) *time.Timer {
	return time.AfterFunc(planned+overrun, func() {
		hung(os.Stderr, kind, t)
		os.Exit(1)
	})
}

func hung(w io.Writer, kind lockKind, t target) {
	fmt.Fprintf(w, "\n%s: round still running %v after its planned end\n%s\n", kind.name, overrun, t.describe())
	dumpGoroutines(w)
}

func dumpGoroutines(w io.Writer) {
	// The dump stops all goroutines first, which may itself never succeed.
	dump := make(chan []byte, 1)
	go func() {
		buf := make([]byte, 1<<20)
		dump <- buf[:runtime.Stack(buf, true)]
	}()
	select {
	case d := <-dump:
		_, _ = w.Write(d)
	case <-time.After(10 * time.Second):
		fmt.Fprintln(w, "no goroutine dump: the goroutines do not stop")
	}
}

// roundsOf calls one once for each lock in every round, each round starting
// with another lock.
func roundsOf(locks []lockKind, rounds int, one func(round, lock int)) {
	for r := range rounds {
		for i := range rotated(len(locks), r) {
			one(r, i)
		}
	}
}

// rotated is the order of n things in a round.
func rotated(n, round int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield((round + i) % n) {
				return
			}
		}
	}
}
