package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const appsHelp = `Apps takes real programs from the module proxy, changes nothing in them but
sync.RWMutex to rwsem.RWMutex, and runs their own tests with it and their own
benchmarks with it and without.

    go run ./bench apps [flags]     inside the rwsem repository

Every benchmark runs in interleaved rounds, starting with another lock each
time, each lock in a process of its own:

    std        the program as it is, with sync.RWMutex
    ours       the same with rwsem.RWMutex
    std again  the same program as std once more: the difference is noise
    none       a lock that does nothing: what the best of locks could reach

The columns:

    ratio    time with ours to time with std, the median over the rounds of one
             round's quotient: below 1x is better. A "~" behind it: this may be
             noise, for it is no further from 1x than std again was in its worst
             round, or the rounds disagree on which is faster
    spread   the least and the greatest of these quotients
    noise    the same of std again to std
    ceiling  none to std; "-" where a benchmark needs its lock, for it writes
             from several goroutines, or did not survive without
    won      how much of the time that the lock can win at all was won:
             (std - ours) / (std - none); "-" where the ceiling is missing or
             within the noise

All copies of a program are built with the language version and the versions of
dependencies that rwsem asks for, but with the GODEBUG defaults of the version
that the program itself names. The noise is of one executable: that another lock
moves the program's code to other addresses is not in it. A ceiling is high: a
lock that does nothing does not keep in order what the processor overlaps either.

Programs, for -modules:

%s
Downloads and builds come first for each program, and may take minutes the
first time. A program that cannot be fetched or built, or whose tests fail, is
reported and left out. The tables go to standard output and the progress to
standard error. Exit status: 0 if everything ran, whoever won; 1 if something
failed; 2 for a mistake in the command line.

Flags:
`

func appsHelpText() string {
	return fmt.Sprintf(appsHelp, described(apps, func(p app) (string, string) { return p.module, p.version }))
}

// appsExtent is how much is measured unless the command line says otherwise.
type appsExtent struct {
	rounds    int
	benchtime time.Duration
}

var (
	fullApps  = appsExtent{5, 100 * time.Millisecond}
	quickApps = appsExtent{3, 50 * time.Millisecond}
)

// appsRun is a run of the command.
type appsRun struct {
	*session
	ctx         context.Context
	stderr      io.Writer
	benchtime   time.Duration
	programs    []*program
	steps, done int

	root, goVersion string // of the rwsem module
	noLock          string // directory of what takes its place
}

func appsCommand(args []string, stdout, stderr io.Writer) error {
	a, err := parseApps(args, stdout, stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a.ctx = ctx
	if err := a.findRoot(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rwsem-apps")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := a.writeNoLock(filepath.Join(dir, "nolock")); err != nil {
		return err
	}
	for i, p := range a.programs {
		p.dir = filepath.Join(dir, fmt.Sprint(i))
	}
	if a.data, err = newDataFile(a.json); err != nil {
		return err
	}
	return errors.Join(a.runAll(), a.data.close())
}

func parseApps(args []string, stdout, stderr io.Writer) (*appsRun, error) {
	a := &appsRun{session: &session{out: stdout}, stderr: stderr}
	var modules *regexp.Regexp
	var given appsExtent
	fs := flag.NewFlagSet("bench apps", flag.ContinueOnError)
	fs.BoolVar(&a.quick, "quick", false, fmt.Sprintf("fewer benchmarks, shorter ones, and no tests that take more than %v: "+
		"a minute or two in all instead of up to ten", quickTests))
	regexpFlag(fs, &modules, "modules", "run the programs whose module path matches this `regexp`, unanchored")
	jsonFlag(fs, &a.json)
	fs.IntVar(&given.rounds, "rounds", 0,
		fmt.Sprintf("`number` of rounds (default %d, with -quick %d)", fullApps.rounds, quickApps.rounds))
	fs.DurationVar(&given.benchtime, "benchtime", 0,
		fmt.Sprintf("`duration` for each benchmark (default %v, with -quick %v)", fullApps.benchtime, quickApps.benchtime))
	if err := parse(fs, args, appsHelpText(), stdout); err != nil {
		return nil, err
	}
	extent := fullApps
	if a.quick {
		extent = quickApps
	}
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "rounds":
			extent.rounds = given.rounds
		case "benchtime":
			extent.benchtime = given.benchtime
		}
	})
	if extent.rounds <= 0 || extent.benchtime <= 0 {
		return nil, usagef("-rounds and -benchtime must be positive")
	}
	a.rounds, a.benchtime = extent.rounds, extent.benchtime
	for _, p := range apps {
		if modules == nil || modules.MatchString(p.module) {
			a.programs = append(a.programs, a.program(p))
		}
	}
	if len(a.programs) == 0 {
		return nil, usagef("-modules %q matches none of the %d programs, such as %s", modules, len(apps), apps[0].module)
	}
	return a, nil
}

// findRoot finds the rwsem module, of which this one is a part.
func (a *appsRun) findRoot() error {
	src, err := findSources(thisFile())
	if err != nil {
		return err
	}
	out, err := goCommand(src, "list", "-m", "-json", rwsemPath)
	if err != nil {
		return err
	}
	var m struct{ Dir, GoVersion string }
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return err
	}
	a.root, a.goVersion = m.Dir, m.GoVersion
	return nil
}

// runAll runs the programs one after the other. One that fails is left out.
func (a *appsRun) runAll() error {
	var planned time.Duration
	for _, p := range a.programs {
		planned += p.planned()
		a.steps += p.stepCount()
	}
	a.prog = newProgress(a.stderr, planned)
	var failed []string
	for _, p := range a.programs {
		steps, spent := a.done, a.prog.done
		if err := p.run(); err != nil {
			fmt.Fprintf(a.stderr, "%s: left out: %v\n", p.module, err)
			if a.ctx.Err() != nil {
				return context.Cause(a.ctx)
			}
			p.failed = true
			failed = append(failed, p.module)
			a.done = steps + p.stepCount()
			a.prog.skip(p.planned() - (a.prog.done - spent))
		}
		if err := os.RemoveAll(p.dir); err != nil {
			return err
		}
	}
	a.summary()
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, "; "))
	}
	return nil
}

// step announces a step of the whole and does it.
func (a *appsRun) step(what string, planned time.Duration, do func() error) error {
	finished := a.prog.step(what, a.done, a.steps, planned)
	a.done++
	defer finished()
	return do()
}

// command runs a command in a program's directory, outside this workspace, and
// returns its output, which is also in the error if it fails.
func (a *appsRun) command(limit time.Duration, dir, name string, args ...string) ([]byte, error) {
	ctx, cancel := withLimit(a.ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	out, _, err := capture(ctx, cmd)
	if err != nil {
		err = fmt.Errorf("%w%s", err, out)
	}
	return out, err
}
