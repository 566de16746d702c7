package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat/combin"
)

const diffHelp = `Diff compares what two runs measured, as written by -json: for every table, cell,
lock and metric that both files have, the medians over the rounds, the change,
and how likely chance alone makes such a difference.

    go run ./bench diff [flags] OLD.jsonl NEW.jsonl

p is that of a Mann-Whitney U test, which assumes nothing about distributions, n
the number of rounds. ~ stands where p is 0.05 or more, and where there are too
few rounds for it to be less: 4 in each file are enough. A file may have several
runs, such as two files put together: their rounds are pooled.

Of many comparisons of equal things, one in twenty has a p below 0.05. q is p
corrected for that: of the rows with a q below 0.05, at most one in twenty should
be chance (Benjamini and Hochberg). Rows that p takes for changed and q does
not have a question mark.

Only rows with a change are printed; -all prints the others too. The geometric
means are over all cells, noise or not. Rounds of one run share what happened to
the machine meanwhile, so a change of everything may still be the machine's.

Exit status: 0 if the files could be compared, whatever changed; 1 if not; 2 for
a mistake in the command line.

Flags:
`

// alpha is the p-value from which on a difference is noise.
const alpha = 0.05

// usualMetrics are compared unless the command line says otherwise.
var usualMetrics = regexp.MustCompile(`/s$|^slowest/mean$|-p99\.9-ns$`)

// diffOptions is the parsed command line.
type diffOptions struct {
	metrics, cells *regexp.Regexp // nil: the usual ones, all
	locks          string
	all            bool
	old, new       string
}

func diffCommand(args []string, stdout, stderr io.Writer) error {
	var o diffOptions
	fs := flag.NewFlagSet("bench diff", flag.ContinueOnError)
	regexpFlag(fs, &o.metrics, "metrics", "compare the metrics whose name matches this `regexp`, unanchored (default "+
		"throughput, fairness and p99.9 of waits; all of a table that has none of them)")
	regexpFlag(fs, &o.cells, "cells", "compare the cells whose name matches this `regexp`, unanchored")
	fs.StringVar(&o.locks, "locks", "", "comma-separated `locks` to compare, as the files call them (default all)")
	fs.BoolVar(&o.all, "all", false, "print the rows that are noise as well")
	files, err := parseArgs(fs, args, diffHelp, stdout)
	switch {
	case err != nil:
		return err
	case len(files) != 2:
		return usagef("two data files are wanted, not %d", len(files))
	}
	o.old, o.new = files[0], files[1]
	return o.run(stdout, stderr)
}

func (o diffOptions) run(stdout, stderr io.Writer) error {
	older, err := readRuns(o.old, stderr)
	if err != nil {
		return err
	}
	newer, err := readRuns(o.new, stderr)
	if err != nil {
		return err
	}
	printRuns(stdout, "old", older)
	printRuns(stdout, "new", newer)
	warnOfMachines(stderr, slices.Concat(older, newer))

	d := diff{diffOptions: o, out: stdout}
	oldTables, newTables := pooled(older), pooled(newer)
	if err := d.pickLocks(oldTables, newTables); err != nil {
		return err
	}
	d.compareTables(oldTables, newTables)
	if d.count() == 0 {
		return usagef("nothing to compare: the files have no table, cell, lock and metric in common that the flags let through")
	}
	d.correct()
	d.print()
	return nil
}

func printRuns(w io.Writer, what string, runs []*dataRun) {
	for _, r := range runs {
		fmt.Fprintf(w, "%s: %s: %s\n", what, r.file, r.describe())
	}
}

func warnOfMachines(w io.Writer, runs []*dataRun) {
	for _, r := range runs[1:] {
		if was, is := runs[0].info.machine(), r.info.machine(); was != is {
			fmt.Fprintf(w, "warning: the machines differ, so the lock is not all that does: %s; %s\n", was, is)
			return
		}
	}
}

