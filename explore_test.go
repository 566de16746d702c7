//go:build rwsemexplore

package rwsem

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	exploreMode    = flag.String("rwsem.explore", "quick", "quick; full: the large programs too, which takes an hour; faults: put each fault back and look for it")
	exploreProgram = flag.String("rwsem.program", "", "the program of TestExploreProgram, as the tests print it")
	exploreReplay  = flag.String("rwsem.replay", "", "the choices of a run of it to be repeated, as a failure prints them")
)

// A depthFirst makes all choices, one run after the other. A state that an earlier
// run came through, with as many preemptions left, it does not enter again: what
// follows is the same.
type depthFirst struct {
	path     []branch // of this run: the choices so far
	at       int
	visited  map[uint64]int8 // by hash, to preemptions left and one
	unsteady bool            // a choice that is repeated found other options
	enters   bool            // states that an earlier run came through too, for a test
}

type branch struct {
	options []int8
	taken   int
}

func (d *depthFirst) choose(x *explorer, options []int) int {
	if d.at == len(d.path) {
		h, left := x.hash(), int8(1)
		if x.bound >= 0 {
			left = int8(x.left + 1)
		}
		if d.visited[h] >= left && !d.enters {
			return endRun
		}
		d.visited[h] = left
		var b branch
		if n := len(d.path); n < cap(d.path) {
			b.options = d.path[:n+1][n].options[:0] // of an earlier run
		}
		for _, o := range options {
			b.options = append(b.options, int8(o))
		}
		d.path = append(d.path, b)
	}
	b := d.path[d.at]
	d.at++
	x.quiet = d.at < len(d.path)
	if len(b.options) != len(options) || int(b.options[b.taken]) != options[b.taken] {
		d.unsteady = true
		return endRun
	}
	return options[b.taken]
}

// next goes on to the next run and reports whether there is one.
func (d *depthFirst) next() bool {
	for n := len(d.path); n > 0; n-- {
		d.path = d.path[:n]
		if b := &d.path[n-1]; b.taken+1 < len(b.options) {
			b.taken++
			d.at = 0
			return true
		}
	}
	return false
}

// A randomly makes random choices in the manner of probabilistic concurrency
// testing: the goroutines have priorities, which change at a few random steps.
type randomly struct {
	*rand.Rand
	priority []int // of each thread
	changes  []int // at which steps the one that runs becomes the last
}

func newRandomly(seed uint64, changes int) *randomly {
	r := &randomly{Rand: rand.New(rand.NewPCG(seed, 5))}
	const length = 150 // of a run, about
	for range changes {
		r.changes = append(r.changes, r.IntN(length))
	}
	return r
}

func (r *randomly) choose(x *explorer, options []int) int {
	for len(r.priority) < len(x.threads) {
		r.priority = append(r.priority, r.IntN(1<<20))
	}
	if x.current != nil && slices.Contains(r.changes, x.steps) {
		r.priority[x.current.id] = -x.steps
	}
	best := options[0]
	for _, o := range options[1:] {
		switch {
		case o < 0: // a jump, bad luck
			if r.IntN(8) == 0 {
				return o
			}
		case best < 0 || r.priority[o] > r.priority[best]:
			best = o
		}
	}
	return best
}

// A repeated makes given choices, and then none but the first.
type repeated struct {
	choices []int
	astray  bool
}

func (r *repeated) choose(x *explorer, options []int) int {
	if len(r.choices) == 0 {
		return options[0]
	}
	c := r.choices[0]
	r.choices = r.choices[1:]
	if !slices.Contains(options, c) {
		r.astray = true
		return endRun
	}
	return c
}

// explored is what came of a program.
type explored struct {
	runs, states, steps int
	exhausted           bool
	failure             string
	schedule            []int
	took                time.Duration
}

func (e explored) String() string {
	how := "not exhausted"
	if e.exhausted {
		how = "exhausted"
	}
	return fmt.Sprintf("%8d schedules, %8d states, %9d steps, %s, %v", e.runs, e.states, e.steps, how, e.took.Round(time.Millisecond))
}

