package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		output        string
		failed, ended bool
		how, test     string
	}{
		{"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n", false, false, "", ""},
		{"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- FAIL: TestB (0.00s)\nFAIL\n", true, false, "fails", "TestB"},
		{"=== RUN   TestA\n=== RUN   TestA/sub\n    --- FAIL: TestA/sub (0.00s)\n--- FAIL: TestA (0.00s)\n", true, false, "fails", "TestA"},
		{"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\nfatal error: all goroutines are asleep\n", true, false, "crashes", "TestB"},
		{"=== RUN   TestA\n", true, true, "hangs", "TestA"},
		{"", true, false, "crashes", ""},
	} {
		r := read(c.output, c.failed, c.ended)
		if r.failed != c.failed || r.how != c.how || r.test != c.test {
			t.Errorf("%q: %+v", c.output, r)
		}
	}
}

// TestJudge has tests fail as a table says, run by run.
func TestJudge(t *testing.T) {
	stages := []stage{{name: "first"}, {name: "second", again: true}}
	fail := report{failed: true, how: "fails", test: "TestX"}
	hang := report{failed: true, how: "hangs"}
	type runs map[string][]report // by stage and test
	for _, c := range []struct {
		name               string
		runs               runs
		status, stage, how string
		did                string
	}{
		{"nothing fails", runs{}, survived, "", "", "first second"},
		{"the first stage", runs{"first": {fail}}, caught, "first", "fails", "first"},
		{"a hang", runs{"first": {hang, hang}}, caught, "first", "hangs", "first first"},
		{"a hang that does not come again", runs{"first": {hang}}, survived, "", "", "first first second"},
		{"the second, and alone", runs{"second": {fail}, "second TestX": {fail}}, caught, "second", "fails", "first second second/TestX"},
		{"once", runs{"second": {fail}}, survived, "", "", "first second second/TestX second"},
		{"again, not alone", runs{"second": {fail, fail}}, caught, "second", "fails", "first second second/TestX second"},
		{"a hang once", runs{"second": {hang}}, survived, "", "", "first second second"},
	} {
		var did []string
		r := judge(&mutant{Name: "m"}, stages, func(s stage, only string) report {
			key := s.name
			if only != "" {
				key += " " + only
			}
			did = append(did, strings.ReplaceAll(key, " ", "/"))
			of := c.runs[key]
			if len(of) == 0 {
				return report{}
			}
			c.runs[key] = of[1:]
			return of[0]
		})
		if r.Status != c.status || r.Stage != c.stage || r.How != c.how || strings.Join(did, " ") != c.did {
			t.Errorf("%s: %+v after %v", c.name, r, did)
		}
	}
}

func TestAccepted(t *testing.T) {
	for text, wrong := range map[string]string{
		"# a comment\n\nf.go:g:bits:1\tequivalent\ta -> b\tbecause\n":                "",
		"f.go:g:bits:1\tequivalent\ta -> b\n":                                        "3 fields",
		"f.go:g:bits:1\tbecause\ta -> b\tbecause\n":                                  "no such kind",
		"f.go:g:bits:1\tpolicy\ta -> b\t \n":                                         "no reason",
		"f.go:g:bits:1\tpolicy\ta\tbecause\nf.go:g:bits:1\tequivalent\tb\tbecause\n": "twice",
	} {
		_, err := parseAccepted(text)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parseAccepted(equivalent); err != nil {
		t.Error(err)
	}
}

func TestComplaints(t *testing.T) {
	m := func(name string) mutant { return mutant{Name: name, Change: "a -> b"} }
	known := map[string]*mutant{}
	var results []result
	for name, status := range map[string]string{
		"f.go:g:bits:1": survived, // accepted
		"f.go:g:bits:2": survived,
		"f.go:g:bits:3": caught, // accepted
		"f.go:g:bits:4": caught,
		"f.go:g:bits:5": notRun, // accepted
		"f.go:g:bits:6": invalid,
		"f.go:g:bits:7": survived, // another was accepted
	} {
		mu := m(name)
		known[name] = &mu
		results = append(results, result{mutant: mu, Status: status})
	}
	hanging := mutant{Name: "fault:one", file: "fault"}
	results = append(results, result{mutant: hanging, Status: invalid, Test: "hung"})
	var list []accepted
	for _, n := range []string{"f.go:g:bits:1", "f.go:g:bits:3", "f.go:g:bits:5", "f.go:g:bits:8", "other.go:g:bits:1"} {
		list = append(list, accepted{n, "policy", "a -> b", "because"})
	}
	list = append(list, accepted{"f.go:g:bits:7", "policy", "a -> c", "because"})
	got := complaints(results, list, known, []string{"f.go"})
	slices.Sort(got)
	want := []string{
		"f.go:g:bits:2: survived",
		"f.go:g:bits:3: accepted as policy, and now caught",
		"f.go:g:bits:7: accepted as a -> c, and now is a -> b",
		"f.go:g:bits:7: survived",
		"f.go:g:bits:8: accepted, and there is no such mutant any more",
		"fault:one: its test does not tell: hung",
	}
	if len(got) != len(want) {
		t.Fatalf("%d complaints: %q", len(got), got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q, not %q", got[i], want[i])
		}
	}
}
