package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// mdTable is a table of a Markdown document.
type mdTable struct {
	head []string
	rows [][]string
}

func (m *mdTable) row(cells ...string) { m.rows = append(m.rows, cells) }

// long is the number of rows from which on a table is folded up.
const long = 30

var mdEscape = strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")

// write prints the table, with its first columns, of names, to the left.
func (m *mdTable) write(w io.Writer, names int) {
	if len(m.rows) == 0 {
		return
	}
	if len(m.rows) > long {
		fmt.Fprintf(w, "<details><summary>%d rows</summary>\n\n", len(m.rows))
		defer fmt.Fprint(w, "</details>\n\n")
	}
	line := func(cells []string) {
		escaped := make([]string, len(m.head))
		for i, c := range cells {
			escaped[i] = mdEscape.Replace(c)
		}
		fmt.Fprintln(w, "| "+strings.Join(escaped, " | ")+" |")
	}
	line(m.head)
	rule := slices.Repeat([]string{"---:"}, len(m.head))
	for i := range min(names, len(rule)) {
		rule[i] = "---"
	}
	fmt.Fprintln(w, "|"+strings.Join(rule, "|")+"|")
	for _, r := range m.rows {
		line(r)
	}
	fmt.Fprintln(w)
}

// base is the lock that the others of a table are compared with, "" for none.
func (t *dataTable) base() string {
	for _, lock := range []string{"sync", lockStd, rwsemDefault} {
		if t.has(lock) {
			return lock
		}
	}
	return ""
}

// write prints a table of the data in the form that its name asks for.
func (t *dataTable) write(w io.Writer) {
	switch kind := t.kind(); {
	case kind == "grid":
		t.writeGrid(w)
	case kind == "noise":
		t.writeNoise(w)
	case t.name == "policies", t.name == "builds":
		t.writeStandings(w)
	case kind == "apps":
		t.writeApps(w)
	case kind == "rows":
		t.writeSwitched(w)
	case kind == "owner", kind == "builds":
		t.writeAmounts(w, rwsemDefault)
	default:
		t.writeAmounts(w, t.base())
		t.writeWaits(w)
	}
}

func (t *dataTable) writeGrid(w io.Writer) {
	results := t.results("rwsem")
	if st := standingOf(results); len(st.ratios) > 0 {
		fmt.Fprintf(w, "Geometric mean of %d cells, with its 95 %% interval: **%s**; the target is %.2fx. Cells below %.1fx: %d. Cells not won for unfairness: %d.\n\n",
			len(st.ratios), meanOf(st.rounds).full(), gridTarget, slowCell, len(st.slow), len(st.unfair))
	}
	t.writeGroups(w, results)
	m := mdTable{head: slices.Concat([]string{"cell"}, t.locks, []string{"vs best", "spread"})}
	for _, lock := range t.locks {
		m.head = append(m.head, lock+" slow/mean")
	}
	m.head = append(m.head, "")
	for _, res := range results {
		row := []string{res.name}
		for _, lock := range t.locks {
			row = append(row, threeDigits(median(t.rounds(res.name, lock, metricThroughput))))
		}
		row = append(row, res.vsBest.String(), res.vsBest.spread())
		for _, lock := range t.locks {
			row = append(row, figure("%.2f", median(t.rounds(res.name, lock, metricFairness))))
		}
		m.row(append(row, res.notes())...)
	}
	m.write(w, 1)
}

// writeGroups prints the means of cells of one GOMAXPROCS and section, beside
// what a lock without any cost could reach there.
func (t *dataTable) writeGroups(w io.Writer, results []*cellResult) {
	type group struct{ rounds, bounds [][]float64 }
	var names []string
	groups := map[string]*group{}
	for _, res := range results {
		c, err := parseCell(res.name)
		if err != nil || !res.vsBest.known() {
			continue
		}
		name := fmt.Sprintf("GOMAXPROCS %d, sections of %s", c.procs, c.section())
		g := groups[name]
		if g == nil {
			g = &group{}
			groups[name], names = g, append(names, name)
		}
		g.rounds = append(g.rounds, res.quotients())
		if bound := c.bound(t.cpus()); bound > 0 {
			g.bounds = append(g.bounds, []float64{bound / max(median(res.mops("sync")), median(res.mops("mutex")))})
		}
	}
	m := mdTable{head: []string{"cells", "", "vs best", "95 % interval", "a lock without cost"}}
	for _, name := range names {
		g, bound := groups[name], ""
		if len(g.bounds) > 0 {
			bound = figure("%.2fx", geomeanOfMedians(g.bounds))
		}
		mean := meanOf(g.rounds)
		m.row(name, fmt.Sprint(len(g.rounds)), mean.String(), mean.spread(), bound)
	}
	m.write(w, 1)
}

