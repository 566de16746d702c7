package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	relaxPauses = 16 // the most that relax makes
	maxPauses   = 16 // the most that pause makes
)

// pause implements pause_asm.go and pause_asm_amd64.go.
func pause(g *gen) {
	relax(g)
	pauses(g)
	cycles(g)
	invariantTSC(g)
}

func relax(g *gen) {
	g.text("relax")
	ticks := g.Load(g.Param("ticks"), g.GP64()).(reg.GPVirtual)
	start, left := g.GP64(), g.GP32()
	readCycles(g)
	g.MOVQ(reg.RAX, start)
	g.MOVL(operand.U32(relaxPauses), left)

	g.Label("loop")
	g.PAUSE()
	readCycles(g)
	g.SUBQ(start, reg.RAX)
	g.Comment(wentBackwards)
	g.CMPQ(reg.RAX, ticks)
	g.JCC(label("done"))
	g.DECL(left)
	g.JNE(label("loop"))

	g.Label("done")
	g.RET()
}

func pauses(g *gen) {
	g.text("pause")
	n := g.Load(g.Param("n"), g.GP32()).(reg.GPVirtual)
	most := g.GP32()
	g.MOVL(operand.U32(maxPauses), most)
	g.CMPL(n, most)
	g.CMOVLHI(most, n)
	g.TESTL(n, n)
	g.JEQ(label("done"))

	g.Label("loop")
	g.PAUSE()
	g.DECL(n)
	g.JNE(label("loop"))

	g.Label("done")
	g.RET()
}

func cycles(g *gen) {
	g.text("cycles")
	readCycles(g)
	g.Store(reg.RAX, g.ReturnIndex(0))
	g.RET()
}

// readCycles reads the cycle counter into RAX. It is not ordered against its
// neighbours: some cycles more or less do not matter.
func readCycles(g *gen) {
	g.RDTSC()
	g.SHLQ(operand.U8(32), reg.RDX)
	g.ORQ(reg.RDX, reg.RAX)
}

// The leaves of CPUID that invariantTSC asks, and where the answer is.
const (
	maxExtendedLeaf = 0x8000_0000 // the highest leaf of its kind, in EAX
	powerLeaf       = 0x8000_0007
	invariantBit    = 8 // of EDX
)

func invariantTSC(g *gen) {
	g.text("invariantTSC")
	answer := reg.EDX
	g.MOVL(operand.U32(maxExtendedLeaf), reg.EAX)
	g.XORL(reg.ECX, reg.ECX)
	g.CPUID()
	g.XORL(answer, answer)
	g.CMPL(reg.EAX, operand.U32(powerLeaf))
	g.JCS(label("done"))
	g.MOVL(operand.U32(powerLeaf), reg.EAX)
	g.XORL(reg.ECX, reg.ECX)
	g.CPUID()
	g.SHRL(operand.U8(invariantBit), answer)
	g.ANDL(operand.U32(1), answer)

	g.Label("done")
	g.Store(reg.DL, g.ReturnIndex(0))
	g.RET()
}
