package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file")

func small(t *testing.T) []byte {
	t.Helper()
	src, err := os.ReadFile("testdata/small.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func list(ms []*mutant) string {
	var b strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&b, "%s\t%s\n", m.Name, m.Change)
	}
	return b.String()
}

// TestGenerate compares the mutants of a small file with those that a reader of
// it would make.
func TestGenerate(t *testing.T) {
	ms, err := generate("small.go", small(t))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/small.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(list(ms)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := list(ms); got != string(want) {
		t.Errorf("run with -update if this is right:\n%s", got)
	}
	names := map[string]bool{}
	for _, m := range ms {
		if names[m.Name] {
			t.Errorf("two are called %s", m.Name)
		}
		names[m.Name] = true
	}
}

// What stands elsewhere in the file changes no name.
func TestNamesStay(t *testing.T) {
	src := small(t)
	before, err := generate("small.go", src)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(string(src), "// take sets", `func other(n int) bool {
	// Has mutants of its own.
	return n < 3 && n != 2
}

// Some more lines.

// take sets`, 1)
	after, err := generate("small.go", []byte(moved))
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]string{}
	for _, m := range after {
		changes[m.Name] = m.Change
	}
	if len(after) <= len(before) {
		t.Errorf("%d mutants, with another function %d", len(before), len(after))
	}
	for _, m := range before {
		if changes[m.Name] != m.Change {
			t.Errorf("%s was %s, is %s", m.Name, m.Change, changes[m.Name])
		}
	}
}

func TestGenerateAsm(t *testing.T) {
	const src = `#include "textflag.h"

// A comment, JNE within.
TEXT ·take(SB), NOSPLIT, $0-8
	MOVQ  rw+0(FP), AX
	TESTB $(const_a|const_b), AL
	JNE   slow

	// LOCK is an instruction.
	LOCK
	XADDQ AX, (CX)
	RET

slow:
	JMP ·other(SB)
`
	want := `x_amd64.s:take:drop:1	MOVQ rw+0(FP), AX -> nothing
x_amd64.s:take:drop:2	TESTB $(const_a|const_b), AL -> nothing
x_amd64.s:take:bits:1	TESTB $(const_a|const_b), AL -> TESTB $(const_b), AL
x_amd64.s:take:bits:2	TESTB $(const_a|const_b), AL -> TESTB $(const_a), AL
x_amd64.s:take:drop:3	JNE slow -> nothing
x_amd64.s:take:negate:1	JNE slow -> JEQ slow
x_amd64.s:take:drop:4	LOCK -> nothing
x_amd64.s:take:drop:5	XADDQ AX, (CX) -> nothing
x_amd64.s:take:drop:6	RET -> nothing
x_amd64.s:take:drop:7	JMP ·other(SB) -> nothing
`
	ms := generateAsm("x_amd64.s", []byte(src))
	if got := list(ms); got != want {
		t.Errorf("got\n%s", got)
	}
	for _, m := range ms {
		before := oneLine(src[m.start:m.end])
		if from, _, _ := strings.Cut(m.Change, " -> "); from != before {
			t.Errorf("%s stands in the place of %s", m.Name, before)
		}
	}
}

// A function that a copy cannot be called from is an error, not left out.
func TestGenerateUnnamed(t *testing.T) {
	for _, f := range []string{"func f(int) {}", "func (word) f() {}", "func f(_ int) {}"} {
		if _, err := generate("x.go", []byte("package rwsem\n\n"+f+"\n")); err == nil {
			t.Errorf("%s: no error", f)
		}
	}
}
