package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// side is one of the ways to have the lock that an experiment compares.
type side struct {
	name     string
	settings string // of policyVar
	tags     string // of another build of this program
	lock     string // key
}

func setTo(settings string) side {
	return side{name: "rwsem " + settingName(settings), settings: settings, lock: "rwsem"}
}

var asItIs = setTo("")

// experiment is what a round runs: each of the scenes on each of the sides.
type experiment struct {
	row, name   string
	note        string // for the reader of its table
	needs       int    // CPUs without which the mechanism cannot show; 0 if one does
	unless      string // why it cannot be run at all, "" if it can
	sides       []side // the first is run twice, to see the lock against itself
	scenes      []scene
	comparisons []comparison
}

// comparison is of two sides, by their indexes.
type comparison struct {
	before, after int
	curve         bool // the points are of one kind, so that they have a mean
	points        []rowPoint
}

// rowPoint is a line of a comparison's table.
type rowPoint struct {
	label     string
	scene     string
	measure   measure
	published figures
}

// measure is a figure of a round.
type measure struct {
	metric string // as in data files
	unit   string // as in tables
	scale  float64
	of     func(scene, outcome) float64
}

var (
	throughput = measure{metricThroughput, "kops/s", 1000, func(_ scene, o outcome) float64 { return o.Tally.mops() }}
	beside     = measure{metricBeside, "burnt pieces/ms", 1000, func(_ scene, o outcome) float64 {
		return o.Tally.Burnt / float64(o.Tally.Elapsed.Microseconds())
	}}
	writerWait = measure{"write-" + metricP50, "wait p50, us", 1e-3, func(_ scene, o outcome) float64 {
		if o.Writes == nil {
			return nan
		}
		return o.Writes.P50
	}}
)

// crewTally is a round as if there had been nobody but one of the crews.
func crewTally(sc scene, t tally, i int) tally {
	first := 0
	for _, c := range sc.Crews[:i] {
		first += c.N
	}
	t.Ops = t.Ops[first : first+sc.Crews[i].N]
	return t
}

// throughputOf is that of one crew.
func throughputOf(i int, name string) measure {
	return measure{name + "-" + metricThroughput, "kops/s", 1000, func(sc scene, o outcome) float64 {
		return crewTally(sc, o.Tally, i).mops()
	}}
}

// cpuFor is the CPU time of the process for each message that a crew handled.
func cpuFor(i int, name string) measure {
	return measure{name + "-" + metricCPU, "CPU us a message", 1, func(sc scene, o outcome) float64 {
		if o.Tally.CPU == 0 {
			return nan // not known here
		}
		return float64(o.Tally.CPU.Microseconds()) / sum(crewTally(sc, o.Tally, i).Ops)
	}}
}

// sharePoints are how a crew's operations were spread over its goroutines.
func sharePoints(sc scene, i int, name string, published shares) []rowPoint {
	one := func(which string, of func(share) float64) rowPoint {
		m := measure{name + "-" + which + "-ops/s", which + " in 5 s", sharesTime, func(sc scene, o outcome) float64 {
			// Who never came counts as who came once, so that there is a ratio.
			return max(1, of(shareOf(crewTally(sc, o.Tally, i).Ops))) / o.Tally.Elapsed.Seconds()
		}}
		return rowPoint{name + ", each", sc.Name, m, figures{before: of(published.before), after: of(published.after)}}
	}
	return []rowPoint{
		one("min", func(s share) float64 { return s.min }),
		one("mean", func(s share) float64 { return s.mean }),
		one("max", func(s share) float64 { return s.max }),
	}
}

// setup is what the experiments of a run are made for.
type setup struct {
	*session
	steps []int // of sections whose length was not published
}

// stepsFor is how many steps take so long.
func (s *setup) stepsFor(d time.Duration) int {
	size := s.sizes[burnSize]
	return max(1, int(float64(size.steps)*float64(d)/float64(size.want)))
}

