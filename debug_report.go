//go:build rwsemdebug

package rwsem

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A debugReport is what is to be reported, taken from the records under debugMu
// and put into words without it.
type debugReport struct {
	title   string
	entries []debugEntry
	more    int  // holds and waits that are left out
	now     bool // say as well what those who hold the lock do now
}

// A debugEntry is a call with its stack.
type debugEntry struct {
	role   debugRole
	addr   uintptr
	age    time.Duration
	unsure bool // as of the call
	debugPlace
}

// A debugRole is what an entry's call has to do with the report.
type debugRole int

const (
	debugTakes        debugRole = iota // it is the one that is reported
	debugGives                         // the same, a release
	debugAsserts                       // the same, an assertion
	debugHas                           // it holds the lock
	debugAwaits                        // it waits for the lock
	debugTook                          // it took a lock in another order
	debugHad                           // what it held then
	debugReleasedLast                  // it released the lock last
)

// debugMaxEntries is how many of a kind a report lists.
const debugMaxEntries = 16

//go:norace
func (r *debugReport) add(role debugRole, addr uintptr, p *debugPlace) {
	r.entries = append(r.entries, debugEntry{role, addr, time.Duration(nanotime() - p.at), false, *p})
}

// addHolds adds who holds l, addWaits who waits for it but c. The caller holds
// debugMu.
//
//go:norace
func (r *debugReport) addHolds(l *debugInfo) {
	n := 0
	for h := l.holds.first; h != nil; h = h.links[inLock].next {
		if n++; n > debugMaxEntries {
			r.more++
			continue
		}
		r.addHold(h)
	}
}

//go:norace
func (r *debugReport) addHold(h *debugCall) {
	r.add(debugHas, h.addr, &h.debugPlace)
	r.entries[len(r.entries)-1].unsure = h.unsure
}

//go:norace
func (r *debugReport) addWaits(l *debugInfo, c *debugCall) {
	n := 0
	for w := l.waiting.first; w != nil; w = w.links[inLock].next {
		if w == c {
			continue
		}
		if n++; n > debugMaxEntries {
			r.more++
			continue
		}
		r.add(debugAwaits, l.addr, &w.debugPlace)
	}
}

// check finds what is wrong with a call that is about to take a lock. The caller
// holds debugMu.
//
//go:norace
func (c *debugCall) check() (reports []*debugReport) {
	var own *debugCall
	holds := debugHoldsOf(c.g)
	for h := holds.first; h != nil; {
		next := h.links[inKnown].next
		switch l := h.held.Value(); {
		case l == nil:
			holds.remove(h, inKnown)
			h.links[inLock] = debugLink{}
			known.gone.add(h, inKnown)
			if known.gone.n > debugMaxGone {
				known.gone.remove(known.gone.first, inKnown)
			}
		case h.g == c.g && l == c.lock && !h.unsure && (own == nil || !h.read):
			own = h
		}
		h = next
	}
	switch {
	case c.how < debugCancels:
	case own != nil:
		if r := c.selfLock(own); r != nil {
			reports = append(reports, r)
		}
	case known.order:
		reports = c.inOrder()
	}
	if !c.read && c.how != debugTries {
		reports = append(reports, c.blocksRecursive()...)
	}
	return reports
}

// selfLock reports a call that waits for its own goroutine's hold. A read lock
// does that for another only where a writer waits. The caller holds debugMu.
//
//go:norace
func (c *debugCall) selfLock(own *debugCall) *debugReport {
	r := &debugReport{}
	switch {
	case c.read && own.read && c.lock.writers == 0 && !known.recursive:
		return nil
	case c.read && own.read:
		c.again = true
		r.title = debugRecursive
	case c.how == debugCancels:
		return nil // somebody may be about to end it
	case c.read:
		r.title = "rwsem: RLock of RWMutex that this goroutine has locked for writing"
	case own.read:
		r.title = "rwsem: Lock of RWMutex that this goroutine has locked for reading"
	default:
		r.title = "rwsem: Lock of RWMutex that this goroutine has locked already"
	}
	r.add(debugTakes, c.lock.addr, &c.debugPlace)
	r.add(debugHas, c.lock.addr, &own.debugPlace)
	if c.read && own.read {
		c.addWriters(r)
	}
	return r
}

const debugRecursive = "rwsem: recursive read lock: a writer that comes between the two RLocks makes the second wait for the first"

// addWriters adds the writers that wait for c's lock. The caller holds debugMu.
//
//go:norace
func (c *debugCall) addWriters(r *debugReport) {
	n := 0
	for w := c.lock.waiting.first; w != nil && n < debugMaxEntries; w = w.links[inLock].next {
		if !w.read {
			r.add(debugAwaits, c.lock.addr, &w.debugPlace)
			n++
		}
	}
}