func (t *dataTable) writeNoise(w io.Writer) {
	m := mdTable{head: []string{"cell", "lock", "ratio", "spread"}}
	means := mdTable{head: []string{"lock", "cells", "geometric mean", "95 % interval"}}
	for _, lock := range t.locks {
		if !t.has(lock + againSuffix) {
			continue
		}
		var rounds [][]float64
		for _, cell := range t.cells {
			qs := quotients(t.rounds(cell, lock, metricThroughput), t.rounds(cell, lock+againSuffix, metricThroughput))
			if r := overRounds(qs); r.known() {
				rounds = append(rounds, qs)
				m.row(cell, lock, r.String(), r.spread())
			}
		}
		mean := meanOf(rounds)
		means.row(lock, fmt.Sprint(len(rounds)), mean.String(), mean.spread())
	}
	means.write(w, 1)
	m.write(w, 2)
}

// writeStandings prints what the cells amount to for each variant of rwsem.
func (t *dataTable) writeStandings(w io.Writer) {
	tr, cells, err := t.trial()
	if err != nil || len(tr.variants) == 0 {
		t.writeAmounts(w, t.base())
		return
	}
	m := mdTable{head: []string{"rwsem"}}
	for _, h := range standingHead() {
		m.head = append(m.head, fmt.Sprint(h))
	}
	for _, v := range tr.variants {
		row := []string{v.name}
		if len(v.vsBest) == 0 {
			m.row(v.name, "incomplete")
			continue
		}
		for _, c := range tr.standingCells(cells, v) {
			row = append(row, fmt.Sprint(c))
		}
		m.row(row...)
	}
	fmt.Fprintf(w, "%d cells.\n\n", len(cells))
	m.write(w, 1)
}

// trial is the run of a command that compares variants, as far as the data tell.
func (t *dataTable) trial() (*trial, []cell, error) {
	var cells []cell
	for _, name := range t.cells {
		c, err := parseCell(name)
		if err != nil {
			return nil, nil, err
		}
		cells = append(cells, c)
	}
	tr := &trial{}
	for _, lock := range t.locks {
		if name, ok := strings.CutPrefix(lock, "rwsem "); ok {
			tr.variants = append(tr.variants, &variant{name: name})
		}
	}
	tr.clear()
	for _, name := range t.cells {
		for _, key := range peerLocks {
			tr.peers[key][name] = t.series(name, key)
		}
		for _, v := range tr.variants {
			v.throughput[name] = t.series(name, "rwsem "+v.name)
		}
	}
	for _, v := range tr.variants {
		v.vsBest = t.meanByRound("rwsem " + v.name)
	}
	return tr, cells, nil
}

// meanByRound is the geometric mean over the cells of a lock's throughput to
// that of the best of sync's locks, round by round.
func (t *dataTable) meanByRound(lock string) []float64 {
	var all [][]float64
	for _, res := range t.results(lock) {
		if qs := res.quotients(); len(qs) > 0 {
			all = append(all, qs)
		}
	}
	return roundMeans(all)
}

func (t *dataTable) writeApps(w io.Writer) {
	const metric = metricTime
	if !slices.Contains(t.metrics, metric) {
		t.writeAmounts(w, t.base())
		return
	}
	m := mdTable{head: []string{"benchmark"}}
	for _, lock := range t.locks {
		m.head = append(m.head, lock+" "+metric)
	}
	others := slices.DeleteFunc(slices.Clone(t.locks), func(lock string) bool { return lock == lockStd })
	for _, lock := range others {
		m.head = append(m.head, lock+" to "+lockStd)
	}
	ratios := map[string][]float64{}
	for _, cell := range t.cells {
		row := []string{cell}
		for _, lock := range t.locks {
			row = append(row, threeDigits(median(t.rounds(cell, lock, metric))))
		}
		for _, lock := range others {
			r := t.ratio(cell, metric, lock, lockStd)
			if r.known() {
				ratios[lock] = append(ratios[lock], r.median)
			}
			row = append(row, r.full())
		}
		m.row(row...)
	}
	m.write(w, 1)
	for _, lock := range others {
		fmt.Fprintf(w, "Geometric mean of %s to std, %d benchmarks: %s\n\n", lock, len(ratios[lock]), figure("%.2fx", geomean(ratios[lock])))
	}
}

