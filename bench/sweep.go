package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// point is a point of a sweep.
type point struct {
	procs      int // 0: the GOMAXPROCS there is
	goroutines int
	reads      float64 // percent
	section    string  // name of one of sweepSizes
}

func (p point) name() string {
	return fmt.Sprintf("p%d/g%d/r%v/%s", p.procs, p.goroutines, p.reads, p.section)
}

// sweepSizes are the sections of the sweeps. The first is a call without any
// work in it.
var sweepSizes = []sectionSize{
	{name: "0"},
	{name: "6ns", want: 6 * time.Nanosecond},
	{name: "20ns", want: 20 * time.Nanosecond},
	{name: "60ns", want: 60 * time.Nanosecond},
	{name: "180ns", want: 180 * time.Nanosecond},
	{name: "600ns", want: 600 * time.Nanosecond},
	{name: "2us", want: 2 * time.Microsecond},
	{name: "6us", want: 6 * time.Microsecond},
	{name: "20us", want: 20 * time.Microsecond},
	{name: "100us", want: 100 * time.Microsecond},
}

// sweepKind is a parameter that is varied while the others stay.
type sweepKind struct {
	name, about string
	axis        string
	logAxis     bool
	settings    []point // of the other parameters
	fixed       func(point) string
	vary        func(point) []point
	quickStep   int // every how manieth point -quick takes
	x           func(point, sectionSize) float64
	label       func(point) string // x as it is called in a table
}

// sweepKinds have, each, a setting of reading with sections that are worth
// their lock, which is the one -quick takes, and one that is harder on it.
var sweepKinds = []sweepKind{
	{
		name: "goroutines", about: "1, 2, 4, ... 4096 goroutines",
		axis: "goroutines", logAxis: true,
		settings: []point{{reads: 90, section: "180ns"}, {reads: 0, section: "6ns"}},
		fixed:    func(p point) string { return fmt.Sprintf("r%v %s", p.reads, p.section) },
		vary: func(p point) []point {
			return varied(p, powersOfTwo(4096), func(p *point, n int) { p.goroutines = n })
		},
		quickStep: 3,
		x:         func(p point, _ sectionSize) float64 { return float64(p.goroutines) },
		label:     func(p point) string { return fmt.Sprint(p.goroutines) },
	},
	{
		name: "processors", about: "GOMAXPROCS 1 and 1, 2, 3 and 4 times the CPUs",
		axis:     "GOMAXPROCS, multiples of the CPUs",
		settings: []point{{goroutines: sweepCrowd, reads: 90, section: "180ns"}, {goroutines: sweepCrowd, reads: 0, section: "6ns"}},
		fixed:    func(p point) string { return fmt.Sprintf("g%d r%v %s", p.goroutines, p.reads, p.section) },
		vary: func(p point) []point {
			return varied(p, procsAround(runtime.NumCPU()), func(p *point, n int) { p.procs = n })
		},
		quickStep: 2,
		x:         func(p point, _ sectionSize) float64 { return multipleOfCPUs(p) },
		label:     func(p point) string { return fmt.Sprintf("%d (%.3gx)", p.procs, multipleOfCPUs(p)) },
	},
	{
		name: "section", about: "0 to 100 us of work inside the lock",
		axis: "call and work inside the lock, ns", logAxis: true,
		settings: []point{{goroutines: 8, reads: 90}, {goroutines: 8, reads: 0}},
		fixed:    func(p point) string { return fmt.Sprintf("g%d r%v", p.goroutines, p.reads) },
		vary: func(p point) []point {
			return varied(p, sweepSizes, func(p *point, s sectionSize) { p.section = s.name })
		},
		quickStep: 3,
		// Even an empty section is a call and takes its time, so that it has a
		// place on a logarithmic axis.
		x:     func(_ point, s sectionSize) float64 { return s.measured },
		label: func(p point) string { return p.section },
	},
	{
		name: "reads", about: "0, 10, 50, 90, 99, 99.9 and 100 % reads",
		axis:     "reads, %",
		settings: []point{{goroutines: 8, section: "180ns"}, {goroutines: 8, section: "6ns"}},
		fixed:    func(p point) string { return fmt.Sprintf("g%d %s", p.goroutines, p.section) },
		vary: func(p point) []point {
			return varied(p, []float64{0, 10, 50, 90, 99, 99.9, 100}, func(p *point, pct float64) { p.reads = pct })
		},
		quickStep: 2,
		x:         func(p point, _ sectionSize) float64 { return p.reads },
		label:     func(p point) string { return fmt.Sprintf("%v%%", p.reads) },
	},
}

// sweepCrowd is enough goroutines for the greatest GOMAXPROCS of a sweep.
var sweepCrowd = 4 * runtime.NumCPU()

func powersOfTwo(most int) []int {
	var ns []int
	for n := 1; n <= most; n *= 2 {
		ns = append(ns, n)
	}
	return ns
}

// procsAround is one processor and multiples of the CPUs.
func procsAround(cpus int) []int {
	return slices.Compact([]int{1, cpus, 2 * cpus, 3 * cpus, 4 * cpus})
}

func multipleOfCPUs(p point) float64 { return float64(p.procs) / float64(runtime.NumCPU()) }

// varied is a point for each value, the others as in base.
func varied[T any](base point, values []T, set func(*point, T)) []point {
	var points []point
	for _, v := range values {
		p := base
		set(&p, v)
		points = append(points, p)
	}
	return points
}

// sweepTable is a sweep at one setting of the other parameters.
type sweepTable struct {
	kind   sweepKind
	name   string // in the data file
	points []point
}

// tables are those of a kind at the given GOMAXPROCS.
func (k sweepKind) tables(procs int, quick bool) []sweepTable {
	settings, step := k.settings, 1
	if quick {
		settings, step = settings[:1], k.quickStep
	}
	var tables []sweepTable
	for _, base := range settings {
		base.procs = procs
		t := sweepTable{kind: k, name: k.tableName() + " " + k.fixed(base)}
		all := k.vary(base)
		for i := 0; i < len(all); i += step {
			t.points = append(t.points, all[i])
		}
		tables = append(tables, t)
	}
	return tables
}

func (k sweepKind) tableName() string { return "sweep/" + k.name }

// sweepAxis tells how to draw the X of a sweep's table: what to write at the
// axis, with the unit, and whether it is logarithmic.
func sweepAxis(table string) (label string, log bool) {
	sweep, _, _ := strings.Cut(table, " ")
	for _, k := range sweepKinds {
		if k.tableName() == sweep {
			return k.axis, k.logAxis
		}
	}
	return "", false
}
