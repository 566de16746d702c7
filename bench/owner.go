package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const ownerHelp = `Owner measures what it costs to spin on an owner that does not run, and what
the check against that brings: rwsem.RWMutex as it is, which spins only on an
owner whose goroutine runs, beside the same with the check off
(RWSEMDEBUG=ownercheck=0), with GOMAXPROCS at and above the number of CPUs.

    go run ./bench owner [flags]

What the check sees is the goroutine's status: one that sleeps or waits inside
its section, that yielded, or that the Go scheduler took off its processor, is
not spun on. What it cannot see is an operating system thread that lost its CPU:
its goroutine still counts as running, and only the time limits of spinning end
that. With GOMAXPROCS above the number of CPUs both happen. Builds without
assembly do not know the owner, so there the two settings are the same.

Every round runs sync.RWMutex once and then both settings, in turn, each in a
process of its own. Cells are named by GOMAXPROCS, goroutines (twice as many),
percentage of reads, section, and burners: p8/g16/r0/sleep/b8. Sections are

    180ns, 3us  work
    yield       runtime.Gosched
    sleep       time.Sleep of 50 us, which the runtime's timers often make longer

and burners, as many as GOMAXPROCS or none, are goroutines that only work.

    kops/s      operations on the lock, in thousands per second
    CPU s/M     CPU time of the process, user and system, for a million operations
    CPUs        CPUs in use, on average
    beside      CPUs' worth of work that the burners got done

With burners all CPUs are in use whatever the lock does, so what spinning burns
then shows in what they get done and in the throughput. A ratio is to the default
setting in the same round: the median over the rounds, and the least and the
greatest as its spread. What follows the cells is the geometric mean over those
of a section of the ratio of ownercheck=0 to the default.

A setting that fails or hangs is reported and left out of what follows. Exit
status: 0 if everything ran; 1 if something failed; 2 for a mistake in the
command line.

Flags:
`

var ownerExtents = extents{
	full:  extent{5, 200 * time.Millisecond, shortTurn, "4 minutes"},
	quick: extent{3, 80 * time.Millisecond, shortTurn, "half a minute"},
}

// ownerSections are those in which the owner runs and those in which it does not.
var ownerSections = []string{"180ns", "3us", "yield", "sleep"}

// quickOwner keeps one section of either kind.
var quickOwner = regexp.MustCompile(`/r0/(3us|sleep)`)

// parseProcs reads numbers with commas between them; one that ends in x is
// multiplied by the number of CPUs.
func parseProcs(list string) ([]int, error) {
	var procs []int
	for word := range strings.SplitSeq(list, ",") {
		digits, times := strings.CutSuffix(word, "x")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is neither a positive number nor one with x", word)
		}
		if times {
			n = min(n, mostGoroutines) * runtime.NumCPU()
		}
		if n >= mostGoroutines {
			return nil, fmt.Errorf("%q is more than %d", word, mostGoroutines)
		}
		if !slices.Contains(procs, n) {
			procs = append(procs, n)
		}
	}
	return procs, nil
}