// fairTurn is how much of a round there is for each goroutine where what is
// measured is how the operations are spread over them.
func (s *setup) fairTurn() time.Duration { return time.Duration(s.sized(10, 2)) * time.Millisecond }

// starvingTime is the length of a round in which somebody starves.
func (s *setup) starvingTime() time.Duration { return max(s.dur, 100*s.fairTurn()) }

// row is a mechanism, or all of them, by its name in the published descriptions.
type row struct {
	name, about string
	experiments func(*setup) []experiment
}

// rowList are the rows that have figures.
var rowList = []row{
	{"A3", "the lock itself, beside sync.RWMutex and sync.Mutex", (*setup).rowA3},
	{"A7", "handoff, and handoff too early", (*setup).rowA7},
	{"A9", "urgent writers", (*setup).rowA9},
	{"A10", "readers are woken together", (*setup).rowA10},
	{"A12", "readers spin on a writer", (*setup).rowA12},
	{"A13", "writers spin on readers", (*setup).rowA13},
	{"A14", "adaptive disabling of reader spinning", (*setup).rowA14},
	{"A17", "the writer's identity in the count, another build", (*setup).rowA17},
	{"all", "the plain queue beside everything together", (*setup).rowAll},
	{"B", "no spinning on an owner that does not run", (*setup).rowB},
	{"C", "a reader-spin threshold for each lock", (*setup).rowC},
	{"D", "TryRLock that expects an unlocked lock", (*setup).rowD},
	{"E", "a writer with handoff spins on the owner", (*setup).rowE},
}

// scene has its goroutines run for as long as a round of so many takes.
func (s *setup) scene(name string, crews ...crew) scene {
	sc := scene{Name: name, Procs: s.procs, Crews: crews}
	sc.Dur = s.roundTime(cell{procs: s.procs, goroutines: sc.goroutines()})
	return sc
}

// long is the scene with longer rounds, for crews that differ: in them every
// goroutine gets several turns even if only one at a time can have the lock.
func (s *setup) long(sc scene) scene {
	sc.Dur = max(sc.Dur, 4*s.dur, time.Duration(sc.goroutines())*s.fairTurn())
	return sc
}

// micro is the locking microbenchmark: goroutines that do nothing but sections,
// reads and writes by the draw.
func (s *setup) micro(n, readPct, steps int, urgent bool) scene {
	kind := map[int]string{0: "writers", 50: "mixed", 100: "readers"}[readPct]
	if urgent {
		kind = "urgent-" + kind
	}
	return s.scene(fmt.Sprintf("%s/g%d/%dsteps", kind, n, steps), crew{N: n, ReadPct: readPct, Steps: steps, Urgent: urgent})
}

// dedicated has readers and writers as crews of their own, in this order.
func (s *setup) dedicated(readers, writers, steps int) scene {
	return s.scene(fmt.Sprintf("readers%d+writers%d/%dsteps", readers, writers, steps),
		crew{N: readers, ReadPct: 100, Steps: steps}, crew{N: writers, Steps: steps})
}

// quickMost is the most goroutines in a quick run's curves.
const quickMost = 64

// kept tells which of a curve's points are run: all, or in a quick run the first
// and the last with not too many goroutines.
func (s *setup) kept(threads []int) []int {
	if !s.quick {
		return threads
	}
	first, last := threads[0], threads[0]
	for _, n := range threads {
		if n <= quickMost {
			last = n
		}
	}
	return []int{first, last}
}

