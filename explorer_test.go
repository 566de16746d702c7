//go:build rwsemexplore

package rwsem

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// The explorer runs the calls of a few goroutines on one lock one step at a time
// and decides before each step whose is next. A run is started anew for each
// order; what came before a choice is repeated by making the same choices, since
// nothing else decides what a run does: the clock, the run queue and who parks are
// the explorer's.
//
// A step is an access to one of the lock's words, taking waitLock, a park and an
// unpark, a pause, and the begin and end of a timer. What lies between two steps
// others cannot observe.

// A program is what the goroutines of a run do, and with what.
type program struct {
	calls    []string        // of each goroutine: its sections, a letter each (section)
	score    score           // of the sections before the run
	spinners int             // that the lock lets spin
	jumps    []time.Duration // by which the clock may jump
	jumping  int             // how often it does at the most
	unlucky  int             // how often at the most a spinner is told that its owner or its processor has no time for it
	scores   int             // how often at the most the score has become another one when somebody looks at it
	steals   int             // how often at the most a waiter may be passed without a look at its age
	looks    int             // how often at the most a spinner looks again though nothing has changed
	bound    int             // preemptions at the most, -1 for any number
	coarse   bool            // what is a hint only, owner, ctl and steals, is read and written without a step
	batch    int             // how many readers are let in together at the most, 0 for what is usual
	fan      int             // how many of them a waker wakes itself, 0 for what is usual
	held     int             // read locks that are held at the start; sections h give one up, k take one more that is kept
}

// String is as parseProgram reads it.
func (p program) String() string {
	jumps := strconv.Itoa(p.jumping)
	for i, d := range p.jumps {
		if p.jumping == 0 {
			break
		}
		jumps += "x,"[min(i, 1):][:1] + d.String()
	}
	s := fmt.Sprintf("%s sections=%s spinners=%d jumps=%s", strings.Join(p.calls, "|"), p.score, p.spinners, jumps)
	if p.unlucky > 0 {
		s += fmt.Sprint(" unlucky=", p.unlucky)
	}
	if p.scores > 0 {
		s += fmt.Sprint(" scores=", p.scores)
	}
	if p.steals > 0 {
		s += fmt.Sprint(" steals=", p.steals)
	}
	if p.looks > 0 {
		s += fmt.Sprint(" looks=", p.looks)
	}
	if p.bound >= 0 {
		s += fmt.Sprint(" preemptions=", p.bound)
	}
	if p.coarse {
		s += " hints=0"
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"batch", p.batch}, {"fan", p.fan}, {"held", p.held}} {
		if f.n > 0 {
			s += fmt.Sprintf(" %s=%d", f.name, f.n)
		}
	}
	return s
}

// sections are the letters of perform.
const sections = "WUDRLwrCchk"

// parseProgram reads a program as it is printed; what is left out is 0, medium, or
// without a bound.
func parseProgram(s string) (p program, err error) {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return p, fmt.Errorf("no program, as in %q", "W|Rc sections=long jumps=1x550µs preemptions=2")
	}
	p.calls, p.bound = strings.Split(fields[0], "|"), -1
	for i, calls := range p.calls {
		if calls == "" {
			return p, fmt.Errorf("thread %d of %q does nothing", i, fields[0])
		}
		for _, c := range calls {
			if !strings.ContainsRune(sections, c) {
				return p, fmt.Errorf("no such section: %q of %q; there are %s", c, fields[0], sections)
			}
		}
	}
	numbers := map[string]*int{
		"spinners": &p.spinners, "unlucky": &p.unlucky, "scores": &p.scores, "steals": &p.steals, "looks": &p.looks, "preemptions": &p.bound,
		"batch": &p.batch, "fan": &p.fan, "held": &p.held,
	}
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		switch {
		case name == "sections":
			i := slices.Index(scores[:], value)
			if i < 0 {
				return p, fmt.Errorf("no such sections: %q; there are %v", f, scores)
			}
			p.score = score(i)
		case name == "hints":
			if value != "0" && value != "1" {
				return p, fmt.Errorf("%q: 0 or 1", f)
			}
			p.coarse = value == "0"
		case name == "jumps":
			if !p.parseJumps(value) {
				return p, fmt.Errorf("%q: as in jumps=1x30µs,550µs", f)
			}
		case numbers[name] != nil:
			n, err := strconv.ParseUint(value, 10, 8)
			if err != nil {
				return p, fmt.Errorf("%q: a number has to follow, at most 255", f)
			}
			*numbers[name] = int(n)
		default:
			return p, fmt.Errorf("what is %q?", f)
		}
	}
	if strings.Count(fields[0], "h") > p.held {
		return p, fmt.Errorf("more sections h than held=%d", p.held)
	}
	return p, nil
}