// pooled is the tables of all the runs.
func pooled(runs []*dataRun) []*dataTable {
	var records []record
	for _, r := range runs {
		records = append(records, r.records...)
	}
	return tablesOf(records)
}

// difference is a row.
type difference struct {
	cell, lock string
	old, new   float64 // medians
	p, q       float64
	n          string // rounds
	tooFew     bool   // no difference could have been told from noise
}

func compareRounds(cell, lock string, older, newer []float64) difference {
	sample := func(xs []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(xs), &benchmath.DefaultThresholds)
	}
	res := benchmath.AssumeNothing.Compare(sample(older), sample(newer))
	c := difference{
		cell: cell, lock: lock, old: median(older), new: median(newer), p: res.P, q: 1,
		n:      fmt.Sprint(res.N1),
		tooFew: leastP(res.N1, res.N2) >= alpha,
	}
	if res.N1 != res.N2 {
		c.n = fmt.Sprintf("%d+%d", res.N1, res.N2)
	}
	return c
}

// leastP is the p-value of the test when all of one sample is below all of the
// other.
func leastP(n1, n2 int) float64 {
	return 2 / math.Exp(combin.LogGeneralizedBinomial(float64(n1+n2), float64(n1)))
}

func (c difference) noise() bool { return c.p >= alpha }

// change is what became of the old median, with ~ for noise.
func (c difference) change() string {
	switch {
	case c.noise():
		return "~"
	case c.old == 0:
		return "from 0"
	default:
		return fmt.Sprintf("%+.1f%%", 100*(c.new/c.old-1))
	}
}

func (c difference) verdict(more bool) string {
	switch {
	case c.tooFew:
		return "too few rounds to tell"
	case c.noise():
		return ""
	case c.new == c.old:
		return "same median"
	}
	word := "worse"
	if c.new > c.old == more {
		word = "better"
	}
	if c.q >= alpha {
		word += " ?"
	}
	return word
}

// diffTable is a metric of a table.
type diffTable struct {
	table, metric string
	rows          []*difference
}

// diff is a difference under way.
type diff struct {
	diffOptions
	out    io.Writer
	chosen []string // locks
	tables []diffTable
}

func (d *diff) pickLocks(tables ...[]*dataTable) error {
	var known []string
	for _, t := range slices.Concat(tables...) {
		for _, lock := range t.locks {
			known = appendNew(known, lock)
		}
	}
	var err error
	d.chosen, err = pick("lock", d.locks, known, func(name string) string { return name })
	return err
}

func (d *diff) compareTables(older, newer []*dataTable) {
	for _, was := range older {
		if i := slices.IndexFunc(newer, func(t *dataTable) bool { return t.name == was.name }); i >= 0 {
			for _, metric := range d.metricsOf(was) {
				d.compareMetric(was, newer[i], metric)
			}
		}
	}
}

// metricsOf are those of a table that are to be compared.
func (d *diff) metricsOf(t *dataTable) []string {
	unwanted := func(re *regexp.Regexp) func(string) bool {
		return func(metric string) bool { return !re.MatchString(metric) }
	}
	if d.metrics != nil {
		return slices.DeleteFunc(slices.Clone(t.metrics), unwanted(d.metrics))
	}
	if usual := slices.DeleteFunc(slices.Clone(t.metrics), unwanted(usualMetrics)); len(usual) > 0 {
		return usual
	}
	return t.metrics
}

func (d *diff) compareMetric(was, is *dataTable, metric string) {
	t := diffTable{table: was.name, metric: metric}
	for _, cell := range was.cells {
		if d.cells != nil && !d.cells.MatchString(cell) {
			continue
		}
		for _, lock := range d.chosen {
			older, newer := was.rounds(cell, lock, metric), is.rounds(cell, lock, metric)
			if len(older) > 0 && len(newer) > 0 {
				c := compareRounds(cell, lock, older, newer)
				t.rows = append(t.rows, &c)
			}
		}
	}
	if len(t.rows) > 0 {
		d.tables = append(d.tables, t)
	}
}

