package rwsem

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTicksIn(t *testing.T) {
	const ms = 100 * int64(time.Millisecond)
	for _, s := range []struct {
		d         time.Duration
		ticks, ns int64
		want      uint32
	}{
		{50, 3 * ms, ms, 151},           // 3 GHz
		{50, 2 * ms / 100, ms, 2},       // 20 MHz: the next tick is up to 50 ns away
		{50, 1, ms, 1},                  // slower than any
		{50, 1 << 62, ms, 0},            // faster than any: it jumped
		{50, 0, ms, 0},                  // it stands
		{50, -3 * ms, ms, 0},            // it ran backwards
		{50, math.MinInt64, ms, 0},      //
		{50, 3 * ms / 100, ms / 100, 0}, // too early
		{50, 3 * ms, 0, 0},              // the clock stands
		{50, 3 * ms, -ms, 0},            // the clock ran backwards
	} {
		assert.Equal(t, s.want, ticksIn(s.d, s.ticks, s.ns), "%v by %d in %d ns", s.d, s.ticks, s.ns)
	}
}

func TestInstructionsIn(t *testing.T) {
	for _, s := range []struct {
		d       time.Duration
		took    []int64 // by measuredPauses pauses
		want    uint32
		meaning string
	}{
		{50, []int64{64}, 12, "4 ns a pause: 10 cycles"},
		{50, []int64{750}, 1, "47 ns a pause: 140 cycles"},
		{50, []int64{1 << 40}, 1, "longer than all"},
		{50, []int64{1}, measuredPauses, "shorter than any"},
		{50, []int64{900_000, 64, 5000}, 12, "something came in between"},
		{50, []int64{64, 0}, unknownPauses, "a coarse clock"},
		{50, []int64{-1}, unknownPauses, "a clock that ran backwards"},
	} {
		n := 0
		got := instructionsIn(s.d, func() int64 { n++; return s.took[min(n, len(s.took))-1] })
		assert.Equal(t, s.want, got, s.meaning)
		assert.Equal(t, measureTries, n)
	}
}

// Each kind of pause takes about the time it should, and a multiple as many
// times that. Less than the clock can show is not looked for.
func TestPauseTakesItsTime(t *testing.T) {
	least := func(p spinPause) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range 50 {
			const n = 100
			start := time.Now()
			for range n {
				p.wait()
			}
			best = min(best, time.Since(start)/n)
		}
		return best
	}
	pauses := map[string]spinPause{"instructions": {instructions: instructionsIn(roundTime, timePauses)}}
	if countsCycles {
		ticks := uint32(0)
		for ticks == 0 {
			ticks = ticksIn(roundTime, int64(cycles()-startCycles), nanotime()-startNano)
		}
		pauses["ticks"] = spinPause{ticks: ticks}
	}
	for name, p := range pauses {
		one, four := least(p), least(p.times(4))
		t.Logf("%s %v: %v, four times %v", name, p, one, four)
		assert.Less(t, one, 20*roundTime, name)
		// Where nobody spins a pause may be nothing (js), and an emulator has times
		// of its own.
		if maxSpinners > 0 && !emulated() {
			assert.Greater(t, four, one, name)
		}
		assert.Less(t, four, 60*roundTime, name)
	}
}

// Where the clock stands still the rounds end a spin.
func TestSpinEndsWithoutAClock(t *testing.T) {
	for _, limit := range []time.Duration{claimTime, spinTime, firstSpinTime, readersTimeMax, ctlReaderMax} {
		enough := int(limit / roundTime)
		never := int64(math.MaxInt64) // a clock that has not come so far yet
		assert.LessOrEqual(t, spunFor(2*enough, never), limit)
		assert.Greater(t, spunFor(100*enough, never), limit)
		assert.True(t, spunOut(100*enough, never, limit), "%v", limit)
	}
	assert.Positive(t, spunFor(1, math.MaxInt64))
}