func (p *program) parseJumps(s string) bool {
	number, times, any := strings.Cut(s, "x")
	n, err := strconv.ParseUint(number, 10, 8)
	if err != nil || any != (n > 0) {
		return false
	}
	p.jumping = int(n)
	if !any {
		return true
	}
	for s := range strings.SplitSeq(times, ",") {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return false
		}
		p.jumps = append(p.jumps, d)
	}
	return true
}

// A score is what the lock takes the sections for.
type score int

const (
	scoreMedium score = iota
	scoreLong
	scoreShort
)

var scores = [...]string{"medium", "long", "short"}

func (s score) String() string { return scores[s] }

// A chooser makes the choices of a run. options are goroutines by their number, or
// other things below 0; the first is what goes on undisturbed. It returns endRun to
// have no more of this run.
type chooser interface {
	choose(x *explorer, options []int) int
}

const (
	endRun    = -100
	optJump   = -1  // and below: a jump of the clock
	optUsual  = -20 // a spinner's owner runs, its processor is free
	optUnlike = -21 // not
	optScore  = -30 // and below: the score is another one
	optSteal  = -40 // there has been a look at the first waiter's age just now
)

// An explorer is one run.
type explorer struct {
	program
	chooser

	rw      RWMutex
	threads []*thread // those of the program, then those of timers
	current *thread
	next    *thread
	clock   int64
	changes uint64 // of words, the clock or who runs: what a pause waits for
	idle    int    // pauses that were ended without any
	steps   int

	holder  *thread         // of waitLock
	locked  map[*mutex]bool // whether each other one is held
	writer  *thread         // whose call put the writer into the count, or who was granted it
	unowned int             // read locks that are held, which no section has begun to give up
	waiters []*waiterSeen

	begun    bool // all threads of the program stand before their first step
	over     bool
	failure  string
	options  []int
	again    []int // spinners that may look again though nothing has changed
	quiet    bool  // nothing new happens: an earlier run's choices are repeated
	left     int   // preemptions, below 0 for any number
	jumped   int   // jumps that are left
	unlikely int   // unlikely answers that are left
	rescored int   // new scores that are left
	stolen   int   // steals that are left
	looked   int   // looks that are left

	trace  bool
	log    []string
	chosen []int // the choices so far
}

// A thread is a goroutine of the program, or one in which a timer fires.
type thread struct {
	id     int
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool

	op     op // what it does next
	at     unsafe.Pointer
	on     *waiterSeen
	seen   uint64 // changes when its pause began
	label  string
	past   uint64 // a hash of all that it has learned since its call began
	inCall int    // steps of the call
	queues bool   // it is about to take waitLock to queue
	begun  bool
	done   bool
	ended  bool // the run was over before it was done

	// What it holds by what its calls returned, and what it has in the count.
	reads, counted int
	writes         bool
	releasing      bool // it is about to give up one of reads
	granted        bool // a reader that was granted the lock and whose call goes on

	told   bool // its waiter was, since its call began
	unowed bool // it saw the count without hand-off when it put itself there, or a reader since

	timer *thread // of its timed call, armed or firing
	owner *thread // of a timer: whose call that is
}

// waiterSeen is what the explorer knows of a waiter.
type waiterSeen struct {
	w      *waiter
	thread *thread // who waits
	pooled bool
	free   bool // no call uses it
}

type runEnded struct{}

const (
	exploreStart = int64(time.Hour)
	idleJump     = 30 * time.Microsecond // of the clock where all spin
	maxIdle      = 200
	maxSteps     = 20000
	threadName   = 0x1000 // times a thread's number and one: what self calls it
)

func newExplorer(p program, c chooser) *explorer {
	x := &explorer{program: p, chooser: c, clock: exploreStart, left: p.bound, jumped: p.jumping, unlikely: p.unlucky, rescored: p.scores, stolen: p.steals, looked: p.looks, unowned: p.held, locked: map[*mutex]bool{}}
	maxSpinners = uint32(p.spinners)
	maxWake, wakeFan = cmp.Or(p.batch, usualWake), cmp.Or(p.fan, usualFan)
	x.rw.count.v.Store(uint64(p.held) << readerShift)
	x.setScore(p.score)
	for _, calls := range p.calls {
		x.spawn(func(t *thread) { x.perform(t, calls) })
	}
	return x
}

