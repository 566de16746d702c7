package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// A gen is avo's context and what this package adds to it: declarations that
// are read without the rest of the package, symbolic immediates, and the
// instructions that avo does not have or has wrong.
type gen struct {
	*build.Context
	declarations
	variant variant // of the count's layout, for those who look at the count
}

// amd64 is the target of the given name, built under the given constraints too;
// they are written as avo wants them, where a space says or.
func amd64(file string, constraint, decls []string, v variant, implement func(*gen)) target {
	return target{file, decls, func(dir string, t target) ([]byte, error) {
		g := &gen{Context: build.NewContext(), variant: v}
		if err := g.read(dir, t.decls); err != nil {
			return nil, err
		}
		g.ConstraintExpr("amd64")
		for _, c := range slices.Concat(asmConstraint, constraint) {
			g.ConstraintExpr(c)
		}
		implement(g)
		if err := g.err(); err != nil {
			return nil, err
		}
		return g.print()
	}}
}

func (g *gen) print() ([]byte, error) {
	f, err := g.Result()
	if err != nil {
		return nil, err
	}
	f.Includes = []string{"go_asm.h", "textflag.h"}
	if err := pass.Compile.Execute(f); err != nil {
		return nil, err
	}
	cfg := printer.Config{Argv: []string{"go", "generate", "./avo"}, Pkg: g.pkg.Name()}
	text, err := printer.NewGoAsm(cfg).Print(f)
	if err != nil {
		return nil, err
	}
	text = zeroOffset.ReplaceAll(text, []byte("$1("))
	return document(f, text), nil
}

// zeroOffset is what avo writes after a symbolic field offset.
var zeroOffset = regexp.MustCompile(`(RWMutex_\w+)\+0\(`)

// document puts each function's doc above its TEXT; avo prints it in Go stubs
// only.
func document(f *ir.File, text []byte) []byte {
	for _, fn := range f.Functions() {
		head := []byte("\n// " + fn.Stub() + "\n")
		doc := head
		if len(fn.Doc) > 0 {
			doc = fmt.Appendf(nil, "%s//\n// %s\n", head, strings.Join(fn.Doc, "\n// "))
			doc = bytes.ReplaceAll(doc, []byte("// \n"), []byte("//\n"))
		}
		text = bytes.Replace(text, head, doc, 1)
	}
	return text
}

// text starts the function of the given name. Its frame is empty and it makes
// no call, so it needs no room on the stack: whatever it jumps to makes its own.
func (g *gen) text(name string) {
	sig := g.implement(name)
	g.Function(name)
	g.Signature(sig)
	g.Attributes(attr.NOSPLIT)
	g.Doc(doc(name, g.variant)...)
}

// rwMutex loads the parameter rw.
func (g *gen) rwMutex() rwMutex {
	return rwMutex{g.Load(g.Param("rw"), g.GP64())}
}

// A rwMutex is a register that points to a RWMutex.
type rwMutex struct{ reg reg.Register }

func (m rwMutex) field(name string) operand.Mem {
	return operand.Mem{Symbol: operand.Symbol{Name: "RWMutex_" + name}, Base: m.reg}
}

func (m rwMutex) count() operand.Mem  { return m.field("count") }
func (m rwMutex) owner() operand.Mem  { return m.field("owner") }
func (m rwMutex) steals() operand.Mem { return m.field("steals") }

// A symbol is an immediate operand in the names of go_asm.h. avo takes only
// numbers, so the instruction is built with a number of the same width in its
// place: avo's tables then say what the instruction reads and writes.
type symbol struct {
	operand.Constant // the number
	text             string
}

var constName = regexp.MustCompile(`[a-z]\w*`)

// symbolic makes a symbol of an expression in the package's constants, such as
// "readBlocked|flagWaiters".
func symbolic(number operand.Constant, expr string) symbol {
	text := constName.ReplaceAllString(expr, "const_$0")
	if strings.ContainsAny(expr[1:], "|&+-") {
		text = "(" + text + ")"
	}
	return symbol{number, "$" + text}
}