// oneCurve is an experiment over numbers of goroutines, in which compare names
// the sides before and after of each comparison.
func (s *setup) oneCurve(row, name string, c curve, sides []side, compare [][2]int, at func(n int) scene) experiment {
	e := experiment{row: row, name: name, needs: 2, sides: sides}
	for range compare {
		e.comparisons = append(e.comparisons, comparison{curve: true})
	}
	for i, n := range c.threads {
		if !slices.Contains(s.kept(c.threads), n) {
			continue
		}
		sc := at(n)
		e.scenes = append(e.scenes, sc)
		for k := range compare {
			cmp := &e.comparisons[k]
			cmp.before, cmp.after = compare[k][0], compare[k][1]
			cmp.points = append(cmp.points, rowPoint{fmt.Sprint(n), sc.Name, throughput, figures{before: c.before[i], after: c.after[i]}})
		}
	}
	return e
}

// microCurves are the curves of the microbenchmark with a mechanism off and on,
// one for each length of section.
func (s *setup) microCurves(row, name, off string, readPct int, urgent bool, c curve) []experiment {
	var all []experiment
	for _, steps := range s.steps {
		all = append(all, s.oneCurve(row, stepsName(name, steps), c, []side{asItIs, setTo(off)}, offOn,
			func(n int) scene { return s.micro(n, readPct, steps, urgent) }))
	}
	return all
}

func stepsName(name string, steps int) string { return fmt.Sprintf("%s, %d steps", name, steps) }

// offOn compares the second side with the default.
var offOn = [][2]int{{1, 0}}

// oneScene is an experiment with few points, none of which is like another.
func oneScene(row, name, off string, sc scene, points ...rowPoint) experiment {
	return experiment{
		row: row, name: name, sides: []side{asItIs, setTo(off)}, scenes: []scene{sc},
		comparisons: []comparison{{before: 1, after: 0, points: points}},
	}
}

func (s *setup) rowA3() []experiment {
	var all []experiment
	sides := []side{asItIs, {name: "sync.RWMutex", lock: "sync"}, {name: "sync.Mutex", lock: "mutex"}}
	for _, steps := range s.steps {
		for _, kind := range []struct {
			name    string
			readPct int
			from    machines
		}{{"writers only", 0, publishedA3.writers}, {"readers only", 100, publishedA3.readers}} {
			arch, c := kind.from.onThisKind()
			e := s.oneCurve("A3", stepsName(kind.name, steps), c, sides, [][2]int{{1, 0}, {2, 0}},
				func(n int) scene { return s.micro(n, kind.readPct, steps, false) })
			e.needs = 0
			e.callLevel()
			e.note = "Published is the layout before to the one after, \"roughly the same\"; ours is rwsem.RWMutex to another lock.\n" +
				kind.from.elsewhere(arch)
			all = append(all, e)
		}
	}
	return all
}

// elsewhere says what was published for the other architectures.
func (m machines) elsewhere(but string) string {
	var all []string
	for _, arch := range []string{"amd64", "arm64", "ppc64le"} {
		c, ok := m[arch]
		if !ok || arch == but {
			continue
		}
		var ratios, threads []string
		for i, n := range c.threads {
			ratios = append(ratios, figures{before: c.before[i], after: c.after[i]}.String())
			threads = append(threads, fmt.Sprint(n))
		}
		all = append(all, fmt.Sprintf("%s %s with %s threads", arch, strings.Join(ratios, "/"), strings.Join(threads, "/")))
	}
	return "Published for others: " + strings.Join(all, ", ") + "."
}

// callLevel is for figures that their text calls about the same.
func (e *experiment) callLevel() {
	for _, c := range e.comparisons {
		for i := range c.points {
			c.points[i].published.level = true
		}
	}
}

// earlyHandoff is the handoff time that is too early.
const earlyHandoff = "handoff=20us"