func (x *explorer) setScore(s score) {
	is := x.rw.ctl.v.Load() &^ (ctlLongMask | ctlShortMask)
	x.rw.ctl.v.Store(is | [...]uint32{scoreLong: ctlLongMask, scoreShort: ctlShortMask}[s])
}

// spawn makes a thread that has not begun.
func (x *explorer) spawn(f func(t *thread)) *thread {
	t := &thread{id: len(x.threads), op: opStart}
	x.threads = append(x.threads, t)
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			t.done = true
			switch r := recover().(type) {
			case nil, runEnded:
			default:
				x.fail("panic: %v", r)
			}
		}()
		f(t)
	})
	return t
}

// run is the run, from the first step to the last.
func (x *explorer) run() {
	waiterPool.free = nil
	exploring = x
	defer func() {
		x.over = true
		for _, t := range x.threads {
			t.stop()
		}
		exploring = nil
	}()
	for _, t := range x.threads {
		x.current, t.begun = t, true
		t.resume()
	}
	x.begun = true
	for t := x.pick(nil); t != nil && !x.over; {
		x.current, x.next, t.begun = t, nil, true
		t.resume()
		if t.done && !x.over {
			x.changes++ // it does not run any more
			x.next = x.pick(nil)
		}
		t = x.next
	}
	if !x.over {
		x.checkRest()
	}
}

// fail ends the run.
func (x *explorer) fail(format string, args ...any) {
	if x.failure == "" {
		x.failure = fmt.Sprintf(format, args...)
	}
	x.over = true
}

// leave ends t, as the run is over. What t does while it unwinds is nobody's business.
func (x *explorer) leave(t *thread) {
	if t.ended {
		return
	}
	t.ended = true
	panic(runEnded{})
}

// point is before a step of t. It returns when t is to take it.
func (x *explorer) point(t *thread, o op, at unsafe.Pointer, on *waiterSeen) {
	if x.over {
		x.leave(t)
		return
	}
	t.op, t.at, t.on = o, at, on
	if t.owner != nil && t.owner.timer != t {
		x.fail("thread %d touches the lock though the timed call is over", t.id)
	}
	if !x.begun {
		t.yield(struct{}{})
	} else if n := x.pick(t); n != t {
		x.next = n
		t.yield(struct{}{})
	}
	if x.over {
		x.leave(t)
		return
	}
	t.inCall++
	if x.steps++; x.steps > maxSteps {
		x.fail("no end after %d steps", x.steps)
		x.leave(t)
	}
	t.past = mix(t.past, uint64(o))
}

// pick decides who takes the next step, t having been the last to take one. It
// returns nil at the end of the run.
func (x *explorer) pick(t *thread) *thread {
	for {
		if !x.quiet {
			x.check()
		}
		if x.over {
			return nil
		}
		options, goesOn := x.options[:0], t != nil && x.enabled(t)
		again := x.again[:0]
		if goesOn {
			options = append(options, t.id)
		}
		paused, running, finished := false, goesOn, true
		for _, o := range x.threads {
			switch {
			case o != t && x.enabled(o):
				// A timer need not fire: it rescues nobody.
				running = running || o.begun
				if !goesOn || x.left != 0 {
					options = append(options, o.id)
				}
			case o.op == opPause && !o.done:
				paused = paused || o != t || !goesOn
				again = append(again, o.id)
			}
			finished = finished && (o.done || o.owner != nil)
		}
		switch {
		case finished && !running:
			return nil
		case !running && paused:
			if x.idle++; x.idle > maxIdle {
				x.fail("all spin for ever")
				return nil
			}
			x.clock += int64(idleJump)
			x.changes++
			x.note("the clock goes on by %v, as all who run spin", idleJump)
			continue
		case !running:
			x.fail("stuck: nobody can go on")
			return nil
		}
		if x.looked > 0 && (!goesOn || x.left != 0) {
			options = append(options, again...)
		}
		x.again = again
		if paused && x.jumped > 0 {
			for i := range x.jumps {
				options = append(options, optJump-i)
			}
		}
		x.options = options
		c := x.decide(options)
		switch {
		case x.over:
			return nil
		case c < 0:
			x.jump(c)
		default:
			if goesOn && c != t.id && x.left > 0 {
				x.left--
			}
			if o := x.threads[c]; o.op == opPause && o.seen == x.changes {
				x.looked--
			}
			return x.threads[c]
		}
	}
}

