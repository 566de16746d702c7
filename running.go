package rwsem

import (
	"runtime"
	"sync/atomic"
)

// Whether the owner runs: to spin on one that does not is to wait for the
// scheduler. Row B of DESIGN.md.

// statusOffset is where a g keeps its status, 0 if that is not known: time
// bounds alone end a spin then.
var statusOffset uintptr

// The status of a goroutine, as the runtime keeps it in a 32-bit word of its g.
const (
	statusRunning = 2
	statusWaiting = 4
	statusScan    = 0x1000 // set beside the status while the stack is scanned
)

// running reports whether the writer named in owner word o may be running. Only
// no is certain: its g may run another goroutine by now, and its thread may
// have lost its CPU.
func running(o uintptr) bool {
	g := o &^ ownerFlags
	if statusOffset == 0 || g == ownerAnonymous || g == ownerUnknown {
		return true
	}
	return loadStatus(g, statusOffset)&^statusScan == statusRunning
}

func init() {
	if policy.ownerCheck && self() != ownerAnonymous {
		before := runtime.NumGoroutine()
		statusOffset = probeStatus()
		// The probe's goroutine is gone before main starts: programs count theirs.
		for i := 0; i < 1000 && runtime.NumGoroutine() > before; i++ {
			runtime.Gosched()
		}
	}
}

// probeStatus looks for the offset in a g of the 32-bit word that shows running
// for this goroutine and waiting for a parked one, and returns 0 if it finds
// not exactly one.
func probeStatus() uintptr {
	const tries = 100 // the other goroutine may not have parked yet
	var parked atomic.Uintptr
	end := make(chan struct{})
	defer close(end)
	go func() {
		parked.Store(self())
		<-end
	}()
	for range tries {
		runtime.Gosched()
		if other := parked.Load(); other != 0 {
			me := self()
			offset := findStatus(
				func(off uintptr) uint32 { return loadStatus(me, off) },
				func(off uintptr) uint32 { return loadStatus(other, off) })
			if offset != 0 {
				return offset
			}
		}
	}
	return 0
}

// findStatus returns the only offset at which running shows that and waiting
// that, each reading a word of a g, and 0 if there is none or more than one.
func findStatus(running, waiting func(off uintptr) uint32) (offset uintptr) {
	const size = 256 // no g is smaller
	for off := uintptr(0); off < size; off += 4 {
		if running(off)&^statusScan == statusRunning && waiting(off)&^statusScan == statusWaiting {
			if offset != 0 {
				return 0
			}
			offset = off
		}
	}
	return offset
}
