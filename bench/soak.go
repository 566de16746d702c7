package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/rwsem/rwsem"
)

const soakHelp = `Soak has rwsem.RWMutex used in every way there is, for long, and watches that it
does what a lock has to.

    go run ./bench soak [flags]
    go run -race ./bench soak [flags]

The time is divided into phases of some seconds, each with locks of its own:

%s
All of them mix all calls. What is watched, at every section of every phase:

    a writer is alone, and no reader is with a writer: by counters beside every
    other lock (beside all of them they would order what only the lock is to
    order), and by plain data that every lock guards, which writers change and
    readers compare; with -race the race detector watches the data too
    nothing that a writer wrote is lost, and Downgrade lets no writer in between
    every wait ends: a call that waits for longer than -stuck ends the run with a
    dump of all goroutines, as does a phase in which nobody gets a lock for as long
    several times in a phase all pause: then the locks are unlocked with nobody
    queued; and at its end no goroutine is left

It ends by itself, and with its summary on an interrupt. A violation ends it at
once. The programs are made from the seed; how they interleave is not.

Exit status: 0 if nothing was violated, also if it was interrupted; 1 for a
violation; 2 for a mistake in the command line.

Flags:
`

// soakOptions is the parsed command line.
type soakOptions struct {
	total, stuck time.Duration
	seed         uint64
	kinds        []soakKind
	json         string
}

const (
	soakTime      = 10 * time.Minute
	soakQuickTime = 10 * time.Second

	// soakPhase is how long a phase takes at the most, so that there are many.
	soakPhase = 5 * time.Second
)

func soakCommand(args []string, stdout, stderr io.Writer) error {
	var o soakOptions
	fs := flag.NewFlagSet("bench soak", flag.ContinueOnError)
	fs.DurationVar(&o.total, "for", 0, fmt.Sprintf("`duration` of the run (default %v)", soakTime))
	quick := fs.Bool("quick", false, fmt.Sprintf("a run of %v", soakQuickTime))
	fs.DurationVar(&o.stuck, "stuck", 30*time.Second, "`duration` after which a wait counts as one that never ends")
	fs.Uint64Var(&o.seed, "seed", 0, "`seed` of the programs (default another one each time)")
	pickFlag(fs, &o.kinds, "only", "phase", soakKinds, func(k soakKind) string { return k.name })
	jsonFlag(fs, &o.json)
	about := described(soakKinds, func(k soakKind) (string, string) { return k.name, k.about })
	if err := parse(fs, args, fmt.Sprintf(soakHelp, about), stdout); err != nil {
		return err
	}
	wrong := o.stuck <= 0
	fs.Visit(func(f *flag.Flag) { wrong = wrong || f.Name == "for" && o.total <= 0 })
	if wrong {
		return usagef("-for and -stuck must be positive")
	}
	if o.total == 0 {
		o.total = soakTime
		if *quick {
			o.total = soakQuickTime
		}
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	data, err := newDataFile(o.json)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program
	s := &soak{soakOptions: o, out: stdout, stderr: stderr, data: data, fresh: freshSoaked}
	if err := s.run(ctx); err != nil {
		return err
	}
	return data.close()
}

// soaked is the lock that is soaked.
type soaked struct {
	rwsem.RWMutex
	_ pad
}

func freshSoaked() soakLock { return new(soaked) }

func (l *soaked) describe() string { return rwsem.Describe(&l.RWMutex) }

// soak is a run of the command.
type soak struct {
	soakOptions
	out, stderr io.Writer
	data        *dataFile
	fresh       func() soakLock
	watchAll    bool // counters beside every lock
	results     map[string]*soakResult
}

// soakResult is what all phases of a kind amount to.
type soakResult struct {
	phases int
	took   time.Duration
	soakCounts
	reads, writes *waits
	mostWaiting   int
	collections   int64
	procsChanges  int
	rests         int
	metrics       map[string][]float64 // by phase
}

func (s *soak) run(ctx context.Context) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	n := len(s.kinds)
	phases := max(1, (int(s.total/soakPhase)+n-1)/n) * n
	each := s.total / time.Duration(phases)
	fmt.Fprintf(s.out, "%s %s/%s, %d CPUs, race detector %s, seed %d\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), onOff(raceBuild()), s.seed)
	s.results = map[string]*soakResult{}
	prog := newProgress(s.stderr, s.total)
	began := time.Now()
	for i := range phases {
		if ctx.Err() != nil {
			break
		}
		kind := s.kinds[i%n]
		finished := prog.step(kind.name, i, phases, each)
		// The ends of phases take their time too, so that the others get less.
		left := (s.total - time.Since(began)) / time.Duration(phases-i)
		if err := s.phase(ctx, kind, i, max(left, each/10)); err != nil {
			s.summarize("VIOLATION", time.Since(began))
			return fmt.Errorf("%s, phase %d, seed %d: %w", kind.name, i+1, s.seed, err)
		}
		finished()
	}
	verdict := "no violation"
	if ctx.Err() != nil {
		verdict = "interrupted, no violation"
	}
	s.summarize(verdict, time.Since(began))
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// raceBuild reports whether the race detector is in this program.
func raceBuild() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-race" && s.Value == "true"
	})
}