// writeSwitched prints what a mechanism changes beside how much the same thing
// differs from itself: the side that was run twice is compared with every other.
func (t *dataTable) writeSwitched(w io.Writer) {
	i := slices.IndexFunc(t.locks, func(lock string) bool { return t.has(lock + againSuffix) })
	if i < 0 {
		t.writeAmounts(w, t.base())
		t.writeWaits(w)
		return
	}
	base := t.locks[i]
	m := mdTable{head: []string{"experiment", "metric", "better", "side", "its value", base, base + " to side", base + " to itself"}}
	for _, cell := range t.cells {
		for _, metric := range t.metrics {
			better := "less"
			if moreIsBetter(metric) {
				better = "more"
			}
			for _, side := range t.locks {
				was, is := t.rounds(cell, side, metric), t.rounds(cell, base, metric)
				if side == base || side == base+againSuffix || len(was) == 0 || len(is) == 0 {
					continue
				}
				m.row(cell, metric, better, side, metricValue(metric, median(was)), metricValue(metric, median(is)),
					t.ratio(cell, metric, base, side).full(), t.ratio(cell, metric, base+againSuffix, base).full())
			}
		}
	}
	m.write(w, 4)
}

// writeAmounts prints everything but waits, with ratios to a lock if base names
// one.
func (t *dataTable) writeAmounts(w io.Writer, base string) {
	amounts := slices.DeleteFunc(slices.Clone(t.metrics), func(metric string) bool {
		class, _ := splitWait(metric)
		return class != ""
	})
	if len(amounts) == 0 {
		return
	}
	m := mdTable{head: []string{"cell", "lock"}}
	for _, metric := range amounts {
		m.head = append(m.head, metric)
		if base != "" {
			m.head = append(m.head, "to "+base)
		}
	}
	t.eachPresent(func(cell, lock string) {
		row := []string{cell, lock}
		known := false
		for _, metric := range amounts {
			mid := median(t.rounds(cell, lock, metric))
			known = known || mid == mid
			row = append(row, metricValue(metric, mid))
			if base != "" {
				row = append(row, t.ratioTo(cell, metric, lock, base))
			}
		}
		if known {
			m.row(row...)
		}
	})
	m.write(w, 2)
}

// eachPresent calls one for every cell and lock that has values.
func (t *dataTable) eachPresent(one func(cell, lock string)) {
	for _, cell := range t.cells {
		for _, lock := range t.locks {
			if t.values[cellLock{cell, lock}] != nil {
				one(cell, lock)
			}
		}
	}
}

// ratioTo is a ratio as a table shows it, nothing for the base itself.
func (t *dataTable) ratioTo(cell, metric, lock, base string) string {
	if lock == base {
		return ""
	}
	return t.ratio(cell, metric, lock, base).full()
}

// tailStats are those whose ratios are shown.
var tailStats = []string{metricP99, metricP999, metricWorst}

// writeWaits prints the figures of waits, a row for each class.
func (t *dataTable) writeWaits(w io.Writer) {
	classes, stats := t.waitColumns()
	base := t.base()
	m := mdTable{head: slices.Concat([]string{"cell", "class", "lock"}, stats)}
	var tails []string
	for _, stat := range stats {
		if base != "" && slices.Contains(tailStats, stat) {
			tails = append(tails, stat)
			m.head = append(m.head, strings.TrimSuffix(stat, "-ns")+" to "+base)
		}
	}
	for i := range stats {
		m.head[3+i] = strings.TrimSuffix(stats[i], "-ns")
	}
	for _, cell := range t.cells {
		for _, class := range classes {
			for _, lock := range t.locks {
				row := []string{cell, class, lock}
				known := false
				for _, stat := range stats {
					mid := median(t.rounds(cell, lock, class+"-"+stat))
					known = known || mid == mid
					row = append(row, waitText(mid))
				}
				for _, stat := range tails {
					row = append(row, t.ratioTo(cell, class+"-"+stat, lock, base))
				}
				if known {
					m.row(row...)
				}
			}
		}
	}
	m.write(w, 3)
}

// waitColumns are the classes that a table has waits of, and their figures.
func (t *dataTable) waitColumns() (classes, stats []string) {
	for _, metric := range t.metrics {
		if class, _ := splitWait(metric); class != "" {
			classes = appendNew(classes, class)
		}
	}
	for _, stat := range waitStats {
		if slices.ContainsFunc(classes, func(class string) bool { return slices.Contains(t.metrics, class+"-"+stat) }) {
			stats = append(stats, stat)
		}
	}
	return classes, stats
}
