package rwsem

import (
	"context"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var litmusRounds = flag.Int("rwsem.litmus", 10, "how often each litmus program runs")

// Litmus programs: a message in plain data passes from a call that gives the lock
// up to one that takes it, by every exit that the two have. MEMORY.md gives each
// edge its instructions. Two outcomes are forbidden:
//
//   - message passing: the taker, having the lock, does not see what the giver
//     wrote before it gave the lock up;
//   - load buffering: the giver, still having the lock, sees what the taker writes
//     after it has taken it.
//
// On arm64 hardware they would show an order that is missing. Anywhere else, under
// emulation too, a run is a smoke test: those processors do not reorder so. In
// race builds the calls are made without what they tell the race detector, which so
// judges the lock's own atomic steps as edges: there an exit that takes the lock
// without any is found on every processor.
//
// Nothing but the lock may lead from giver to taker. So who waits for its turn to
// look watches the count by plain loads, which order nothing; then it takes the
// named exit. That it did, its events or its state have to show.
type litmus struct {
	name string

	hold, give func(*RWMutex) // the giver's
	setUp      func(*RWMutex) // once it holds the lock
	beside     func(*RWMutex) // gives up a read lock of its own, before the giver does

	takers int                 // 0 means 1
	place  func(*RWMutex)      // what a taker does while the lock is held
	until  uint64              // the bits of the count that a taker watches until they are clear
	queues bool                // takers do not watch: their call queues while the lock is held
	late   func(*RWMutex)      // when all takers are in place, before the message is written
	take   func(*taker)        // by the exit that is meant
	leave  func(*RWMutex)      // the taker's
	events map[string]int      // what happens meanwhile; if empty, nothing that is counted
	proof  func(*round) string // what else says that the exit was the one that is meant, "" if it does
	public bool                // made of calls that tell the race detector
}

// A taker is one that takes the lock.
type taker struct {
	*round
	n     int
	w     *waiter // its own, where the call is made with one
	state uint32  // of w, and whether it was woken to try
	woken bool
	ok    bool // what the call returned

	a, b int // the message that it saw
	done atomic.Bool
}

// A round is one run of a program.
type round struct {
	rw     RWMutex
	m      *message
	takers []*taker
	in     atomic.Int32
	placed atomic.Int32
	steals uint32 // when the takers had the lock
}

// A message is plain data, each part in a cache line of its own.
type message struct {
	a    int
	_    [128]byte
	b    int
	_    [128]byte
	side int
	_    [128]byte
	back [8]struct {
		n int
		_ [128]byte
	}
}

// The calls without what they tell the race detector; in other builds they are
// those that users make, in assembly where there is any. Those that give the lock up
// leave the owner word alone then, a hint that orders nothing on arm64: its atomic
// store would be an edge to the detector.

// bare: the debug build takes part as the race build does, since the programs take
// the lock by steps that it does not see.
const bare = raceEnabled || debugEnabled

func bareLock(rw *RWMutex) {
	if bare {
		lockStub(rw)
		return
	}
	rw.Lock()
}

func bareUnlock(rw *RWMutex) {
	if !bare {
		rw.Unlock()
	} else if rw.takeWriterOut(0)&(flagAsleep|flagHandoff) != 0 {
		unlockSlow(rw)
	}
}

func bareRLock(rw *RWMutex) {
	if !bare {
		rw.RLock()
	} else if rw.count.Add(readerBias)&readRare != 0 {
		rlockRareStub(rw)
	}
}

func bareRUnlock(rw *RWMutex) {
	if !bare {
		rw.RUnlock()
	} else if c := rw.count.Add(^uint64(readerBias - 1)); c&readDone != 0 {
		runlockRareStub(rw, c)
	}
}

func bareDowngrade(rw *RWMutex) {
	if !bare {
		rw.Downgrade()
	} else if rw.takeWriterOut(readerBias)&flagWaiters != 0 {
		downgradeSlow(rw)
	}
}

func bareTryRLock(rw *RWMutex) bool {
	if bare {
		return tryRLockStub(rw)
	}
	return rw.TryRLock()
}

func bareTryLock(rw *RWMutex) bool {
	if bare {
		return tryLockStub(rw)
	}
	return rw.TryLock()
}

// count puts a reader into the count as the first step of RLock does.
func countReader(rw *RWMutex) { rw.count.Add(readerBias) }

// watch waits until nothing of mask is in the count.
//
//go:norace
//go:noinline
func watch(rw *RWMutex, mask uint64) {
	count := (*uint64)(unsafe.Pointer(&rw.count))
	for n := 1; *count&mask != 0; n++ {
		if n%64 == 0 || cpus == 1 {
			runtime.Gosched()
		}
	}
}

// pretendWaiters has it look as if somebody waited who may be passed n times more
// before a look at its age. Nobody does: nothing but the exit is different.
func pretendWaiters(n uint32) func(*RWMutex) {
	return func(rw *RWMutex) {
		rw.count.Or(flagWaiters)
		rw.steals.Store(n)
	}
}

// sleepers is how many wait in the queue, and makeFirstDue ends the first one's
// time, without a word to the race detector either: it knows waitLock by the bare
// calls.
//
//go:norace
func sleepers(rw *RWMutex) (n int) {
	raceIgnore()
	defer raceLeave()
	rw.waitLock.Lock()
	defer rw.waitLock.Unlock()
	if w := rw.head; w != nil {
		for n = 1; w.next != rw.head; n++ {
			w = w.next
		}
	}
	return n
}

//go:norace
func makeFirstDue(rw *RWMutex) {
	raceIgnore()
	defer raceLeave()
	rw.waitLock.Lock()
	defer rw.waitLock.Unlock()
	rw.head.due = 0
}

func shortSections(rw *RWMutex) { rw.addField(ctlShort, ctlShortMask, ctlShortMask/ctlShort) }

// queue is the slow path with a waiter of the taker's own.
func (k *taker) queue(reader bool, bias uint64) {
	k.state = k.rw.wait(k.w, bias)
	k.woken = k.w.woken
	k.ok = k.state == granted
}

func queueReader(k *taker) { k.w.reader = true; k.queue(true, 0) }
func queueWriter(k *taker) { k.queue(false, 0) }

// grantedAsleep is the proof that a waker granted the takers the lock,
// wokenToTry that they were woken and granted it to themselves.
func grantedAsleep(r *round) string {
	for _, k := range r.takers {
		if k.state != granted || k.woken {
			return fmt.Sprintf("state %d, woken to try: %v", k.state, k.woken)
		}
	}
	return ""
}

func wokenToTry(r *round) string {
	for _, k := range r.takers {
		if k.state != granted || !k.woken {
			return fmt.Sprintf("state %d, woken to try: %v", k.state, k.woken)
		}
	}
	return ""
}

// stole is the proof that a taker passed waiters by the fast path, which counts it.
func stole(r *round) string {
	if r.steals != 0 {
		return fmt.Sprintf("%d steals are left", r.steals)
	}
	return ""
}

var (
	silent  = map[string]int{}
	aWriter = map[string]int{"SleepWriter": 1, "WakeWriter": 1, "WLock": 1}
	aReader = map[string]int{"SleepReader": 1, "WakeReader": 1, "RLock": 1}
)

// forReaders are the exits of readers on a lock that a writer gives up.
var forReaders = []litmus{
	{name: "RLock", until: writerLocked, events: silent,
		take: func(k *taker) { bareRLock(&k.rw) }},
	{name: "RLock past waiters, by rlockRare's load", setUp: pretendWaiters(1), until: writerLocked, events: silent, proof: stole,
		take: func(k *taker) { bareRLock(&k.rw) }},
	{name: "RLock that counted first, by rlockRare's load", place: countReader,
		setUp: func(rw *RWMutex) { rw.steals.Store(1) }, until: writerLocked, events: silent, proof: stole,
		take: func(k *taker) { rlockRare(&k.rw) }},
	{name: "RLock that counted first, by rlockAwake's load", place: countReader, until: writerLocked, events: map[string]int{"RLockFast": 1},
		take: func(k *taker) { k.rw.rlockSlow() }},
	{name: "RLock past waiters, by rlockAwake's load", setUp: pretendWaiters(0), until: writerLocked, events: map[string]int{"RLockSteal": 1},
		take: func(k *taker) { bareRLock(&k.rw) }},
	{name: "RLock that stepped back for a claim, by rlockAwake's swap", setUp: func(rw *RWMutex) { rw.count.Or(flagClaim) },
		until: writerLocked, events: map[string]int{"RLockFast": 1},
		take: func(k *taker) { bareRLock(&k.rw) }},
	{name: "RLockContext's rlockAwake, by its swap", until: writerLocked, events: map[string]int{"RLockFast": 1},
		take: func(k *taker) { _, k.ok = k.rw.rlockAwake(0) }},
	{name: "a reader that spins, by spinRead's load", place: countReader, until: writerLocked, events: map[string]int{"OptRLock": 1},
		take: func(k *taker) { _, k.ok = k.rw.rlockSpin(readerBias) }},
	{name: "a reader that queues and finds the lock free, by enqueue's swap", until: writerLocked, events: silent,
		take: queueReader},
	{name: "a reader that queues with its share in the count, by enqueue's swap", place: countReader, until: writerLocked, events: silent,
		take: func(k *taker) { k.w.reader = true; k.queue(true, readerBias) }},
	{name: "a reader that sleeps and is granted the lock, by its state", queues: true, events: aReader, proof: grantedAsleep,
		take: queueReader},
	{name: "a reader that sleeps and is handed the lock, by its state", queues: true, late: makeFirstDue, events: aReader, proof: grantedAsleep,
		take: queueReader},
	{name: "readers granted the lock and woken by each other, by their state", queues: true, takers: 8, setUp: countAsLong,
		events: map[string]int{"SleepReader": 8, "WakeReader": 8, "RLock": 8}, proof: grantedAsleep,
		take: queueReader},
	{name: "a reader that was woken to try, by grantReaders' swap", queues: true, setUp: shortSections, proof: wokenToTry,
		events: map[string]int{"SleepReader": 1, "WakeReader": 2, "RLock": 1},
		take:   queueReader},
	{name: "readers that are dismissed and join the first, by rejoin's swap", queues: true, takers: 3,
		events: map[string]int{"SleepReader": 3, "WakeReader": 3, "RLock": 1, "RLockSteal": 2},
		setUp:  func(rw *RWMutex) { rw.SetReaderSpin(0) },
		take:   func(k *taker) { bareRLock(&k.rw) }},
	{name: "a reader that is dismissed and finds the lock free, by rlockAwake's swap", until: writerLocked, events: map[string]int{"RLockFast": 1},
		take: func(k *taker) { _, k.ok = k.rw.rejoin() }},
	{name: "TryRLock", until: writerLocked, events: silent,
		take: func(k *taker) { k.ok = bareTryRLock(&k.rw) }},
	{name: "TryRLock past waiters", setUp: pretendWaiters(1), until: writerLocked, events: silent, proof: stole,
		take: func(k *taker) { k.ok = bareTryRLock(&k.rw) }},
	{name: "TryRLock that looked at the first waiter, by tryRLockSlow's swap", setUp: pretendWaiters(0), until: writerLocked, events: silent,
		take: func(k *taker) { k.ok = tryRLockSlow(&k.rw) }},
	{name: "TryRLockFor, granted", queues: true, public: true, events: aReader,
		take: func(k *taker) { k.ok = k.rw.TryRLockFor(time.Hour) }},
	{name: "RLockContext, granted", queues: true, public: true, events: aReader,
		take: func(k *taker) { k.ok = k.rw.RLockContext(context.Background()) == nil }},
}

// forWriters are the exits of writers on a lock that anybody gives up.
var forWriters = []litmus{
	{name: "Lock", until: held, events: silent,
		take: func(k *taker) { bareLock(&k.rw) }},
	{name: "Lock past waiters, by its second swap", setUp: pretendWaiters(1), until: held, events: silent, proof: stole,
		take: func(k *taker) { bareLock(&k.rw) }},
	{name: "Lock past waiters, by lockAwake's swap", setUp: pretendWaiters(0), until: held, events: silent,
		take: func(k *taker) { bareLock(&k.rw) }},
	{name: "a writer that comes off the fast path, by lockAwake's swap", until: held, events: silent,
		take: func(k *taker) { k.ok = k.rw.lockAwake(false) }},
	{name: "a writer that spins, by spinWriteLoop's swap", until: held, events: silent,
		take: func(k *taker) { k.ok = k.rw.spinWrite(false) }},
	{name: "a writer that spins while another claims the lock, by spinWriteLoop's swap", setUp: func(rw *RWMutex) { rw.count.Or(flagClaim) }, until: held, events: silent,
		take: func(k *taker) {
			k.ok = false
			for end := nanotime() + int64(time.Second); !k.ok && before(end); {
				k.ok = k.rw.spinWrite(false) // heeds the claim for a while
			}
		}},
	{name: "a writer that queues and finds the lock free, by enqueue's swap", until: held, events: silent,
		take: queueWriter},
	{name: "a writer that sleeps and is handed the lock, by its state", queues: true, late: makeFirstDue, events: aWriter, proof: grantedAsleep,
		take: queueWriter},
	{name: "a writer that was woken to try, by grantWriter's swap", queues: true, events: aWriter, proof: wokenToTry,
		take: queueWriter},
	{name: "TryLock", until: held, events: silent,
		take: func(k *taker) { k.ok = bareTryLock(&k.rw) }},
	{name: "TryLock past waiters", setUp: pretendWaiters(1), until: held, events: silent, proof: stole,
		take: func(k *taker) { k.ok = bareTryLock(&k.rw) }},
	{name: "TryLock that looked at the first waiter, by tryLockSlow's swap", setUp: pretendWaiters(0), until: held, events: silent,
		take: func(k *taker) { k.ok = tryLockSlow(&k.rw) }},
	{name: "TryLockFor, handed", queues: true, late: makeFirstDue, public: true, events: aWriter,
		take: func(k *taker) { k.ok = k.rw.TryLockFor(time.Hour) }},
	{name: "LockContext, woken to try", queues: true, public: true, events: aWriter,
		take: func(k *taker) { k.ok = k.rw.LockContext(context.Background()) == nil }},
	{name: "LockUrgent, woken to try", queues: true, public: true, events: aWriter,
		take: func(k *taker) { k.rw.LockUrgent() }},
}

// litmusPrograms pairs each way to give the lock up with each exit of those that
// may take it then.
func litmusPrograms() (all []litmus) {
	pair := func(giver string, public bool, hold, give func(*RWMutex), takers []litmus, leave func(*RWMutex)) {
		for _, l := range takers {
			if l.public != public {
				continue
			}
			l.name = giver + " -> " + l.name
			l.hold, l.give, l.leave = hold, give, leave
			all = append(all, l)
		}
	}
	pair("Unlock", false, bareLock, bareUnlock, forReaders, bareRUnlock)
	pair("Unlock", false, bareLock, bareUnlock, forWriters, bareUnlock)
	pair("RUnlock", false, bareRLock, bareRUnlock, forWriters, bareUnlock)
	pair("Unlock", true, (*RWMutex).Lock, (*RWMutex).Unlock, forReaders, (*RWMutex).RUnlock)
	pair("Unlock", true, (*RWMutex).Lock, (*RWMutex).Unlock, forWriters, (*RWMutex).Unlock)
	pair("RUnlock", true, (*RWMutex).RLock, (*RWMutex).RUnlock, forWriters, (*RWMutex).Unlock)

	pair("unlockStub", false, lockStub, unlockStub, forReaders[:1], bareRUnlock)
	pair("unlockStub", false, lockStub, unlockStub, forWriters[:1], unlockStub)
	pair("downgradeStub", false, lockStub, downgradeStub, forReaders[:1], bareRUnlock)

	// After Downgrade the giver reads on: who is woken to try instead of granted
	// the lock is let in by readers too.
	downgraded := slices.Clone(forReaders)
	downgraded = slices.DeleteFunc(downgraded, func(l litmus) bool {
		return strings.Contains(l.name, "woken to try") || strings.Contains(l.name, "finds the lock free, by rlockAwake")
	})
	pair("Downgrade", false, bareLock, bareDowngrade, downgraded, bareRUnlock)
	pair("Downgrade", true, (*RWMutex).Lock, (*RWMutex).Downgrade, downgraded, (*RWMutex).RUnlock)

	// The waiter's call is told to end when it has been granted the lock and before
	// it is woken.
	for _, reader := range []bool{true, false} {
		l := litmus{name: "Unlock -> a writer cancelled though granted", hold: bareLock, give: grantThenCancel, leave: bareUnlock,
			queues: true, late: makeFirstDue, events: aWriter, proof: grantedAsleep, take: queueWriter}
		if reader {
			l.name, l.leave, l.events, l.take = "Unlock -> a reader cancelled though granted", bareRUnlock, aReader, queueReader
		}
		all = append(all, l)
	}

	// The writer's edge from the first of two readers leads through the step of
	// the second.
	chain := forWriters[0]
	chain.name = "RUnlock, RUnlock -> Lock"
	chain.hold, chain.give, chain.leave, chain.beside = bareRLock, bareRUnlock, bareUnlock, bareRUnlock
	return append(all, chain)
}

// grantThenCancel unlocks as Unlock and unlockSlow do, and cancels the first waiter
// between telling and waking it.
//
//go:norace
func grantThenCancel(rw *RWMutex) {
	rw.count.And(^uint64(flagAsleep))
	bareUnlock(rw)
	rw.count.Or(flagAsleep)
	var l wakeList
	rw.waitLock.Lock()
	w := rw.head
	rw.wakeFirst(&l)
	rw.waitLock.Unlock()
	if l.first != w {
		panic("the first waiter was not granted the lock")
	}
	rw.cancel(w)
	l.wake()
}

// run runs l once and returns what is wrong.
func (l *litmus) run(t *testing.T, n int, m *message) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	r := &round{m: m}
	rw := &r.rw
	l.hold(rw)
	if l.beside != nil {
		rw.count.Add(readerBias)
	}
	if l.setUp != nil {
		l.setUp(rw)
	}
	before := ReadEvents()

	r.takers = make([]*taker, max(1, l.takers))
	for i := range r.takers {
		k := &taker{round: r, n: i, w: new(waiter), ok: true}
		r.takers[i] = k
		go l.taker(k, n)
		awaitTrue(t, l.name+": a taker is in place", func() bool {
			return l.queues && sleepers(rw) == i+1 || !l.queues && r.placed.Load() == int32(i+1)
		})
	}
	if l.late != nil {
		l.late(rw)
	}
	if l.beside != nil {
		go func() {
			m.side = n
			l.beside(rw)
		}()
		watch(rw, held&^readerBias)
	}

	m.a, m.b = n, n
	for i := range r.takers {
		if got := m.back[i].n; got != n-1 {
			complain("load buffering: having the lock, the giver saw %d, not %d", got, n-1)
		}
	}
	l.give(rw)

	for _, k := range r.takers {
		awaitTrue(t, l.name+": a taker ends", k.done.Load)
		if !k.ok {
			complain("taker %d did not get the lock by this exit", k.n)
			continue
		}
		if k.a != n || k.b != n {
			complain("message passing: having the lock, taker %d saw %d and %d, not %d", k.n, k.a, k.b, n)
		}
	}
	if l.beside != nil && m.back[len(m.back)-1].n != n {
		complain("message passing: having the lock, the taker saw %d of another reader, not %d", m.back[len(m.back)-1].n, n)
	}
	if why := tookExit(before, ReadEvents(), l.events); why != "" {
		complain("another exit: %s", why)
	}
	if l.proof != nil {
		if why := l.proof(r); why != "" {
			complain("another exit: %s", why)
		}
	}
	if c := rw.count.Load(); c&held != 0 { // it was downgraded
		bareRUnlock(rw)
	}
	rw.count.And(^uint64(flagWaiters | flagClaim)) // pretended
	if rw.count.Load() != 0 || sleepers(rw) != 0 {
		complain("something is left: count %#x", rw.count.Load())
	}
	return wrong
}

