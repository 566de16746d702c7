package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const smallTest = `package rwsem

import "testing"

func TestTake(t *testing.T) {
	var w word
	if !w.take(false) || w.bits.Load() != flagB || w.steps != 1 {
		t.Fatal("not taken")
	}
	w.bits.Store(flagA)
	if w.take(false) {
		t.Fatal("taken")
	}
}
`

// TestLab builds the mutants of a small package and tells those that its test
// catches from the others.
func TestLab(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module small\n\ngo 1.26\n",
		"small.go":      string(small(t)),
		"small_test.go": smallTest,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := &lab{root: dir, tmp: t.TempDir(), binaries: map[string]string{}, took: map[string]time.Duration{}}
	ms, err := generate("small.go", small(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		m.id = i + 1
	}
	bad, err := l.prepare(t.Context(), ms, []string{""})
	if err != nil {
		t.Fatal(err)
	}
	s := stage{name: "all", run: "."}
	if rep := l.run(t.Context(), s, unchanged, ""); rep.failed {
		t.Fatalf("the package itself fails:\n%s", rep.output)
	}
	want := map[string]string{
		"c&flagA -> c":                                survived, // by this test
		"c&^flagA|flagB -> c&^flagA":                  caught,
		"c&flagA != 0 -> c&flagA == 0":                caught,
		"w.steps < maxSteps -> !(w.steps < maxSteps)": caught,
		"w.steps++ -> nothing":                        caught,
		"w.steps < maxSteps -> w.steps <= maxSteps":   survived,
		"continue -> break":                           survived,
	}
	for _, m := range ms {
		status, ok := want[m.Change]
		if !ok {
			continue
		}
		delete(want, m.Change)
		if bad[m.id] != "" {
			t.Errorf("%s: %s", m.Name, bad[m.id])
			continue
		}
		r := judge(m, []stage{s}, func(s stage, only string) report { return l.run(t.Context(), s, m.id, only) })
		if r.Status != status {
			t.Errorf("%s: %s: %s, not %s", m.Name, m.Change, r.Status, status)
		}
	}
	for c := range want {
		t.Errorf("no mutant %s", c)
	}
}

// A mutant that does not compile is none, and keeps no other from being built.
func TestNotBuilt(t *testing.T) {
	dir := t.TempDir()
	const src = `package rwsem

func f(n int) int {
	for {
		if n++; n > 3 {
			continue
		}
		return n
	}
}
`
	if err := os.WriteFile(filepath.Join(dir, "f.go"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	ms, err := generate("f.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		m.id = i + 1
	}
	text, spans := combine([]byte(src), ms)
	bad, err := check(dir, "", map[string][]byte{"f.go": text, "chooser.go": []byte(chooserSource)}, map[string][]span{"f.go": spans})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if breaks := strings.HasPrefix(m.Change, "continue"); breaks != (bad[m.id] != "") {
			t.Errorf("%s: %s: %q", m.Name, m.Change, bad[m.id])
		}
	}
}
