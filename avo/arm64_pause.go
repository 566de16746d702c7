package main

import "fmt"

// pauseARM64 implements pause_asm.go. A pause is an ISB, as in Go's own spinning:
// YIELD does nothing on most CPUs. relaxYield is there to compare the two; no
// hardware was at hand to do that.
func pauseARM64(a *arm) {
	a.relax("relax", func() { a.op("ISB", "$15") })
	a.relax("relaxYield", func() { a.op("YIELD") })
	a.pauses()
	a.text("cycles")
	a.readCycles("R0")
	a.op("MOVD", "R0", a.result())
	a.op("RET")
}

func (a *arm) relax(name string, pause func()) {
	a.text(name)
	a.op("MOVWU", a.param("ticks"), "R0")
	a.readCycles("R1")
	a.op("MOVD", fmt.Sprintf("$%d", relaxPauses), "R3")

	a.label("loop")
	pause()
	a.readCycles("R2")
	a.op("SUB", "R1", "R2")
	a.comment(wentBackwards)
	a.op("CMP", "R0", "R2")
	a.op("BCS", "done")
	a.op("SUB", "$1", "R3")
	a.op("CBNZ", "R3", "loop")

	a.label("done")
	a.op("RET")
}

func (a *arm) pauses() {
	a.text("pause")
	a.op("MOVWU", a.param("n"), "R0")
	a.op("MOVD", fmt.Sprintf("$%d", maxPauses), "R1")
	a.op("CMP", "R1", "R0")
	a.op("CSEL", "LS", "R0", "R1", "R0")
	a.op("CBZ", "R0", "done")

	a.label("loop")
	a.op("ISB", "$15")
	a.op("SUB", "$1", "R0")
	a.op("CBNZ", "R0", "loop")

	a.label("done")
	a.op("RET")
}

// readCycles reads the generic timer, which every CPU has and counts at the
// same rate. It is not ordered against its neighbours: some ticks more or less
// do not matter.
func (a *arm) readCycles(r string) { a.op("MRS", "CNTVCT_EL0", r) }
