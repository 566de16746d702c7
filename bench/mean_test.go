package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The grid's mean stands beside its interval, its target and what rwsem differs
// from itself.
func TestMeanCheck(t *testing.T) {
	result := func(ours float64) *cellResult {
		r := &cellResult{name: "c", byLock: map[string]*series{
			"rwsem": {mops: []float64{ours, ours}, slowest: []float64{1, 1}}, "sync": {mops: []float64{1, 1}, slowest: []float64{1, 1}}}}
		r.judge()
		return r
	}
	for _, tt := range []struct {
		ours         float64
		itself, want string
	}{
		{1.31, "", `1\.31x \(1\.31\.\.1\.31\) +>= 1\.30x +ok +\(against itself: -\)`},
		{1.25, "1.01x (0.99..1.02), 3 cells", `1\.25x \(1\.25\.\.1\.25\) +>= 1\.30x +short +\(against itself: 1\.01x \(0\.99\.\.1\.02\), 3 cells\)`},
	} {
		var out bytes.Buffer
		s := &session{out: &out, itself: tt.itself}
		s.summarize([]*cellResult{result(tt.ours)})
		printChecks(s)
		assert.Regexp(t, `grid geometric mean \(1 of 0 cells\) +`+tt.want, out.String())
	}
}
