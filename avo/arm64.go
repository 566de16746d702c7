package main

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/gotypes"
)

// An arm writes arm64 assembly, which avo does not know. It takes registers as
// they are told. R0 to R15 are free to use; of the others some are the tests'
// hooks', and some the platform's, the linker's and the assembler's.
type arm struct {
	declarations
	variant variant
	out     strings.Builder
	sig     *gotypes.Signature // of the function that is being written
	block   [][]string         // instructions whose columns are aligned
	loops   []func()           // what lies behind the function, for CPUs without LSE
	last    string             // what was written last
}

// arm64 is the target of the given name, built under the given constraint too.
func arm64(file string, constraint, decls []string, v variant, implement func(*arm)) target {
	return target{file, decls, func(dir string, t target) ([]byte, error) {
		a := &arm{variant: v}
		if err := a.read(dir, t.decls); err != nil {
			return nil, err
		}
		fmt.Fprintf(&a.out, "%s\n\n//go:build arm64 && %s\n\n#include \"go_asm.h\"\n#include \"textflag.h\"\n",
			generated, conjunction(slices.Concat(asmConstraint, constraint)))
		implement(a)
		a.end()
		return []byte(a.out.String()), a.err()
	}}
}

// conjunction is a build constraint of terms that are written as avo wants them.
func conjunction(terms []string) string {
	for i, t := range terms {
		if strings.Contains(t, " ") {
			terms[i] = "(" + strings.ReplaceAll(t, " ", " || ") + ")"
		}
	}
	return strings.Join(terms, " && ")
}

// text starts the function of the given name, ending the one before it. It has
// no frame and makes no call, so it leaves the link register alone: whatever it
// jumps to returns to its caller.
func (a *arm) text(name string) {
	a.end()
	a.sig = a.implement(name)
	fmt.Fprintf(&a.out, "\n// func %s%s\n//\n", name, strings.TrimPrefix(a.sig.String(), "func"))
	for _, line := range doc(name, a.variant) {
		fmt.Fprintf(&a.out, "// %s\n", line)
	}
	a.line("text", fmt.Sprintf("TEXT ·%s(SB), NOSPLIT, $0-%d", name, a.sig.Bytes()))
}

// end ends a function by what it put off.
func (a *arm) end() {
	if len(a.loops) > 0 {
		a.line("gap", "\n#ifndef GOARM64_LSE")
		for _, loop := range a.loops {
			loop()
		}
		a.line("directive", "#endif")
		a.loops = nil
	}
	a.flush()
}

// op adds an instruction.
func (a *arm) op(name string, operands ...string) {
	a.block = append(a.block, []string{name, strings.Join(operands, ", ")})
	a.last = "op"
}

func (a *arm) flush() {
	width := 0
	for _, i := range a.block {
		width = max(width, len(i[0]))
	}
	for _, i := range a.block {
		a.out.WriteString("\t" + strings.TrimRight(fmt.Sprintf("%-*s %s", width, i[0], i[1]), " ") + "\n")
	}
	a.block = nil
}

func (a *arm) line(kind, text string) {
	a.flush()
	a.out.WriteString(text + "\n")
	a.last = kind
}

func (a *arm) label(name string) {
	if a.last == "op" || a.last == "directive" {
		name = "\n" + name
	}
	a.line("label", name+":")
}

func (a *arm) comment(lines ...string) {
	text := "\t// " + strings.Join(lines, "\n\t// ")
	if a.last == "op" {
		text = "\n" + text
	}
	a.line("comment", text)
}

// imm is expr as an immediate.
func imm(expr string) string { return symbolic(nil, expr).text }

// operand is expr as an immediate if ok says so in every layout, else the
// scratch register, loaded with it.
func (a *arm) operand(expr, scratch string, ok func(uint64) bool) string {
	fits, err := a.variant.all(expr, ok)
	if err != nil {
		a.errorf("%s: %w", expr, err)
	}
	if fits {
		return imm(expr)
	}
	a.op("MOVD", imm(expr), scratch)
	return scratch
}

