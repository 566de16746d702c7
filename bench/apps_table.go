package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// ratio compares a lock with std.
func (b *appBenchmark) ratio(lock string) ratio { return ratioOf(b.ns[lock], b.ns[lockStd]) }

// noise is how far from itself std was in the worst round, as a factor of at
// least 1.
func (b *appBenchmark) noise() float64 {
	twin := b.ratio(lockTwin)
	return max(1, twin.max, 1/twin.min)
}

// outcome is -1 where our lock is faster by more than noise and in every round,
// 1 where it is slower, and else 0.
func (b *appBenchmark) outcome() int {
	switch r := b.ratio(lockOurs); {
	case r.median*b.noise() < 1 && r.max < 1:
		return -1
	case r.median > b.noise() && r.min > 1:
		return 1
	default:
		return 0
	}
}

// won is the share of what there is to win.
func (b *appBenchmark) won() string {
	ceiling := b.ratio(lockNone)
	if !ceiling.known() || ceiling.median*b.noise() >= 1 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*(1-b.ratio(lockOurs).median)/(1-ceiling.median))
}

// verdict says whether a target is reached, if there is one.
func (b *appBenchmark) verdict() string {
	limit, ok := b.pkg.targets[b.name]
	switch {
	case !ok:
		return ""
	case b.ratio(lockOurs).median <= limit:
		return fmt.Sprintf("target <= %.2fx: ok", limit)
	default:
		return fmt.Sprintf("target <= %.2fx: short", limit)
	}
}

const appsColumns = "  %12s %12s %8s%1s %12s %12s %8s %6s  %s"

func (p *program) table() {
	fmt.Fprintf(p.out, "%d round(s) of %v\n", p.rounds, p.benchtime)
	width := len("benchmark")
	for _, b := range p.benchmarks {
		width = max(width, len(b.title()))
	}
	format := fmt.Sprintf("%%-%ds", width) + appsColumns
	p.row(format, "benchmark", "std ns/op", "ours ns/op", "ratio", "", "spread", "noise", "ceiling", "won", "")
	var ratios []float64
	for _, b := range p.benchmarks {
		ours := b.ratio(lockOurs)
		ratios = append(ratios, ours.median)
		within := ""
		if b.outcome() == 0 {
			within = "~"
		}
		p.row(format, b.title(), figure("%.1f", median(b.ns[lockStd])), figure("%.1f", median(b.ns[lockOurs])),
			ours, within, ours.spread(), b.ratio(lockTwin).spread(), b.ratio(lockNone), b.won(), b.verdict())
	}
	fmt.Fprintf(p.out, "geometric mean of the ratios: %.2fx\n", geomean(ratios))
	p.notes()
}

// notes say what is not in the table.
func (p *program) notes() {
	without := map[string][]string{}
	for _, b := range p.benchmarks {
		if b.noCeiling != "" {
			without[b.noCeiling] = append(without[b.noCeiling], b.title())
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(without)) {
		fmt.Fprintf(p.out, "no ceiling (%s): %s\n", reason, strings.Join(without[reason], ", "))
	}
	if p.why != "" {
		fmt.Fprintln(p.out, "left out:", p.why)
	}
}

// save records what the program's benchmarks took.
func (p *program) save() {
	for _, b := range p.benchmarks {
		for _, lock := range appLocks {
			if len(b.ns[lock]) == 0 {
				continue
			}
			p.data.add(record{Table: "apps", Cell: path.Join(p.module, b.title()), Lock: lock,
				Metrics: map[string][]float64{metricTime: b.ns[lock]}})
		}
	}
}

const summaryRow = "%-40s %10s %7s %7s %7s %8s"

// summary has a line for each program that ran to its end.
func (a *appsRun) summary() {
	a.title("Programs: benchmarks that are faster and slower with rwsem, or within the noise; geometric mean of the ratios")
	a.row(summaryRow, "program", "benchmarks", "faster", "slower", "~", "mean")
	for _, p := range a.programs {
		if p.failed {
			a.row(summaryRow, p.module, "failed", "", "", "", "")
			continue
		}
		outcomes := map[int]int{}
		var ratios []float64
		for _, b := range p.benchmarks {
			outcomes[b.outcome()]++
			ratios = append(ratios, b.ratio(lockOurs).median)
		}
		a.row(summaryRow, p.module, fmt.Sprint(len(ratios)), fmt.Sprint(outcomes[-1]), fmt.Sprint(outcomes[1]),
			fmt.Sprint(outcomes[0]), ratio{median: geomean(ratios)})
	}
}
