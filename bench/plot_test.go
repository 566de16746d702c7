package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
)

var regexpLinks = regexp.MustCompile(`\((plots/[^)]*)\)`)

func labelsOf(ticks []plot.Tick) string {
	var labels []string
	for _, t := range ticks {
		if t.Label != "" {
			labels = append(labels, t.Label)
		}
	}
	return strings.Join(labels, " ")
}

func TestRound(t *testing.T) {
	for _, tt := range []struct{ x, below, above float64 }{
		{1, 1, 1}, {3, 2, 5}, {7, 5, 10}, {1000, 1000, 1000}, {0.03, 0.02, 0.05}, {999, 500, 1000}, {1e-3, 1e-3, 1e-3},
	} {
		assert.InEpsilon(t, tt.below, roundBelow(tt.x), 1e-12, tt.x)
		assert.InEpsilon(t, tt.above, roundAbove(tt.x), 1e-12, tt.x)
	}
}

// Every logarithmic axis has two labels at least, none of them too many.
func TestLogTicks(t *testing.T) {
	s := scale{log: true, label: plainNumber}
	for low := 1e-4; low < 1e9; low *= 1.7 {
		for _, factor := range []float64{1.0001, 1.5, 3, 10, 99, 1e3, 1e7} {
			from, to := roundBelow(low), roundAbove(low*factor)
			if from == to {
				to *= 2
			}
			n := len(strings.Fields(labelsOf(s.logTicks(from, to))))
			assert.GreaterOrEqual(t, n, 2, "%g..%g", from, to)
			assert.LessOrEqual(t, n, 10, "%g..%g", from, to)
		}
	}
	assert.Equal(t, "1 2 5 10 20 50", labelsOf(s.logTicks(1, 50)))
	assert.Equal(t, "1 10 100 1000", labelsOf(s.logTicks(1, 1000)))
}

// Labels that would touch are left out, but the last is there.
func TestLabelled(t *testing.T) {
	s := scale{at: map[float64]string{}}
	for _, x := range []float64{0, 10, 50, 90, 95, 99, 100} {
		s.at[x] = plainNumber(x)
	}
	norm := func(x float64) float64 { return x / 100 }
	assert.Equal(t, "0 10 50 90 100", labelsOf(s.labelled(norm)))
	assert.Len(t, s.labelled(norm), 7)
	assert.Equal(t, "7", labelsOf(scale{at: map[float64]string{7: "7"}}.labelled(func(float64) float64 { return 0.5 })))
}

func TestPlaces(t *testing.T) {
	table := &dataTable{x: map[string]float64{"n0": 0, "n1": 1, "n64": 64, "less": -1, "many": 20_000}}
	place, at := table.places(true)
	assert.Equal(t, map[string]float64{"n0": 1.0 / 3, "n1": 1, "n64": 64, "many": 20_000}, place)
	assert.Equal(t, map[float64]string{1.0 / 3: "0", 1: "1", 64: "64", 20_000: "20k"}, at)
	place, _ = table.places(false)
	assert.Equal(t, table.x, place)
	place, _ = (&dataTable{x: map[string]float64{"n0": 0}}).places(true)
	assert.Empty(t, place)
}

// Locks look different from each other, in colour and in shape.
func TestStyles(t *testing.T) {
	require.LessOrEqual(t, len(allLocks), len(curveColors))
	for i, a := range allLocks {
		for _, b := range allLocks[:i] {
			assert.NotEqual(t, styleOf(a.key).color, styleOf(b.key).color)
			assert.NotEqual(t, styleOf(a.key).shape, styleOf(b.key).shape)
		}
	}
	assert.NotEmpty(t, styleOf("another").dashes)
	assert.Equal(t, len(curveColors), len(curveShapes))
}

func sweptTable(name string, xs []float64, metrics ...string) *dataTable {
	var records []record
	for _, x := range xs {
		for _, lock := range []string{"rwsem", "sync"} {
			m := map[string][]float64{}
			for _, metric := range metrics {
				m[metric] = []float64{x + 1, x + 2}
			}
			records = append(records, record{Table: name, Cell: plainNumber(x), X: &x, Lock: lock, Metrics: m})
		}
	}
	return tablesOf(records)[0]
}

