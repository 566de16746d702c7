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
	edges  *debugEdge // those that were used last come first
	degree int

	// What a search leaves: its number, by which edge from which lock it came here
	// first, and who is next to be looked at.
	search uint64
	via    *debugEdge
	from   *debugInfo
	next   *debugInfo
}

// debugMaxEdges is how many edges lead from a lock at the most. Those to locks
// that are gone make room first, then the one that was not used for longest.
const debugMaxEdges = 1024

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
	for at := &l.edges; *at != nil; at = &(*at).next {
		if e := *at; e.id == c.lock.id {
			*at = e.next
			e.next, l.edges = l.edges, e
			return false
		}
	}
	if l.degree >= debugMaxEdges {
		l.trim()
	}
	l.edges = &debugEdge{
		next: l.edges, to: c.lock.weak, id: c.lock.id, addrs: [2]uintptr{l.addr, c.lock.addr},
		first: h.debugPlace, then: c.debugPlace,
	}
	l.degree++
	return true
}

// trim makes room for an edge. The caller holds debugMu.
//
//go:norace
func (l *debugInfo) trim() {
	at := &l.edges
	for *at != nil {
		if (*at).to.Value() == nil || (*at).next == nil && l.degree >= debugMaxEdges {
			*at = (*at).next
			l.degree--
		} else {
			at = &(*at).next
		}
	}
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
		for e := x.edges; e != nil; e = e.next {
			if y := e.to.Value(); y != nil && y.search != known.search {
				y.search, y.via, y.from = known.search, e, x
				last.next, last = y, y
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
