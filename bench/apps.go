package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/perf/benchfmt"
)

// app is a program whose lock is replaced.
type app struct {
	module, version string
	bench, quick    string // which of its benchmarks to run
	why             string // why not all of them
	targets         map[string]float64
}

var apps = []app{
	{
		module: "github.com/patrickmn/go-cache", version: "v2.1.0+incompatible",
		bench:   ".",
		quick:   "^BenchmarkCache(GetExpiring|GetConcurrentExpiring|SetExpiring|SetDelete)$|^BenchmarkIncrementInt$",
		targets: map[string]float64{"CacheSetDelete": 0.75},
	},
	{
		module: "github.com/orcaman/concurrent-map/v2", version: "v2.0.1",
		bench: "^Benchmark(Items|Keys|SingleInsert(Absent|Present)|MultiInsertSame|MultiGetSame|" +
			"Multi(InsertDifferent|GetSetDifferent|GetSetBlock)_(1|32)_Shard)$",
		quick: "^Benchmark(SingleInsertPresent|MultiGetSame|MultiGetSetBlock_(1|32)_Shard)$",
		why:   "the others have no lock of the program's (SyncMap, Strconv, MarshalJson) or differ in the number of shards only",
	},
}

const appsHelp = `Apps takes real programs from the module proxy, changes nothing in them but
sync.RWMutex to rwsem.RWMutex, runs their own tests, and runs their own
benchmarks, as they are (std) and changed (ours), in interleaved rounds. A ratio
is the median over the rounds of ours to std, and below 1x is better.

    go run ./bench apps [flags]     inside the rwsem repository

Exit status: 0 if everything ran, whoever won; 1 if a test or a build failed;
2 for a mistake in the command line.

Flags:
`

// appsLimit ends everything, should a program hang with its new lock.
const appsLimit = 10 * time.Minute

type appsRun struct {
	ctx       context.Context
	stdout    io.Writer
	stderr    io.Writer
	quick     bool
	rounds    int
	benchtime time.Duration
	root      string // of the rwsem module
	goVersion string // of its go.mod
}

func appsCommand(args []string, stdout, stderr io.Writer) error {
	a := &appsRun{stdout: stdout, stderr: stderr}
	fs := flag.NewFlagSet("bench apps", flag.ContinueOnError)
	fs.BoolVar(&a.quick, "quick", false, "fewer benchmarks and rounds, less than a minute in all")
	fs.IntVar(&a.rounds, "rounds", 0, "`number` of rounds (default 5, with -quick 3)")
	fs.DurationVar(&a.benchtime, "benchtime", 100*time.Millisecond, "`duration` for each benchmark")
	if err := parse(fs, args, appsHelp, stdout); err != nil {
		return err
	}
	if a.rounds < 0 || a.benchtime <= 0 {
		return usagef("-rounds and -benchtime must be positive")
	}
	if a.rounds == 0 {
		a.rounds = 5
		if a.quick {
			a.rounds = 3
		}
	}

	ctx, cancel := withLimit(appsLimit)
	defer cancel()
	a.ctx = ctx
	if err := a.findRoot(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rwsem-apps")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, p := range apps {
		if err := a.compare(p, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return fmt.Errorf("%s: %w", p.module, err)
		}
	}
	return nil
}

// findRoot finds the rwsem module whether this one is run from its own
// directory or as part of the workspace.
func (a *appsRun) findRoot() error {
	out, err := a.command("", "go", "list", "-m", "-json", rwsemPath)
	if err != nil {
		return fmt.Errorf("finding %s (to be run inside its repository): %w", rwsemPath, err)
	}
	var m struct{ Dir, GoVersion string }
	if err := json.Unmarshal(out, &m); err != nil {
		return err
	}
	a.root, a.goVersion = m.Dir, m.GoVersion
	return nil
}

// command runs a command and returns its output, which is also in the error
// if it fails. In a directory of its own it is outside this workspace.
func (a *appsRun) command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(a.ctx, name, args...)
	if dir != "" {
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	}
	out, _, err := capture(a.ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, out)
	}
	return out, nil
}

