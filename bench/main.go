// Bench compares rwsem.RWMutex with other locks, and prints where it loses as
// plainly as where it wins. See -h.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// command is a subcommand. The one with no name is what runs without a word.
type command struct {
	name, about string
	hidden      bool
	run         func(args []string, stdout, stderr io.Writer) error
}

var commands []command

func init() {
	commands = []command{
		{name: "", about: "measure the locks", run: compareCommand},
		{name: "apps", about: "run the tests and benchmarks of real programs with their lock replaced", run: appsCommand},
		{name: "policies", about: "measure rwsem with one mechanism off at a time", run: policiesCommand},
		{name: "builds", about: "measure builds of rwsem with other tags", run: buildsCommand},
		{name: "owner", about: "measure what spinning on an owner that does not run costs", run: ownerCommand},
		{name: "tails", about: "measure waits as distributions, unlocking and arrivals on a schedule too", run: tailsCommand},
		{name: "rows", about: "run the experiments of the published rows, each mechanism off and on", run: rowsCommand},
		{name: rowsChild, hidden: true, run: rowsChildCommand},
		{name: "diff", about: "compare two data files", run: diffCommand},
		{name: "report", about: "make RESULTS.md and its pictures from data files", run: reportCommand},
		{name: "soak", about: "use the lock in every way for long, and watch that it does what it has to", run: soakCommand},
		{name: "sweep", about: "measure how cost grows with goroutines, processors, section and reads", run: sweepCommand},
		{name: pairsChild, hidden: true, run: pairsChildCommand},
		{name: roundsChild, hidden: true, run: roundsChildCommand},
	}
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

func realMain(args []string, stdout, stderr io.Writer) int {
	err := dispatch(args, stdout, stderr)
	var usage usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "bench: %v\nRun with -h for help.\n", err)
		return 2
	default:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
}

func dispatch(args []string, stdout, stderr io.Writer) error {
	word := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		word, args = args[0], args[1:]
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == word })
	if i < 0 {
		return usagef("unknown command %q; there are: %s", word, strings.Join(commandNames(), ", "))
	}
	return commands[i].run(args, stdout, stderr)
}

func commandNames() []string {
	var names []string
	for _, c := range commands {
		if c.name != "" && !c.hidden {
			names = append(names, c.name)
		}
	}
	return names
}

// parse reads flags for a command that takes no other arguments.
func parse(fs *flag.FlagSet, args []string, help string, stdout io.Writer) error {
	rest, err := parseArgs(fs, args, help, stdout)
	if err == nil && len(rest) > 0 {
		err = usagef("unexpected argument %q", rest[0])
	}
	return err
}

// parseArgs reads flags and returns the other arguments, before, between and
// behind which they may stand.
func parseArgs(fs *flag.FlagSet, args []string, help string, stdout io.Writer) (rest []string, err error) {
	fs.SetOutput(io.Discard)
	for {
		err := fs.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			fmt.Fprint(stdout, help)
			fs.SetOutput(stdout)
			fs.PrintDefaults()
			return nil, err
		case err != nil:
			return nil, usageError{err}
		case fs.NArg() == 0:
			return rest, nil
		}
		rest, args = append(rest, fs.Arg(0)), fs.Args()[1:]
	}
}