// useExplorer has the lock's surroundings be the same in every run.
func useExplorer(t testing.TB) {
	require.Empty(t, os.Getenv("RWSEMDEBUG"), "what is explored is the usual policy")
	require.Contains(t, []string{"quick", "full", "faults"}, *exploreMode, "-rwsem.explore")
	if t.Name() != "TestExploreProgram" {
		require.Empty(t, *exploreProgram+*exploreReplay, "-rwsem.program and -rwsem.replay are for -run TestExploreProgram")
	}
	was, wasCPUs, wasOffset := maxSpinners, cpus, statusOffset
	cpus = 2
	statusOffset = 4 // there is one: status knows
	roundInstructions.Store(1)
	t.Cleanup(func() {
		maxSpinners, cpus, statusOffset = was, wasCPUs, wasOffset
		maxWake, wakeFan = usualWake, usualFan
	})
}

// search makes runs of p until all orders were tried, one fails, or it was made
// limit times.
func search(p program, limit int) explored {
	return (&depthFirst{visited: map[uint64]int8{}}).search(p, limit)
}

func (d *depthFirst) search(p program, limit int) (e explored) {
	start := time.Now()
	for {
		x := newExplorer(p, d)
		x.quiet = len(d.path) > 0
		x.run()
		e.runs++
		e.steps += x.steps
		if d.unsteady {
			x.fail("a run that is repeated goes another way")
		}
		if x.failure != "" {
			e.failure, e.schedule = x.failure, x.chosen
			break
		}
		if !d.next() {
			e.exhausted = true
			break
		}
		if e.runs == limit {
			break
		}
	}
	e.states, e.took = len(d.visited), time.Since(start)
	return e
}

// sample makes runs of p at random.
func sample(p program, seed uint64, runs int) (e explored) {
	start := time.Now()
	for i := range runs {
		x := newExplorer(p, newRandomly(seed+uint64(i), 1+i%5))
		x.run()
		e.runs++
		e.steps += x.steps
		if x.failure != "" {
			e.failure, e.schedule = fmt.Sprintf("seed %d: %s", seed+uint64(i), x.failure), x.chosen
			break
		}
	}
	e.took = time.Since(start)
	return e
}

// replay repeats a run and returns its steps and how it failed.
func replay(p program, schedule []int) (log []string, failure string) {
	r := &repeated{choices: slices.Clone(schedule)}
	x := newExplorer(p, r)
	x.trace = true
	x.run()
	if r.astray {
		x.fail("the choices are not those of a run of this program")
	}
	return x.log, x.failure
}

// report fails the test if a run failed.
func report(t *testing.T, p program, e explored) {
	t.Helper()
	t.Logf("%v: %v", p, e)
	if e.failure == "" {
		return
	}
	log, failure := replay(p, e.schedule)
	choices := make([]string, len(e.schedule))
	for i, c := range e.schedule {
		choices[i] = strconv.Itoa(c)
	}
	t.Fatalf("%v: schedule %d fails: %s\n%s\nrepeated, it fails: %s\ngo test -v -tags rwsemexplore -run TestExploreProgram -rwsem.program '%v' -rwsem.replay %s .",
		p, e.runs, e.failure, strings.Join(log, "\n"), failure, p, strings.Join(choices, ","))
}

// parseReplay returns the choices given by flag, nil without one.
func parseReplay(t *testing.T) (schedule []int) {
	if *exploreReplay == "" {
		return nil
	}
	for _, s := range strings.Split(*exploreReplay, ",") {
		c, err := strconv.Atoi(s)
		require.NoError(t, err, "-rwsem.replay is numbers with commas between them")
		schedule = append(schedule, c)
	}
	return schedule
}

const (
	spinOver   = 30 * time.Microsecond  // more than anybody spins
	readerJump = 150 * time.Microsecond // more than readers wait where sections are long
	dueJump    = 550 * time.Microsecond // more than the handoff time
	lateJump   = time.Millisecond
)