func (a *appsRun) compare(p app, dir string) error {
	a.progress(p, "preparing")
	std, ours, files, err := a.copies(p, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\n== %s %s: lock replaced in %d file(s)\n", p.module, p.version, files)
	a.progress(p, "testing")
	// Without vet, which finds fault with old code that is not ours to change.
	test := func(dir string) error {
		_, err := a.command(dir, "go", "test", "-count=1", "-vet=off", "-timeout=2m", ".")
		return err
	}
	if err := test(ours); err != nil {
		unchanged := "pass"
		if test(std) != nil {
			unchanged = "fail too"
		}
		return fmt.Errorf("its tests fail with rwsem (unchanged they %s): %w", unchanged, err)
	}
	fmt.Fprintln(a.stdout, "its own tests with rwsem: ok")

	for _, d := range []string{std, ours} {
		if _, err := a.command(d, "go", "test", "-vet=off", "-c", "-o", testBinary, "."); err != nil {
			return err
		}
	}
	pattern := p.bench
	if a.quick {
		pattern = p.quick
	}
	fmt.Fprintf(a.stdout, "benchmarks: %s, %d round(s) of %v\n", pattern, a.rounds, a.benchtime)
	if p.why != "" {
		fmt.Fprintln(a.stdout, "left out:", p.why)
	}
	stdTimes, oursTimes := newBenchTimes(), newBenchTimes()
	for r := range a.rounds {
		a.progress(p, fmt.Sprintf("round %d of %d", r+1, a.rounds))
		if err := a.bench(std, pattern, stdTimes); err != nil {
			return err
		}
		if err := a.bench(ours, pattern, oursTimes); err != nil {
			return err
		}
	}
	a.table(p, stdTimes, oursTimes)
	return nil
}

func (a *appsRun) progress(p app, what string) { fmt.Fprintf(a.stderr, "%s: %s\n", p.module, what) }

const testBinary = "rwsem-apps.test"

// copies makes the two versions of the program, which differ in the lock only.
func (a *appsRun) copies(p app, dir string) (std, ours string, files int, err error) {
	std, ours = filepath.Join(dir, "std"), filepath.Join(dir, "ours")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", "", 0, err
	}
	out, err := a.command(dir, "go", "mod", "download", "-json", p.module+"@"+p.version)
	if err != nil {
		return "", "", 0, err
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", "", 0, err
	}
	for _, d := range []string{std, ours} {
		if err := os.CopyFS(d, os.DirFS(m.Dir)); err != nil {
			return "", "", 0, err
		}
		if err := a.goMod(p, d); err != nil {
			return "", "", 0, err
		}
	}
	files, err = replaceLockInTree(ours)
	return std, ours, files, err
}

// goMod gives a copy a go.mod with rwsem in it; both get the same, so that the
// language version is no difference between them.
func (a *appsRun) goMod(p app, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); os.IsNotExist(err) {
		if _, err := a.command(dir, "go", "mod", "init", p.module); err != nil {
			return err
		}
	}
	_, err := a.command(dir, "go", "mod", "edit", "-go="+a.goVersion,
		"-require="+rwsemPath+"@v0.0.0", "-replace="+rwsemPath+"="+a.root)
	return err
}

// benchTimes is the ns per operation of each benchmark, round by round.
type benchTimes struct {
	names []string // in the order of the program
	ns    map[string][]float64
}

func newBenchTimes() *benchTimes { return &benchTimes{ns: map[string][]float64{}} }

func (a *appsRun) bench(dir, pattern string, times *benchTimes) error {
	out, err := a.command(dir, filepath.Join(dir, testBinary), "-test.run=^$",
		"-test.bench="+pattern, "-test.benchtime="+a.benchtime.String(), "-test.timeout=5m")
	if err != nil {
		return err
	}
	return times.read(bytes.NewReader(out))
}

func (b *benchTimes) read(r io.Reader) error {
	results := benchfmt.NewReader(r, "benchmarks")
	for results.Scan() {
		res, ok := results.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		sec, ok := res.Value("sec/op")
		if !ok {
			continue
		}
		name := benchName(res.Name)
		if !slices.Contains(b.names, name) {
			b.names = append(b.names, name)
		}
		b.ns[name] = append(b.ns[name], sec*1e9)
	}
	if err := results.Err(); err != nil {
		return err
	}
	if len(b.names) == 0 {
		return fmt.Errorf("no benchmark ran")
	}
	return nil
}

// benchName leaves out the GOMAXPROCS at the end.
func benchName(n benchfmt.Name) string {
	full := n.Full()
	if _, parts := n.Parts(); len(parts) > 0 {
		if last := parts[len(parts)-1]; last[0] == '-' {
			full = full[:len(full)-len(last)]
		}
	}
	return string(full)
}

const appsRow = "%-41s %13s %13s %8s %12s  %s"

func (a *appsRun) table(p app, std, ours *benchTimes) {
	printRow(a.stdout, appsRow, "benchmark", "std ns/op", "ours ns/op", "ratio", "spread", "")
	var ratios []float64
	for _, name := range std.names {
		r := ratioOf(ours.ns[name], std.ns[name])
		ratios = append(ratios, r.median)
		verdict := ""
		if limit, ok := p.targets[name]; ok {
			verdict = fmt.Sprintf("target <= %.2fx: short", limit)
			if r.median <= limit {
				verdict = fmt.Sprintf("target <= %.2fx: ok", limit)
			}
		}
		printRow(a.stdout, appsRow, name, fmt.Sprintf("%.1f", median(std.ns[name])),
			fmt.Sprintf("%.1f", median(ours.ns[name])), r, r.spread(), verdict)
	}
	fmt.Fprintf(a.stdout, "geometric mean of the ratios: %.2fx\n", geomean(ratios))
}