func (s *setup) rowA7() []experiment {
	const held = 5 * time.Microsecond
	sleeping := s.long(s.scene("writers/g240/5us-sleep", crew{N: 240, Sleep: held}))
	slept := oneScene("A7", "240 writers, 5 us sleep inside", "handoff=0", sleeping,
		sharePoints(sleeping, 0, "writers", publishedA7)...)
	slept.note = "Go's timers make the sleep longer."
	working := s.long(s.scene("writers/g240/5us-work", crew{N: 240, Steps: s.stepsFor(held)}))
	worked := oneScene("A7", "240 writers, 5 us work inside", "handoff=0", working,
		sharePoints(working, 0, "writers", publishedA7)...)
	all := []experiment{slept, worked}
	for _, steps := range s.steps {
		sc := s.long(s.dedicated(40, 40, steps))
		early := experiment{
			row: "A7", name: stepsName("too early: 40 readers, 40 writers", steps),
			note:  "Before is the handoff time as it is, after " + earlyHandoff + ".",
			sides: []side{asItIs, setTo(earlyHandoff)}, scenes: []scene{sc},
		}
		early.comparisons = []comparison{{before: 0, after: 1, points: slices.Concat(
			sharePoints(sc, 0, "readers", publishedA7Early[0]), sharePoints(sc, 1, "writers", publishedA7Early[1]))}}
		all = append(all, early)
	}
	relay := scene{Name: "relay", Procs: s.procs, RelayWaits: s.sized(20, 5), Dur: s.starvingTime()}
	last := oneScene("A7", "a writer under a relay of readers", "handoff=0", relay, rowPoint{"writer", relay.Name, writerWait, figures{}})
	last.note = fmt.Sprintf("A round ends after %v, and with it a wait that would have been longer.", relay.Dur)
	return append(all, last)
}

func (s *setup) rowA9() []experiment {
	return s.microCurves("A9", "urgent writers only", "urgent=0", 0, true, publishedA9)
}

func (s *setup) rowA10() []experiment {
	return s.microCurves("A10", "half reads, half writes", "wakemany=0", 50, false, publishedA10)
}

func (s *setup) rowA12() []experiment {
	return s.microCurves("A12", "half reads, half writes", "readerspin=0", 50, false, publishedA12)
}

func (s *setup) rowA13() []experiment {
	all := s.microCurves("A13", "half reads, half writes", "writerspin=0", 50, false, publishedA13)
	slow := s.long(s.scene("slow-reader1+writers8",
		crew{N: 1, ReadPct: 100, Steps: s.stepsFor(200 * time.Microsecond)}, crew{N: 8, Steps: s.steps[0]}))
	e := oneScene("A13", "one reader of 200 us among 8 writers", "writerspin=0", slow,
		rowPoint{"reader", slow.Name, throughputOf(0, "readers"), figures{}},
		rowPoint{"writers", slow.Name, throughputOf(1, "writers"), figures{}})
	e.needs = 2
	return append(all, e)
}

func (s *setup) rowA14() []experiment {
	const off = "adaptive=0"
	sides := []side{asItIs, setTo(off)}
	us := s.stepsFor(time.Microsecond)
	faults := s.oneCurve("A14", "like page faults: 95 % reads, 1 us inside, 1 us outside", publishedA14.pageFaults, sides, offOn,
		func(n int) scene {
			return s.scene(fmt.Sprintf("faults/g%d", n), crew{N: n, ReadPct: 95, Steps: us, Outside: us})
		})
	faults.note = "Published is the gain of a page fault test in percent."
	short := s.oneCurve("A14", "very short sections, half reads, half writes", publishedA14.short, sides, offOn,
		func(n int) scene { return s.micro(n, 50, 1, false) })

	crews := []crew{{N: 8, Steps: s.steps[0]}}
	for i := range 8 {
		crews = append(crews, crew{N: 1, ReadPct: 100, Sleep: time.Duration(i+1) * 50 * time.Microsecond})
	}
	staggered := s.long(s.scene("writers8+staggered-readers8", crews...))
	e := oneScene("A14", "8 writers, 8 readers that sleep 50 to 400 us inside", off, staggered,
		rowPoint{"writers", staggered.Name, throughputOf(0, "writers"), figures{}},
		rowPoint{"all", staggered.Name, throughput, figures{}})
	e.needs = 2
	return []experiment{faults, short, e}
}

