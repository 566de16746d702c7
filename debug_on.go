//go:build rwsemdebug

package rwsem

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"
)

// The debug build. Each public method passes through here before and after it
// does its work, and leaves on record who holds which lock and who waits for it.
// What is found wrong is reported before the call goes on to hang.
//
// All of it is guarded by debugMu. That would order for the race detector what
// the lock leaves unordered, so it is used between raceIgnore and raceLeave only,
// by functions marked norace that use no map, no copy and no package but runtime, sync
// and weak there. What they find is put into words when they are done
// (debug_report.go). Under waitLock nothing of this runs; under debugMu waitLock
// may be taken.

const debugEnabled = true

var debugMu sync.Mutex

var known = struct {
	locks   uint64                       // how many have been met
	holds   [debugBuckets]debugCalls     // by goroutine
	waiting debugCalls                   // in the order of arrival
	gone    debugCalls                   // holds of locks that are gone, debugMaxGone at the most
	inside  debugCalls                   // the goroutines that call the handler
	search  uint64                       // how many searches of the lock order there were
	look    int64                        // of nanotime: when to look at those who wait, or debugNever
	handler atomic.Pointer[func(string)] // gets the reports
	maxWait atomic.Int64                 // who waits for longer is reported; 0: nobody
	kick    chan struct{}                // look is earlier than it was

	// Of RWSEMDEBUG: see debugSetting.
	recursive, order bool
}{
	look:  debugNever,
	kick:  make(chan struct{}, 1),
	order: true,
}

const (
	debugBuckets = 1024
	debugMaxGone = 1024
	debugDepth   = 24 // frames of a stack
	debugNever   = 1<<63 - 1
)

func init() {
	// At once, so that it belongs to no synctest bubble.
	go debugWatch()
}

// These are variables for tests.
var (
	// debugRestTime is how long a call has waited when it is looked at whether
	// it waits behind nobody.
	debugRestTime = time.Second

	// debugUnderWay is for how long a release waits for a call that has the lock
	// but not on record yet.
	debugUnderWay = misuseTime
)

// A debugState is what a lock refers to this build's knowledge of it by.
type debugState struct{ info *debugInfo }

// A debugInfo is what is known of a lock. Only the lock itself and the calls
// that are under way refer to it, so that it goes when the lock goes.
type debugInfo struct {
	id   uint64
	addr uintptr // of the lock: a copy of it has another, and gets its own
	weak weak.Pointer[debugInfo]

	waiting debugCalls // calls that may sleep, in the order of arrival
	holds   debugCalls // in the order of arrival
	writers int        // of waiting
	passing int        // calls under way that do not sleep: tries and releases
	last    debugPlace // the last release
	resting bool       // its waiters were reported to wait behind nobody

	debugOrder
}

// A debugPlace is a call: who made it, when and from where.
type debugPlace struct {
	g    uint64 // the goroutine's id; of a hold that was disowned 0
	at   int64  // of nanotime
	read bool
	n    int
	pcs  [debugDepth]uintptr
}

// A debugCall is a call on its way to the lock, and then what it holds.
type debugCall struct {
	debugPlace
	how     debugHow
	rw      *RWMutex   // until it is over
	lock    *debugInfo // until it is over
	held    weak.Pointer[debugInfo]
	id      uint64 // of held
	addr    uintptr
	links   [2]debugLink
	rested  bool // it was looked at whether it waits behind nobody
	overdue bool // it was reported to have waited for too long
	again   bool // it was reported to be a recursive read lock
	ordered bool // edges lead to its lock from all that its goroutine held, or ways do
	unsure  bool // a goroutine without a hold released one of this kind: this may be the one
	buf     [40]byte
}

// A debugHow is what a call does if it does not get the lock.
type debugHow int

const (
	debugTries    debugHow = iota // it goes back at once
	debugTimed                    // it sleeps, and ends by itself
	debugCancels                  // it sleeps until it has the lock or somebody ends it
	debugBlocks                   // it sleeps until it has the lock
	debugReleases                 // it is no such call
)