// blocksRecursive reports recursive read locks that began before c, a writer,
// came, and did not get the lock yet. The caller holds debugMu.
//
//go:norace
func (c *debugCall) blocksRecursive() (reports []*debugReport) {
	for w := c.lock.waiting.first; w != nil; w = w.links[inLock].next {
		if !w.read || w.how < debugCancels || w.again {
			continue
		}
		if own := c.lock.own(w.g, true); own != nil && !own.unsure {
			w.again = true
			r := &debugReport{title: debugRecursive}
			r.add(debugTakes, c.lock.addr, &w.debugPlace)
			r.add(debugHas, c.lock.addr, &own.debugPlace)
			r.add(debugAwaits, c.lock.addr, &c.debugPlace)
			reports = append(reports, r)
		}
	}
	return reports
}

// misuse reports c, a release of what is not held so. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) misuse(c *debugCall, title string) []*debugReport {
	r := &debugReport{title: title}
	r.add(debugGives, l.addr, &c.debugPlace)
	r.addHolds(l)
	if l.last.n > 0 {
		r.add(debugReleasedLast, l.addr, &l.last)
	}
	return []*debugReport{r}
}

// asserted reports c, which asserts what is not so. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) asserted(c *debugCall, title string) []*debugReport {
	r := &debugReport{title: title}
	r.add(debugAsserts, l.addr, &c.debugPlace)
	r.addHolds(l)
	if l.holds.n == 0 && l.last.n > 0 {
		r.add(debugReleasedLast, l.addr, &l.last)
	}
	return []*debugReport{r}
}

// overdue reports c, which has waited for too long. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) overdue(c *debugCall, limit time.Duration) *debugReport {
	r := &debugReport{title: "rwsem: a call has waited for RWMutex for more than " + limit.String(), now: true}
	r.add(debugAwaits, l.addr, &c.debugPlace)
	r.addHolds(l)
	r.addWaits(l, c)
	return r
}

// rest reports a lock of which all who wait sleep, and nobody is on the way to
// wake them: nobody holds it, or readers do and no writer is anywhere. It is a
// fault of the lock itself. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) rest(rw *RWMutex) []*debugReport {
	if l.waiting.n == 0 {
		l.resting = false
	}
	if l.resting || !l.behindNobody(rw.count.Load()) {
		return nil
	}
	// All who wait are in the queue.
	rw.waitLock.Lock()
	n := 0
	if w := rw.head; w != nil {
		for {
			n++
			if w = w.next; w == rw.head {
				break
			}
		}
	}
	ok := n == l.waiting.n && l.behindNobody(rw.count.Load())
	rw.waitLock.Unlock()
	if !ok {
		return nil
	}
	l.resting = true
	r := &debugReport{title: "rwsem: waiters behind nobody: a wake-up was lost"}
	r.addHolds(l)
	r.addWaits(l, nil)
	return []*debugReport{r}
}

// behindNobody reports whether at count c, with nobody under way, the first
// waiter would sleep for ever.
//
//go:norace
func (l *debugInfo) behindNobody(c uint64) bool {
	switch {
	case l.waiting.n == 0 || l.passing != 0 || c&flagAsleep == 0 || c&writerLocked != 0:
		return false
	case c&readerMask == 0:
		return true
	}
	return l.writers == 0 && c < nearGuard // full is full
}

// deliver hands reports to the handler, or ends the process with the first.
func deliver(reports []*debugReport) {
	var now map[uint64]string // of all: to look stops the world
	for _, r := range reports {
		if r.now && now == nil {
			now = debugStacks()
		}
		text := r.text(now)
		h := known.handler.Load()
		if h == nil {
			debugDying.Lock() // for good: there is one report
			print(text)       // whatever became of os.Stderr
			fatal(r.title)
		}
		if c := debugInside(); c != nil {
			func() {
				defer c.outside() // also if the handler ends the goroutine
				(*h)(text)
			}()
		}
	}
}

var debugDying sync.Mutex

// debugInside keeps what the calling goroutine does from being reported until
// outside. It returns nil if something does already.
//
//go:norace
func debugInside() *debugCall {
	raceIgnore()
	c := newDebugCall(false, debugReleases)
	debugMu.Lock()
	already := false
	for d := known.inside.first; d != nil; d = d.links[inKnown].next {
		already = already || d.g == c.g
	}
	if !already {
		known.inside.add(c, inKnown)
	}
	debugMu.Unlock()
	if already {
		c.free()
		c = nil
	}
	raceLeave()
	return c
}

//go:norace
func (c *debugCall) outside() {
	raceIgnore()
	debugMu.Lock()
	known.inside.remove(c, inKnown)
	debugMu.Unlock()
	c.free()
	raceLeave()
}

