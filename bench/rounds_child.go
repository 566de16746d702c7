package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// roundsChild is the command by which another build of this program, or a copy
// with a setting in its environment, is asked for one round of some cells.
const roundsChild = "rounds-child"

// outcome is what one lock did in one round of a cell: a line of a child's
// output.
type outcome struct {
	Cell, Lock    string
	Tally         tally
	Reads, Writes *roundWaits `json:",omitempty"` // of timed rounds
}

func readOutcomes(r io.Reader) ([]outcome, error) {
	var all []outcome
	for d := json.NewDecoder(r); ; {
		var o outcome
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, o)
	}
}

func formatSteps(sizes []sectionSize) string {
	var steps []string
	for _, s := range sizes {
		steps = append(steps, strconv.Itoa(s.steps))
	}
	return strings.Join(steps, ",")
}

// parseSteps gives the section sizes their steps, as measured by the parent.
func parseSteps(list string) ([]sectionSize, error) {
	sizes := slices.Clone(sectionSizes)
	steps := strings.Split(list, ",")
	if len(steps) != len(sizes) {
		return nil, fmt.Errorf("%d numbers are wanted", len(sizes))
	}
	for i, n := range steps {
		var err error
		if sizes[i].steps, err = strconv.Atoi(n); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// parseCells reads names of cells with commas between them.
func parseCells(list string) ([]cell, error) {
	var cells []cell
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		c, err := parseCell(name)
		if err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

func formatCells(cells []cell) string {
	var names []string
	for _, c := range cells {
		names = append(names, c.name())
	}
	return strings.Join(names, ",")
}

func roundsChildCommand(args []string, stdout, _ io.Writer) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	s := &session{options: options{turn: shortTurn}, sizes: sectionSizes}
	fs := flag.NewFlagSet(roundsChild, flag.ContinueOnError)
	locksFlag(fs, &s.locks)
	fs.DurationVar(&s.dur, "dur", policyExtents.full.dur, "least `duration` of a round")
	timed := fs.Bool("timed", false, "time every wait, in cells of the grid")
	var cells []cell
	fs.Func("cells", "`names` of the cells, separated by commas", func(value string) (err error) {
		cells, err = parseCells(value)
		return err
	})
	fs.Func("steps", "`steps` of each size of section, separated by commas", func(value string) (err error) {
		s.sizes, err = parseSteps(value)
		return err
	})
	if err := parse(fs, args, "Internal: runs cells once.\n", stdout); err != nil {
		return err
	}
	lines := json.NewEncoder(stdout)
	for _, c := range cells {
		ld := s.load(c)
		var timings []timing
		if *timed {
			timings = newTimings(c.goroutines)
		}
		for _, kind := range s.locks {
			o := outcome{Cell: c.name(), Lock: kind.key}
			if *timed {
				o.Tally, o.Reads, o.Writes = ld.runTimed(kind, timings)
			} else {
				o.Tally = ld.run(kind, nil)
			}
			if err := lines.Encode(o); err != nil {
				return err
			}
		}
	}
	return nil
}
