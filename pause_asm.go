//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

// relax tells the processor that this is a spin loop, until ticks of the cycle
// counter have passed or 16 pauses were made, whichever is first; it makes one
// at least. Assembly cannot be preempted: even where a pause takes 140 cycles
// that is about 1 us at the most.
func relax(ticks uint32)

// pause tells the processor n times, 16 at the most, that this is a spin loop.
func pause(n uint32)

// cycles returns the cycle counter.
func cycles() uint64
