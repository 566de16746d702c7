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

// options is the parsed command line of a comparison.
type options struct {
	quick  bool
	parts  []part[*session]
	cells  *regexp.Regexp // nil: each part's own choice
	locks  []lockKind
	rounds int
	dur    time.Duration // least length of a round
	turn   turn
	json   string // name of the data file
}

// extent is how much is measured unless the command line says otherwise.
type extent struct {
	rounds int
	dur    time.Duration
	turn   turn
	takes  string // how long, in all
}

// extents are those of a command, without and with -quick.
type extents struct{ full, quick extent }

var compareExtents = extents{
	full:  extent{5, 200 * time.Millisecond, longTurn, "25 minutes"},
	quick: extent{3, 80 * time.Millisecond, shortTurn, "half a minute"},
}

// part is a table of a run. plan tells how long it will take, so that the time
// left can be estimated.
type part[R any] struct {
	name, about string
	plan        func(R) time.Duration
	run         func(R) error
}

func partsFlag[R any](fs *flag.FlagSet, picked *[]part[R], all []part[R]) {
	pickFlag(fs, picked, "only", "part", all, func(p part[R]) string { return p.name })
}

func hasPart[R any](parts []part[R], name string) bool {
	return slices.ContainsFunc(parts, func(p part[R]) bool { return p.name == name })
}

// runParts runs the parts of a run in its session, one after the other.
func runParts[R any](s *session, run R, parts []part[R], stderr io.Writer) error {
	var planned time.Duration
	for _, p := range parts {
		planned += p.plan(run)
	}
	s.prog = newProgress(stderr, planned)
	for _, p := range parts {
		if err := p.run(run); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		runtime.GOMAXPROCS(s.procs)
	}
	return nil
}

var allParts []part[*session]

func init() {
	allParts = []part[*session]{
		{"pairs", "lock and unlock on one goroutine, in a build with assembly and in one without", planPairs, runPairs},
		{"grid", "throughput and fairness under contention", planGrid, runGrid},
		{"latency", "how long readers and writers wait", planLatency, runLatency},
		{"checks", "named workloads, and every target with its figure", planChecks, runChecks},
		{"noise", "every lock against itself", planNoise, runNoise},
	}
}

// session is a comparison under way.
type session struct {
	options
	procs  int // GOMAXPROCS at the start
	sizes  []sectionSize
	all    []cell
	out    io.Writer
	prog   *progress
	data   *dataFile // nil without -json
	checks []check

	// rwsem against itself, where the noise was measured; printed beside the
	// grid's mean.
	itself string
}

const compareHelp = `Bench compares rwsem.RWMutex with other locks on the same work.

    go run ./bench [flags]          measure the locks
    go run ./bench COMMAND [flags]  see below; COMMAND -h lists its flags

%s
Every round runs every lock once, starting with another lock each time. A
ratio is the median over the rounds of one round's quotient; its spread is the
least and the greatest. Above 1x is better for throughput, below 1x for times.

Parts, for -only:

%s
Cells are named by GOMAXPROCS, goroutines, percentage of reads and length of
the critical section: p2/g8/r90/6ns. Without -cells, the grid takes all of them
and latency and noise take a few; -quick takes fewer.

Locks, for -locks:

%s
The tables go to standard output and the progress to standard error. Exit
status: 0 if everything ran, whoever won; 1 if something failed or a lock hung;
2 for a mistake in the command line.

Flags:
`

func helpText() string {
	shown := slices.DeleteFunc(slices.Clone(commands), func(c command) bool { return c.name == "" || c.hidden })
	return fmt.Sprintf(compareHelp,
		described(shown, func(c command) (string, string) { return c.name, c.about }),
		described(allParts, func(p part[*session]) (string, string) { return p.name, p.about }),
		describedLocks())
}

// described lists items with what each is, a line each, for a help text.
func described[T any](items []T, item func(T) (name, about string)) string {
	var lines strings.Builder
	for _, it := range items {
		name, about := item(it)
		fmt.Fprintf(&lines, "    %-10s %s\n", name, about)
	}
	return lines.String()
}

func describedLocks() string {
	return described(allLocks, func(l lockKind) (string, string) { return l.key, l.name })
}