// taker is the other side of run.
func (l *litmus) taker(k *taker, n int) {
	rw, m := &k.rw, k.m
	if l.place != nil {
		l.place(rw)
	}
	if !l.queues {
		k.placed.Add(1)
		watch(rw, l.until)
	}
	if l.take(k); !k.ok {
		k.done.Store(true)
		return
	}
	k.a, k.b = m.a, m.b
	m.back[k.n].n = n
	if l.beside != nil {
		m.back[len(m.back)-1].n = m.side
	}
	// Readers hold the lock together: so the others join the first.
	k.in.Add(1)
	for int(k.in.Load()) < len(k.takers) {
		runtime.Gosched()
	}
	if k.n == 0 {
		k.steals = rw.steals.Load() & stealsLeft
	}
	l.leave(rw)
	k.done.Store(true)
}

// tookExit compares what happened with what has to, "" if it did.
func tookExit(before, after Events, want map[string]int) string {
	var wrong []string
	b, a := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range b.NumField() {
		name := b.Type().Field(i).Name
		n, named := want[name]
		got := int(a.Field(i).Uint() - b.Field(i).Uint())
		if got != n && (named || len(want) == 0) {
			wrong = append(wrong, fmt.Sprintf("%d %s, not %d", got, name, n))
		}
	}
	return strings.Join(wrong, ", ")
}

