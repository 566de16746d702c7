//go:build rwsemexplore

package rwsem

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// The words that goroutines share, under the explorer: before each access the
// explorer decides who goes on, so that it can try all orders. The code that uses
// them is the lock's own, and so are their values; where no exploration is going on
// they are what they are in other builds.

// A world runs the goroutines of an exploration, one at a time.
type world interface {
	step(o op, at unsafe.Pointer)                    // before an access: others may go first
	stepped(at unsafe.Pointer, before, after uint64) // what the access did to the word
	saw(v uint64)                                    // what its goroutine learns by it
	lock(m *mutex)                                   // returns when m is the caller's
	unlock(m *mutex)                                 //
	park(w *waiter)                                  //
	unpark(w *waiter)                                //
	pause()                                          // of a spinner
	now() int64                                      //
	self() uintptr                                   // an owner, as a g would be
	status(g uintptr) uint32                         // of the goroutine that self names so
	canSpin() bool                                   //
	at(p hookPoint)                                  //
	waiterUsed(w *waiter)                            // a call begins to use w
	waiterFreed(w *waiter)                           // and uses it no more
	failed(s string)                                 // fatal
}

// exploring is the exploration that is going on, nil if none is.
var exploring world

// An op is a kind of step.
type op uint8

const (
	opStart op = iota // of a goroutine
	opLoad
	opStore
	opAdd
	opAnd
	opOr
	opCAS
	opLock
	opPark
	opUnpark
	opWoke // has just unparked another
	opTold // has just told another, which may run on without being woken
	opPause
	opStop // of a timed call: it is over, the timer is not to fire any more
)

// access is f, which accesses the word at the given place that load reads.
func access[T uint32 | uint64 | uintptr](o op, at unsafe.Pointer, load, f func() T) (seen T) {
	x := exploring
	if x == nil {
		return f()
	}
	x.step(o, at)
	before := load()
	seen = f()
	x.stepped(at, uint64(before), uint64(load()))
	x.saw(uint64(seen))
	return seen
}

type word64 struct{ v atomic.Uint64 }

func (w *word64) access(o op, f func() uint64) uint64 {
	return access(o, unsafe.Pointer(w), w.v.Load, f)
}

func (w *word64) Load() uint64        { return w.access(opLoad, w.v.Load) }
func (w *word64) Store(n uint64)      { w.access(opStore, func() uint64 { w.v.Store(n); return 0 }) }
func (w *word64) Add(d uint64) uint64 { return w.access(opAdd, func() uint64 { return w.v.Add(d) }) }
func (w *word64) And(m uint64) uint64 { return w.access(opAnd, func() uint64 { return w.v.And(m) }) }
func (w *word64) Or(m uint64) uint64  { return w.access(opOr, func() uint64 { return w.v.Or(m) }) }

func (w *word64) CompareAndSwap(old, n uint64) bool {
	return w.access(opCAS, func() uint64 { return truth(w.v.CompareAndSwap(old, n)) }) != 0
}

type word32 struct{ v atomic.Uint32 }

func (w *word32) access(o op, f func() uint32) uint32 {
	return access(o, unsafe.Pointer(w), w.v.Load, f)
}

func (w *word32) Load() uint32        { return w.access(opLoad, w.v.Load) }
func (w *word32) Store(n uint32)      { w.access(opStore, func() uint32 { w.v.Store(n); return 0 }) }
func (w *word32) Add(d uint32) uint32 { return w.access(opAdd, func() uint32 { return w.v.Add(d) }) }
func (w *word32) And(m uint32) uint32 { return w.access(opAnd, func() uint32 { return w.v.And(m) }) }
func (w *word32) Or(m uint32) uint32  { return w.access(opOr, func() uint32 { return w.v.Or(m) }) }

func (w *word32) CompareAndSwap(old, n uint32) bool {
	return w.access(opCAS, func() uint32 { return uint32(truth(w.v.CompareAndSwap(old, n))) }) != 0
}

type wordPtr struct{ v atomic.Uintptr }

func (w *wordPtr) access(o op, f func() uintptr) uintptr {
	return access(o, unsafe.Pointer(w), w.v.Load, f)
}

func (w *wordPtr) Load() uintptr   { return w.access(opLoad, w.v.Load) }
func (w *wordPtr) Store(n uintptr) { w.access(opStore, func() uintptr { w.v.Store(n); return 0 }) }
func (w *wordPtr) Or(m uintptr) uintptr {
	return w.access(opOr, func() uintptr { return w.v.Or(m) })
}

func (w *wordPtr) CompareAndSwap(old, n uintptr) bool {
	return w.access(opCAS, func() uintptr { return uintptr(truth(w.v.CompareAndSwap(old, n))) }) != 0
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// A mutex keeps the others out of what it guards; whom it lets in next is the
// explorer's to choose.
type mutex struct{ v sync.Mutex }

func (m *mutex) Lock() {
	if x := exploring; x != nil {
		x.lock(m)
	} else {
		m.v.Lock()
	}
}

func (m *mutex) Unlock() {
	if x := exploring; x != nil {
		x.unlock(m)
	} else {
		m.v.Unlock()
	}
}

// A pool gives away first what it was given last: a node that is used again while
// somebody still touches it is found so at the earliest.
type pool struct {
	New  func() any
	mu   sync.Mutex
	free []any
}

func (p *pool) Get() (v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		v, p.free = p.free[n-1], p.free[:n-1]
	} else {
		v = p.New()
	}
	if exploring != nil {
		exploring.waiterUsed(v.(*waiter))
	}
	return v
}

func (p *pool) Put(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, v)
	if exploring != nil {
		exploring.waiterFreed(v.(*waiter))
	}
}

// random gives no chances away: who is to spin one time in so many never does.
func random() uint32 { return 1 }

// Each of these bounds how often a spinner looks in vain. Here it looks anew if
// something has changed meanwhile, and some times though nothing has.
const (
	writerRounds  = 1
	claimRounds   = 1
	clockRounds   = 1
	maxNullRounds = 1
)

// As in other builds, or so few that the goroutines of an exploration are too many
// to be let in together or to be woken by one.
var (
	maxWake = usualWake
	wakeFan = usualFan
)

const (
	usualWake = 256
	usualFan  = 4
)