// debugCalls is a list of calls. Each can be in two: one of its lock's, and one
// of known's.
type debugCalls struct {
	first, last *debugCall
	n           int
}

type debugLink struct{ next, prev *debugCall }

const (
	inLock = iota
	inKnown
)

//go:norace
func (l *debugCalls) add(c *debugCall, in int) {
	c.links[in] = debugLink{nil, l.last}
	if l.last == nil {
		l.first = c
	} else {
		l.last.links[in].next = c
	}
	l.last = c
	l.n++
}

//go:norace
func (l *debugCalls) remove(c *debugCall, in int) {
	k := c.links[in]
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.links[in].next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.links[in].prev = k.prev
	}
	c.links[in] = debugLink{}
	l.n--
}

var debugPool = sync.Pool{New: func() any { return new(debugCall) }}

// newDebugCall is the call of the public method three frames up.
//
//go:norace
func newDebugCall(read bool, how debugHow) *debugCall {
	c := debugPool.Get().(*debugCall)
	c.read, c.how, c.at = read, how, nanotime()
	c.n = runtime.Callers(4, c.pcs[:])
	// A g is used again, its id is not. It has no other public name.
	c.g = 0
	for _, b := range c.buf[len("goroutine "):runtime.Stack(c.buf[:], false)] {
		if b < '0' || b > '9' {
			break
		}
		c.g = c.g*10 + uint64(b-'0')
	}
	return c
}

//go:norace
func (c *debugCall) free() {
	c.rw, c.lock, c.held = nil, nil, weak.Pointer[debugInfo]{}
	c.rested, c.overdue, c.again, c.ordered, c.unsure = false, false, false, false, false
	debugPool.Put(c)
}

// debugInfoOf is what is known of rw. The caller holds debugMu.
//
//go:norace
func debugInfoOf(rw *RWMutex) *debugInfo {
	addr := uintptr(unsafe.Pointer(rw))
	l := rw.debug.info
	if l == nil || l.addr != addr {
		known.locks++
		l = &debugInfo{id: known.locks, addr: addr}
		l.weak = weak.Make(l)
		rw.debug.info = l
	}
	return l
}

//go:norace
func debugHoldsOf(g uint64) *debugCalls { return &known.holds[g%debugBuckets] }

// own is the last hold of l that goroutine g has, or may have, nil if it has none.
// The caller holds debugMu.
//
//go:norace
func (l *debugInfo) own(g uint64, read bool) *debugCall {
	for h := debugHoldsOf(g).last; h != nil; h = h.links[inKnown].prev {
		if h.g == g && h.id == l.id && h.read == read {
			return h
		}
	}
	return nil
}

// debugEnter puts a call on record that is to take rw, and reports what is wrong
// with it.
//
//go:norace
func debugEnter(rw *RWMutex, read bool, how debugHow) *debugCall {
	raceIgnore()
	c := newDebugCall(read, how)
	debugMu.Lock()
	l := debugInfoOf(rw)
	c.rw, c.lock = rw, l
	reports := c.check()
	if how == debugTries {
		l.passing++
	} else {
		l.waiting.add(c, inLock)
		known.waiting.add(c, inKnown)
		if !read {
			l.writers++
		}
		if at := c.at + int64(debugPatience()); at < known.look {
			known.look = at
			debugKick()
		}
	}
	debugMu.Unlock()
	raceLeave()
	if reports != nil {
		c.deliver(reports)
	}
	return c
}

// deliver is deliver before a call that is on record, which is over if the handler
// panics or ends its goroutine.
func (c *debugCall) deliver(reports []*debugReport) {
	back := false
	defer func() {
		if !back {
			debugExit(c, false)
		}
	}()
	deliver(reports)
	back = true
}

