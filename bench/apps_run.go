package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
)

// What a program is run with, and the names under which that is recorded.
const (
	lockStd  = "std"
	lockOurs = "ours"
	lockTwin = lockStd + againSuffix
	lockNone = "none"
)

var appLocks = []string{lockStd, lockOurs, lockTwin, lockNone}

// Guesses, for the time left.
const (
	prepareTime = 2 * time.Second
	buildTime   = 4 * time.Second
	processTime = 100 * time.Millisecond // of a benchmark's process, beside what it repeats
)

const (
	// quickTests is how long tests may take for -quick to run them.
	quickTests = 5 * time.Second
	// testsLimit ends tests that hang.
	testsLimit = 3 * time.Minute
)

// program is an app and what becomes of it in a run.
type program struct {
	*appsRun
	app
	dir        string // of its copies
	benchmarks []*appBenchmark
	replaced   int // in how many files
	failed     bool
}

// appBenchmark is a benchmark of a program and what it took.
type appBenchmark struct {
	pkg       appPackage
	name      string
	noCeiling string               // why it does not run without a lock
	ns        map[string][]float64 // per operation, by lock and round
}

const needsLock = "several goroutines write"

func (a *appsRun) program(p app) *program {
	prog := &program{appsRun: a, app: p}
	for _, pkg := range p.packages {
		names := pkg.benchmarks
		if a.quick {
			names = pkg.quick
		}
		for name := range strings.FieldsSeq(names) {
			b := &appBenchmark{pkg: pkg, name: name, ns: map[string][]float64{}}
			if slices.Contains(strings.Fields(pkg.racing), name) {
				b.noCeiling = needsLock
			}
			prog.benchmarks = append(prog.benchmarks, b)
		}
	}
	return prog
}

// title is the benchmark's name in its program.
func (b *appBenchmark) title() string { return path.Join(b.pkg.dir, b.name) }

// testing tells whether the tests are run.
func (p *program) testing() bool { return !p.quick || p.tests <= quickTests }

func (p *program) stepCount() int {
	steps := 2 + p.rounds
	if p.testing() {
		steps++
	}
	return steps
}

func (p *program) planned() time.Duration {
	planned := prepareTime + buildTime + time.Duration(p.rounds)*p.roundTime()
	if p.testing() {
		planned += p.tests
	}
	return planned
}

// roundTime is what one round takes.
func (p *program) roundTime() time.Duration {
	processes := 0
	for _, b := range p.benchmarks {
		processes += len(appLocks)
		if b.noCeiling != "" {
			processes--
		}
	}
	// The testing package runs a benchmark for less than its time first, to
	// see how often to repeat it.
	return time.Duration(processes) * (processTime + 3*p.benchtime/2)
}

// run does all there is to do with a program.
func (p *program) run() error {
	p.title(p.module + " " + p.version)
	if err := p.step(p.module+": fetching", prepareTime, p.prepare); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "lock replaced in %d file(s)\n", p.replaced)
	if err := p.step(p.module+": building", buildTime, p.build); err != nil {
		return err
	}
	if !p.testing() {
		fmt.Fprintf(p.out, "its own tests: not run with -quick, for they take about %v\n", p.tests)
	} else if err := p.step(p.module+": testing", p.tests, p.test); err != nil {
		return err
	}
	for r := range p.rounds {
		what := fmt.Sprintf("%s: round %d of %d", p.module, r+1, p.rounds)
		if err := p.step(what, p.roundTime(), func() error { return p.round(r) }); err != nil {
			return err
		}
	}
	p.table()
	p.save()
	return nil
}

// test runs the program's tests with our lock.
func (p *program) test() error {
	for _, pkg := range p.packages {
		err := p.testWith(lockOurs, pkg)
		if err == nil {
			continue
		}
		unchanged := "pass"
		if p.testWith(lockStd, pkg) != nil {
			unchanged = "fail too"
		}
		return fmt.Errorf("its tests fail with rwsem (unchanged they %s): %w", unchanged, err)
	}
	fmt.Fprintln(p.out, "its own tests with rwsem: ok")
	return nil
}

func (p *program) testWith(lock string, pkg appPackage) error {
	// The program's own limit comes first, as it shows where it hangs.
	_, err := p.command(testsLimit+30*time.Second, p.packageDir(lock, pkg), p.testBinary(lock, pkg),
		"-test.timeout="+testsLimit.String())
	return err
}

// round runs every benchmark with every lock.
func (p *program) round(round int) error {
	for _, b := range p.benchmarks {
		for i := range rotated(len(appLocks), round) {
			if err := p.measure(b, appLocks[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs a benchmark once. Without a lock it may fail: then it has no
// ceiling.
func (p *program) measure(b *appBenchmark, lock string) error {
	if lock == lockNone && b.noCeiling != "" {
		return nil
	}
	ns, err := p.bench(b, lock)
	switch {
	case err != nil && lock == lockNone && p.ctx.Err() == nil:
		b.noCeiling = "without a lock: " + gist(err)
		delete(b.ns, lockNone)
		return nil
	case err != nil:
		return fmt.Errorf("%s with %s: %w", b.name, lock, err)
	}
	b.ns[lock] = append(b.ns[lock], ns)
	return nil
}

func (p *program) bench(b *appBenchmark, lock string) (float64, error) {
	limit := time.Minute + 10*p.benchtime
	out, err := p.command(limit+10*time.Second, p.packageDir(lock, b.pkg), p.testBinary(lock, b.pkg),
		"-test.run=^$", "-test.bench="+b.pattern(), "-test.benchtime="+p.benchtime.String(), "-test.timeout="+limit.String())
	if err != nil {
		return 0, err
	}
	return readBenchmark(bytes.NewReader(out))
}

// pattern matches the benchmark and no other, level by level.
func (b *appBenchmark) pattern() string {
	levels := strings.Split("Benchmark"+b.name, "/")
	for i, level := range levels {
		levels[i] = "^" + regexp.QuoteMeta(level) + "$"
	}
	return strings.Join(levels, "/")
}

// readBenchmark returns the ns per operation of the only benchmark that ran.
func readBenchmark(r io.Reader) (float64, error) {
	var all []float64
	for results := benchfmt.NewReader(r, "benchmark"); results.Scan(); {
		switch res := results.Result().(type) {
		case *benchfmt.Result:
			if sec, ok := res.Value("sec/op"); ok {
				all = append(all, sec*1e9)
			}
		case *benchfmt.SyntaxError:
			return 0, res
		}
	}
	switch len(all) {
	case 0:
		return 0, errors.New("no benchmark ran")
	case 1:
		return all[0], nil
	default:
		return 0, fmt.Errorf("%d benchmarks ran instead of one", len(all))
	}
}

var gistPattern = regexp.MustCompile(`(?m)^(fatal error|panic|--- FAIL).*`)

// gist is the line in which a failed test binary says why.
func gist(err error) string {
	if line := gistPattern.FindString(err.Error()); line != "" {
		return line
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