func (x *explorer) decide(options []int) int {
	if len(options) == 1 {
		return options[0]
	}
	c := x.choose(x, options)
	if c == endRun {
		x.over = true
	} else {
		x.chosen = append(x.chosen, c)
	}
	return c
}

func (x *explorer) jump(option int) {
	d := x.jumps[optJump-option]
	x.jumped--
	x.clock += int64(d)
	x.changes++
	x.note("the clock jumps by %v", d)
}

// enabled reports whether t can take its next step.
func (x *explorer) enabled(t *thread) bool {
	switch {
	case t.done:
		return false
	case t.op == opLock && t.at != unsafe.Pointer(&x.rw.waitLock):
		return !x.locked[(*mutex)(t.at)]
	case t.op == opLock:
		return x.holder == nil
	case t.op == opPark:
		return t.on.w.sema.tokens.Load() > 0
	case t.op == opPause:
		return t.seen != x.changes
	}
	return true
}

// answer chooses between what t is told usually and what it may be told too. That
// t asks is part of its past: it has to be, as a choice is made in the middle of a
// step.
func (x *explorer) answer(t *thread, options ...int) int {
	t.past = mix(t.past, uint64(len(options)))
	c := x.decide(options)
	if x.over {
		t.yield(struct{}{})
		x.leave(t)
	}
	return c
}

// What world asks for.

func (x *explorer) step(o op, at unsafe.Pointer) {
	t := x.current
	if x.coarse && (at == unsafe.Pointer(&x.rw.owner) || at == unsafe.Pointer(&x.rw.ctl) || at == unsafe.Pointer(&x.rw.steals)) && x.begun {
		t.op = o
		t.past = mix(t.past, uint64(o))
		if x.over {
			x.leave(t)
		}
		x.reword(t, o, at)
		return
	}
	if w := x.waiterAt(at); w != nil && o != opLoad && w.thread != t && w.free {
		x.fail("touches a waiter whose call is over")
	}
	x.point(t, o, at, nil)
	x.reword(t, o, at)
}

// reword may have another value in a word that is a hint only before t looks at it:
// others' sections change the score at any time, and others' looks at the first
// waiter how often it may be passed until the next.
func (x *explorer) reword(t *thread, o op, at unsafe.Pointer) {
	switch {
	case o != opLoad || x.over:
	case at == unsafe.Pointer(&x.rw.ctl) && x.rescored > 0:
		options := [1 + len(scores)]int{optUsual}
		for i := range scores {
			options[1+i] = optScore - i
		}
		if c := x.answer(t, options[:]...); c != optUsual {
			x.rescored--
			x.setScore(score(optScore - c))
			x.changes++
			x.note("sections are %v now", score(optScore-c))
		}
	case at == unsafe.Pointer(&x.rw.steals) && x.stolen > 0:
		if x.answer(t, optUsual, optSteal) != optUsual {
			x.stolen--
			x.rw.steals.v.Store(stealsWord(uint16(x.clock>>lookUnit)+lookUnits, 1))
			x.note("the first waiter may be passed once")
		}
	}
}

func (x *explorer) stepped(at unsafe.Pointer, before, after uint64) {
	t := x.current
	if x.over {
		return
	}
	if before != after {
		x.changes++
		x.idle = 0
	}
	if x.trace {
		x.noteAccess(t, at, before, after)
	}
	switch w := x.waiterAt(at); {
	case at == unsafe.Pointer(&x.rw.count):
		x.counted(t, before, after)
	case at == unsafe.Pointer(&x.rw.owner) && t.op == opStore && x.writer != t:
		x.fail("stores an owner though the lock is another's")
	case w != nil && t.op == opStore && after != waiting:
		// Not by itself before it has queued.
		w.thread.told = w.thread.told || w.thread != t || w.w.taken > 0 || w.w.promised > 0
		if after == granted {
			x.told(t, w)
		}
		if w.thread != t {
			x.point(t, opTold, nil, nil)
		}
	case w != nil && t.op == opLoad:
		t.past = mix(t.past, x.hashWaiter(w.w)) // what it may read now without a step
	}
}

