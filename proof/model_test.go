package proof

import (
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A call is one of the lock's.
type call int

const (
	rlock call = iota
	rlocker
	tryRLock
	tryRLockFor
	rlockContext
	lock
	lockUrgent
	tryLock
	tryLockFor
	lockContext
	runlock
	rlockerUnlock
	unlock
	downgrade
	numCalls
)

// effect is what a call that succeeds does to the lock.
type effect int

const (
	takesRead effect = iota
	takesWrite
	givesRead
	givesWrite
	givesDown
)

// patience is how a call ends that cannot have the lock.
type patience int

const (
	waits    patience = iota // it does not end
	tries                    // it fails at once
	hasTime                  // it fails when its time is over
	hasCtx                   // it fails when its context ends
	releases                 // it has the lock
)

var calls = [numCalls]struct {
	name string
	effect
	patience
}{
	rlock:         {"RLock", takesRead, waits},
	rlocker:       {"RLocker().Lock", takesRead, waits},
	tryRLock:      {"TryRLock", takesRead, tries},
	tryRLockFor:   {"TryRLockFor", takesRead, hasTime},
	rlockContext:  {"RLockContext", takesRead, hasCtx},
	lock:          {"Lock", takesWrite, waits},
	lockUrgent:    {"LockUrgent", takesWrite, waits},
	tryLock:       {"TryLock", takesWrite, tries},
	tryLockFor:    {"TryLockFor", takesWrite, hasTime},
	lockContext:   {"LockContext", takesWrite, hasCtx},
	runlock:       {"RUnlock", givesRead, releases},
	rlockerUnlock: {"RLocker().Unlock", givesRead, releases},
	unlock:        {"Unlock", givesWrite, releases},
	downgrade:     {"Downgrade", givesDown, releases},
}

// mayWait tells whether a call may wait for the lock.
func (c call) mayWait() bool {
	p := calls[c].patience
	return p != tries && p != releases
}

// For so long a waiter may be passed at the least: at the first of these times from
// its call it may be its turn, and keep others out. One of LockUrgent's may at once.
const (
	readerMayBeDue = 100 * time.Microsecond
	writerMayBeDue = 500 * time.Microsecond
)

// keepsOut tells whether a call in progress, which began before the time of age, may
// keep a call out of a lock that it does not hold itself. A reader that passes through
// the count keeps writers out.
func (c call) keepsOut(other call, age time.Duration) bool {
	reads := calls[c].effect == takesRead
	switch {
	case !c.mayWait():
		return false
	case c == lockUrgent, reads && calls[other].effect == takesWrite:
		return true
	case reads:
		return age >= readerMayBeDue
	}
	return age >= writerMayBeDue
}

// An answer is what a call came back with.
type answer struct {
	failed bool   // it did not get the lock
	beside bool   // a call that may have kept it out was in progress at the same time as this
	wrong  string // what is wrong with it whatever the others did

	began, ended time.Time
}

// state is a sequential reader-writer lock.
type state struct {
	writer  bool
	readers int
}

// step reports whether the sequential lock may give the answer, and what the call
// leaves behind.
func (s state) step(c call, a answer) (bool, state) {
	if a.wrong != "" {
		return false, s
	}
	if a.failed {
		return s.mayFail(c, a), s
	}
	switch calls[c].effect {
	case takesRead:
		return !s.writer, state{readers: s.readers + 1}
	case takesWrite:
		return !s.writer && s.readers == 0, state{writer: true}
	case givesRead:
		return s.readers > 0, state{readers: s.readers - 1}
	case givesWrite:
		return s.writer, state{}
	default:
		return s.writer, state{readers: 1}
	}
}

// mayFail is the rule for those that fail. A context may end at any time, also
// while the lock is free: whether this one had is told by answer.wrong, as is
// whether a call's time was over.
func (s state) mayFail(c call, a answer) bool {
	switch calls[c].patience {
	case tries, hasTime:
		return a.beside || s.writer || calls[c].effect == takesWrite && s.readers > 0
	case hasCtx:
		return true
	default:
		return false
	}
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		ok, next := s.(state).step(in.(input).call, out.(answer))
		return ok, next
	},
	Hash: func(s any) uint64 {
		h := uint64(s.(state).readers) << 1
		if s.(state).writer {
			h++
		}
		return h * 0x9E3779B97F4A7C15
	},
	DescribeOperation: func(in, out any) string { return in.(input).String() + out.(answer).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

// input is a call with its argument.
type input struct {
	call
	argument string
}

func (in input) String() string {
	name := calls[in.call].name
	if in.argument != "" {
		return fmt.Sprintf("%s(%s)", name, in.argument)
	}
	return name
}

func (a answer) String() string {
	var b strings.Builder
	if a.failed {
		b.WriteString(" failed")
		if a.beside {
			b.WriteString(", others waiting")
		}
	}
	if a.wrong != "" {
		b.WriteString(": " + a.wrong)
	}
	return b.String()
}

func (s state) String() string {
	switch {
	case s.writer:
		return "write-locked"
	case s.readers > 0:
		return fmt.Sprintf("%d readers", s.readers)
	default:
		return "unlocked"
	}
}
