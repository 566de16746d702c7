package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	maxPauses   = 32 // the most that relax makes
	blindPauses = 4  // those that it makes without the counter
)

// pause implements pause_asm.go.
func pause(g *gen) {
	relax(g)
	cycles(g)
}

func relax(g *gen) {
	g.text("relax",
		"if ticks == 0",
		"	pause 4 times and return",
		"start = cycles()",
		"for at most 32 times",
		"	pause",
		"	if cycles() - start is negative or at least ticks",
		"		return",
	)
	ticks := g.Load(g.Param("ticks"), g.GP64()).(reg.GPVirtual)
	g.TESTQ(ticks, ticks)
	g.JEQ(label("blind"))
	start, left := g.GP64(), g.GP32()
	readCycles(g)
	g.MOVQ(reg.RAX, start)
	g.MOVL(operand.U32(maxPauses), left)

	g.Label("loop")
	g.PAUSE()
	readCycles(g)
	g.SUBQ(start, reg.RAX)
	g.Comment("Unsigned: a counter that went backwards counts as one that went far.")
	g.CMPQ(reg.RAX, ticks)
	g.JCC(label("done"))
	g.DECL(left)
	g.JNE(label("loop"))

	g.Label("done")
	g.RET()

	g.Label("blind")
	for range blindPauses {
		g.PAUSE()
	}
	g.RET()
}

func cycles(g *gen) {
	g.text("cycles", "return the cycle counter")
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