// String is the report in full: the title, then each call with its stack.
func (r *debugReport) String() string {
	var now map[uint64]string
	if r.now {
		now = debugStacks()
	}
	return r.text(now)
}

// text is String, now being where each goroutine is.
func (r *debugReport) text(now map[uint64]string) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.title)
	said := map[uint64]bool{}
	for _, e := range r.entries {
		fmt.Fprintf(&b, "\n%s:\n", e.headline())
		frames := runtime.CallersFrames(e.pcs[:e.n])
		for more := e.n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if e.n == debugDepth {
			fmt.Fprint(&b, "\t... its callers are not on record\n")
		}
		if !r.now || e.role != debugHas || e.g == 0 || said[e.g] {
			continue
		}
		said[e.g] = true
		if stack, ok := now[e.g]; ok {
			fmt.Fprintf(&b, "    and is now here:\n\t%s\n", strings.ReplaceAll(stack, "\n", "\n\t"))
		} else {
			fmt.Fprintf(&b, "    and has ended since.\n")
		}
	}
	if r.more > 0 {
		fmt.Fprintf(&b, "\nand %d more.\n", r.more)
	}
	b.WriteByte('\n')
	return b.String()
}

func (e *debugEntry) headline() string {
	who, mode, since := fmt.Sprintf("goroutine %d", e.g), "writing", e.age.Round(time.Microsecond)
	if e.g == 0 {
		who = "nobody, by Disown,"
	}
	if e.read {
		mode = "reading"
	}
	if e.unsure {
		who += ", or another, since a goroutine without a read lock released one,"
	}
	switch e.role {
	case debugTakes:
		return fmt.Sprintf("%s locks RWMutex %#x for %s", who, e.addr, mode)
	case debugGives:
		return fmt.Sprintf("%s releases RWMutex %#x", who, e.addr)
	case debugAsserts:
		return fmt.Sprintf("%s asserts to hold RWMutex %#x", who, e.addr)
	case debugHas:
		return fmt.Sprintf("%s has held RWMutex %#x for %s for %v", who, e.addr, mode, since)
	case debugAwaits:
		return fmt.Sprintf("%s has waited for RWMutex %#x for %s for %v", who, e.addr, mode, since)
	case debugTook:
		return fmt.Sprintf("%s locked RWMutex %#x for %s, %v ago", who, e.addr, mode, since)
	case debugHad:
		return fmt.Sprintf("when it had locked RWMutex %#x for %s", e.addr, mode)
	default:
		return fmt.Sprintf("%s released RWMutex %#x last, %v ago", who, e.addr, since)
	}
}

// debugStacks is where each goroutine is now.
func debugStacks() map[uint64]string {
	const most = 64 << 20
	b := make([]byte, 1<<20)
	n := runtime.Stack(b, true)
	for n == len(b) && n < most {
		b = make([]byte, 2*n)
		n = runtime.Stack(b, true)
	}
	stacks := map[uint64]string{}
	for s := range strings.SplitSeq(string(b[:n]), "\n\n") {
		var g uint64
		if _, err := fmt.Sscanf(s, "goroutine %d", &g); err == nil {
			stacks[g] = strings.TrimSpace(s)
		}
	}
	return stacks
}

// debugCheckHeld lists what is held, also of locks that are gone.
func debugCheckHeld() error {
	r := debugHeld()
	if len(r.entries) == 0 {
		return nil
	}
	slices.SortFunc(r.entries, func(a, b debugEntry) int { return cmp.Compare(b.age, a.age) })
	r.title = fmt.Sprintf("rwsem: locks are held: %d", len(r.entries))
	return errors.New(strings.TrimSpace(r.String()))
}

//go:norace
func debugHeld() *debugReport {
	r := &debugReport{now: true}
	raceIgnore()
	debugMu.Lock()
	for i := range known.holds {
		r.addAll(&known.holds[i])
	}
	r.addAll(&known.gone)
	debugMu.Unlock()
	raceLeave()
	return r
}

// addAll adds all holds of a list. The caller holds debugMu.
//
//go:norace
func (r *debugReport) addAll(holds *debugCalls) {
	for h := holds.first; h != nil; h = h.links[inKnown].next {
		r.addHold(h)
	}
}

func debugHolders(rw *RWMutex) string {
	r := debugHoldersOf(rw)
	r.title = Describe(rw)
	return strings.TrimSpace(r.String())
}

//go:norace
func debugHoldersOf(rw *RWMutex) *debugReport {
	r := &debugReport{}
	raceIgnore()
	debugMu.Lock()
	l := debugInfoOf(rw)
	r.addHolds(l)
	r.addWaits(l, nil)
	debugMu.Unlock()
	raceLeave()
	return r
}
