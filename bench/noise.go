package main

import (
	"fmt"
	"regexp"
	"time"
)

var (
	usualNoise = regexp.MustCompile(`/g8/r(100|90|0)/(6ns|3us)$|/g64/r90/6ns$`)
	quickNoise = regexp.MustCompile(`/g8/r90/6ns$`)
)

func (s *session) noiseCells() []cell {
	usual := usualNoise
	if s.quick {
		usual = quickNoise
	}
	return s.chooseDefaultProcs(usual)
}

const noiseRow = "%-15s  %-14s %7s %12s"

func planNoise(s *session) time.Duration { return s.planCells(s.noiseCells(), 2*len(s.locks)) }

// runNoise compares each lock with itself just as the grid compares locks;
// the spread is what a difference has to exceed to mean something.
func runNoise(s *session) error {
	cells := s.noiseCells()
	s.title("Noise: throughput of each lock against itself")
	s.row(noiseRow, "cell", "lock", "ratio", "spread")
	var itself [][]float64 // rwsem's quotients, by cell and round
	for i, c := range cells {
		finished := s.prog.step("noise "+c.name(), i, len(cells), s.planCell(c, 2*len(s.locks)))
		ld := s.load(c)
		for _, kind := range s.locks {
			twins := []lockKind{kind, kind}
			var mops [2][]float64
			roundsOf(twins, s.rounds, func(_, i int) {
				mops[i] = append(mops[i], ld.run(kind, nil).mops())
			})
			for i, twin := range []string{"", againSuffix} {
				s.data.add(record{Table: "noise", Cell: c.name(), Lock: kind.key + twin,
					Metrics: map[string][]float64{metricThroughput: mops[i]}})
			}
			qs := quotients(mops[0], mops[1])
			if kind.key == "rwsem" {
				itself = append(itself, qs)
			}
			r := overRounds(qs)
			s.row(noiseRow, c.name(), kind.name, r, r.spread())
		}
		finished()
	}
	if len(itself) > 0 {
		s.itself = fmt.Sprintf("%s, %d cells", meanOf(itself).full(), len(itself))
	}
	return nil
}