// debugExit puts on record that c is over, and whether it has the lock.
//
//go:norace
func debugExit(c *debugCall, ok bool) {
	raceIgnore()
	debugMu.Lock()
	rw, l := c.rw, c.lock
	if c.how == debugTries {
		l.passing--
	} else {
		l.waiting.remove(c, inLock)
		known.waiting.remove(c, inKnown)
		if !c.read {
			l.writers--
		}
	}
	if ok {
		c.at = nanotime()
		l.hold(c)
	}
	reports := l.rest(rw)
	debugMu.Unlock()
	if !ok {
		c.free()
	}
	raceLeave()
	deliver(reports)
}

// hold puts on record that c's goroutine holds l. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) hold(c *debugCall) {
	c.rw, c.lock = nil, nil
	c.held, c.id, c.addr = l.weak, l.id, l.addr
	l.holds.add(c, inLock)
	debugHoldsOf(c.g).add(c, inKnown)
}

// drop takes the hold h of l off the record. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) drop(h *debugCall) {
	l.holds.remove(h, inLock)
	debugHoldsOf(h.g).remove(h, inKnown)
}

// toRelease is the hold that a release by goroutine g ends: any goroutine may
// release, but where it holds l itself that hold is meant. unsure says that it may
// be another's. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) toRelease(g uint64, read bool) (oldest *debugCall, unsure bool) {
	if h := l.own(g, read); h != nil {
		return h, false
	}
	for h := l.holds.first; h != nil; h = h.links[inLock].next {
		switch {
		case h.read != read:
		case h.g == 0:
			return h, false // disowned, for such a release
		case oldest == nil:
			oldest, unsure = h, h.unsure
		case h.g != oldest.g:
			unsure = true
		}
	}
	return oldest, unsure
}

// doubt has it that each read lock of l may be the one that was released in the
// place of another. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) doubt() {
	for h := l.holds.first; h != nil; h = h.links[inLock].next {
		h.unsure = h.read
	}
}

// doubted reports whether somebody may hold l who is not on record for it. The
// caller holds debugMu.
//
//go:norace
func (l *debugInfo) doubted() bool {
	for h := l.holds.first; h != nil; h = h.links[inLock].next {
		if h.unsure {
			return true
		}
	}
	return false
}

// debugRelease takes off the record what a call of RUnlock, Unlock or Downgrade
// releases, or reports it and returns nil. readLocked makes it a Downgrade.
//
//go:norace
func debugRelease(rw *RWMutex, read, readLocked bool, misuse string) *debugInfo {
	raceIgnore()
	c := newDebugCall(read, debugReleases)
	var l *debugInfo
	var h *debugCall
	unsure := false
	for {
		debugMu.Lock()
		l = debugInfoOf(rw)
		if h, unsure = l.toRelease(c.g, read); h != nil || nanotime()-c.at > int64(debugUnderWay) || !l.underWay(read) {
			break
		}
		debugMu.Unlock()
		runtime.Gosched() // to sleep would move a synctest bubble's clock, or never end there
	}
	switch {
	case h != nil:
		l.drop(h)
		h.free()
		if unsure {
			l.doubt()
		}
	case read || rw.count.Load()&writerLocked == 0:
		report := l.misuse(c, misuse)
		debugMu.Unlock()
		c.free()
		raceLeave()
		deliver(report)
		return nil
	}
	l.passing++
	l.last = c.debugPlace
	if readLocked {
		c.read = true
		l.hold(c)
		c = nil
	}
	debugMu.Unlock()
	if c != nil {
		c.free()
	}
	raceLeave()
	return l
}

// underWay reports whether a call may have the lock that is not on record yet.
// The caller holds debugMu.
//
//go:norace
func (l *debugInfo) underWay(read bool) bool {
	if read {
		return l.passing > 0 || l.waiting.n > l.writers
	}
	return l.passing > 0 || l.writers > 0
}

