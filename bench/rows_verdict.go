package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// verdict says how a figure compares with what was published.
type verdict string

const (
	same          verdict = "same"
	opposite      verdict = "opposite"
	neutral       verdict = "neutral"
	level         verdict = "level"
	gains         verdict = "gains"
	loses         verdict = "loses"
	notMeasurable verdict = "not measurable"
	failed        verdict = "failed"
)

// verdicts are in the order of the summary.
var verdicts = []verdict{same, opposite, neutral, level, gains, loses, notMeasurable, failed}

// bandOf is what a lock shows against itself, from the quotients of its twin:
// as far as the farthest of them, on both sides of 1.
func bandOf(twin []float64) ratio {
	widest := 1.0
	for _, q := range twin {
		if math.IsNaN(q) || math.IsInf(q, 0) || q <= 0 {
			return ratio{nan, nan, nan}
		}
		widest = max(widest, q, 1/q)
	}
	if len(twin) == 0 {
		return ratio{nan, nan, nan}
	}
	return ratio{1, 1 / widest, widest}
}

// judge compares the direction of our ratio with the published one.
func judge(published figures, ours, band ratio, lessIsBetter bool) verdict {
	way := 0
	switch {
	case !ours.known() || !band.known():
		return notMeasurable
	case ours.median > band.max:
		way = 1
	case ours.median < band.min:
		way = -1
	}
	switch {
	case way == 0:
		return neutral
	case !published.known():
		if (way > 0) != lessIsBetter {
			return gains
		}
		return loses
	case published.direction() == 0:
		return level
	case published.direction() == way:
		return same
	default:
		return opposite
	}
}

// judged is a point, or the mean of several, with its verdict.
type judged struct {
	published  figures
	ours, band ratio
	is         verdict
}

// comparing is a comparison of an experiment that was run.
type comparing struct {
	*comparison
	e   *experiment
	res *results
}

// quotients are after to before, and of the twin, for a point by rounds.
func (c comparing) quotients(p rowPoint) (ours, twin []float64) {
	ours = quotients(c.res.values(c.e, c.after, p), c.res.values(c.e, c.before, p))
	twin = quotients(c.res.values(c.e, len(c.e.sides), p), c.res.values(c.e, 0, p))
	return ours, twin
}

func (c comparing) failed() bool {
	return c.res != nil && slices.ContainsFunc([]int{c.before, c.after, len(c.e.sides), 0}, func(i int) bool { return c.res.variants[i].failed })
}

func (c comparing) judge(published figures, ours, twin []float64, lessIsBetter bool) judged {
	j := judged{published: published, ours: overRounds(ours), band: bandOf(twin)}
	j.is = judge(published, j.ours, j.band, lessIsBetter)
	if c.failed() {
		j.is = failed
	}
	return j
}

func (c comparing) point(p rowPoint) judged {
	ours, twin := c.quotients(p)
	return c.judge(p.published, ours, twin, !moreIsBetter(p.measure.metric))
}

// mean is over the points of a curve, of the published ratios and, round by
// round, of ours.
func (c comparing) mean() judged {
	var published []float64
	var ours, twins [][]float64
	for _, p := range c.points {
		published = append(published, p.published.ratio())
		own, twin := c.quotients(p)
		ours, twins = append(ours, own), append(twins, twin)
	}
	mean := figures{before: 1, after: geomean(published), level: c.points[0].published.level}
	return c.judge(mean, roundMeans(ours), roundMeans(twins), false)
}

// summaryLine is a line of the last table.
type summaryLine struct {
	row, name string
	judged
	notes string // how many points got which verdict, or why there are none
}

const rowsRow = "%-17s %-16s %9s -> %-9s %9s   %9s -> %-9s %9s %18s %14s  %s"

// table prints an experiment and takes its lines into the summary. One that was
// not run has no results, and its figures are not known.
func (r *rows) table(e *experiment, res *results) {
	r.title(fmt.Sprintf("%s: %s", e.row, e.name))
	if e.note != "" {
		fmt.Fprintln(r.out, e.note)
	}
	if e.unless != "" {
		fmt.Fprintf(r.out, "%s: %s\n", notMeasurable, e.unless)
	}
	for i := range e.comparisons {
		c := comparing{&e.comparisons[i], e, res}
		if len(c.points) == 0 {
			continue
		}
		sides := e.sides[c.before].name + " -> " + e.sides[c.after].name
		fmt.Fprintf(r.out, "%s:\n", sides)
		name := e.name
		if len(e.comparisons) > 1 {
			name += ": " + sides
		}
		r.comparison(c, name)
	}
}

func (r *rows) comparison(c comparing, name string) {
	r.row(rowsRow, "", "", "published", "", "ratio", "ours", "", "ratio", "spread", "band", "verdict")
	counts := map[verdict]int{}
	for _, p := range c.points {
		j := c.point(p)
		counts[j.is]++
		before, after, published := p.published.cells()
		mid := func(side int) string { return plain(p.measure.scale * median(c.res.values(c.e, side, p))) }
		r.row(rowsRow, p.label, p.measure.unit, before, after, published,
			mid(c.before), mid(c.after), j.ours, j.ours.spread(), j.band.spread(), j.is)
		full := fmt.Sprintf("%s: %s, %s", name, p.label, p.measure.unit)
		if j.is == opposite {
			r.opposite = append(r.opposite, fmt.Sprintf("%-4s %s: published %s, ours %v (%s)", c.e.row, full, published, j.ours, j.ours.spread()))
		}
		if !c.curve {
			r.lines = append(r.lines, summaryLine{c.e.row, full, j, c.e.unless})
		}
	}
	if c.curve {
		r.lines = append(r.lines, summaryLine{c.e.row, name, c.mean(), cmp.Or(c.e.unless, countsOf(counts))})
	}
}

func countsOf(counts map[verdict]int) string {
	var all []string
	for _, v := range verdicts {
		if counts[v] > 0 {
			all = append(all, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	return strings.Join(all, ", ")
}

func (r *rows) summary() {
	width := 0
	for _, l := range r.lines {
		width = max(width, len(l.name))
	}
	row := fmt.Sprintf("%%-4s %%-%ds %%9s %%9s %%18s %%14s  %%-14s %%s", width)
	r.title("Summary")
	r.row(row, "row", "experiment", "published", "ours", "spread", "band", "verdict", "points")
	for _, l := range r.lines {
		_, _, published := l.published.cells()
		r.row(row, l.row, l.name, published, l.ours, l.ours.spread(), l.band.spread(), l.is, l.notes)
	}
	if len(r.opposite) == 0 {
		return
	}
	r.title("Opposite to what was published: findings to explain")
	for _, line := range r.opposite {
		fmt.Fprintln(r.out, line)
	}
}