func TestPictures(t *testing.T) {
	tests := map[string]struct {
		table *dataTable
		want  []string
	}{
		"unlock":          {sweptTable("unlock", []float64{0, 1, 1024}, "unlock-p50-ns", "last-p50-ns"), []string{"unlock"}},
		"one point":       {sweptTable("unlock", []float64{5}, "unlock-p50-ns"), []string{"unlock"}},
		"only zero":       {sweptTable("unlock", []float64{0}, "unlock-p50-ns"), nil},
		"nothing to draw": {sweptTable("unlock", []float64{1}, "widgets"), nil},
		"not drawn":       {sweptTable("latency", []float64{1}, "read-p99-ns"), nil},
		"no quantiles":    {sweptTable("closed", []float64{1}, metricThroughput), nil},
		"sweep":           {sweptTable("sweep/a b", []float64{1, 2}, metricThroughput, metricCPU, "read-p99.9-ns"), []string{"sweep-a-b"}},
		"quantiles":       {sweptTable("scheduled", []float64{1, 2}, "read-p50-ns", "read-max-ns", "write-p99-ns"), []string{"scheduled-1", "scheduled-2"}},
		"not of the grid": {sweptTable("grid", []float64{1}, metricThroughput), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pictures, err := tt.table.pictures()
			require.NoError(t, err)
			var names []string
			for _, p := range pictures {
				names = append(names, p.name)
				checkPicture(t, p)
			}
			assert.Equal(t, tt.want, names)
		})
	}
}

// checkPicture looks whether both files can be read, and the text in one.
func checkPicture(t *testing.T, p picture) {
	img, err := png.Decode(bytes.NewReader(p.png))
	require.NoError(t, err)
	assert.Greater(t, img.Bounds().Dx(), 300)
	words := ""
	for d := xml.NewDecoder(bytes.NewReader(p.svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			words += string(text)
		}
	}
	assert.Contains(t, words, "sync.RWMutex", "in the legend")
	assert.NotContains(t, string(p.svg), "NaN")
	assert.Equal(t, strings.Count(string(p.svg), "<text"), strings.Count(string(p.svg), "Sans,Arial,"), "fonts in place of a missing one")
}

// What was too short to measure, or did not happen at all, is drawn all the same.
func TestZeroes(t *testing.T) {
	var c lockCurve
	c.add(1, "read-p50-ns", []float64{0, 0, 40})
	c.add(2, metricThroughput, []float64{0, 3, 2})
	c.add(3, metricThroughput, nil)
	assert.Equal(t, []curvePoint{{1, ratio{1, 1, 40}}, {2, ratio{2, 0, 3}}}, c.points)
	assert.False(t, amountScale([]lockCurve{c}).log)
}

func TestHeat(t *testing.T) {
	h := &heat{z: map[[2]int]float64{}, ratios: map[[2]int]string{}}
	put := func(name string, median float64, starved bool) {
		h.put(&cellResult{name: name, vsBest: ratio{median, median, median}, starved: starved})
	}
	put("p2/g2/r100/6ns", 2, false)
	put("p2/g8/r0/3us", 0.5, true)
	put("nonsense", 1, false)
	put("p2/g64/r0/3us", nan, false)
	assert.Equal(t, []string{"g2 r100", "g8 r0"}, h.rows)
	assert.Equal(t, []string{"p2 6ns", "p2 3us"}, h.cols)
	assert.Equal(t, 1.0, h.Z(0, 1), "the first row is on top")
	assert.Equal(t, -1.0, h.Z(1, 0))
	assert.True(t, math.IsNaN(h.Z(0, 0)))
	labels, err := h.labels()
	require.NoError(t, err)
	assert.True(t, slices.Equal([]string{"2.00", "0.50 !"}, labels.Labels))
}