// A planned is a program and how many runs it may take at the most.
type planned struct {
	program
	runs int
}

// plans are the programs that TestExplore explores, with as many readers as there
// can be: quick ones end within some seconds in all.
func plans(full bool) (plans []planned) {
	due, two := []time.Duration{dueJump}, []time.Duration{spinOver, dueJump}
	quick := func(p program) { plans = append(plans, planned{p, quickRuns}) }
	long := func(p program) {
		if full {
			plans = append(plans, planned{p, fullRuns})
		}
	}
	of := func(calls string) program {
		return program{calls: strings.Split(calls, "|"), jumps: two, bound: -1}
	}

	// Two goroutines, two sections of one of them or of both. Steps of the words that
	// are hints only are left out in the quick runs.
	for _, calls := range []string{"WW|W", "WW|R", "WR|W", "RW|W", "WD|R", "UW|W", "cW|W", "WR|RW", "RW|RW", "WW|RR", "WW|WW", "DR|RW", "UW|RR"} {
		p := of(calls)
		p.coarse = true
		if len(calls) == 4 {
			p.jumping = 1
		}
		quick(p)
		p.jumping, p.spinners, p.coarse = 0, 2, false
		long(p)
		p.jumping = 1
		long(p)
		p.score = scoreLong
		long(p)
	}

	for _, calls := range []string{"WW|W", "WW|R", "WR|W", "RW|W", "RR|W"} {
		p := of(calls)
		p.score, p.jumps, p.coarse = scoreShort, nil, true
		quick(p)
	}

	// Three, in all orders.
	for _, calls := range []string{"W|R|w", "W|R|W"} {
		p := of(calls)
		p.jumps, p.coarse = nil, true
		quick(p)
		p.jumps, p.jumping = due, 1
		long(p)
	}

	// Three and four, with a bound on preemptions.
	for _, calls := range []string{
		"W|R|W", "W|R|R", "W|R|c", "W|W|c", "R|D|c", "W|R|C", "W|C|c", "U|R|W", "W|R|w", "W|R|r", "D|R|W", "U|U|c", "WW|R|c",
	} {
		for s := range scoreShort + 1 {
			p := of(calls)
			p.score, p.jumps, p.jumping, p.bound, p.coarse = s, due, 1, 2, true
			if calls != "W|C|c" && (calls != "WW|R|c" || s == scoreMedium) {
				quick(p)
			}
			p.bound = 3
			long(p)
			p.coarse, p.spinners, p.jumps = false, 2, two
			long(p)
		}
	}
	// Sections that become long or short while it is decided who is let in how.
	for _, calls := range []string{"W|R|R", "W|R|W", "D|R|c"} {
		p := of(calls)
		p.scores, p.bound, p.coarse = 1, 2, true
		quick(p)
		p.scores, p.bound = 2, 3
		long(p)
	}
	// Waiters that are passed without a look at their age, and spinners that give up
	// by how often they have looked.
	for _, calls := range []string{"W|R|W", "W|W|r", "W|R|R", "D|R|w"} {
		p := of(calls)
		p.steals, p.jumps, p.bound, p.coarse = 1, nil, 3, true
		quick(p)
		p.steals, p.bound = 2, -1
		long(p)
		p.steals, p.looks, p.spinners, p.bound = 0, 2, 2, 2
		quick(p)
		p.bound = 3
		long(p)
	}
	for _, calls := range []string{"W|W", "W|R", "D|R"} {
		p := of(calls)
		p.spinners, p.looks, p.jumping = 2, 2, 1
		quick(p)
	}
	// A writer that asks readers to step back, and then gives up.
	for _, calls := range []string{"R|R|C", "RR|C"} {
		p := of(calls)
		p.spinners, p.jumps, p.jumping, p.bound, p.coarse = 2, []time.Duration{spinOver}, 1, 3, true
		quick(p)
		p.jumps, p.bound = two, -1
		long(p)
	}
	// A reader that goes before writers.
	for _, calls := range []string{"WW|W|R", "WR|W|R"} {
		p := of(calls)
		p.score, p.jumps, p.jumping, p.bound, p.coarse = scoreLong, []time.Duration{readerJump}, 1, 2, true
		quick(p)
		p.jumping, p.bound = 2, 3
		long(p)
	}
	for _, calls := range []string{"W|R|W", "W|W|W", "W|R|R", "D|R|W", "W|R|c"} {
		p := of(calls)
		p.spinners, p.jumps, p.jumping, p.bound, p.coarse = 2, two, 1, 2, true
		quick(p)
		p.bound, p.jumping = -1, 0
		long(p)
	}
	for _, calls := range []string{"W|R|R|W", "W|R|R|c", "W|W|R|c", "D|R|W|c", "U|R|R|C"} {
		for _, s := range []score{scoreMedium, scoreLong} {
			p := of(calls)
			p.score, p.jumps, p.jumping, p.bound, p.coarse = s, due, 1, 1, true
			quick(p)
			p.bound = 2
			long(p)
			p.spinners = 2
			long(p)
		}
	}

	// Readers that are let in by several calls, one after the other, and of which some
	// wake others.
	for s := range scoreShort + 1 {
		for _, batch := range []int{0, 1} {
			p := of("W|R|R|R")
			p.score, p.jumps, p.jumping, p.bound, p.coarse, p.batch, p.fan = s, due, 1, 2, true, batch, 1
			if s == scoreShort { // who was woken to try may be let in before it runs, if it is late
				p.jumps = []time.Duration{lateJump}
			}
			quick(p)
			p.bound = 3
			long(p)
		}
		for _, calls := range []string{"W|R|R|c", "WW|R|R|R"} {
			p := of(calls)
			p.score, p.jumps, p.jumping, p.bound, p.coarse, p.batch, p.fan = s, due, 1, 2, true, 2, 1
			long(p)
		}
	}

	// Two goroutines, one section each, all orders: nothing is left out.
	const kinds = "WRUDwrCc"
	for i := range kinds {
		for j := range i + 1 {
			for _, s := range []score{scoreMedium, scoreLong} {
				p := of(kinds[j:j+1] + "|" + kinds[i:i+1])
				p.score, p.spinners, p.jumping = s, 2, 1
				switch {
				case !strings.ContainsAny(p.calls[0]+p.calls[1], "WUDwC"):
					continue // readers only: nobody waits
				case i < strings.Index(kinds, "C") && s == scoreMedium:
					quick(p)
				case i < strings.Index(kinds, "C"):
					long(p)
				default:
					long(p)
					q := p // where timers fire, only those who sleep, in quick runs
					q.spinners, q.jumps, q.coarse = 0, due, true
					quick(q)
				}
				p.jumping, p.unlucky = 2, 1
				long(p)
			}
		}
	}
	return plans
}

