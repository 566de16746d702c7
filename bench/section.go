package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"time"
)

// section is the work inside a critical section: arithmetic in which every
// step needs the one before, and no memory, so that the lock is all that the
// goroutines share.
//
//go:noinline
func section(steps int) uint64 {
	x := uint64(steps)
	for range steps {
		x = x ^ x<<1 + 1
	}
	return x
}

// sectionSize is a named length of critical section and the steps that take
// that long on this machine.
type sectionSize struct {
	name     string
	want     time.Duration
	steps    int
	measured float64 // ns
}

var sectionSizes = []sectionSize{
	{name: "6ns", want: 6 * time.Nanosecond},
	{name: "180ns", want: 180 * time.Nanosecond},
	{name: "3us", want: 3 * time.Microsecond},
}

// burnSize is the size of the pieces of work that burners do.
const burnSize = 2

// pauses are sections in which the holder does not run.
var pauses = map[string]func(){
	"yield": runtime.Gosched,
	"sleep": func() { time.Sleep(50 * time.Microsecond) },
}

// zero is a variable so that the compiler cannot drop a sum with it.
var zero uint64

// sectionTime measures one section in ns: the least of several batches, as
// whatever disturbs a batch only makes it longer. Each section needs the
// result of the one before; otherwise the processor would overlap them, which
// the atomic operations of a lock prevent.
func sectionTime(steps int) float64 {
	const batches = 50
	calls := max(1, 400_000/(steps+5))
	least := math.Inf(1)
	for range batches {
		start := time.Now()
		last := uint64(0)
		for range calls {
			last = section(steps + int(last&zero))
		}
		least = min(least, float64(time.Since(start).Nanoseconds())/float64(calls))
	}
	return least
}

// calibrate finds the steps for each section size.
func calibrate(sizes []sectionSize) []sectionSize {
	const many = 10_000
	call := sectionTime(0)
	step := (sectionTime(many) - call) / many
	sizes = append([]sectionSize(nil), sizes...)
	for i := range sizes {
		s := &sizes[i]
		want := float64(s.want.Nanoseconds())
		s.steps = max(0, int((want-call)/step))
		s.measured = sectionTime(s.steps)
		// The first steps partly hide behind the call.
		for s.measured < want-step/2 {
			s.steps += max(1, int((want-s.measured)/step))
			s.measured = sectionTime(s.steps)
		}
	}
	return sizes
}

func printSections(w io.Writer, sizes []sectionSize) {
	fmt.Fprint(w, "sections:")
	for _, s := range sizes {
		fmt.Fprintf(w, "  %s = %d steps, %.1f ns", s.name, s.steps, s.measured)
	}
	fmt.Fprintln(w)
}
