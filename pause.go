package rwsem

import (
	"sync/atomic"
	"time"
)

// The pause between two looks of a spinner at the lock. A PAUSE takes 10 to 140
// cycles depending on the CPU, so a pause is a time: by the cycle counter where
// that runs at one rate on all CPUs, else a number of instructions that was
// measured against the clock.

// A spinPause is a pause of ticks of the cycle counter or, with none, of so
// many pause instructions.
type spinPause struct{ ticks, instructions uint32 }

func (p spinPause) wait() {
	if p.ticks != 0 {
		relax(p.ticks)
	} else {
		for n := p.instructions; n > 0; n -= min(n, mostPauses) {
			pause(min(n, mostPauses))
		}
	}
}

func (p spinPause) times(n uint32) spinPause {
	return spinPause{n * p.ticks, n * p.instructions}
}

var (
	countsCycles = cyclesInvariant()
	startCycles  = cycles()
	startNano    = nanotime()

	// What was found out, 0 until then. Relaxed: everybody finds the same.
	roundTicks        atomic.Uint32
	roundInstructions atomic.Uint32
)

// roundPause is a pause of roundTime.
func roundPause() spinPause {
	if t := roundTicks.Load(); t != 0 {
		return spinPause{ticks: t}
	}
	if countsCycles {
		if t := ticksIn(roundTime, int64(cycles()-startCycles), nanotime()-startNano); t != 0 {
			roundTicks.Store(t)
			return spinPause{ticks: t}
		}
	}
	n := roundInstructions.Load()
	if n == 0 {
		n = instructionsIn(roundTime, timePauses)
		roundInstructions.Store(n)
	}
	return spinPause{instructions: n}
}

// ticksIn is d in ticks of a counter that advanced by ticks in ns nanoseconds,
// rounded up, since some count in units of 40 ns. It is 0 if the two do not
// tell: it is too early for a clock that may move twice a millisecond only, as
// on Windows, or the counter does not run or ran backwards.
func ticksIn(d time.Duration, ticks, ns int64) uint32 {
	const enough = 10 * time.Millisecond
	if ticks <= 0 || ns < int64(enough) {
		return 0
	}
	const ghz = 20 // no counter is as fast: it jumped
	rate := float64(ticks) / float64(ns)
	if rate > ghz {
		return 0
	}
	return uint32(rate*float64(d)) + 1
}

const (
	mostPauses     = 16 // that one call makes: less than 1 us
	measuredPauses = mostPauses
	measureTries   = 5
	unknownPauses  = 4 // where the clock is too coarse to tell
)

// timePauses is how many nanoseconds measuredPauses pauses take.
func timePauses() int64 {
	start := nanotime()
	pause(measuredPauses)
	return nanotime() - start
}

// instructionsIn is d in pause instructions, of which measure times a number.
// The least of some times counts: in others something came in between.
func instructionsIn(d time.Duration, measure func() int64) uint32 {
	least := measure()
	for range measureTries - 1 {
		least = min(least, measure())
	}
	if least <= 0 {
		return unknownPauses
	}
	return uint32(max(1, min(measuredPauses, int64(d)*measuredPauses/least)))
}
