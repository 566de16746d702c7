package rwsem

import (
	"fmt"
	"strings"
)

// Describe returns the state of rw in one line for people who debug, such as
//
//	write-locked handoff, owner g 0x1c3a5c0d2380, 0 readers, waiters 2 readers 1 writer, first for 1.2ms
//
// The owner is a hint: none, unnamed (a writer in a build that cannot name it),
// readers (who took the lock last, and may be gone), or g with the address that
// tracebacks print as gp= with GOTRACEBACK=system. rd-nonspinnable and
// wr-nonspinnable say that readers or writers do not spin on this lock now, claim
// that a spinning writer asked arrivals to step back, handoff that nobody may go
// before the first waiter.
//
// The readers include those that are granted the lock and do not run yet, and
// those that are about to give up. The line is made of several looks at a lock
// that others use, so its parts may contradict each other. It waits for the
// lock's wait list, never for the lock.
func Describe(rw *RWMutex) string {
	raceIgnore()
	c, o, readers, writers, age := rw.look()
	raceLeave()

	var b strings.Builder
	switch {
	case c&writerLocked != 0:
		b.WriteString("write-locked")
	case c&readerMask != 0:
		b.WriteString("read-locked")
	default:
		b.WriteString("unlocked")
	}
	for _, f := range []struct {
		bit  uint64
		name string
	}{{flagHandoff, " handoff"}, {flagClaim, " claim"}, {flagReadFail, " read-fail"}} {
		if c&f.bit != 0 {
			b.WriteString(f.name)
		}
	}
	b.WriteString(", owner ")
	switch g := o &^ ownerFlags; {
	case o&readerOwned != 0:
		b.WriteString("readers")
	case g == 0:
		b.WriteString("none")
	case g == ownerAnonymous:
		b.WriteString("unnamed")
	case g == ownerUnknown:
		b.WriteString("unknown")
	default:
		fmt.Fprintf(&b, "g %#x", g)
	}
	if o&rdNonspinnable != 0 {
		b.WriteString(" rd-nonspinnable")
	}
	if o&wrNonspinnable != 0 {
		b.WriteString(" wr-nonspinnable")
	}
	fmt.Fprintf(&b, ", %s", plural(c>>readerShift&(1<<(63-readerShift)-1), "reader"))
	if readers+writers == 0 {
		b.WriteString(", no waiters")
	} else {
		fmt.Fprintf(&b, ", waiters %s %s, first for %v", plural(readers, "reader"), plural(writers, "writer"), age)
	}
	return b.String()
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