func (d *diff) rows() []*difference {
	var all []*difference
	for _, t := range d.tables {
		all = append(all, t.rows...)
	}
	return all
}

func (d *diff) count() int { return len(d.rows()) }

// correct gives every row that could differ its q: the least rate of false
// discoveries at which the row would still count among them.
func (d *diff) correct() {
	rows := slices.DeleteFunc(d.rows(), func(c *difference) bool { return c.tooFew })
	slices.SortStableFunc(rows, func(a, b *difference) int { return cmp.Compare(a.p, b.p) })
	q := 1.0
	for i, c := range slices.Backward(rows) {
		q = min(q, c.p*float64(len(rows))/float64(i+1))
		c.q = q
	}
}

func (d *diff) print() {
	for _, t := range d.tables {
		t.print(d.out, d.chosen, d.all)
	}
	d.printCounts()
}

func (t diffTable) print(w io.Writer, locks []string, all bool) {
	more := moreIsBetter(t.metric)
	better := "less is better"
	if more {
		better = "more is better"
	}
	fmt.Fprintf(w, "\n== %s: %s, %s\n", t.table, t.metric, better)
	width := len("cell")
	for _, c := range t.rows {
		width = max(width, len(c.cell))
	}
	row := fmt.Sprintf("%%-%ds  %%-16s %%9s %%9s %%9s %%6s %%6s %%5s  %%s", width)
	shown := slices.DeleteFunc(slices.Clone(t.rows), func(c *difference) bool { return c.noise() && !all })
	if len(shown) > 0 {
		printRow(w, row, "cell", "lock", "old", "new", "change", "p", "q", "n", "")
	}
	for _, c := range shown {
		printRow(w, row, c.cell, c.lock, metricValue(t.metric, c.old), metricValue(t.metric, c.new), c.change(),
			fmt.Sprintf("%.3f", c.p), fmt.Sprintf("%.3f", c.q), c.n, c.verdict(more))
	}
	if hidden := len(t.rows) - len(shown); hidden > 0 {
		fmt.Fprintf(w, "not shown: %d of %d rows, noise or too few rounds to tell\n", hidden, len(t.rows))
	}
	t.printMeans(w, locks)
}

// printMeans prints what the cells amount to for each lock. Medians of 0 have no
// part in it.
func (t diffTable) printMeans(w io.Writer, locks []string) {
	var means []string
	for _, lock := range locks {
		var ratios []float64
		for _, c := range t.rows {
			if c.lock == lock && c.old > 0 && c.new > 0 {
				ratios = append(ratios, c.new/c.old)
			}
		}
		if len(ratios) > 0 {
			means = append(means, fmt.Sprintf("%s %.3fx (%d)", lock, geomean(ratios), len(ratios)))
		}
	}
	if len(means) > 0 {
		fmt.Fprintf(w, "geometric mean of new to old (cells): %s\n", strings.Join(means, ", "))
	}
}

func (d *diff) printCounts() {
	var tooFew, changed, sure int
	for _, c := range d.rows() {
		switch {
		case c.tooFew:
			tooFew++
		case !c.noise():
			changed++
			if c.q < alpha {
				sure++
			}
		}
	}
	fmt.Fprintln(d.out)
	if compared := d.count() - tooFew; compared > 0 {
		fmt.Fprintf(d.out, "%d of %d comparisons have a p below %g; if nothing had changed, about %.0f would. With q for p, %d have.\n",
			changed, compared, alpha, alpha*float64(compared), sure)
	}
	if tooFew > 0 {
		fmt.Fprintf(d.out, "%d of %d comparisons have too few rounds to tell anything from noise: 4 in each file are enough.\n", tooFew, d.count())
	}
}
