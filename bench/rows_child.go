package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// rowsChild is the command by which a copy of this program, or another build of
// it, is asked for one round of some scenes.
const rowsChild = "rows-child"

// scene is what the goroutines of a round of the rows do. It travels to a child
// as JSON.
type scene struct {
	Name      string
	Procs     int    // GOMAXPROCS
	Crews     []crew `json:",omitempty"`
	Burners   int    `json:",omitempty"`
	BurnSteps int    `json:",omitempty"`
	Dur       time.Duration

	// RelayWaits, if not 0, is how many waits of a writer under a relay of
	// readers the scene is instead. It is over after Dur at the latest.
	RelayWaits int `json:",omitempty"`
}

// crew is some goroutines that do the same.
type crew struct {
	N       int
	ReadPct int           `json:",omitempty"`
	Steps   int           `json:",omitempty"` // of each section
	Outside int           `json:",omitempty"` // steps after each
	Sleep   time.Duration `json:",omitempty"` // what each section is instead of steps
	Urgent  bool          `json:",omitempty"`
}

func (sc scene) goroutines() int {
	n := sc.Burners
	for _, c := range sc.Crews {
		n += c.N
	}
	return n
}

func (sc scene) load() load {
	ld := load{procs: sc.Procs, dur: sc.Dur, burners: sc.Burners, burnSteps: sc.BurnSteps}
	for _, c := range sc.Crews {
		ld.roles = append(ld.roles, slices.Repeat([]role{c.role()}, c.N)...)
	}
	return ld
}

func (c crew) role() role {
	r := role{readPct: float64(c.ReadPct), steps: c.Steps, outside: c.Outside, urgent: c.Urgent}
	if c.Sleep > 0 {
		r.pause = func() { time.Sleep(c.Sleep) }
	}
	return r
}

func (sc scene) run(kind lockKind) outcome {
	o := outcome{Cell: sc.Name, Lock: kind.key}
	if sc.RelayWaits == 0 {
		o.Tally = sc.load().run(kind, nil)
		return o
	}
	runtime.GOMAXPROCS(sc.Procs)
	began, cpu := time.Now(), cpuTime()
	writer := newWaits()
	for _, ns := range runRelayRound(kind, sc.RelayWaits, sc.Dur) {
		writer.record(time.Duration(ns))
	}
	o.Tally = tally{Ops: []float64{float64(writer.hist.TotalCount())}, Elapsed: time.Since(began), CPU: cpuTime() - cpu}
	o.Writes = sumWaits([]*waits{writer})
	return o
}

// Locks of the rows that the other commands do not know: keys.
const (
	spinOffLock       = "rwsem-spin-off"
	spinThresholdLock = "rwsem-spin-threshold"
	mailboxLock       = "mailbox"
	tryLoadLock       = "try-load"
	tryExpectLock     = "try-expect"
	tryLoadHeldLock   = "try-load-held"
	tryExpectHeldLock = "try-expect-held"
)

// spinThreshold is for how long readers of spinThresholdLock may spin.
const spinThreshold = 20 * time.Microsecond

// rowLocks are the locks that rounds of the rows run on.
func rowLocks() []lockKind {
	withSpin := func(key string, d time.Duration) lockKind {
		return lockKind{key: key, name: fmt.Sprintf("rwsem.RWMutex, SetReaderSpin(%v)", d), fresh: func() target {
			l := new(rwsemLoops)
			l.mu.SetReaderSpin(d)
			return l
		}}
	}
	return slices.Concat(allLocks, tryForms, []lockKind{
		withSpin(spinOffLock, 0),
		withSpin(spinThresholdLock, spinThreshold),
		{key: mailboxLock, name: "rwsem.RWMutex of a mailbox", fresh: func() target { return newMailbox() }},
	})
}

func rowsChildCommand(args []string, stdout, _ io.Writer) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	fs := flag.NewFlagSet(rowsChild, flag.ContinueOnError)
	var locks []lockKind
	pickFlag(fs, &locks, "locks", "lock", rowLocks(), func(l lockKind) string { return l.key })
	var scenes []scene
	fs.Func("scenes", "the scenes, as `JSON`", func(value string) error {
		return json.Unmarshal([]byte(value), &scenes)
	})
	if err := parse(fs, args, "Internal: runs scenes of the rows once.\n", stdout); err != nil {
		return err
	}
	lines := json.NewEncoder(stdout)
	for _, sc := range scenes {
		for _, kind := range locks {
			if err := lines.Encode(sc.run(kind)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mailbox passes messages within groups of goroutines, all under one lock:
// those that only write send, those that only read receive. As a target it is
// a lock whose mixed loop does that.
type mailbox struct {
	rwsemLoops
	groups             [mailboxGroups]mailboxGroup
	senders, receivers atomic.Int32 // that came so far, to spread them over the groups
	over               bool
}

// mailboxGroups is among how many groups the goroutines are split.
const mailboxGroups = 4

// mailboxGroup is a ring of messages.
type mailboxGroup struct {
	ring         [16][100]byte
	first, n     int
	filled, free sync.Cond
}

func newMailbox() *mailbox {
	m := new(mailbox)
	for i := range m.groups {
		m.groups[i].filled.L, m.groups[i].free.L = &m.mu, &m.mu
	}
	return m
}

func (m *mailbox) mixed(w *worker) {
	if w.readBelow == 0 {
		m.send(&m.groups[(m.senders.Add(1)-1)%mailboxGroups], w)
	} else {
		m.receive(&m.groups[(m.receivers.Add(1)-1)%mailboxGroups], w)
	}
}

func (m *mailbox) send(g *mailboxGroup, w *worker) {
	var message [len(g.ring[0])]byte
	for {
		message[0]++
		m.mu.Lock()
		for g.n == len(g.ring) && !m.over {
			g.free.Wait()
		}
		if m.over || w.stop.set.Load() {
			m.mu.Unlock()
			return
		}
		g.ring[(g.first+g.n)%len(g.ring)] = message
		g.n++
		m.mu.Unlock()
		g.filled.Signal()
		w.ops++
	}
}

func (m *mailbox) receive(g *mailboxGroup, w *worker) {
	var message [len(g.ring[0])]byte
	for {
		// A look first, as by those who would rather poll than wait.
		m.mu.RLock()
		empty := g.n == 0
		m.mu.RUnlock()
		if empty {
			runtime.Gosched()
		}
		m.mu.Lock()
		for g.n == 0 && !m.over {
			g.filled.Wait()
		}
		if m.over || w.stop.set.Load() {
			m.mu.Unlock()
			return
		}
		message = g.ring[g.first]
		g.first = (g.first + 1) % len(g.ring)
		g.n--
		m.mu.Unlock()
		g.free.Signal()
		w.seed += uint64(message[0]) // the copy is not to be dropped
		w.ops++
	}
}

// stopped lets everybody go who waits for a message or for room.
func (m *mailbox) stopped() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	for i := range m.groups {
		m.groups[i].filled.Broadcast()
		m.groups[i].free.Broadcast()
	}
}
