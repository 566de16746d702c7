package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	tests := map[string]struct {
		xs   []float64
		want float64
	}{
		"one":  {[]float64{3}, 3},
		"odd":  {[]float64{9, 1, 5}, 5},
		"even": {[]float64{4, 1, 2, 3}, 2.5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := append([]float64(nil), tt.xs...)
			assert.InDelta(t, tt.want, median(tt.xs), 1e-9)
			assert.Equal(t, before, tt.xs, "argument changed")
		})
	}
	assert.True(t, math.IsNaN(median(nil)))
}

func TestQuantile(t *testing.T) {
	xs := make([]float64, 100)
	for i := range xs {
		xs[i] = float64(100 - i)
	}
	assert.Equal(t, 50.0, quantile(xs, 0.5))
	assert.Equal(t, 99.0, quantile(xs, 0.99))
	assert.True(t, math.IsNaN(quantile(nil, 0.5)))
}

func TestGeomean(t *testing.T) {
	assert.InDelta(t, 1, geomean([]float64{0.5, 2}), 1e-9)
	assert.InDelta(t, 4, geomean([]float64{2, 4, 8}), 1e-9)
	assert.True(t, math.IsNaN(geomean(nil)))
}

func TestRatioOf(t *testing.T) {
	r := ratioOf([]float64{10, 30, 20}, []float64{10, 10, 10})
	assert.Equal(t, ratio{2, 1, 3}, r)
	assert.Equal(t, "2.00x", r.String())
	assert.Equal(t, "1.00..3.00", r.spread())

	// Rounds are compared one by one: doubling in a fast and in a slow round
	// is doubling.
	assert.Equal(t, ratio{2, 2, 2}, ratioOf([]float64{200, 2}, []float64{100, 1}))

	for name, den := range map[string][]float64{"missing": nil, "uneven": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			r := ratioOf([]float64{1}, den)
			assert.False(t, r.known())
			assert.Equal(t, "-", r.String())
			assert.Equal(t, "-", r.spread())
		})
	}
}

func TestBest(t *testing.T) {
	a, b := []float64{1, 5}, []float64{3, 2}
	assert.Equal(t, []float64{3, 5}, best(a, b))
	assert.Equal(t, []float64{1, 5}, a, "argument changed")
	assert.Nil(t, best())
}

func TestShare(t *testing.T) {
	s := shareOf([]float64{1, 2, 6})
	assert.Equal(t, share{1, 3, 6}, s)
	assert.InDelta(t, 1.0/3, s.slowest(), 1e-9)
	assert.Zero(t, shareOf([]float64{0, 0}).slowest())
}

func TestNotWon(t *testing.T) {
	tests := map[string]struct {
		ours, sync float64
		want       bool
	}{
		"fair":                          {0.9, 0.2, false},
		"half":                          {0.5, 0.9, false},
		"starving, sync fairer":         {0.3, 0.4, true},
		"starving, sync no better":      {0.3, 0.3, false},
		"starving, sync worse":          {0.3, 0.1, false},
		"starving, sync not run":        {0.3, nan, true},
		"fair, sync not run":            {0.7, nan, false},
		"not run":                       {nan, 0.5, false},
		"fair, though less than sync's": {0.6, 0.9, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, notWon(tt.ours, tt.sync))
		})
	}
}

func TestJudge(t *testing.T) {
	lock := func(mops, slowest float64) *series {
		return &series{mops: []float64{mops, mops}, slowest: []float64{slowest, slowest}}
	}
	tests := map[string]struct {
		byLock  map[string]*series
		ratio   float64
		starved bool
		notes   string
	}{
		"win":                 {map[string]*series{"rwsem": lock(30, 1), "sync": lock(10, 1), "mutex": lock(20, 1)}, 1.5, false, ""},
		"RBMutex not counted": {map[string]*series{"rwsem": lock(10, 1), "sync": lock(10, 1), "rbmutex": lock(100, 1)}, 1, false, ""},
		"loss":                {map[string]*series{"rwsem": lock(10, 1), "sync": lock(20, 1), "mutex": lock(5, 1)}, 0.5, false, "below 0.9x"},
		"unfair win":          {map[string]*series{"rwsem": lock(30, 0.1), "sync": lock(10, 0.2)}, 3, true, "NOT WON: unfair"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := &cellResult{byLock: tt.byLock}
			r.judge()
			assert.InDelta(t, tt.ratio, r.vsBest.median, 1e-9)
			assert.Equal(t, tt.starved, r.starved)
			assert.Equal(t, tt.notes, r.notes())
		})
	}
	alone := &cellResult{byLock: map[string]*series{"sync": lock(1, 0.1)}}
	alone.judge()
	assert.False(t, alone.vsBest.known())
	require.Empty(t, alone.notes())
}
