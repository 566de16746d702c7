package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The mutants that are kept, not made: the patches of testdata/faults, each with
// its test, and the orders that TestAssemblyEncodingFinds leaves out of arm64's
// instructions. The tests that have them say themselves whether they were caught.

// faultTests are those tests, what their mutants are called and what they say of
// one that survives.
var faultTests = []struct {
	file, test string
	args       []string
	survives   *regexp.Regexp
}{
	{"fault", "TestFaults", []string{"-rwsem.mutants"}, regexp.MustCompile(`passes with the fault`)},
	{"order", "TestAssemblyEncodingFinds", nil, regexp.MustCompile(`(?s)Should NOT be empty`)},
}

// faultMutants lists what is kept.
func (l *lab) faultMutants(ctx context.Context, binary string) ([]*mutant, error) {
	var all []*mutant
	patches, err := filepath.Glob(filepath.Join(l.root, "testdata", "faults", "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, p := range patches {
		name := strings.TrimSuffix(filepath.Base(p), ".patch")
		all = append(all, &mutant{Name: "fault:" + name, Change: filepath.Join("testdata", "faults", name+".patch"), file: "fault"})
	}
	for _, t := range faultTests {
		l.took[t.test] = time.Minute // they build
	}
	rep := l.command(ctx, l.root, binary, 0, "-test.v", "-test.run=^TestAssemblyEncodingFinds$")
	if rep.failed && rep.how != "fails" {
		return nil, fmt.Errorf("%s %s:\n%s", rep.test, rep.how, rep.output)
	}
	patched := len(all)
	for _, m := range regexp.MustCompile(`(?m)^    --- \w+: TestAssemblyEncodingFinds/(\S+)`).FindAllStringSubmatch(rep.output, -1) {
		all = append(all, &mutant{Name: "order:" + m[1], Change: "an order left out", file: "order"})
	}
	if patched == 0 || patched == len(all) {
		return nil, fmt.Errorf("%d faults and %d orders in %s", patched, len(all)-patched, l.root)
	}
	return all, nil
}

// judgeFault runs the test that has m.
func (l *lab) judgeFault(ctx context.Context, binary string, m *mutant) result {
	r := result{mutant: *m, Status: survived}
	for _, t := range faultTests {
		if t.file != m.file {
			continue
		}
		_, name, _ := strings.Cut(m.Name, ":")
		var run strings.Builder
		run.WriteString("-test.run=^" + t.test + "$")
		for part := range strings.SplitSeq(name, "/") {
			run.WriteString("/^" + regexp.QuoteMeta(part) + "$")
		}
		rep := l.command(ctx, l.root, binary, 0, append([]string{"-test.v", run.String()}, t.args...)...)
		switch {
		case !rep.failed && strings.Contains(rep.output, "    --- PASS: "+t.test+"/"):
			r.Status, r.Stage, r.How, r.Test = caught, t.file, "fails", t.test
		case !rep.failed, t.survives.MatchString(rep.output):
		default:
			r.Status, r.Test = invalid, lastLines(rep.output)
		}
	}
	return r
}

func lastLines(text string) string {
	const most = 400
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}