// debugReleased ends what debugRelease began. The lock's memory may have got
// another use, but for which it is read.
//
//go:norace
func debugReleased(rw *RWMutex, l *debugInfo) {
	raceIgnore()
	debugMu.Lock()
	l.passing--
	var reports []*debugReport
	if rw.debug.info == l {
		reports = l.rest(rw)
	}
	debugMu.Unlock()
	raceLeave()
	deliver(reports)
}

func debugRLock(rw *RWMutex) {
	c := debugEnter(rw, true, debugBlocks)
	if raceEnabled {
		raceRLock(rw)
	} else if rw.count.Add(readerBias)&readRare != 0 {
		rlockRare(rw)
	}
	debugExit(c, true)
}

func debugRUnlock(rw *RWMutex) {
	l := debugRelease(rw, true, false, "rwsem: RUnlock of unlocked RWMutex")
	if l == nil {
		return
	}
	if raceEnabled {
		raceRUnlock(rw)
	} else if c := rw.count.Add(^uint64(readerBias - 1)); c&readDone != 0 {
		runlockRare(rw, c)
	}
	debugReleased(rw, l)
}

func debugLock(rw *RWMutex) {
	c := debugEnter(rw, false, debugBlocks)
	lock(rw)
	debugExit(c, true)
}

func debugLockUrgent(rw *RWMutex) {
	c := debugEnter(rw, false, debugBlocks)
	lockUrgent(rw)
	debugExit(c, true)
}

func debugUnlock(rw *RWMutex) {
	if l := debugRelease(rw, false, false, "rwsem: Unlock of unlocked RWMutex"); l != nil {
		unlock(rw)
		debugReleased(rw, l)
	}
}

func debugDowngrade(rw *RWMutex) {
	if l := debugRelease(rw, false, true, "rwsem: Downgrade of RWMutex not locked for writing"); l != nil {
		downgrade(rw)
		debugReleased(rw, l)
	}
}

func debugTryRLock(rw *RWMutex) bool {
	c := debugEnter(rw, true, debugTries)
	ok := tryRLock(rw)
	debugExit(c, ok)
	return ok
}

func debugTryLock(rw *RWMutex) bool {
	c := debugEnter(rw, false, debugTries)
	ok := tryLock(rw)
	debugExit(c, ok)
	return ok
}

func debugLockContext(rw *RWMutex, ctx context.Context, read bool) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	how := debugCancels
	if _, ok := ctx.Deadline(); ok {
		how = debugTimed
	} else if ctx.Done() == nil {
		how = debugBlocks
	}
	c := debugEnter(rw, read, how)
	ok := false
	defer func() { debugExit(c, ok) }() // also if the context panics
	err = rw.lockContext(ctx, read)
	ok = err == nil
	return err
}

func debugTryLockFor(rw *RWMutex, d time.Duration, read bool) bool {
	how := debugTimed
	if d <= 0 {
		how = debugTries
	}
	c := debugEnter(rw, read, how)
	ok := rw.tryLockFor(d, read)
	debugExit(c, ok)
	return ok
}

// debugDisown makes the caller's last hold of rw nobody's.
//
//go:norace
func debugDisown(rw *RWMutex) {
	raceIgnore()
	c := newDebugCall(false, debugReleases)
	debugMu.Lock()
	l := debugInfoOf(rw)
	h := l.own(c.g, false)
	if h == nil {
		h = l.own(c.g, true)
	}
	if h != nil {
		debugHoldsOf(h.g).remove(h, inKnown)
		h.g = 0
		debugHoldsOf(h.g).add(h, inKnown)
	}
	debugMu.Unlock()
	c.free()
	raceLeave()
}

// debugAssert reports that neither the caller holds rw nor one who disowned it.
//
//go:norace
func debugAssert(rw *RWMutex, read bool) {
	raceIgnore()
	c := newDebugCall(read, debugReleases)
	debugMu.Lock()
	l := debugInfoOf(rw)
	ok := false
	for _, g := range [2]uint64{c.g, 0} {
		ok = ok || l.own(g, false) != nil || read && l.own(g, true) != nil
	}
	ok = ok || read && l.doubted()
	var reports []*debugReport
	if !ok {
		title := assertHeldFailed
		if read {
			title = assertRHeldFailed
		}
		if l.holds.n > 0 {
			title += " by this goroutine"
		}
		reports = l.asserted(c, title)
	}
	debugMu.Unlock()
	c.free()
	raceLeave()
	deliver(reports)
}

