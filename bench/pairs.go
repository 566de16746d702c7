package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// pairTimes is ns per lock and unlock, uncontended; those of tries are 0 where
// they were not asked for.
type pairTimes struct {
	Read, Write       float64
	TryRead, TryWrite float64 `json:",omitzero"`
}

// pairsEach is the number of pairs timed at once: some 10 ms of them.
const pairsEach = 1_000_000

// The pairs take more rounds, as they are short.
func (s *session) pairsRounds() int { return 3 * s.rounds }

func timePairs(kind lockKind, n int, tries bool) pairTimes {
	t := kind.fresh()
	runtime.GC()
	per := func(loop func(int)) float64 {
		loop(n / 10) // warm up
		start := time.Now()
		loop(n)
		return float64(time.Since(start).Nanoseconds()) / float64(n)
	}
	defer watch(kind, t, time.Second).Stop()
	times := pairTimes{Read: per(t.readPairs), Write: per(t.writePairs)}
	if tries {
		times.TryRead, times.TryWrite = per(t.tryReadPairs), per(t.tryWritePairs)
	}
	return times
}

// pairsChild is the command by which a copy of this program built with other
// tags is asked for one round.
const pairsChild = "pairs-child"

// childLocks are the locks of a child's round: sync.RWMutex as well, so that
// both sides of the ratio come from one process.
var childLocks = []string{"rwsem", "sync"}

func pairsChildCommand(args []string, stdout, _ io.Writer) error {
	fs := flag.NewFlagSet(pairsChild, flag.ContinueOnError)
	n := fs.Int("n", pairsEach, "pairs")
	tries := fs.Bool("tries", false, "time tries too")
	if err := parse(fs, args, "Internal: times pairs once.\n", stdout); err != nil {
		return err
	}
	times := map[string]pairTimes{}
	for _, key := range childLocks {
		times[key] = timePairs(lockByKey(key), *n, *tries)
	}
	return json.NewEncoder(stdout).Encode(times)
}

func runPairsChild(exe string, n int, tries bool) (map[string]pairTimes, error) {
	ctx, cancel := withLimit(context.Background(), childLimit(time.Second))
	defer cancel()
	out, _, err := capture(ctx, exec.CommandContext(ctx, exe, pairsChild, "-n", fmt.Sprint(n), fmt.Sprintf("-tries=%t", tries)))
	if err != nil {
		return nil, err
	}
	times := map[string]pairTimes{}
	if err := json.Unmarshal(out, &times); err != nil {
		return nil, fmt.Errorf("%s: %w", pairsChild, err)
	}
	return times, nil
}

// pairSeries is the pair times of a lock by rounds, and those of sync.RWMutex
// in the same rounds.
type pairSeries struct{ own, ref fourPairs }

func (p *pairSeries) add(own, ref pairTimes) {
	p.own.add(own)
	p.ref.add(ref)
}

// fourPairs is the ns of each kind of pair, by rounds.
type fourPairs [4][]float64

// readPair and writePair are indexes of what every command times.
const (
	readPair = iota
	writePair
)

var pairNames = [len(fourPairs{})]string{"RLock pair", "Lock pair", "TryRLock pair", "TryLock pair"}

func (p *fourPairs) add(t pairTimes) {
	for i, ns := range []float64{t.Read, t.Write, t.TryRead, t.TryWrite} {
		p[i] = append(p[i], ns)
	}
}

const pairsRow = "%-29s %10s %8s %12s   %10s %8s %12s"

func planPairs(s *session) time.Duration {
	return time.Duration(s.pairsRounds()) * time.Duration(len(s.locks)+2) * 50 * time.Millisecond
}

func runPairs(s *session) error {
	locks := s.locks
	ref, ours := lockIndex(locks, "sync"), lockIndex(locks, "rwsem")
	var exe string
	if ours >= 0 {
		dir, err := os.MkdirTemp("", "rwsem-bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		src, err := findSources(thisFile())
		if err != nil {
			return err
		}
		exe = filepath.Join(dir, "bench-purego")
		if err := buildBench(src, "purego", exe); err != nil {
			return fmt.Errorf("building without assembly: %w", err)
		}
	}

	all := make([]pairSeries, len(locks))
	var purego pairSeries
	rounds := s.pairsRounds()
	for r := range rounds {
		finished := s.prog.step("pairs", r, rounds, planPairs(s)/time.Duration(rounds))
		round := make([]pairTimes, len(locks))
		for k := range rotated(len(locks), r) {
			round[k] = timePairs(locks[k], pairsEach, false)
		}
		for i := range locks {
			base := pairTimes{Read: nan, Write: nan}
			if ref >= 0 {
				base = round[ref]
			}
			all[i].add(round[i], base)
		}
		if exe != "" {
			times, err := runPairsChild(exe, pairsEach, false)
			if err != nil {
				return fmt.Errorf("purego build: %w", err)
			}
			purego.add(times["rwsem"], times["sync"])
		}
		finished()
	}

	s.title("Uncontended pairs on one goroutine: ns, ratio to sync.RWMutex")
	s.row(pairsRow, "lock", "RLock pair", "ratio", "spread", "Lock pair", "ratio", "spread")
	save := func(lock string, own fourPairs) {
		s.data.add(record{Table: "pairs", Cell: "one goroutine", Lock: lock,
			Metrics: map[string][]float64{"RLock-pair-ns": own[readPair], "Lock-pair-ns": own[writePair]}})
	}
	row := func(name string, p pairSeries) (read, write ratio) {
		read, write = ratioOf(p.own[readPair], p.ref[readPair]), ratioOf(p.own[writePair], p.ref[writePair])
		s.row(pairsRow, name, fmt.Sprintf("%.2f", median(p.own[readPair])), read, read.spread(),
			fmt.Sprintf("%.2f", median(p.own[writePair])), write, write.spread())
		return read, write
	}
	for i, kind := range locks {
		read, write := row(kind.name, all[i])
		save(kind.key, all[i].own)
		if i != ours {
			continue
		}
		row(kind.name+" -tags purego", purego)
		save(kind.key+" purego", purego.own)
		if ref >= 0 {
			s.checks = append(s.checks,
				atMost("uncontended RLock pair, to sync.RWMutex", read, 1.05),
				atMost("uncontended Lock pair, to sync.RWMutex", write, 0.60))
		}
	}
	return nil
}