func imm8(expr string) symbol  { return symbolic(operand.U8(0), expr) }
func imm32(expr string) symbol { return symbolic(operand.U32(0), expr) }
func imm64(expr string) symbol { return symbolic(operand.U64(0), expr) }

// imm is expr for a 64-bit operation: an immediate if it fits one in every
// layout, else a register that is loaded with it.
func (g *gen) imm(expr string) operand.Op {
	if g.fits(expr, signed32) {
		return imm32(expr)
	}
	r := g.GP64()
	g.add(x86.MOVQ, imm64(expr), r)
	return r
}

// load loads r with expr.
func (g *gen) load(expr string, r reg.GPVirtual) {
	if g.fits(expr, unsigned32) {
		g.add(x86.MOVL, imm32(expr), r.As32())
	} else {
		g.add(x86.MOVQ, imm64(expr), r)
	}
}

func (g *gen) fits(expr string, ok func(uint64) bool) bool {
	fits, err := g.variant.all(expr, ok)
	if err != nil {
		g.errorf("%s: %w", expr, err)
	}
	return fits
}

// add adds what the constructor op of package x86 makes of the operands, of
// which one or both may be symbols.
func (g *gen) add(op func(a, b operand.Op) (*ir.Instruction, error), operands ...operand.Op) {
	plain := slices.Clone(operands)
	for n, o := range operands {
		if s, ok := o.(symbol); ok {
			plain[n] = s.Constant
		}
	}
	i, err := op(plain[0], plain[1])
	if err != nil {
		g.errorf("%v: %w", operands, err)
		return
	}
	for n, o := range operands {
		if s, ok := o.(symbol); ok {
			i.Operands[n] = operand.LabelRef(s.text)
		}
	}
	g.Instruction(i)
}

// lock adds the LOCK prefix of the instruction that follows. avo has none.
func (g *gen) lock() {
	g.Instruction(&ir.Instruction{Opcode: "LOCK"})
}

// xadd atomically adds r to the count and leaves the old count in r. The flags
// are those of the addition.
func (g *gen) xadd(r reg.Register, m rwMutex) {
	g.lock()
	g.XADDQ(r, m.count())
}

// cmpxchg atomically replaces the count by r if it is what RAX says, and says
// whether it did in ZF; if it did not, RAX has the count that was found. avo's
// tables do not know of RAX here.
func (g *gen) cmpxchg(r reg.Register, m rwMutex) {
	g.lock()
	i, err := x86.CMPXCHGQ(r, m.count())
	if err != nil {
		g.errorf("%w", err)
		return
	}
	i.Inputs = append(i.Inputs, reg.RAX)
	i.Outputs = append(i.Outputs, reg.RAX)
	g.Instruction(i)
}

func label(name string) operand.LabelRef { return operand.LabelRef(name) }

// tailJump leaves for the Go function of the given name, which finds the same
// arguments in the frame and returns to the caller.
func (g *gen) tailJump(name string) {
	g.Instruction(&ir.Instruction{
		Opcode:     "JMP",
		Operands:   []operand.Op{operand.LabelRef("·" + name + "(SB)")},
		IsTerminal: true,
	})
}

// currentG loads the calling goroutine's g into r. avo does not know TLS.
func (g *gen) currentG(r reg.Register) {
	g.Instruction(&ir.Instruction{
		Opcode:   "MOVQ",
		Operands: []operand.Op{operand.LabelRef("(TLS)"), r},
		Outputs:  []operand.Op{r},
	})
}

// returnBool stores the only result and returns.
func (g *gen) returnBool(v uint8) {
	ret, err := g.ReturnIndex(0).Resolve()
	if err != nil {
		g.errorf("%w", err)
		return
	}
	g.MOVB(operand.U8(v), ret.Addr)
	g.RET()
}