// ownerInCountTags builds the lock with the writer's identity in the count.
const ownerInCountTags = "rwsem_ownercount"

func (s *setup) rowA17() []experiment {
	sides := []side{asItIs, {name: "rwsem -tags " + ownerInCountTags, tags: ownerInCountTags, lock: "rwsem"}}
	var all []experiment
	for _, steps := range s.steps {
		for _, kind := range []struct {
			name    string
			readPct int
			urgent  bool
			from    curve
		}{
			{"writers only", 0, false, publishedA17.writers},
			{"half reads, half writes", 50, false, publishedA17.mixed},
			{"urgent writers only", 0, true, publishedA17.urgent},
		} {
			all = append(all, s.oneCurve("A17", stepsName(kind.name, steps), kind.from, sides, [][2]int{{0, 1}},
				func(n int) scene { return s.micro(n, kind.readPct, steps, kind.urgent) }))
		}
	}
	return all
}

func (s *setup) rowAll() []experiment {
	var all []experiment
	for _, steps := range s.steps {
		all = append(all, s.oneCurve("all", stepsName("as many readers as writers", steps), publishedAll.halves,
			[]side{asItIs, setTo(plainQueue)}, offOn, func(n int) scene { return s.dedicated(n/2, n/2, steps) }))
		sc := s.long(s.dedicated(22, 22, steps))
		sc.Name += "/each"
		all = append(all, oneScene("all", stepsName("22 readers, 22 writers", steps), plainQueue, sc, slices.Concat(
			sharePoints(sc, 0, "readers", publishedAll.readers), sharePoints(sc, 1, "writers", publishedAll.writers))...))
	}
	// Longer than anybody spins.
	long := s.long(s.scene("long-readers22+writers22",
		crew{N: 22, ReadPct: 100, Steps: s.stepsFor(50 * time.Microsecond)}, crew{N: 22, Steps: s.steps[0]}))
	e := oneScene("all", "22 readers of 50 us, 22 writers", plainQueue, long,
		rowPoint{"readers", long.Name, throughputOf(0, "readers"), figures{}},
		rowPoint{"writers", long.Name, throughputOf(1, "writers"), figures{}})
	e.note = "Where it may lose: reader groups get smaller."
	for i := range all {
		all[i].needs = 2
	}
	e.needs = 2
	return append(all, e)
}

func (s *setup) rowB() []experiment {
	procs := 4 * runtime.NumCPU()
	crews := []crew{{N: 2 * procs}, {N: 2 * procs, ReadPct: 100}}
	alone := s.long(s.scene("messages", crews...))
	alone.Procs = procs
	beset := alone
	beset.Name += "/burners"
	beset.Burners, beset.BurnSteps = procs, s.stepsFor(3*time.Microsecond)
	off := setTo("ownercheck=0")
	on := asItIs
	off.lock, on.lock = mailboxLock, mailboxLock
	received := throughputOf(1, "received")
	return []experiment{{
		row: "B", name: fmt.Sprintf("messages, %d senders, %d receivers, GOMAXPROCS %d", 2*procs, 2*procs, procs), needs: 2,
		note: fmt.Sprintf("Published is the part of the time that was spun away, in percent: %.2f for an rwsem, %.2f for a mutex, neither\n"+
			"among the top afterwards, of which the first had %.2f. With burners, what is not spun away shows in what they get done.",
			publishedB.rwsem, publishedB.mutex, publishedB.topEntry),
		sides: []side{on, off}, scenes: []scene{alone, beset},
		comparisons: []comparison{{before: 1, after: 0, points: []rowPoint{
			{"alone", alone.Name, received, figures{}},
			{"alone", alone.Name, cpuFor(1, "received"), figures{before: publishedB.rwsem, falls: true}},
			{"with burners", beset.Name, received, figures{}},
			{"with burners", beset.Name, beside, figures{}},
		}}},
	}}
}