// parseRounds adds the flags that say how much to measure, and parses them all.
func (o *options) parseRounds(fs *flag.FlagSet, e extents, args []string, help string, stdout io.Writer) error {
	fs.BoolVar(&o.quick, "quick", false,
		fmt.Sprintf("a smaller run, about %s in all instead of %s", e.quick.takes, e.full.takes))
	cellsFlag(fs, &o.cells)
	jsonFlag(fs, &o.json)
	fs.IntVar(&o.rounds, "rounds", 0,
		fmt.Sprintf("`number` of rounds (default %d, with -quick %d)", e.full.rounds, e.quick.rounds))
	fs.DurationVar(&o.dur, "dur", 0,
		fmt.Sprintf("least `duration` of a round; many goroutines get longer ones (default %v, with -quick %v)", e.full.dur, e.quick.dur))
	if err := parse(fs, args, help, stdout); err != nil {
		return err
	}
	wrong := false
	fs.Visit(func(f *flag.Flag) {
		wrong = wrong || f.Name == "rounds" && o.rounds <= 0 || f.Name == "dur" && o.dur <= 0
	})
	if wrong {
		return usagef("-rounds and -dur must be positive")
	}
	ext := e.full
	if o.quick {
		ext = e.quick
	}
	if o.rounds == 0 {
		o.rounds = ext.rounds
	}
	if o.dur == 0 {
		o.dur = ext.dur
	}
	o.turn = ext.turn
	return nil
}

func cellsFlag(fs *flag.FlagSet, cells **regexp.Regexp) {
	regexpFlag(fs, cells, "cells", "run the cells whose name matches this `regexp`, unanchored")
}

// regexpFlag adds a flag that leaves re alone if it is not given, or is empty.
func regexpFlag(fs *flag.FlagSet, re **regexp.Regexp, name, usage string) {
	fs.Func(name, usage, func(value string) (err error) {
		if value != "" {
			*re, err = regexp.Compile(value)
		}
		return err
	})
}

func locksFlag(fs *flag.FlagSet, locks *[]lockKind) {
	pickFlag(fs, locks, "locks", "lock", allLocks, func(l lockKind) string { return l.key })
}

// pickFlag adds a flag that is a list of some of the items.
func pickFlag[T any](fs *flag.FlagSet, picked *[]T, flagName, what string, items []T, name func(T) string) {
	*picked = items
	fs.Func(flagName, fmt.Sprintf("comma-separated `%ss` to run (default all)", what), func(value string) (err error) {
		*picked, err = pick(what, value, items, name)
		return err
	})
}

func parseOptions(args []string, stdout io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	partsFlag(fs, &o.parts, allParts)
	locksFlag(fs, &o.locks)
	err := o.parseRounds(fs, compareExtents, args, helpText(), stdout)
	return o, err
}

func (o options) sized(full, quick int) int {
	if o.quick {
		return quick
	}
	return full
}

// pick returns the items named in a comma-separated list, or all of them for
// an empty one, in their own order.
func pick[T any](what, list string, items []T, name func(T) string) ([]T, error) {
	if list == "" {
		return items, nil
	}
	var known []string
	for _, it := range items {
		known = append(known, name(it))
	}
	wanted := strings.Split(list, ",")
	for _, w := range wanted {
		if !slices.Contains(known, w) {
			return nil, usagef("no %s %q; there are: %s", what, w, strings.Join(known, ", "))
		}
	}
	var out []T
	for _, it := range items {
		if slices.Contains(wanted, name(it)) {
			out = append(out, it)
		}
	}
	return out, nil
}

// newSession is for a command that has the given cells to choose from.
func newSession(o options, all []cell, stdout io.Writer) (*session, error) {
	s := &session{options: o, out: stdout, procs: runtime.GOMAXPROCS(0), all: all, sizes: sectionSizes}
	if o.cells != nil && len(s.choose(nil)) == 0 {
		return nil, usagef("-cells %q matches none of the %d cells, such as %s", o.cells, len(s.all), s.all[0].name())
	}
	var err error
	s.data, err = newDataFile(o.json)
	return s, err
}

// begin prints what machine this is and fits the sections to it.
func (s *session) begin() {
	fmt.Fprintf(s.out, "%s %s/%s, %d CPUs, GOMAXPROCS %d\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.procs)
	s.sizes = calibrate(s.sizes)
	printSections(s.out, s.sizes)
}

func compareCommand(args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stdout)
	if err != nil {
		return err
	}
	// Before there is a session, which replaces the data file.
	if hasPart(o.parts, "checks") && len(o.checkLocks()) == 0 {
		return usagef("the checks need rwsem or sync among -locks; -only leaves them out")
	}
	s, err := newSession(o, allCells(runtime.GOMAXPROCS(0)), stdout)
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(s.procs)
	s.begin()
	if err := runParts(s, s, o.parts, stderr); err != nil {
		return err
	}
	printChecks(s)
	return s.data.close()
}
