package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// defaultBuilds are the variants of rwsem that its build tags choose.
const defaultBuilds = "rwsem_ownercount;rwsem_nolinkname;purego"

const buildsHelp = `Builds measures rwsem.RWMutex built with other tags, in one run beside the
build without any. It builds this program once for each, into a temporary
directory, and every round of every build is a process of its own.

    go run ./bench builds [flags]     inside the rwsem repository

Every round runs sync's locks once and then every build once, starting with
another build each time. There are three kinds of table:

    throughput  "vs best" is a round's geometric mean over some cells of the grid
                of the ratio to the better of sync.RWMutex and sync.Mutex in the
                same round, "vs default" its ratio to that of the build without
                tags. Cells below 0.9x, the worst one, and fairness are as with
                the policies command.
    goroutines  thousands of operations per second on one lock with sections of
                6 ns, for rising numbers of goroutines: all of them writers;
                each half reader and half writer by the draw; the same with
                LockUrgent instead of Lock (with sync.RWMutex it is Lock).
    pairs       ns to lock and unlock on one goroutine, nobody competing, in
                three times as many rounds.

A ratio is to the default build in the same round: the median over the rounds,
and the least and the greatest as its spread. Above 1x is better for throughput,
below 1x for times. A build made from the same files as the default one is named:
its tags mean nothing, and its ratios show the noise.

Cells, for -cells, are those of the main command and are for the first table.

A build that fails, or that hangs or fails when run, is reported and left out of
what follows. Exit status: 0 if everything ran; 1 if something failed; 2 for a
mistake in the command line.

Flags:
`

var buildsExtents = extents{
	full:  extent{5, 100 * time.Millisecond, shortTurn, "5 minutes"},
	quick: extent{3, 80 * time.Millisecond, shortTurn, "a minute"},
}

// usualBuildsGrid leaves out two goroutines, what is nearly only read, and the
// middle one of the sections.
var usualBuildsGrid = regexp.MustCompile(`/g(8|64)/r(90|50|0)/(6ns|3us)$`)

// scaling is a table over numbers of goroutines.
type scaling struct {
	name    string
	readPct int
	urgent  bool
}

var scalings = []scaling{
	{name: "writers only", readPct: 0},
	{name: "half reads, half writes", readPct: 50},
	{name: "half reads, half urgent writes", readPct: 50, urgent: true},
}

// builds is a run of the command.
type builds struct {
	trial
	src        string   // directory of the sources
	tags       []string // of each variant
	goroutines []int
	grid       []cell
	pairs      []fourPairs // of each variant
	syncPairs  fourPairs   // in the default build
}

var tagsPattern = regexp.MustCompile(`^[\w.]+(,[\w.]+)*$`)

// parseBuilds returns the tags of each build.
func parseBuilds(list string) ([]string, error) {
	all, err := withDefault("tags", list)
	if err != nil {
		return nil, err
	}
	for _, tags := range all[1:] {
		if !tagsPattern.MatchString(tags) {
			return nil, usagef("-tags: %q is not a list of build tags with commas between them", tags)
		}
	}
	return all, nil
}

// mostGoroutines is a bound for what can be asked for.
const mostGoroutines = 1 << 16

// parseCounts reads positive numbers with commas between them.
func parseCounts(list string) ([]int, error) {
	var counts []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", word)
		}
		if n > mostGoroutines {
			return nil, fmt.Errorf("%d is more than %d", n, mostGoroutines)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

func buildsCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	b := new(builds)
	fs := flag.NewFlagSet("bench builds", flag.ContinueOnError)
	list := fs.String("tags", defaultBuilds, "the `builds`, semicolons between them, each a list of build tags with commas between them")
	fs.Func("goroutines", "comma-separated `numbers` of goroutines (default 1,2,4,8,16,32,64, with -quick 1,2,4,8,16)", func(value string) (err error) {
		b.goroutines, err = parseCounts(value)
		return err
	})
	if err := o.parseRounds(fs, buildsExtents, args, buildsHelp, stdout); err != nil {
		return err
	}
	tags, err := parseBuilds(*list)
	if err != nil {
		return err
	}
	s, err := newSession(o, allCells(runtime.GOMAXPROCS(0)), stdout)
	if err != nil {
		return err
	}
	b.session, b.stderr, b.tags = s, stderr, tags
	if b.src, err = findSources(thisFile()); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rwsem-builds")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.chooseCells()
	if err := b.build(dir); err != nil {
		return err
	}
	return b.measure()
}

func (b *builds) chooseCells() {
	grid := usualBuildsGrid
	if b.quick {
		grid = quickGrid
	}
	b.grid = b.chooseDefaultProcs(grid)
	if b.goroutines == nil {
		b.goroutines = []int{1, 2, 4, 8, 16}
		if !b.quick {
			b.goroutines = append(b.goroutines, 32, 64)
		}
	}
}

// build makes the programs. Without the default build there is nothing to
// compare the others with.
func (b *builds) build(dir string) error {
	files := map[string]string{}
	for i, tags := range b.tags {
		v := &variant{name: tags, exe: filepath.Join(dir, fmt.Sprintf("bench-%d", i))}
		if tags == "" {
			v.name = "default"
		}
		b.variants = append(b.variants, v)
		fmt.Fprintf(b.stderr, "building %s: %d of %d\n", v.name, i+1, len(b.tags))
		err := buildBench(b.src, tags, v.exe)
		if err == nil {
			files[tags], err = filesBuilt(b.src, tags)
		}
		switch {
		case err != nil && i == 0:
			return err
		case err != nil:
			b.fail(v, err)
		case i > 0 && files[tags] == files[""]:
			fmt.Fprintf(b.out, "%s: made from the same files as the default build\n", v.name)
		}
	}
	b.pairs = make([]fourPairs, len(b.variants))
	return nil
}

