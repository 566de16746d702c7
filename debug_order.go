//go:build rwsemdebug

package rwsem

import "weak"

// The order of locks: an edge leads from a lock to each that somebody went to
// take while holding it. Two ways between the same locks that lead round in a
// circle can meet in a deadlock, whether they do so this time or not. A try gives
// up instead, so none leads to what it takes. A read lock counts like a write
// lock, since a writer that waits makes it block.

// A debugOrder is the part that one lock has in it.
type debugOrder struct {
	edges [debugEdgeLists]debugEdges // by the number of the lock that they lead to

	// What a search leaves: its number, by which edge from which lock it came here
	// first, and who is next to be looked at.
	search uint64
	via    *debugEdge
	from   *debugInfo
	next   *debugInfo
}

// A debugEdges is a list of edges: those that were used last come first.
type debugEdges struct {
	first *debugEdge
	n     int
}

// How many lists there are of the edges that lead from a lock, and how long each may
// be. In a full one those to locks that are gone make room, then the one that was not
// used for longest.
const (
	debugEdgeLists = 32
	debugMaxEdges  = 32
)

// debugNearest is to how many of a goroutine's holds, the last ones, edges lead at
// the least: to the others ways lead over those, if these are kept.
const debugNearest = 16

const debugCircle = "rwsem: locks are taken in an order that leads round in a circle"

// A debugEdge says that a lock was taken with another held.
type debugEdge struct {
	next  *debugEdge
	to    weak.Pointer[debugInfo]
	id    uint64 // of to
	addrs [2]uintptr
	first debugPlace // where the lock that it leads from was taken
	then  debugPlace // where to was taken
}

// edge notes that c takes its lock with h, a hold of l, and reports whether that
// is new. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) edge(h, c *debugCall) bool {
	list := &l.edges[c.lock.id%debugEdgeLists]
	for at := &list.first; *at != nil; at = &(*at).next {
		if e := *at; e.id == c.lock.id {
			*at = e.next
			e.next, list.first = list.first, e
			return false
		}
	}
	if list.n >= debugMaxEdges {
		list.trim()
	}
	list.first = &debugEdge{
		next: list.first, to: c.lock.weak, id: c.lock.id, addrs: [2]uintptr{l.addr, c.lock.addr},
		first: h.debugPlace, then: c.debugPlace,
	}
	list.n++
	return true
}

// trim makes room for an edge. The caller holds debugMu.
//
//go:norace
func (l *debugEdges) trim() {
	at := &l.first
	for *at != nil {
		if (*at).to.Value() == nil || (*at).next == nil && l.n >= debugMaxEdges {
			*at = (*at).next
			l.n--
		} else {
			at = &(*at).next
		}
	}
}

// inOrder notes that c takes its lock with its goroutine's holds, and reports what
// that leads round in. Beyond the last debugNearest holds it stops at one to whose
// lock ways lead from those before it: many locks held at once would otherwise be as
// many edges each. The caller holds debugMu.
//
//go:norace
func (c *debugCall) inOrder() (reports []*debugReport) {
	n := 0
	for h := debugHoldsOf(c.g).last; h != nil; h = h.links[inKnown].prev {
		if h.g != c.g || h.unsure {
			continue
		}
		l := h.held.Value()
		if l == nil {
			continue
		}
		if r := c.circle(h, l); r != nil {
			reports = append(reports, r)
		}
		if n++; n >= debugNearest && h.ordered {
			break
		}
	}
	c.ordered = true
	return reports
}

// circle notes that c takes its lock with h, a hold of l. If a way leads back from
// that lock to l it returns a report. The caller holds debugMu.
//
//go:norace
func (c *debugCall) circle(h *debugCall, l *debugInfo) *debugReport {
	if !l.edge(h, c) {
		return nil
	}
	known.search++
	start := c.lock
	start.search = known.search
	last := start
	for x := start; x != nil && l.search != known.search; x = x.next {
		for i := range x.edges {
			for e := x.edges[i].first; e != nil; e = e.next {
				if y := e.to.Value(); y != nil && y.search != known.search {
					y.search, y.via, y.from = known.search, e, x
					last.next, last = y, y
				}
			}
		}
	}
	var r *debugReport
	if l.search == known.search {
		r = &debugReport{title: debugCircle}
		r.add(debugTakes, c.lock.addr, &c.debugPlace)
		r.add(debugHas, l.addr, &h.debugPlace)
		for x := l; x != start; x = x.from {
			r.add(debugTook, x.via.addrs[1], &x.via.then)
			r.add(debugHad, x.via.addrs[0], &x.via.first)
		}
	}
	for x := start; x != nil; {
		next := x.next
		x.via, x.from, x.next = nil, nil, nil
		x = next
	}
	return r
}
