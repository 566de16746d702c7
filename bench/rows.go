package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const rowsHelp = `Rows runs the experiments that were published of the mechanisms in
rwsem.RWMutex, each with its mechanism off and on, and prints the published
figures and this machine's side by side. Other cores, another clock: what counts
is which way a figure goes and how far, not the figure.

    go run ./bench rows [flags]    A17 builds this program: inside the repository

Rows, for -only, by their names in the published descriptions:

%s
Off and on are settings of RWSEMDEBUG, which is read at program start, so every
round of every side is a process of its own. Off is the lock as it is today with
that mechanism alone left out, where published is what came before and after in
a series of changes. Sides run in turn within a round, each round starting with
another one, and one of them runs twice, as its own twin. Threads are goroutines
here: beyond the number of CPUs they wait for a processor as well as for the
lock, as the published ones did beyond theirs.

In the tables, published and ours are each before -> after and their ratio.

    spread   least and greatest of the rounds' ratios; the ratio is their median
    band     what the lock shows against itself in the same run: the twin's ratio
             in the round where it was farthest from 1, and the inverse
    verdict  same      ours goes the way of the published ratio
             opposite  it goes the other way
             neutral   it lies inside the band
             level     it lies outside, but the published ratio is within %.0f %% of 1,
                       which says no way to go
             gains, loses
                       nothing was published; after is better, or worse
             not measurable
                       not on this machine or in this build, for the reason given
             failed    a side failed or hung; the error says how

"min", "mean" and "max" are of the operations of each goroutine, as if rounds
took 5 s; one that had no turn counts as one that had one. Sections of the
locking microbenchmark are -steps steps long, since which length a published
table has is not known, except for those called very short: 1.

The summary has a line for each experiment, over numbers of goroutines the
geometric mean of them, and tells how many of its points got which verdict. What
went the opposite way is listed once more at the end.

-cells takes the scenes whose name, as in the -json file, matches. Exit status: 0
if everything ran, whatever came out; 1 if something failed; 2 for a mistake in
the command line.

Flags:
`

var rowsExtents = extents{
	full:  extent{5, 120 * time.Millisecond, func(int) time.Duration { return 4 * time.Millisecond }, "7 minutes"},
	quick: extent{3, 50 * time.Millisecond, func(int) time.Duration { return time.Millisecond }, "a minute"},
}

// rows is a run of the command.
type rows struct {
	trial
	exe      string // this program
	builds   map[string]otherBuild
	lines    []summaryLine
	opposite []string
	errs     []error
}

// otherBuild is this program with other tags.
type otherBuild struct {
	exe    string
	unless string // why it cannot be run, or there is no point in it
}

func rowsCommand(args []string, stdout, stderr io.Writer) error {
	var o options
	var only []row
	su := &setup{steps: []int{10}}
	fs := flag.NewFlagSet("bench rows", flag.ContinueOnError)
	pickFlag(fs, &only, "only", "row", rowList, func(r row) string { return r.name })
	fs.Func("steps", "comma-separated `numbers` of steps of the sections whose length was not published; a table for each (default 10)", func(value string) (err error) {
		su.steps, err = parseCounts(value)
		return err
	})
	if err := o.parseRounds(fs, rowsExtents, args, rowsHelpText(), stdout); err != nil {
		return err
	}
	scenes := o.cells
	o.cells = nil // which are not of the grid
	su.session = &session{options: o, procs: runtime.GOMAXPROCS(0), sizes: sectionSizes}
	if len(su.experiments(only, scenes)) == 0 {
		return usagef("-cells %q matches no scene, such as %s", scenes, su.experiments(only, nil)[0].scenes[0].Name)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if su.session, err = newSession(o, nil, stdout); err != nil {
		return err
	}
	r := &rows{trial: trial{session: su.session, stderr: stderr}, exe: exe, builds: map[string]otherBuild{}}
	r.begin()
	r.measure(su.experiments(only, scenes))
	return errors.Join(append(r.errs, r.data.close())...)
}

func rowsHelpText() string {
	list := described(rowList, func(r row) (string, string) { return r.name, r.about })
	return fmt.Sprintf(rowsHelp, list, 100*levelWithin)
}

// experiments are those of the rows, with the scenes that match alone.
func (s *setup) experiments(of []row, scenes *regexp.Regexp) []experiment {
	var all []experiment
	for _, row := range of {
		for _, e := range row.experiments(s) {
			if scenes != nil {
				e.keep(scenes)
			}
			if len(e.scenes) > 0 {
				all = append(all, e)
			}
		}
	}
	return all
}

// keep drops the scenes that do not match, and their points.
func (e *experiment) keep(scenes *regexp.Regexp) {
	e.scenes = slices.DeleteFunc(e.scenes, func(sc scene) bool { return !scenes.MatchString(sc.Name) })
	for i := range e.comparisons {
		c := &e.comparisons[i]
		c.points = slices.DeleteFunc(c.points, func(p rowPoint) bool { return !scenes.MatchString(p.scene) })
	}
}

// onceThrough is how long one side's round takes.
func (e *experiment) onceThrough() time.Duration {
	var d time.Duration
	for _, sc := range e.scenes {
		d += sc.Dur
	}
	return d
}

func (r *rows) measure(all []experiment) {
	dir, err := os.MkdirTemp("", "rwsem-rows")
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	defer os.RemoveAll(dir)
	var planned time.Duration
	processes := 0
	for i := range all {
		e := &all[i]
		r.prepare(e, dir)
		if e.unless == "" {
			n := r.rounds * (len(e.sides) + 1)
			processes += n
			planned += time.Duration(n) * e.onceThrough()
		}
	}
	r.start(planned, processes)
	for i := range all {
		e := &all[i]
		var res *results
		if e.unless == "" {
			res = r.runExperiment(e)
			r.save(e, res)
		}
		r.table(e, res)
	}
	r.summary()
}

// prepare finds out whether the experiment can be run and builds what it needs.
func (r *rows) prepare(e *experiment, dir string) {
	if cpus := min(runtime.NumCPU(), r.procs); e.unless == "" && cpus < e.needs {
		e.unless = fmt.Sprintf("it takes %d CPUs at once, and this run has %d", e.needs, cpus)
	}
	for _, s := range e.sides {
		if e.unless == "" && s.tags != "" {
			e.unless = r.otherBuild(s.tags, dir).unless
		}
	}
}

// otherBuild builds this program with the tags, the first time that it is asked
// for them.
func (r *rows) otherBuild(tags, dir string) otherBuild {
	if b, ok := r.builds[tags]; ok {
		return b
	}
	fmt.Fprintf(r.stderr, "building with -tags %s\n", tags)
	b := otherBuild{exe: filepath.Join(dir, "bench-"+tags)}
	switch same, err := buildOther(tags, b.exe); {
	case err != nil:
		b.unless = "the build failed"
		r.errs = append(r.errs, fmt.Errorf("-tags %s: %w", tags, err))
	case same:
		b.unless = "the build is made from the same files as the default one"
	}
	r.builds[tags] = b
	return b
}

// buildOther builds this program with the tags beside those it has, and tells
// whether that changes anything.
func buildOther(tags, exe string) (same bool, err error) {
	own := ownTags()
	if own != "" {
		tags = own + "," + tags
	}
	src, err := findSources(thisFile())
	if err != nil {
		return false, err
	}
	with, err := filesBuilt(src, tags)
	if err != nil {
		return false, err
	}
	without, err := filesBuilt(src, own)
	if err != nil {
		return false, err
	}
	return with == without, buildBench(src, tags, exe)
}

// ownTags are those that this program was built with.
func ownTags() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				return s.Value
			}
		}
	}
	return ""
}