// add takes in a phase that is over.
func (s *soak) add(p *soakPhaseRun, took time.Duration) {
	r := s.results[p.kind.name]
	if r == nil {
		r = &soakResult{reads: newWaits(), writes: newWaits(), metrics: map[string][]float64{}}
		s.results[p.kind.name] = r
	}
	r.phases++
	r.took += took
	r.mostWaiting = max(r.mostWaiting, p.mostWaiting)
	r.collections += p.collections
	r.procsChanges += p.procsChanges
	r.rests += p.rests
	var counts soakCounts
	reads, writes := newWaits(), newWaits()
	for _, w := range p.workers {
		counts.add(&w.soakCounts)
		reads.merge(w.reads)
		writes.merge(w.writes)
	}
	r.soakCounts.add(&counts)
	r.reads.merge(reads)
	r.writes.merge(writes)

	put := func(name string, x float64) { r.metrics[name] = append(r.metrics[name], x) }
	for class, w := range map[string]*waits{"read": reads, "write": writes} {
		put(class+"-"+metricP999, p999Of(w))
		put(class+"-"+metricMax, float64(w.worst))
	}
	put("taken", float64(sumCounts(counts.taken[:])))
	put("in-vain", float64(sumCounts(counts.vain[:])))
	put("most-waiting", float64(p.mostWaiting))
	put("collections", float64(p.collections))
	put("procs-changes", float64(p.procsChanges))
	put("rests", float64(p.rests))
}

// merge adds other's waits to w.
func (w *waits) merge(other *waits) {
	w.hist.Merge(other.hist)
	w.worst = max(w.worst, other.worst)
	w.total += other.total
}

// p999Of is the wait in ns that one in a thousand exceeds. The histogram rounds up.
func p999Of(w *waits) float64 {
	return min(float64(w.hist.ValueAtPercentile(99.9)), float64(w.worst))
}

func sumCounts(ns []uint64) (total uint64) {
	for _, n := range ns {
		total += n
	}
	return total
}

const (
	soakRow     = "%-9s %6s %8s %8s %8s  %9s %9s %9s %9s  %7s %6s %11s"
	soakCallRow = "%-14s %8s %8s %9s"
)

// summarize prints what ran, but for a phase with a violation.
func (s *soak) summarize(verdict string, took time.Duration) {
	table, calls := "soak", "soak/calls"
	if raceBuild() {
		table, calls = "soak/race", "soak/race calls"
	}
	var all soakCounts
	phases, rests := 0, 0
	worst := time.Duration(0)
	fmt.Fprintf(s.out, "\n== Phases: waits of calls that got the lock\n")
	printRow(s.out, soakRow, "", "", "", "", "in", "read", "read", "write", "write", "most", "", "GOMAXPROCS")
	printRow(s.out, soakRow, "phase", "phases", "time", "taken", "vain", "p99.9", "longest", "p99.9", "longest", "waiting", "GCs", "changes")
	for _, k := range s.kinds {
		r := s.results[k.name]
		if r == nil {
			continue
		}
		phases += r.phases
		rests += r.rests
		all.add(&r.soakCounts)
		worst = max(worst, r.reads.worst, r.writes.worst)
		printRow(s.out, soakRow, k.name, fmt.Sprint(r.phases), r.took.Round(100*time.Millisecond).String(),
			count(float64(sumCounts(r.taken[:]))), count(float64(sumCounts(r.vain[:]))),
			duration(p999Of(r.reads)), duration(float64(r.reads.worst)), duration(p999Of(r.writes)), duration(float64(r.writes.worst)),
			fmt.Sprint(r.mostWaiting), count(float64(r.collections)), count(float64(r.procsChanges)))
		s.data.add(record{Table: table, Cell: k.name, Lock: "rwsem", Metrics: r.metrics})
	}
	fmt.Fprintf(s.out, "\n== Calls\n")
	printRow(s.out, soakCallRow, "call", "taken", "in vain", "longest")
	for i, c := range soakCalls {
		vain := ""
		if c.mayFail {
			vain = count(float64(all.vain[i]))
		}
		printRow(s.out, soakCallRow, c.name, count(float64(all.taken[i])), vain, duration(float64(all.worst[i])))
		metrics := map[string][]float64{"taken": {float64(all.taken[i])}, metricMax: {float64(all.worst[i])}}
		if c.mayFail {
			metrics["in-vain"] = []float64{float64(all.vain[i])}
		}
		s.data.add(record{Table: calls, Cell: c.name, Lock: "rwsem", Metrics: metrics})
	}
	s.data.add(record{Table: calls, Cell: "Downgrade", Lock: "rwsem", Metrics: map[string][]float64{"taken": {float64(all.downgrades)}}})
	fmt.Fprintf(s.out, "%s times downgraded, %s times unlocked by another goroutine than locked\n",
		count(float64(all.downgrades)), count(float64(all.handed)))
	fmt.Fprintf(s.out, "\n%s: %d phases in %v, locks at rest %d times, %s locks taken, longest wait %s\n",
		verdict, phases, took.Round(100*time.Millisecond), rests, count(float64(sumCounts(all.taken[:]))), duration(float64(worst)))
}