func (x *explorer) saw(v uint64) { x.current.past = mix(x.current.past, v) }

func (x *explorer) lock(m *mutex) {
	t := x.current
	if m != &x.rw.waitLock {
		if _, known := x.locked[m]; known { // else it is nobody else's yet
			x.point(t, opLock, unsafe.Pointer(m), nil)
		}
		x.locked[m] = true
		return
	}
	x.point(t, opLock, unsafe.Pointer(m), nil)
	if x.over {
		return
	}
	x.holder, t.queues = t, false
	x.note("takes waitLock")
	t.past = mix(t.past, x.hashGuarded())
}

func (x *explorer) unlock(m *mutex) {
	if x.over {
		return
	}
	if m != &x.rw.waitLock {
		x.locked[m] = false
		return
	}
	if x.holder != x.current {
		x.fail("drops waitLock, which another holds")
	}
	x.holder = nil
	x.note("drops waitLock")
}

func (x *explorer) park(w *waiter) {
	t := x.current
	s := x.see(w)
	x.point(t, opPark, nil, s)
	if x.over {
		return
	}
	w.sema.tokens.Add(-1)
	x.note("is woken (%s)", x.name(s))
	t.past = mix(t.past, x.hashGuarded())
}

func (x *explorer) unpark(w *waiter) {
	t := x.current
	s := x.see(w)
	x.point(t, opUnpark, nil, s)
	if x.over {
		return
	}
	if s.free {
		x.fail("wakes a waiter whose call is over")
	}
	w.sema.tokens.Add(1)
	x.changes++
	x.note("wakes thread %d (%s)", s.thread.id, x.name(s))
	x.point(t, opWoke, nil, nil)
}

func (x *explorer) pause() {
	t := x.current
	t.seen = x.changes
	x.point(t, opPause, nil, nil)
}

func (x *explorer) now() int64 {
	t := x.current
	if x.over {
		x.leave(t)
		return x.clock
	}
	if x.jumped > 0 {
		options := [4]int{optUsual}
		n := 1
		for i := range x.jumps {
			options[n] = optJump - i
			n++
		}
		if c := x.answer(t, options[:n]...); c != optUsual && !x.over {
			x.jump(c)
		}
	}
	t.past = mix(t.past, uint64(x.clock))
	return x.clock
}

func (x *explorer) self() uintptr { return uintptr(x.current.id+1) * threadName }

func (x *explorer) status(g uintptr) uint32 {
	t := x.current
	i := int(g/threadName) - 1
	if g%threadName != 0 || i < 0 || i >= len(x.threads) {
		x.fail("reads through an owner that is no goroutine: %#x", g)
		return statusWaiting
	}
	const statusDead = 6
	s := uint32(statusRunning)
	switch o := x.threads[i]; {
	case o.done:
		s = statusDead
	case o != t && o.op != opPause && !x.enabled(o):
		s = statusWaiting
	case !x.likely(t):
		s = 1 // runnable
	}
	t.past = mix(t.past, uint64(s))
	return s
}

func (x *explorer) canSpin() bool {
	t := x.current
	can := x.likely(t)
	t.past = mix(t.past, truth(can))
	return can
}

// likely is whether t is told what is usual.
func (x *explorer) likely(t *thread) bool {
	if x.unlikely == 0 || x.over || x.answer(t, optUsual, optUnlike) != optUnlike {
		return true
	}
	x.unlikely--
	x.note("is unlucky: the owner or its own processor has no time")
	return false
}

func (x *explorer) at(p hookPoint) {
	t := x.current
	t.label, t.queues = hookNames[p], p == hookQueue
}

var hookNames = [numHookPoints]string{
	hookCounted: "counted", hookPark: "park", hookTell: "tell", hookWake: "wake", hookBackOut: "back out",
	hookBackedOut: "backed out", hookQueue: "queue", hookRelease: "release", hookHandoff: "handoff", hookSpin: "spin",
}

func (x *explorer) waiterUsed(w *waiter) {
	s := x.see(w)
	s.thread, s.pooled, s.free = x.current, true, false
}

func (x *explorer) waiterFreed(w *waiter) {
	s := x.see(w)
	s.free = true
	switch {
	case x.over:
	case w.sema.tokens.Load() != 0:
		x.fail("a call ends with a wake-up left over")
	case w.next != nil || w.prev != nil || w.wakes != nil || w.since != 0 || w.woken || w.more || w.passed || w.claimed ||
		w.promised != 0 || w.taken != 0 || w.state.v.Load() != waiting:
		x.fail("a waiter goes back to the pool with something of its call")
	}
}