func (s *setup) rowC() []experiment {
	automatic := asItIs
	off := side{name: "SetReaderSpin(0)", lock: spinOffLock}
	threshold := side{name: fmt.Sprintf("SetReaderSpin(%v)", spinThreshold), lock: spinThresholdLock}
	read, write := s.stepsFor(3*time.Microsecond), s.steps[0]
	both := s.long(s.scene("random-read+write", crew{N: 8, ReadPct: 100, Steps: read}, crew{N: 8, Steps: write}))
	mostly := s.long(s.scene("random-write", crew{N: 2, ReadPct: 100, Steps: read}, crew{N: 14, Steps: write}))
	points := func(published func(figures) figures) []rowPoint {
		return []rowPoint{
			{"random read+write", both.Name, throughput, published(publishedC.readWrite)},
			{"random write", mostly.Name, throughput, published(publishedC.write)},
		}
	}
	return []experiment{{
		row: "C", name: "like files: readers of 3 us, short writers", needs: 2,
		note:  "Published is MB/s, the threshold to none. Automatic is what the lock does unless it is told.",
		sides: []side{automatic, off, threshold}, scenes: []scene{both, mostly},
		comparisons: []comparison{
			{before: 1, after: 2, points: points(func(f figures) figures { return f })},
			{before: 1, after: 0, points: points(func(figures) figures { return figures{} })},
		},
	}}
}

func (s *setup) rowD() []experiment {
	const row = "D"
	arch, c := publishedD.free.onThisKind()
	try := func(n int) scene { return s.scene(fmt.Sprintf("tries/g%d", n), crew{N: n, ReadPct: 100}) }
	free := s.oneCurve(row, "a free lock", c,
		[]side{{name: "load first", lock: tryLoadLock}, {name: "expect unlocked", lock: tryExpectLock}}, [][2]int{{0, 1}}, try)
	free.note = publishedD.free.elsewhere(arch)
	held := s.oneCurve(row, "a lock with a reader", publishedD.held,
		[]side{{name: "load first", lock: tryLoadHeldLock}, {name: "expect unlocked", lock: tryExpectHeldLock}}, offOn,
		func(n int) scene {
			sc := try(n)
			sc.Name += "/held"
			return sc
		})
	held.note = "Published is the run time of a test when the guess was undone: before is the guess, after the load."
	for _, p := range held.comparisons {
		for i := range p.points {
			p.points[i].published.times = true
		}
	}
	all := []experiment{free, held}
	if tryForms == nil {
		for i := range all {
			all[i].unless = "this build has one form only"
		}
	}
	return all
}

func (s *setup) rowE() []experiment {
	inside, outside := s.stepsFor(time.Microsecond), s.stepsFor(3*time.Microsecond)
	sc := s.scene("g7000/outside", crew{N: 7000, ReadPct: 10, Steps: inside, Outside: outside})
	sc.Dur = s.starvingTime()
	jobs, slow := publishedE.jobs, publishedE.slowPath
	at := func(before, after int) []rowPoint {
		return []rowPoint{{"7000", sc.Name, throughput, figures{before: jobs[before], after: jobs[after]}}}
	}
	return []experiment{{
		row: "E", name: "7000 goroutines, 90 % writes, work outside", needs: 2,
		note: fmt.Sprintf("Published is jobs per minute. The write slow path's part of the time, not measured here: %.2f %%, %.2f %%, %.2f %%\n"+
			"without the re-architecture, with it, and with this too.", slow[0], slow[1], slow[2]),
		sides: []side{asItIs, setTo("handoffspin=0"), setTo(plainQueue)}, scenes: []scene{sc},
		comparisons: []comparison{
			{before: 1, after: 0, points: at(1, 2)},
			{before: 2, after: 0, points: at(0, 2)},
		},
	}}
}
