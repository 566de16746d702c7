package main

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat"
)

var nan = math.NaN()

// median is NaN for no values.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return nan
	}
	// NewSample sorts its argument.
	s := benchmath.NewSample(slices.Clone(xs), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(s, 0.95).Center
}

// quantile is the least value that the part q of all does not exceed; NaN for
// no values.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return nan
	}
	return stat.Quantile(q, stat.Empirical, slices.Sorted(slices.Values(xs)), nil)
}

func sum(xs []float64) float64 {
	total := 0.0
	for _, x := range xs {
		total += x
	}
	return total
}

func geomean(xs []float64) float64 {
	if len(xs) == 0 {
		return nan
	}
	return stat.GeometricMean(xs, nil)
}

// roundMeans is the geometric mean over several series in each round; none if
// one of them has no rounds, or if there is none.
func roundMeans(all [][]float64) []float64 {
	if len(all) == 0 {
		return nil
	}
	var means []float64
	for r := range slices.MinFunc(all, func(a, b []float64) int { return len(a) - len(b) }) {
		var round []float64
		for _, qs := range all {
			round = append(round, qs[r])
		}
		means = append(means, geomean(round))
	}
	return means
}

// ratio is a comparison by rounds: the two sides of each quotient were
// measured next to each other.
type ratio struct{ median, min, max float64 }

// ratioOf divides round by round. It is all NaN if either side is missing.
func ratioOf(num, den []float64) ratio {
	return overRounds(quotients(num, den))
}

// quotients divides round by round. There are none if either side is missing.
func quotients(num, den []float64) []float64 {
	if len(num) != len(den) {
		return nil
	}
	qs := make([]float64, len(num))
	for i := range num {
		qs[i] = num[i] / den[i]
	}
	return qs
}

// overRounds sums up quotients that are there already, one for each round.
func overRounds(qs []float64) ratio {
	if len(qs) == 0 {
		return ratio{nan, nan, nan}
	}
	return ratio{median(qs), slices.Min(qs), slices.Max(qs)}
}

func (r ratio) known() bool { return !math.IsNaN(r.median) }

func (r ratio) String() string {
	if !r.known() {
		return "-"
	}
	return fmt.Sprintf("%.2fx", r.median)
}

func (r ratio) spread() string {
	if !r.known() {
		return "-"
	}
	return fmt.Sprintf("%.2f..%.2f", r.min, r.max)
}

// full is the ratio and its spread.
func (r ratio) full() string {
	if !r.known() {
		return "-"
	}
	return r.String() + " (" + r.spread() + ")"
}

// best is the greatest of the series in each round; none if they differ in
// length, and so do not belong together.
func best(series ...[]float64) []float64 {
	var out []float64
	for _, s := range series {
		if out == nil {
			out = slices.Clone(s)
			continue
		}
		if len(s) != len(out) {
			return nil
		}
		for i := range s {
			out[i] = max(out[i], s[i])
		}
	}
	return out
}

// share is how a round's operations were spread over its goroutines.
type share struct{ min, mean, max float64 }

func shareOf(ops []float64) share {
	return share{slices.Min(ops), sum(ops) / float64(len(ops)), slices.Max(ops)}
}

// slowest is the slowest goroutine's part of the mean.
func (s share) slowest() float64 {
	if s.mean == 0 {
		return 0
	}
	return s.min / s.mean
}

// notWon tells whether a lock starved a goroutine: its slowest got less than
// half the mean, and less of the mean than with sync.RWMutex. NaN for the
// latter means that sync.RWMutex was not run.
func notWon(slowest, slowestSync float64) bool {
	return slowest < 0.5 && !(slowest >= slowestSync)
}