func (x *explorer) failed(s string) {
	x.fail("%s", s)
	x.leave(x.current)
}

// see is what is known of w, which a call of the current thread uses.
func (x *explorer) see(w *waiter) *waiterSeen {
	for _, s := range x.waiters {
		if s.w == w {
			return s
		}
	}
	t := x.current
	if t.owner != nil {
		t = t.owner
	}
	s := &waiterSeen{w: w, thread: t}
	x.waiters = append(x.waiters, s)
	return s
}

// waiterAt is the waiter whose state is at that address, nil for the lock's words.
func (x *explorer) waiterAt(at unsafe.Pointer) *waiterSeen {
	switch at {
	case unsafe.Pointer(&x.rw.count), unsafe.Pointer(&x.rw.owner), unsafe.Pointer(&x.rw.ctl), unsafe.Pointer(&x.rw.steals), nil:
		return nil
	}
	return x.see((*waiter)(unsafe.Add(at, -int(unsafe.Offsetof(waiter{}.state)))))
}

// Sections.

// perform is what a goroutine of the program does: for each letter a section, from
// where it takes the lock to where it has given it up.
func (x *explorer) perform(t *thread, calls string) {
	rw := &x.rw
	n := 0
	call := func(f func()) {
		// What a call has learned is nothing to the next one.
		n++
		t.past, t.inCall, t.told = mix(uint64(n), uint64(t.id)), 0, false
		f()
		x.returned(t)
	}
	writes, reads := func() { x.took(t); t.writes = true }, func() { x.took(t); t.reads++ }
	locked := func(f func()) { call(func() { f(); writes() }) }
	rlocked := func(f func()) { call(func() { f(); reads() }) }
	unlock := func() { call(rw.Unlock) }
	runlock := func() { call(func() { t.releasing = true; rw.RUnlock() }) }
	timed := func(reader bool) (ok bool) {
		ok = rw.tryAwake(reader) || rw.waitUntil(reader, x.armTimer(t))
		for _, s := range x.waiters {
			s.free = s.free || s.thread == t && !s.pooled
		}
		t.timer = nil
		return ok
	}
	try := func(f func() bool, unlock func(), holds func()) {
		ok := false
		call(func() {
			if ok = f(); ok {
				holds()
			}
		})
		if ok {
			unlock()
		} else {
			n++
		}
	}
	for _, c := range calls {
		switch c {
		case 'W':
			locked(rw.Lock)
			unlock()
		case 'U':
			locked(rw.LockUrgent)
			unlock()
		case 'D':
			locked(rw.Lock)
			call(rw.Downgrade)
			runlock()
		case 'R':
			rlocked(rw.RLock)
			runlock()
		case 'k':
			rlocked(rw.RLock)
			t.reads, t.counted = t.reads-1, t.counted-1
			x.unowned++
		case 'h':
			call(func() {
				x.unowned--
				t.reads, t.counted, t.releasing = t.reads+1, t.counted+1, true
				rw.RUnlock()
			})
		case 'L':
			rlocked(rw.RLocker().Lock)
			call(func() { t.releasing = true; rw.RLocker().Unlock() })
		case 'w':
			try(rw.TryLock, unlock, writes)
		case 'r':
			try(rw.TryRLock, runlock, reads)
		case 'C':
			try(func() bool { return timed(false) }, unlock, writes)
		case 'c':
			try(func() bool { return timed(true) }, runlock, reads)
		default:
			panic("no such section: " + string(c))
		}
	}
}

// armTimer has a thread of its own fire the timer of t's call, at any time or never.
func (x *explorer) armTimer(t *thread) func(func()) func() bool {
	return func(fire func()) func() bool {
		t.timer = x.spawn(func(*thread) {
			x.note("fires, for thread %d", t.id)
			fire()
			x.note("has fired")
		})
		t.timer.owner = t
		return func() bool {
			x.point(t, opStop, nil, nil)
			if t.timer.begun || x.over {
				return false
			}
			t.timer.done = true
			return true
		}
	}
}

// A printed run.

