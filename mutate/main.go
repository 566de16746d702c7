// Command mutate changes the lock in one place at a time and runs its tests on
// each such mutant: what no test notices is not tested. From the root of the
// repository:
//
//	go run ./mutate
//
// Mutants are made of the files that -files names; besides there are the patches
// of testdata/faults, each of which puts back a fault that locks of this design
// have had. A mutant that survives all tests has to stand in equivalent.txt, with
// the reason; the command ends with status 1 if one does not, or if one that
// stands there is caught or does not exist any more.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed equivalent.txt
var equivalent string

type options struct {
	files  []string
	faults bool
	only   *regexp.Regexp
	list   bool
	share  int
	limit  time.Duration
	jobs   int
	json   string
	again  string
	log    string
	stages string
}

func main() {
	var o options
	files := flag.String("files", "slowpath.go,fast_amd64.s", "make mutants of these `files`, Go or the generator's for amd64")
	flag.BoolVar(&o.faults, "faults", true, "and run the faults that are kept")
	only := flag.String("run", "", "only mutants whose name matches `regexp`")
	flag.BoolVar(&o.list, "list", false, "list the mutants and run nothing")
	flag.IntVar(&o.share, "share", 1, "run one of so many mutants only, a fixed choice")
	flag.DurationVar(&o.limit, "for", 0, "begin no mutant after this time; 0 for no limit")
	flag.IntVar(&o.jobs, "j", max(1, runtime.NumCPU()/2), "run so many at a time")
	flag.StringVar(&o.json, "json", "", "write what became of each to `file`, a line for each")
	flag.StringVar(&o.again, "again", "", "only those that were not caught, says `file` of an earlier -json")
	flag.StringVar(&o.log, "log", "", "write to this `directory` the output of the test that caught each")
	flag.StringVar(&o.stages, "stages", "", "run only these `stages` of the tests for Go files, of "+stageNames())
	flag.Parse()
	if *files != "" {
		o.files = strings.Split(*files, ",")
	}
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: files are named by -files", flag.Arg(0))
	case o.share < 1 || o.jobs < 1 || o.limit < 0:
		err = fmt.Errorf("-share and -j have to be 1 or more, -for 0 or more")
	default:
		o.only, err = regexp.Compile(*only)
	}
	if err == nil {
		_, err = o.wanted(stages)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		var wrong []string
		if wrong, err = run(ctx, o, os.Stdout, os.Stderr); err == nil && len(wrong) == 0 {
			return
		}
		for _, w := range wrong {
			fmt.Println(w)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	os.Exit(1)
}

// run runs what o selects and returns what is to be complained of.
func run(ctx context.Context, o options, out, progress io.Writer) ([]string, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	list, err := parseAccepted(equivalent)
	if err != nil {
		return nil, fmt.Errorf("equivalent.txt: %w", err)
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	l := &lab{root: root, tmp: tmp, binaries: map[string]string{}, took: map[string]time.Duration{}}

	if _, err := os.Stat(filepath.Join(root, "slowpath.go")); err != nil {
		return nil, fmt.Errorf("this is to be run at the root of the repository: %w", err)
	}
	var all []*mutant
	for _, file := range o.files {
		src, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(file, ".s") {
			all = append(all, generateAsm(file, src)...)
			continue
		}
		ms, err := generate(file, src)
		if err != nil {
			return nil, err
		}
		all = append(all, ms...)
	}
	plain := "" // the binary of the package as it is
	if o.faults && !o.list {
		if plain, err = l.build(ctx, ""); err != nil {
			return nil, err
		}
		kept, err := l.faultMutants(ctx, plain)
		if err != nil {
			return nil, err
		}
		all = append(all, kept...)
	}
	for i, m := range all {
		m.id = i + 1
	}
	selected, err := o.choose(all)
	switch {
	case err != nil:
		return nil, err
	case len(selected) == 0:
		return nil, fmt.Errorf("none of %d mutants is selected", len(all))
	}
	if o.list {
		for _, m := range selected {
			fmt.Fprintf(out, "%s\t%s\n", m.Name, m.Change)
		}
		return nil, nil
	}

	// A build for each set of tags serves all mutants of Go files.
	var inGo []*mutant
	asm := map[string]string{}
	for _, m := range selected {
		switch {
		case strings.HasSuffix(m.file, ".go"):
			inGo = append(inGo, m)
		case strings.HasSuffix(m.file, ".s"):
			asm[asmTags(m.file)] = ""
		}
	}
	wanted, err := o.wanted(stages)
	if err != nil {
		return nil, err
	}
	present, err := l.present(wanted)
	if err != nil {
		return nil, err
	}
	bad := map[int]string{}
	if len(inGo) > 0 {
		fmt.Fprintf(progress, "%d mutants of Go files; building\n", len(inGo))
		if bad, err = l.prepare(ctx, inGo, tagsOf(present)); err != nil {
			return nil, err
		}
		for _, s := range present {
			began := time.Now()
			rep := l.run(ctx, s, unchanged, "")
			if rep.failed {
				rep = l.run(ctx, s, unchanged, "")
			}
			if rep.failed {
				return nil, fmt.Errorf("stage %s: %s %s without a mutant:\n%s", s.name, rep.test, rep.how, rep.output)
			}
			fmt.Fprintf(progress, "stage %s passes without a mutant, in %.1f s\n", s.name, time.Since(began).Seconds())
		}
	}
	for tags := range asm {
		if tags == "" && plain != "" {
			asm[tags] = plain
		} else if asm[tags], err = l.build(ctx, tags); err != nil {
			return nil, err
		}
	}

	judgeOne := func(m *mutant) (result, error) {
		switch {
		case m.file == "fault" || m.file == "order":
			return l.judgeFault(ctx, plain, m), nil
		case strings.HasSuffix(m.file, ".s"):
			return l.judgeAsm(ctx, asm[asmTags(m.file)], m)
		case bad[m.id] != "":
			return result{mutant: *m, Status: invalid, Test: bad[m.id]}, nil
		}
		return judge(m, present, func(s stage, only string) report {
			rep := l.run(ctx, s, m.id, only)
			if rep.failed && o.log != "" {
				name := strings.NewReplacer(":", "_", "/", "_").Replace(m.Name)
				_ = os.WriteFile(filepath.Join(o.log, name+".log"), []byte(rep.output), 0o644)
			}
			return rep
		}), nil
	}
	results, err := o.each(ctx, selected, judgeOne, progress)
	if err != nil {
		return nil, err
	}
	summary(out, results)
	known := map[string]*mutant{}
	for _, m := range all {
		known[m.Name] = m
	}
	return complaints(results, list, known, o.files), nil
}

// choose returns those of all that o selects, in an order that leaves what comes
// first a fair sample.
func (o options) choose(all []*mutant) ([]*mutant, error) {
	var wanted map[string]bool
	if o.again != "" {
		text, err := os.ReadFile(o.again)
		if err != nil {
			return nil, err
		}
		wanted = map[string]bool{}
		for line := range strings.Lines(string(text)) {
			var r result
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return nil, fmt.Errorf("%s: %w", o.again, err)
			}
			wanted[r.Name] = r.Status != caught && r.Status != invalid
		}
	}
	hash := func(m *mutant) uint64 {
		h := fnv.New64a()
		h.Write([]byte(m.Name))
		return h.Sum64() * 0x9e3779b97f4a7c15 >> 16
	}
	var selected []*mutant
	for _, m := range all {
		if o.only.MatchString(m.Name) && (wanted == nil || wanted[m.Name]) && hash(m)%uint64(o.share) == 0 {
			selected = append(selected, m)
		}
	}
	if !o.list {
		slices.SortFunc(selected, func(a, b *mutant) int { return cmp.Compare(hash(a), hash(b)) })
	}
	return selected, nil
}

// wanted are the stages that are named, all if none is.
func (o options) wanted(all []stage) (some []stage, err error) {
	if o.stages == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(o.stages, ",") {
		i := slices.IndexFunc(all, func(s stage) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no such stage: %q; there are %s", name, stageNames())
		}
		some = append(some, all[i])
	}
	return some, nil
}

func stageNames() string {
	var names []string
	for _, s := range stages {
		names = append(names, s.name)
	}
	return strings.Join(names, ",")
}

// present are the stages that there are tests for.
func (l *lab) present(stages []stage) ([]stage, error) {
	names, err := filepath.Glob(filepath.Join(l.root, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var tests strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		tests.Write(text)
	}
	return slices.DeleteFunc(slices.Clone(stages), func(s stage) bool {
		return s.needs != "" && !strings.Contains(tests.String(), "func "+s.needs)
	}), nil
}

func tagsOf(stages []stage) []string {
	set := map[string]bool{}
	for _, s := range stages {
		set[s.tags] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// each judges the mutants, several at a time, and says how far it is.
func (o options) each(ctx context.Context, mutants []*mutant, judge func(*mutant) (result, error), progress io.Writer) ([]result, error) {
	var lines io.Writer = io.Discard
	if o.json != "" {
		f, err := os.Create(o.json)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		lines = f
	}
	began := time.Now()
	var (
		all     sync.WaitGroup
		next    atomic.Int64
		mu      sync.Mutex
		results []result
		failed  error
	)
	for range o.jobs {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(mutants) {
					return
				}
				m := mutants[i]
				r := result{mutant: *m, Status: notRun}
				var err error
				if ctx.Err() == nil && (o.limit == 0 || time.Since(began) < o.limit) {
					start := time.Now()
					r, err = judge(m)
					r.Seconds = time.Since(start).Seconds()
					if ctx.Err() != nil { // it was not the mutant that failed
						r = result{mutant: *m, Status: notRun}
					}
				}
				mu.Lock()
				if err != nil && failed == nil {
					failed = err
				}
				results = append(results, r)
				if text, err := json.Marshal(r); err == nil {
					fmt.Fprintf(lines, "%s\n", text)
				}
				if r.Status != notRun {
					left := time.Duration(float64(time.Since(began)) / float64(len(results)) * float64(len(mutants)-len(results)))
					fmt.Fprintf(progress, "%d of %d, %s left: %s: %s %s %s\n", len(results), len(mutants),
						left.Round(time.Second), r.Name, r.Status, r.How, r.Test)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.id, b.id) })
	return results, failed
}

// summary writes how many there are of what, by file and by stage, and the survivors.
func summary(out io.Writer, results []result) {
	byFile := map[string]map[string]int{}
	byStage, how := map[string]int{}, map[string]int{}
	for _, r := range results {
		if byFile[r.file] == nil {
			byFile[r.file] = map[string]int{}
		}
		byFile[r.file][r.Status]++
		if r.Status == caught {
			byStage[r.Stage]++
			how[r.How]++
		}
	}
	fmt.Fprintf(out, "%-18s %8s %8s %10s %8s\n", "", caught, survived, "not built", notRun)
	for _, f := range slices.Sorted(maps.Keys(byFile)) {
		n := byFile[f]
		fmt.Fprintf(out, "%-18s %8d %8d %10d %8d\n", f, n[caught], n[survived], n[invalid], n[notRun])
	}
	fmt.Fprint(out, "caught by")
	for _, s := range slices.Sorted(maps.Keys(byStage)) {
		fmt.Fprintf(out, " %s %d", s, byStage[s])
	}
	fmt.Fprint(out, "; which")
	for _, h := range slices.Sorted(maps.Keys(how)) {
		fmt.Fprintf(out, " %s %d", h, how[h])
	}
	fmt.Fprintln(out)
}