func TestLitmus(t *testing.T) {
	setHandoffTime(t, time.Hour)
	letSpin(t)
	require.Positive(t, *litmusRounds, "-rwsem.litmus")
	for _, l := range litmusPrograms() {
		t.Run(l.name, func(t *testing.T) {
			m := new(message)
			for n := range *litmusRounds {
				require.Empty(t, l.run(t, n+1, m), "round %d", n)
			}
		})
	}
}

// A program that passes its message by no edge, and one that takes another exit
// than it says, are found out.
func TestLitmusFinds(t *testing.T) {
	setHandoffTime(t, time.Hour)
	letSpin(t)
	find := func(what string, l litmus) {
		t.Helper()
		assert.Contains(t, strings.Join(l.run(t, 1, new(message)), "\n"), what)
	}
	other := litmus{hold: bareLock, give: bareUnlock, leave: bareRUnlock, until: writerLocked, events: silent,
		take: func(k *taker) { k.rw.rlockSlow() }, place: countReader}
	find("another exit: 1 RLockFast, not 0", other)
	other.events = map[string]int{"RLockSteal": 1}
	find("another exit: 0 RLockSteal, not 1", other)
	other.events, other.proof, other.setUp = map[string]int{"RLockFast": 1}, stole, func(rw *RWMutex) { rw.steals.Store(2) }
	find("another exit: 2 steals are left", other)
	asleep := litmus{hold: bareLock, give: bareUnlock, leave: bareUnlock, queues: true, events: aWriter, proof: grantedAsleep, take: queueWriter}
	find("another exit: state 1, woken to try: true", asleep)
	asleep.late, asleep.proof = makeFirstDue, wokenToTry
	find("another exit: state 1, woken to try: false", asleep)
	if raceEnabled {
		return // the detector would report what follows
	}
	// The taker waits for nothing: it reads before the message is written.
	early := litmus{hold: bareLock, give: bareUnlock, events: silent, take: func(*taker) {},
		setUp: func(rw *RWMutex) { rw.count.Or(flagClaim) },
		leave: func(rw *RWMutex) { rw.count.And(^uint64(flagClaim)) },
		late:  func(rw *RWMutex) { watch(rw, flagClaim) }}
	find("message passing: having the lock, taker 0 saw 0 and 0, not 1", early)
	find("load buffering: having the lock, the giver saw 1, not 0", early)
}