func (x *explorer) note(format string, args ...any) {
	if !x.trace {
		return
	}
	who := "-"
	if t := x.current; t != nil {
		who = strconv.Itoa(t.id)
		if t.label != "" {
			format += " [" + t.label + "]"
			t.label = ""
		}
	}
	x.log = append(x.log, fmt.Sprintf("%3d  thread %s  ", x.steps, who)+fmt.Sprintf(format, args...))
}

func (x *explorer) name(s *waiterSeen) string {
	return fmt.Sprintf("waiter %d", slices.Index(x.waiters, s))
}

func (x *explorer) noteAccess(t *thread, at unsafe.Pointer, before, after uint64) {
	what, value := "", strconv.FormatUint
	switch at {
	case unsafe.Pointer(&x.rw.count):
		what, value = "count", func(c uint64, _ int) string { return countString(c) }
	case unsafe.Pointer(&x.rw.owner):
		what = "owner"
	case unsafe.Pointer(&x.rw.ctl):
		what = "ctl"
	case unsafe.Pointer(&x.rw.steals):
		what = "steals"
	default:
		what = x.name(x.waiterAt(at)) + " state"
		value = func(s uint64, _ int) string {
			return [...]string{"waiting", "granted", "dismissed", "cancelled"}[s&3]
		}
	}
	does := [...]string{opLoad: "load", opStore: "store", opAdd: "add", opAnd: "and", opOr: "or", opCAS: "cas"}[t.op]
	if before == after {
		x.note("%-5s %s: %s", does, what, value(before, 16))
	} else {
		x.note("%-5s %s: %s -> %s", does, what, value(before, 16), value(after, 16))
	}
}

func countString(c uint64) string {
	s := strconv.FormatUint(c>>readerShift, 10) + "r"
	for i, f := range "WQHSC" { // writer, queue, handoff, sleeps, claim
		if c>>i&1 != 0 {
			s += string(f)
		}
	}
	return s
}

// Hashes.

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func (x *explorer) index(w *waiter) uint64 {
	for i, s := range x.waiters {
		if s.w == w {
			return uint64(i) + 1
		}
	}
	if w == nil {
		return 0
	}
	return 1 << 20
}

func (x *explorer) hashWaiter(w *waiter) uint64 {
	h := mix(x.index(w.next)<<40|x.index(w.prev)<<20|x.index(w.wakes), uint64(w.since))
	h = mix(mix(mix(h, uint64(w.due)), uint64(w.owner)), w.word)
	h = mix(h, uint64(w.place)<<8|truth(w.reader)<<7|truth(w.urgent)<<6|truth(w.woken)<<5|truth(w.more)<<4|truth(w.passed)<<3|truth(w.claimed)<<2)
	h = mix(h, uint64(w.promised)<<32|uint64(w.taken))
	return mix(h, uint64(w.state.v.Load())<<32|uint64(uint32(w.sema.tokens.Load())))
}

// hashGuarded is of what waitLock guards.
func (x *explorer) hashGuarded() uint64 {
	h := x.index(x.rw.head)<<20 | x.index(x.rw.writers)
	for i, s := range x.waiters {
		if !s.free || s.pooled {
			h = mix(mix(h, uint64(i)), x.hashWaiter(s.w))
		}
	}
	return h
}

// hash is of the state of the run: the lock, the waiters, and what each thread may
// remember.
func (x *explorer) hash() uint64 {
	h := mix(mix(0, x.rw.count.v.Load()), uint64(x.rw.owner.v.Load()))
	h = mix(mix(h, uint64(x.rw.ctl.v.Load())<<32|uint64(x.rw.steals.v.Load())), x.hashGuarded())
	h = mix(mix(h, uint64(x.clock)), uint64(x.jumped)<<32|uint64(x.unlikely)<<24|uint64(x.rescored)<<16|uint64(x.stolen)<<8|uint64(x.looked))
	for _, v := range waiterPool.free {
		h = mix(h, x.index(v.(*waiter)))
	}
	for _, t := range x.threads {
		if t.done && t.owner != nil {
			continue
		}
		flags := uint64(t.op)<<8 | truth(t.done)<<3 | truth(t.begun)<<2 | truth(t.op == opPause && t.seen == x.changes)<<1 | truth(x.holder == t)
		h = mix(mix(h, t.past), flags)
		if t.owner != nil {
			h = mix(h, uint64(t.owner.id))
		}
	}
	if x.bound >= 0 && x.current != nil {
		h = mix(h, uint64(x.current.id))
	}
	return h
}
