package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// losses is where rwsem is behind the locks it is compared with.
type losses struct {
	slow, unfair []lostCell
	waits, apps  []lostRatio
	classes      mdTable // the kinds of waits that are behind somewhere
	compared     int     // kinds of waits, behind or not
}

type lostCell struct {
	table string
	res   *cellResult
}

// lostRatio is a time that is longer with rwsem.
type lostRatio struct {
	table, cell, metric string
	ours, theirs        float64
	ratio               ratio
}

func findLosses(tables []*dataTable) *losses {
	l := &losses{classes: mdTable{head: []string{"table", "time", "cells", "above 1x", "in every round", "worst"}}}
	for _, t := range tables {
		switch {
		case t.kind() == "noise": // each lock beside itself, not beside the others
		case t.has(lockOurs) && t.has(lockStd):
			l.apps = append(l.apps, t.longer(metricTime, lockOurs, lockStd)...)
		case t.has("rwsem") && (t.has("sync") || t.has("mutex")):
			l.addCells(t)
			l.addWaits(t)
		}
	}
	slices.SortStableFunc(l.slow, func(a, b lostCell) int { return cmp.Compare(a.res.vsBest.median, b.res.vsBest.median) })
	slices.SortStableFunc(l.unfair, func(a, b lostCell) int { return cmp.Compare(a.res.slowest("rwsem"), b.res.slowest("rwsem")) })
	for _, list := range [][]lostRatio{l.waits, l.apps} {
		slices.SortStableFunc(list, func(a, b lostRatio) int { return cmp.Compare(b.ratio.median, a.ratio.median) })
	}
	return l
}

func (l *losses) addCells(t *dataTable) {
	for _, res := range t.results("rwsem") {
		if res.vsBest.median < slowCell {
			l.slow = append(l.slow, lostCell{t.name, res})
		}
		if res.starved {
			l.unfair = append(l.unfair, lostCell{t.name, res})
		}
	}
}

func (l *losses) addWaits(t *dataTable) {
	for _, metric := range t.metrics {
		if class, _ := splitWait(metric); class == "" {
			continue
		}
		compared := 0
		for _, cell := range t.cells {
			if t.ratio(cell, metric, "rwsem", "sync").known() {
				compared++
			}
		}
		if compared > 0 {
			l.compared++
		}
		longer := t.longer(metric, "rwsem", "sync")
		if len(longer) == 0 {
			continue
		}
		sure, worst := 0, longer[0].ratio
		for _, w := range longer {
			if w.ratio.min > 1 {
				sure++
			}
			if w.ratio.median > worst.median {
				worst = w.ratio
			}
		}
		l.classes.row(t.name, metric, fmt.Sprint(compared), fmt.Sprint(len(longer)), fmt.Sprint(sure), worst.full())
		l.waits = append(l.waits, longer...)
	}
}

// longer are the cells in which a time is longer with one lock than with
// another.
func (t *dataTable) longer(metric, ours, theirs string) []lostRatio {
	var list []lostRatio
	for _, cell := range t.cells {
		if r := t.ratio(cell, metric, ours, theirs); r.median > 1 {
			list = append(list, lostRatio{t.name, cell, metric,
				median(t.rounds(cell, ours, metric)), median(t.rounds(cell, theirs, metric)), r})
		}
	}
	return list
}

func (l *losses) write(w io.Writer) {
	fmt.Fprintf(w, "### Throughput below %.1fx of the best of sync's locks\n\n", slowCell)
	slow := mdTable{head: []string{"table", "cell", "ratio", "spread"}}
	for _, c := range l.slow {
		slow.row(c.table, c.res.name, c.res.vsBest.String(), c.res.vsBest.spread())
	}
	slow.writeOrNone(w, 2)

	fmt.Fprint(w, "### Unfair: the slowest goroutine got less than half the mean, and less of it than with sync.RWMutex\n\n")
	unfair := mdTable{head: []string{"table", "cell", "slowest/mean", "with sync.RWMutex", "throughput ratio"}}
	for _, c := range l.unfair {
		unfair.row(c.table, c.res.name, figure("%.2f", c.res.slowest("rwsem")), figure("%.2f", c.res.slowest("sync")), c.res.vsBest.String())
	}
	unfair.writeOrNone(w, 2)

	fmt.Fprint(w, "### Times longer than with sync.RWMutex\n\n")
	fmt.Fprintf(w, "%d of %d kinds of times are above 1x in some cell.\n\n", len(l.classes.rows), l.compared)
	l.classes.write(w, 2)
	waits := mdTable{head: []string{"table", "cell", "time", "rwsem", "sync", "ratio", "in every round"}}
	addRatios(&waits, l.waits)
	waits.writeOrNone(w, 3)

	if len(l.apps) > 0 {
		fmt.Fprint(w, "### Programs slower than with sync.RWMutex\n\n")
		apps := mdTable{head: []string{"table", "benchmark", "time", "ours", "std", "ratio", "in every round"}}
		addRatios(&apps, l.apps)
		apps.write(w, 3)
	}
}

func addRatios(m *mdTable, list []lostRatio) {
	for _, r := range list {
		every := ""
		if r.ratio.min > 1 {
			every = "yes"
		}
		m.row(r.table, r.cell, r.metric, metricValue(r.metric, r.ours), metricValue(r.metric, r.theirs), r.ratio.full(), every)
	}
}

func (m *mdTable) writeOrNone(w io.Writer, names int) {
	if len(m.rows) == 0 {
		fmt.Fprint(w, "None.\n\n")
	}
	m.write(w, names)
}
