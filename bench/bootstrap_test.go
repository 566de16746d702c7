package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGeomeanOfMedians(t *testing.T) {
	assert.InDelta(t, 1, geomeanOfMedians([][]float64{{9, 0.5, 0.1}, {2, 2}}), 1e-9)
	assert.True(t, math.IsNaN(geomeanOfMedians(nil)))
}

func TestBootstrap(t *testing.T) {
	low, high := bootstrap([][]float64{{2, 2, 2}, {8, 8}})
	assert.InDelta(t, 4, low, 1e-9, "without spread")
	assert.InDelta(t, 4, high, 1e-9, "without spread")

	// Each median of three is 1 if at least two of the draws are: in 7 of 27
	// cases, and as often 4.
	cells := [][]float64{{1, 2, 4}}
	low, high = bootstrap(cells)
	assert.Equal(t, 1.0, low)
	assert.Equal(t, 4.0, high)
	again, highAgain := bootstrap(cells)
	assert.Equal(t, []float64{low, high}, []float64{again, highAgain}, "not the same twice")
	assert.Equal(t, [][]float64{{1, 2, 4}}, cells, "argument changed")

	// Nine such cells are nearly never all at one end.
	var nine [][]float64
	for range 9 {
		nine = append(nine, cells[0])
	}
	low, high = bootstrap(nine)
	assert.Greater(t, low, 1.1)
	assert.Less(t, high, 3.6)
	assert.Less(t, low, 2.0)
	assert.Greater(t, high, 2.0)

	for name, cells := range map[string][][]float64{"no cell": nil, "no round": {{1, 2}, {}}} {
		low, high := bootstrap(cells)
		assert.True(t, math.IsNaN(low) && math.IsNaN(high), name)
	}
}

// TestBootstrapCovers draws quotients around 1 and counts how often the
// interval has it in.
func TestBootstrapCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const tries = 25
	covers := 0
	for range tries {
		cells := make([][]float64, 6)
		for c := range cells {
			for range 7 {
				cells[c] = append(cells[c], math.Exp(0.3*rng.NormFloat64()))
			}
		}
		if low, high := bootstrap(cells); low <= 1 && 1 <= high {
			covers++
		}
	}
	assert.GreaterOrEqual(t, covers, tries*8/10)
}