// debugSetting applies what RWSEMDEBUG says in this build: maxwait is SetMaxWait,
// recursive=1 has each recursive RLock reported and not only where a writer
// waits, order=0 no lock order.
func debugSetting(name, value string) bool {
	d, err := time.ParseDuration(value)
	on := value == "1"
	switch {
	case name == "maxwait" && err == nil && d >= 0:
		known.maxWait.Store(int64(d))
	case name == "recursive" && (on || value == "0"):
		known.recursive = on
	case name == "order" && (on || value == "0"):
		known.order = on
	default:
		return false
	}
	return true
}

func debugSetHandler(h func(string)) {
	if h == nil {
		known.handler.Store(nil)
	} else {
		known.handler.Store(&h)
	}
}

func debugSetMaxWait(d time.Duration) (old time.Duration) {
	old = time.Duration(known.maxWait.Swap(int64(max(d, 0))))
	debugLookNow()
	return old
}

// debugLookNow has those who wait already looked at with what has been set.
//
//go:norace
func debugLookNow() {
	raceIgnore()
	debugMu.Lock()
	known.look = nanotime()
	debugKick()
	debugMu.Unlock()
	raceLeave()
}

// debugKick wakes who looks after those who wait.
func debugKick() {
	select {
	case known.kick <- struct{}{}:
	default:
	}
}

// debugPatience is for how long nobody needs to look at a call that waits. The
// caller holds debugMu.
//
//go:norace
func debugPatience() time.Duration {
	if limit := time.Duration(known.maxWait.Load()); limit != 0 {
		return min(limit, debugRestTime)
	}
	return debugRestTime
}

// debugWatch looks at those who wait when it is time to.
func debugWatch() {
	for {
		wait := debugNext()
		if wait < 0 {
			<-known.kick
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			debugDeliverElsewhere(debugLook())
		case <-known.kick:
			timer.Stop()
		}
	}
}

// debugDeliverElsewhere is deliver by a goroutine of its own, which the handler may
// end.
func debugDeliverElsewhere(reports []*debugReport) {
	if reports == nil {
		return
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		deliver(reports)
	}()
	<-over
}

// debugNext is how long it is until the next look, negative if nobody waits.
//
//go:norace
func debugNext() time.Duration {
	raceIgnore()
	debugMu.Lock()
	at := known.look
	debugMu.Unlock()
	raceLeave()
	if at == debugNever {
		return -1
	}
	return max(time.Duration(at-nanotime()), 0)
}

// debugLook looks at those who wait, and says when to do so again.
//
//go:norace
func debugLook() (reports []*debugReport) {
	raceIgnore()
	debugMu.Lock()
	now, limit := nanotime(), time.Duration(known.maxWait.Load())
	known.look = debugNever
	for c := known.waiting.first; c != nil; c = c.links[inKnown].next {
		age := time.Duration(now - c.at)
		switch {
		case c.rested:
		case age < debugRestTime:
			known.look = min(known.look, c.at+int64(debugRestTime))
		default:
			// Once: if it is at rest it stays so.
			c.rested = true
			reports = append(reports, c.lock.rest(c.rw)...)
		}
		switch {
		case c.overdue || limit == 0:
		case age < limit:
			known.look = min(known.look, c.at+int64(limit))
		default:
			c.overdue = true
			reports = append(reports, c.lock.overdue(c, limit))
		}
	}
	// Not for each of many that came one after the other.
	known.look = max(known.look, now+int64(max(debugPatience()/10, time.Millisecond)))
	debugMu.Unlock()
	raceLeave()
	return reports
}