// ownerCells are in groups that have GOMAXPROCS and burners in common.
func ownerCells(procs []int) []cell {
	var cells []cell
	for _, p := range procs {
		for _, burners := range []int{0, p} {
			for _, readPct := range []int{0, 50} {
				for _, section := range ownerSections {
					c := cell{procs: p, goroutines: 2 * p, readPct: readPct, burners: burners}
					c.setSection(section)
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// owner is a run of the command.
type owner struct {
	trial
	groups [][]cell // what a process runs
}

func ownerCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	var procs []int
	fs := flag.NewFlagSet("bench owner", flag.ContinueOnError)
	fs.Func("procs", "comma-separated `values` of GOMAXPROCS, with x for multiples of the number of CPUs (default 1x,4x,8x)", func(value string) (err error) {
		procs, err = parseProcs(value)
		return err
	})
	if err := o.parseRounds(fs, ownerExtents, args, ownerHelp, stdout); err != nil {
		return err
	}
	if procs == nil {
		procs, _ = parseProcs("1x,4x,8x")
	}
	s, err := newSession(o, ownerCells(procs), stdout)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	w := &owner{trial: trial{session: s, stderr: stderr}}
	for _, value := range []string{"", "ownercheck=0"} {
		w.variants = append(w.variants, &newSetting(value, exe).variant)
	}
	w.chooseCells()
	switch complaint, err := w.complaint(); {
	case err != nil:
		return err
	case complaint != "":
		return errors.New(complaint)
	}
	return w.measure()
}

func (w *owner) chooseCells() {
	var usual *regexp.Regexp
	if w.quick {
		usual = quickOwner
	}
	for _, c := range w.choose(usual) {
		last := len(w.groups) - 1
		if last >= 0 && w.groups[last][0].procs == c.procs && w.groups[last][0].burners == c.burners {
			w.groups[last] = append(w.groups[last], c)
			continue
		}
		w.groups = append(w.groups, []cell{c})
	}
}

func (w *owner) measure() error {
	w.begin()
	cells := slices.Concat(w.groups...)
	w.start(w.planVariants(cells, 1), len(w.groups)*w.rounds*(1+len(w.variants)))
	for _, group := range w.groups {
		what := fmt.Sprintf("GOMAXPROCS %d, %d burners: round", group[0].procs, group[0].burners)
		peers := child{locks: peerLocks[:1], cells: group}
		if err := w.overVariants(what, peers, nil); err != nil {
			return err
		}
	}
	w.saveThroughput("owner")
	w.table(cells)
	w.summary(cells)
	return w.end()
}

const ownerRow = "%-21s  %-13s %9s %8s %12s   %9s %8s %12s   %6s   %7s %8s %12s"

func (w *owner) table(cells []cell) {
	w.title("Owner: rwsem.RWMutex spinning on owners that run only, and on any (ownercheck=0)")
	fmt.Fprintf(w.out, "%d rounds of %d cells\n", w.rounds, len(cells))
	w.row(ownerRow, "cell", "lock", "kops/s", "ratio", "spread", "CPU s/M", "ratio", "spread", "CPUs", "beside", "ratio", "spread")
	for _, c := range cells {
		name := c.name()
		base := w.variants[0].throughput[name]
		w.ownerRow(name, "sync.RWMutex", w.peers["sync"][name], base)
		for _, v := range w.variants {
			if v.failed {
				w.row(ownerRow, name, v.name, "failed", "", "", "", "", "", "", "", "", "")
				continue
			}
			w.ownerRow(name, v.name, v.throughput[name], base)
		}
	}
}

func (w *owner) ownerRow(cell, lock string, d, base *series) {
	if base == nil {
		base = new(series)
	}
	ops, cpu, beside := ratioOf(d.mops, base.mops), ratioOf(d.cpuEach, base.cpuEach), ratioOf(d.burnt, base.burnt)
	w.row(ownerRow, cell, lock, kops(d.mops), ops, ops.spread(),
		figure("%.3g", median(d.cpuEach)), cpu, cpu.spread(), figure("%.2f", median(d.cpus)),
		figure("%.2f", median(d.burnt)*w.sizes[burnSize].measured/1000), beside, beside.spread())
}

const ownerSummaryRow = "%-8s %-9s %5s   %10s %12s   %10s %12s   %10s %12s"

// summary prints what the cells amount to, for each section.
func (w *owner) summary(cells []cell) {
	on, off := w.variants[0], w.variants[1]
	if on.failed || off.failed {
		return
	}
	w.title("Owner: ownercheck=0 to the default, geometric means")
	w.row(ownerSummaryRow, "section", "burners", "cells", "kops/s", "spread", "CPU s/M", "spread", "beside", "spread")
	for _, section := range ownerSections {
		for _, burners := range []bool{false, true} {
			var of []string
			for _, c := range cells {
				if c.section() == section && c.burners > 0 == burners {
					of = append(of, c.name())
				}
			}
			if len(of) == 0 {
				continue
			}
			with := "none"
			if burners {
				with = "GOMAXPROCS"
			}
			mean := func(figures func(*series) []float64) ratio {
				return meanOver(of, off.throughput, on.throughput, figures)
			}
			ops := mean(func(d *series) []float64 { return d.mops })
			cpu := mean(func(d *series) []float64 { return d.cpuEach })
			beside := mean(func(d *series) []float64 { return d.burnt })
			w.row(ownerSummaryRow, section, with, fmt.Sprint(len(of)), ops, ops.spread(), cpu, cpu.spread(), beside, beside.spread())
		}
	}
}

// meanOver is the geometric mean over the cells of the ratio of a figure, round
// by round.
func meanOver(cells []string, num, den map[string]*series, figures func(*series) []float64) ratio {
	var all [][]float64
	for _, c := range cells {
		all = append(all, quotients(figures(num[c]), figures(den[c])))
	}
	return overRounds(roundMeans(all))
}