// bitmask is what arm64 takes as an immediate of a 64-bit logical operation: one
// run of ones, rotated and repeated.
func bitmask(n uint64) bool {
	for size := 64; size >= 2 && bits.RotateLeft64(n, size) == n; size /= 2 {
		ones := uint64(1)<<size - 1
		once := n & ones
		if bits.OnesCount64(once^(once<<1|once>>(size-1))&ones) == 2 {
			return true
		}
	}
	return false
}

// unsigned12 is what arm64 takes as an immediate of an addition or comparison.
func unsigned12(n uint64) bool { return n < 1<<12 }

// param and result are the function's, by name and as the only one.
func (a *arm) param(name string) string { return a.address(a.sig.Params().Lookup(name)) }
func (a *arm) result() string           { return a.address(a.sig.Results().At(0)) }

func (a *arm) address(c gotypes.Component) string { return a.component(c).Addr.Asm() }

// Fields of the RWMutex in R0.
const (
	rwCount  = "RWMutex_count(R0)"
	rwOwner  = "RWMutex_owner(R0)"
	rwSteals = "RWMutex_steals(R0)"
)

// The atomic steps are written twice: with the instructions of LSE, and, out of
// the way, as a loop around an exclusive load and store for CPUs without them.
// Which it is, the byte hasLSE says, unless the build knows already.

// swapAcquire atomically replaces the count by want if it is expect, and leaves
// what it was in old and in the flags whether they are equal. The load acquires,
// and what follows cannot be written before the store is known to have
// succeeded. The comment says why no more is needed.
func (a *arm) swapAcquire(expect, want, old string, comment ...string) {
	a.swap("CASAD", "LDAXR", "STXR", "The load acquires.", expect, want, old, comment)
}

// swapRelease is swapAcquire with release in its place: the store does.
func (a *arm) swapRelease(expect, want, old string, comment ...string) {
	a.swap("CASLD", "LDXR", "STLXR", "The store releases.", expect, want, old, comment)
}

func (a *arm) swap(cas, load, store, order, expect, want, old string, comment []string) {
	loop, done := a.choose("swap")
	a.comment(comment...)
	a.op("MOVD", expect, old)
	a.op(cas, old, rwCount, want)
	a.label(done)
	a.op("CMP", expect, old)
	a.loops = append(a.loops, func() {
		a.label(loop)
		a.comment(order)
		a.op(load, rwCount, old)
		a.op("CMP", expect, old)
		a.op("BNE", done)
		a.op(store, want, rwCount, exclusive)
		a.op("CBNZ", exclusive, loop)
		a.op("B", done)
	})
}

// fetchAdd atomically adds delta to the count and leaves what it was in old. It
// releases: the store does. The comment says why no more is needed.
func (a *arm) fetchAdd(delta, old string, comment ...string) {
	loop, done := a.choose("add")
	a.comment(comment...)
	a.op("LDADDLD", delta, rwCount, old)
	a.label(done)
	a.loops = append(a.loops, func() {
		a.label(loop)
		a.comment("The store releases.")
		a.op("LDXR", rwCount, old)
		a.op("ADD", delta, old, sum)
		a.op("STLXR", sum, rwCount, exclusive)
		a.op("CBNZ", exclusive, loop)
		a.op("B", done)
	})
}

const (
	exclusive = "R14" // hasLSE, or 0 if an exclusive store succeeded
	sum       = "R15"
)

// choose goes to loop if the CPU has no LSE. done is to be put behind the step.
func (a *arm) choose(step string) (loop, done string) {
	if n := len(a.loops); n > 0 {
		step += fmt.Sprint(n + 1)
	}
	loop, done = step+"Exclusive", step+"Done"
	a.line("gap", "\n#ifndef GOARM64_LSE")
	a.op("MOVBU", "·hasLSE(SB)", exclusive)
	a.op("CBZ", exclusive, loop)
	a.line("directive", "#endif")
	return loop, done
}

// tailJump leaves for the Go function of the given name, which finds the same
// arguments in the frame and returns to the caller.
func (a *arm) tailJump(name string) { a.op("B", "·"+name+"(SB)") }