func (b *builds) cells(sc scaling) []cell {
	var cells []cell
	for _, n := range b.goroutines {
		cells = append(cells, cell{procs: b.procs, goroutines: n, readPct: sc.readPct, urgent: sc.urgent})
	}
	return cells
}

// pairsTime is about what one process takes for its pairs, its start included.
const pairsTime = 150 * time.Millisecond

func (b *builds) measure() error {
	b.begin()
	n := len(b.variants)
	planned := b.planVariants(b.grid, len(peerLocks)) + time.Duration(b.pairsRounds()*n)*pairsTime
	for _, sc := range scalings {
		planned += b.planVariants(b.cells(sc), 1)
	}
	b.start(planned, (1+len(scalings))*b.rounds*(1+n)+b.pairsRounds()*n)
	if err := b.runThroughput(b.grid); err != nil {
		return err
	}
	b.saveThroughput("builds")
	b.throughputTable()
	for _, sc := range scalings {
		b.clear()
		peers := child{locks: peerLocks[:1], cells: b.cells(sc)}
		if err := b.overVariants(sc.name, peers, nil); err != nil {
			return err
		}
		b.saveThroughput("builds, " + sc.name)
		b.scalingTable(sc)
	}
	b.runPairs()
	b.pairsTable()
	return b.end()
}

func (b *builds) runPairs() {
	for r := range b.pairsRounds() {
		b.inTurn("pairs", r, pairsTime, func(i int, v *variant) error {
			times, err := runPairsChild(v.exe, pairsEach, true)
			if err != nil {
				return err
			}
			b.pairs[i].add(times["rwsem"])
			if i == 0 {
				b.syncPairs.add(times["sync"])
			}
			return nil
		})
	}
}

func (b *builds) throughputTable() {
	b.title("Builds: throughput and fairness of rwsem.RWMutex, against the best of sync's locks")
	fmt.Fprintf(b.out, "%d rounds of %d cells\n", b.rounds, len(b.grid))
	width := b.nameWidth()
	row := fmt.Sprintf("%%-%ds", width) + "  " + standingRow
	b.row(row, append([]any{"build"}, standingHead()...)...)
	for _, v := range b.variants {
		if v.failed {
			fmt.Fprintf(b.out, "%-*s  failed\n", width, v.name)
			continue
		}
		b.row(row, append([]any{v.name}, b.standingCells(b.grid, v)...)...)
	}
}

const (
	scalingRow  = "%10s  %13s %13s"
	scalingCol  = "   %9s %8s %12s"
	scalingName = "   %31s"
)

func (b *builds) scalingTable(sc scaling) {
	b.title(fmt.Sprintf("Goroutines: %s, sections of %s, GOMAXPROCS %d: kops/s, ratio to the default build",
		sc.name, sectionSizes[0].name, b.procs))
	var names, heads strings.Builder
	for _, v := range b.variants[1:] {
		fmt.Fprintf(&names, scalingName, v.name)
		fmt.Fprintf(&heads, scalingCol, "kops/s", "ratio", "spread")
	}
	b.row(scalingRow+"%s", "", "", "", names.String())
	b.row(scalingRow+"%s", "goroutines", "sync.RWMutex", "default", heads.String())
	for _, c := range b.cells(sc) {
		name := c.name()
		mops := func(byCell map[string]*series) []float64 {
			if d := byCell[name]; d != nil {
				return d.mops
			}
			return nil
		}
		base := mops(b.variants[0].throughput)
		var others strings.Builder
		for _, v := range b.variants[1:] {
			own := mops(v.throughput)
			if v.failed {
				fmt.Fprintf(&others, scalingName, "failed")
				continue
			}
			r := ratioOf(own, base)
			fmt.Fprintf(&others, scalingCol, kops(own), r, r.spread())
		}
		b.row(scalingRow+"%s", fmt.Sprint(c.goroutines), kops(mops(b.peers["sync"])), kops(base), others.String())
	}
}

// kops is the median of a series of Mops/s in kops/s.
func kops(mops []float64) string { return plain(1000 * median(mops)) }

func (b *builds) pairsTable() {
	b.title("Uncontended pairs on one goroutine: ns, ratio to the default build")
	width := max(b.nameWidth(), len("sync.RWMutex"))
	row := fmt.Sprintf("%%-%ds", width) + strings.Repeat("   %13s %8s %12s", len(pairNames))
	head := []any{"build"}
	for _, name := range pairNames {
		head = append(head, name, "ratio", "spread")
	}
	b.row(row, head...)
	line := func(name string, own fourPairs) {
		cells := []any{name}
		for i, ns := range own {
			r := ratioOf(ns, b.pairs[0][i])
			cells = append(cells, figure("%.2f", median(ns)), r, r.spread())
		}
		b.row(row, cells...)
	}
	for i, v := range b.variants {
		if v.failed {
			fmt.Fprintf(b.out, "%-*s  failed\n", width, v.name)
			continue
		}
		line(v.name, b.pairs[i])
	}
	line("sync.RWMutex", b.syncPairs)
}