// guardPlans are the programs in which more readers come than fit into the count.
func guardPlans(full bool) (plans []planned) {
	for s := range scoreShort + 1 {
		for _, p := range []struct {
			calls string
			held  int
			quick int // preemptions
		}{
			{"h|R|R", 7, 2}, {"h|R|r", 7, 3}, {"h|R|c", 7, 1}, {"h|R|R|R", 6, 1}, {"h|hk|R|R", 7, 1}, {"hhhhhhh|W|R", 7, 2}, {"hhhhhhh|C|R", 7, 1},
		} {
			p := planned{program{
				calls: strings.Split(p.calls, "|"), held: p.held, score: s, jumps: []time.Duration{dueJump}, jumping: 1, bound: p.quick, coarse: true,
			}, quickRuns}
			plans = append(plans, p)
			if full {
				p.bound++
				p.runs = fullRuns
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// How many runs a program may take before it counts as not exhausted.
const (
	quickRuns = 500_000
	fullRuns  = 5_000_000
)

// TestExplore tries the schedules of small programs, the quick ones all of them.
func TestExplore(t *testing.T) {
	useExplorer(t)
	full := *exploreMode == "full"
	var all explored
	of := plans
	if flagReadFail>>readerShift < 16 {
		of = guardPlans
	}
	for _, p := range of(full) {
		t.Run(p.String(), func(t *testing.T) {
			e := search(p.program, p.runs)
			report(t, p.program, e)
			require.True(t, e.exhausted || full, "the quick programs are exhausted")
			all.runs += e.runs
			all.states += e.states
			all.steps += e.steps
			all.took += e.took
		})
	}
	t.Logf("in all: %d schedules, %d states, %d steps, %v", all.runs, all.states, all.steps, all.took)
}

// TestExploreProgram explores the program that is given by flag, or repeats one run
// of it and prints that.
func TestExploreProgram(t *testing.T) {
	useExplorer(t)
	s := *exploreProgram
	if s == "" {
		s = "W|R sections=long spinners=0 jumps=0"
	}
	p, err := parseProgram(s)
	require.NoError(t, err, "-rwsem.program")
	schedule := parseReplay(t)
	if schedule == nil {
		report(t, p, search(p, 0))
		return
	}
	log, failure := replay(p, schedule)
	t.Logf("%v\n%s", p, strings.Join(log, "\n"))
	require.Empty(t, failure)
}

// TestExploreRandom makes random runs of programs that are too large to exhaust.
func TestExploreRandom(t *testing.T) {
	useExplorer(t)
	runs := 300
	if *exploreMode == "full" {
		runs = 300_000
	}
	for i, calls := range []string{"WR|RW|cD|wU", "RR|RR|WW|WW", "CC|cc|Rr|UW", "DR|RD|CW|cw"} {
		t.Run(strings.ReplaceAll(calls, "|", "-"), func(t *testing.T) {
			for s := range scoreShort + 1 {
				p := program{calls: strings.Split(calls, "|"), score: s, spinners: 2, jumps: []time.Duration{spinOver, dueJump, lateJump}, jumping: 3, unlucky: 1, bound: -1}
				report(t, p, sample(p, uint64(i)<<32, runs))
			}
		})
	}
}

// makeProgram makes a program of any bytes.
func makeProgram(b []byte) program {
	const kinds = "WRUDLwrCc"
	at := func(i int) int {
		if i < len(b) {
			return int(b[i])
		}
		return 0
	}
	p := program{
		score: score(at(0) % 3), spinners: at(1) % 3, unlucky: at(1) / 3 % 3,
		jumps: []time.Duration{spinOver, dueJump, lateJump}, jumping: at(2) % 4, bound: -1,
		calls: make([]string, 2+at(2)/4%3),
	}
	for i, c := range b[min(3, len(b)):] {
		if i == 12 {
			break
		}
		n := i % len(p.calls)
		p.calls[n] += string(kinds[int(c)%len(kinds)])
	}
	return p
}

// FuzzExplore makes some random runs of a program that the fuzzer makes up.
func FuzzExplore(f *testing.F) {
	f.Add([]byte{0, 2, 3, 0, 1, 2, 3}, uint64(1))
	f.Add([]byte{1, 2, 7, 0, 1, 7, 8, 1, 0}, uint64(2))
	f.Add([]byte{1, 0, 11, 0, 1, 1, 8, 0, 1, 7, 3}, uint64(3))
	f.Add([]byte{2, 8, 9, 0, 0, 2, 5, 6, 4, 8, 7}, uint64(4))
	useExplorer(f)
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		p := makeProgram(b)
		report(t, p, sample(p, seed, 20))
	})
}

// To leave out what follows a state that was seen before leaves out no state: all
// orders one by one come to the same ones.
func TestExploreLeavesOutNothing(t *testing.T) {
	useExplorer(t)
	left := 0
	for _, s := range []string{
		"w|w sections=medium spinners=0 jumps=0",
		"w|r|w sections=medium spinners=0 jumps=0 hints=0",
		"R|w sections=medium spinners=2 jumps=0",
		"W|r sections=medium spinners=2 jumps=1x550µs",
		"W|R sections=long spinners=0 jumps=0 hints=0",
		"W|R|W sections=long spinners=0 jumps=0 preemptions=1 hints=0",
	} {
		p, err := parseProgram(s)
		require.NoError(t, err)
		pruned, all := &depthFirst{visited: map[uint64]int8{}}, &depthFirst{visited: map[uint64]int8{}, enters: true}
		few, many := pruned.search(p, 0), all.search(p, quickRuns)
		t.Logf("%v: %d schedules of %d", p, few.runs, many.runs)
		require.Empty(t, few.failure+many.failure)
		assert.True(t, many.exhausted, "%v", p)
		left += many.runs - few.runs
		for h := range all.visited {
			assert.Contains(t, pruned.visited, h)
		}
	}
	assert.Greater(t, left, 1000, "something was left out")
}

// What is printed is read, what is left out is what is usual, and what is no program
// is an error that says why.
func TestParseProgram(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, p := range append(plans(full), guardPlans(full)...) {
			again, err := parseProgram(p.String())
			require.NoError(t, err)
			require.Equal(t, p.String(), again.String())
		}
	}
	for s, want := range map[string]string{
		"W|Rc":                         "W|Rc sections=medium spinners=0 jumps=0",
		"C|c jumps=1x550us":            "C|c sections=medium spinners=0 jumps=1x550µs",
		" W|R  hints=0 preemptions=0 ": "W|R sections=medium spinners=0 jumps=0 preemptions=0 hints=0",
		"h|k scores=2 looks=1 steals=3 batch=1 fan=3 held=4": "h|k sections=medium spinners=0 jumps=0 scores=2 steals=3 looks=1 batch=1 fan=3 held=4",
		"R|U unlucky=1 sections=long hints=1":                "R|U sections=long spinners=0 jumps=0 unlucky=1",
	} {
		p, err := parseProgram(s)
		require.NoError(t, err, s)
		require.Equal(t, want, p.String())
	}
	for s, want := range map[string]string{
		"":                   "no program",
		"|":                  `thread 0 of "|" does nothing`,
		"W|X":                `no such section: 'X' of "W|X"`,
		"sections=long":      `no such section: 's'`,
		"W | R":              `what is "|"?`,
		"W|R sections=foo":   `no such sections: "sections=foo"`,
		"W|R preemptions=x":  `"preemptions=x": a number has to follow`,
		"W|R spinners=-1":    `"spinners=-1": a number has to follow`,
		"W|R jumps=5":        `"jumps=5": as in jumps=1x30µs,550µs`,
		"W|R jumps=1x5":      `"jumps=1x5": as in jumps=1x30µs,550µs`,
		"W|R hints=2":        `"hints=2": 0 or 1`,
		"W|R held=1 bogus=1": `what is "bogus=1"?`,
		"h|R":                "more sections h than held=0",
		"hh|R held=1":        "more sections h than held=1",
	} {
		_, err := parseProgram(s)
		require.ErrorContains(t, err, want, s)
	}
}

// A run that is repeated takes the same steps, and choices that are no run's are
// found out.
func TestExploreReplay(t *testing.T) {
	useExplorer(t)
	p := program{calls: []string{"WR", "Rc", "CD"}, spinners: 2, jumps: []time.Duration{dueJump}, jumping: 1, bound: -1}
	for seed := range uint64(20) {
		x := newExplorer(p, newRandomly(seed, 3))
		x.trace = true
		x.run()
		require.Empty(t, x.failure)
		log, failure := replay(p, x.chosen)
		require.Empty(t, failure)
		require.Equal(t, x.log, log)
	}
	_, failure := replay(p, []int{7})
	assert.NotEmpty(t, failure)
}
