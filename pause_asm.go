//go:build amd64 && !purego && !race && !rwsemhooks

package rwsem

// relax tells the processor that this is a spin loop, until ticks of the cycle
// counter have passed or 32 pauses were made, whichever is first; with ticks
// of 0 it makes 4 pauses and does not look at the counter. Assembly cannot be
// preempted: even where a pause takes 140 cycles that is about 2 us at the most.
func relax(ticks uint32)

// cycles returns the cycle counter.
func cycles() uint64
