package main

import "math/rand/v2"

// resamples is enough for the ends of an interval of 95 % to stand still in the
// two digits that are printed.
const resamples = 2000

// bootstrap returns the 95 % interval of geomeanOfMedians: that of its values
// when every cell's rounds are drawn anew, with replacement, from those that it
// had. cells has the quotients of each cell by round. Figures of one round that
// hang together, as those of its readers and its writers, are to be one
// quotient: drawn apart they would make the interval too narrow. It is NaN if
// there is no cell, or one without rounds.
func bootstrap(cells [][]float64) (low, high float64) {
	rng := rand.New(rand.NewPCG(1, 2)) // the same draws, and so the same interval, in every run
	means := make([]float64, resamples)
	drawn := make([][]float64, len(cells))
	for i := range means {
		for c, rounds := range cells {
			drawn[c] = drawn[c][:0]
			for range rounds {
				drawn[c] = append(drawn[c], rounds[rng.IntN(len(rounds))])
			}
		}
		means[i] = geomeanOfMedians(drawn)
	}
	return quantile(means, 0.025), quantile(means, 0.975)
}

// geomeanOfMedians is the geometric mean over the cells of each one's median
// over its rounds.
func geomeanOfMedians(cells [][]float64) float64 {
	var mids []float64
	for _, rounds := range cells {
		mids = append(mids, median(rounds))
	}
	return geomean(mids)
}