// results are what the sides of an experiment did, the first one's twin last.
type results struct {
	variants []*variant
	got      []map[string][]outcome // of each: by scene, the rounds
}

func (r *rows) runExperiment(e *experiment) *results {
	sides := append(slices.Clone(e.sides), e.sides[0])
	res := &results{}
	for i, s := range sides {
		v := &variant{name: s.name, exe: r.exe, env: []string{policyVar + "=" + s.settings}}
		if s.tags != "" {
			v.exe = r.builds[s.tags].exe
		}
		if i == len(e.sides) {
			v.name += againSuffix
		}
		res.variants = append(res.variants, v)
		res.got = append(res.got, map[string][]outcome{})
	}
	r.variants = res.variants
	for round := range r.rounds {
		r.inTurn(e.row+", "+e.name+": round", round, e.onceThrough(), func(i int, v *variant) error {
			own, err := r.runScenes(v, sides[i].lock, e)
			for _, o := range own {
				res.got[i][o.Cell] = append(res.got[i][o.Cell], o)
			}
			return err
		})
	}
	if err := r.failures(); err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s, %s: %w", e.row, e.name, err))
	}
	return res
}

// runScenes runs a side's round.
func (r *rows) runScenes(v *variant, lock string, e *experiment) ([]outcome, error) {
	scenes, err := json.Marshal(e.scenes)
	if err != nil {
		return nil, err
	}
	own, stderr, err := r.ask(v.exe, v.env, e.onceThrough(), len(e.scenes), rowsChild, "-locks", lock, "-scenes", string(scenes))
	if err == nil && strings.Contains(stderr, policyVar) {
		err = errors.New(strings.TrimSpace(stderr)) // a setting that means nothing
	}
	return own, err
}

func (e *experiment) scene(name string) scene {
	return e.scenes[slices.IndexFunc(e.scenes, func(sc scene) bool { return sc.Name == name })]
}

// values are a side's figures for a point, by rounds; none if it failed or was
// not run.
func (res *results) values(e *experiment, side int, p rowPoint) []float64 {
	if res == nil || res.variants[side].failed {
		return nil
	}
	var all []float64
	for _, o := range res.got[side][p.scene] {
		all = append(all, p.measure.of(e.scene(p.scene), o))
	}
	return all
}

// save records what every side did in every scene: what all scenes have, and
// what the points measure.
func (r *rows) save(e *experiment, res *results) {
	for i, v := range res.variants {
		if v.failed {
			continue
		}
		for _, sc := range e.scenes {
			d := new(series)
			for _, o := range res.got[i][sc.Name] {
				d.add(o.Tally)
			}
			m := d.metrics()
			for _, c := range e.comparisons {
				for _, p := range c.points {
					if p.scene == sc.Name {
						putKnown(m, p.measure.metric, res.values(e, i, p))
					}
				}
			}
			r.data.add(record{Table: "rows/" + e.row, Cell: sc.Name, Lock: v.name, Metrics: m})
		}
	}
}
