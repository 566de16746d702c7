package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// fast implements fast_asm.go. What each function has to do is said by its
// stub in fast_stub.go; its common case is a straight line to the first RET,
// and everything else lies behind that.
//
// A locked instruction of amd64 orders everything before it against everything
// after it. The comments at the atomics say what of that is needed and why it
// suffices, as on a machine that gave no more.
func fast(g *gen) {
	rlockRare(g)
	runlockRare(g)
	lock(g)
	unlock(g)
	tryRLock(g, "tryRLock", false)
	tryRLock(g, "tryRLockExpect", true)
	tryLock(g)
	downgrade(g)
	self(g)
	loadStatus(g)
	if g.variant.ownerInCount() {
		identity(g)
	}
}

func rlockRare(g *gen) {
	g.text("rlockRare")
	rw := g.rwMutex()
	blocked := g.GP64()
	g.add(x86.MOVQ, imm64("readBlocked|flagClaim"), blocked)
	g.Comment(readersAcquire, loadEnough)
	g.TESTQ(blocked, rw.count())
	g.JNE(label("slow"))
	g.Comment(pastWaiters)
	steal(g, rw)
	g.RET()

	g.Label("slow")
	g.tailJump("rlockSlow")
}

func runlockRare(g *gen) {
	g.text("runlockRare")
	c := reg.RAX
	g.Load(g.Param("c"), c)
	g.Comment(releasedAlready)
	g.add(x86.CMPQ, c, g.imm("-readerBias"))
	g.JCC(label("misuse"))
	g.add(x86.TESTB, imm8("writerLocked"), c.As8())
	g.JNE(label("misuse"))
	wakeDue(g, c)
	g.RET()

	g.Label("slow")
	g.tailJump("releaseSlow")
	g.Label("misuse")
	g.tailJump("runlockMisuse")
}

func lock(g *gen) {
	g.text("lock")
	rw := g.rwMutex()
	old, want := reg.RAX, g.GP64()
	word := writerWord(g)
	g.add(x86.MOVL, imm32("unlocked"), old.As32())
	if g.variant.ownerInCount() {
		want = word.(reg.GPVirtual)
	} else {
		g.add(x86.MOVL, imm32("writerLocked"), want.As32())
	}
	g.Comment(writersAcquire)
	g.cmpxchg(want, rw)
	g.JNE(label("seldom"))

	g.Label("acquired")
	storeSelf(g, rw)
	g.RET()

	g.Label("seldom")
	g.add(x86.TESTQ, g.imm("writeBlocked|flagClaim"), old)
	g.JNE(label("slow"))
	g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
	g.JEQ(label("take"))
	g.Comment(pastWaiters)
	steal(g, rw)

	g.Label("take")
	again := g.GP64()
	g.MOVQ(old, again)
	g.add(x86.ORQ, word, again)
	g.Comment(writersAcquire)
	g.cmpxchg(again, rw)
	g.JEQ(label("acquired"))

	g.Label("slow")
	g.tailJump("lockSlow")
}

func unlock(g *gen) {
	g.text("unlock")
	rw := g.rwMutex()
	old := reg.RAX
	if g.variant.ownerInCount() {
		takeWriterOut(g, rw, "", writersRelease)
	} else {
		g.Comment(ownerMarks)
		g.add(x86.ANDQ, imm32("rdNonspinnable"), rw.owner())
		g.add(x86.MOVQ, imm32("-writerLocked"), old)
		g.Comment(writersRelease)
		g.xadd(old, rw)
		g.Comment("Not 0: the old count was not the writer alone.")
		g.JNE(label("seldom"))
		g.RET()

		g.Label("seldom")
		g.add(x86.TESTB, imm8("writerLocked"), old.As8())
		g.JEQ(label("misuse"))
	}
	g.Comment(readersJoin)
	g.add(x86.TESTB, imm8("flagAsleep|flagHandoff"), old.As8())
	g.JNE(label("slow"))
	g.RET()

	g.Label("slow")
	g.tailJump("unlockSlow")
	g.Label("misuse")
	g.tailJump("unlockMisuse")
}

// takeWriterOut takes the writer out of the count, which names it, adds what expr
// says, and leaves the count that it found in RAX. It goes to misuse if there is
// no writer.
func takeWriterOut(g *gen, rw rwMutex, expr, order string) {
	old, want := reg.RAX, g.GP64()
	g.MOVQ(rw.count(), old)

	g.Label("loop")
	g.add(x86.TESTB, imm8("writerLocked"), old.As8())
	g.JEQ(label("misuse"))
	g.add(x86.MOVQ, imm64("~writerMask"), want)
	g.ANDQ(old, want)
	if expr != "" {
		g.add(x86.ADDQ, g.imm(expr), want)
	}
	g.Comment(order, findsWriter, loopEnds)
	g.cmpxchg(want, rw)
	g.JNE(label("loop"))
}

// tryRLock has two forms, which differ in what the first compare-and-swap
// expects: a load of the count, or the unlocked value.
func tryRLock(g *gen, name string, expectUnlocked bool) {
	g.text(name)
	rw := g.rwMutex()
	old, want := reg.RAX, g.GP64()
	if expectUnlocked {
		g.add(x86.MOVL, imm32("unlocked"), old.As32())
		g.load("readerBias", want)
		g.Comment(readersAcquire)
		g.cmpxchg(want, rw)
		g.JEQ(label("acquired"))
	} else {
		g.MOVQ(rw.count(), old)
	}

	g.Label("loop")
	g.Comment(readerCounted)
	g.MOVQ(old, want)
	g.add(x86.ADDQ, g.imm("readerBias"), want)
	blocked := g.GP64()
	g.add(x86.MOVQ, imm64("readBlocked"), blocked)
	g.TESTQ(blocked, want)
	g.JNE(label("fail"))
	g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
	g.JNE(label("waiters"))

	g.Label("take")
	g.Comment(readersAcquire, loopEnds)
	g.cmpxchg(want, rw)
	g.JNE(label("loop"))

	g.Label("acquired")
	g.returnBool(1)

	g.Label("waiters")
	g.Comment(pastWaiters)
	steal(g, rw)
	g.JMP(label("take"))

	g.Label("fail")
	g.returnBool(0)
	g.Label("slow")
	g.tailJump("tryRLockSlow")
}

func tryLock(g *gen) {
	g.text("tryLock")
	rw := g.rwMutex()
	word := writerWord(g)
	old, want := reg.RAX, g.GP64()
	g.MOVQ(rw.count(), old)

	g.Label("loop")
	g.add(x86.TESTQ, g.imm("writeBlocked"), old)
	g.JNE(label("fail"))
	g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
	g.JNE(label("waiters"))

	g.Label("take")
	g.Comment(claimEnds)
	g.MOVQ(old, want)
	g.add(x86.ANDQ, g.imm("~flagClaim"), want)
	g.add(x86.ORQ, word, want)
	g.Comment(writersAcquire, loopEnds)
	g.cmpxchg(want, rw)
	g.JNE(label("loop"))
	storeSelf(g, rw)
	g.returnBool(1)

	g.Label("waiters")
	g.Comment(pastWaiters)
	steal(g, rw)
	g.JMP(label("take"))

	g.Label("fail")
	g.returnBool(0)
	g.Label("slow")
	g.tailJump("tryLockSlow")
}

func downgrade(g *gen) {
	g.text("downgrade")
	rw := g.rwMutex()
	old := reg.RAX
	g.Comment(ownerEarly)
	owner := g.GP64()
	g.MOVQ(rw.owner(), owner)
	g.add(x86.ANDL, imm32("rdNonspinnable"), owner.As32())
	g.add(x86.ORL, imm32("readerOwned"), owner.As32())
	g.MOVQ(owner, rw.owner())
	if g.variant.ownerInCount() {
		takeWriterOut(g, rw, "readerBias", readersRelease)
		g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
		g.JNE(label("slow"))
		g.RET()
		g.Label("slow")
		g.tailJump("downgradeSlow")
		g.Label("misuse")
		g.tailJump("downgradeMisuse")
		return
	}
	g.add(x86.MOVQ, imm32("readerBias-writerLocked"), old)
	g.Comment(readersRelease)
	g.xadd(old, rw)
	g.add(x86.ANDL, imm32("writerLocked|flagWaiters"), old.As32())
	g.add(x86.CMPL, old.As32(), imm32("writerLocked"))
	g.JNE(label("seldom"))
	g.RET()

	g.Label("seldom")
	g.add(x86.TESTB, imm8("writerLocked"), old.As8())
	g.JEQ(label("misuse"))
	g.tailJump("downgradeSlow")
	g.Label("misuse")
	g.tailJump("downgradeMisuse")
}

func self(g *gen) {
	g.text("self")
	r := g.GP64()
	g.currentG(r)
	g.Store(r, g.ReturnIndex(0))
	g.RET()
}

func loadStatus(g *gen) {
	g.text("loadStatus")
	off, err := g.Param("off").Resolve()
	if err != nil {
		g.errorf("%w", err)
		return
	}
	address := g.Load(g.Param("gp"), g.GP64())
	g.ADDQ(off.Addr, address)
	status := g.GP32()
	g.Comment(statusOld)
	g.MOVL(operand.Mem{Base: address}, status)
	g.Store(status, g.ReturnIndex(0))
	g.RET()
}

// storeSelf names the calling goroutine as rw's owner, unless the count does,
// and clears the owner word's flags.
func storeSelf(g *gen, rw rwMutex) {
	if g.variant.ownerInCount() {
		g.Comment(ownerCleared)
		g.MOVQ(operand.U32(0), rw.owner())
		return
	}
	g.Comment(ownerHint)
	me := g.GP64()
	g.currentG(me)
	g.MOVQ(me, rw.owner())
}

// writerWord is the calling goroutine's writerWord: an immediate, or a register
// that is loaded with it.
func writerWord(g *gen) operand.Op {
	if !g.variant.ownerInCount() {
		return imm32("writerLocked")
	}
	me, word := g.GP64(), g.GP64()
	g.currentG(me)
	identify(g, me, word)
	return word
}

// identify loads word with the writerWord of me, which must have no flag of the
// owner word in it: a g has none.
func identify(g *gen, me, word reg.GPVirtual) {
	low, width := g.variant.identity()
	reserved := g.GP64()
	g.MOVQ(me, word)
	g.ADDQ(word, word)
	g.add(x86.ORQ, imm32("writerLocked"), word)
	g.Comment("Rotated, an address that is aligned and not too high has nothing above the identity's bits.")
	g.RORQ(operand.U8(low), me)
	g.add(x86.MOVL, imm32("ownerReserved|writerLocked"), reserved.As32())
	g.SHRQ(operand.U8(width), me)
	g.CMOVQNE(reserved, word)
}

// identity lets tests make up addresses.
func identity(g *gen) {
	g.text("identity")
	me, word := g.Load(g.Param("gp"), g.GP64()).(reg.GPVirtual), g.GP64()
	identify(g, me, word)
	g.Store(word, g.ReturnIndex(0))
	g.RET()
}

// steal goes to slow if a steal needs a look at the first waiter first, and else
// counts it and falls through.
func steal(g *gen, rw rwMutex) {
	g.Comment(stealsLost)
	n := g.GP32()
	g.MOVL(rw.steals(), n)
	g.add(x86.TESTL, imm32("stealsLeft"), n)
	g.JEQ(label("slow"))
	g.DECL(n)
	g.MOVL(n, rw.steals())
}

// wakeDue goes to slow if no reader is in the count c and the first waiter
// sleeps or is owed the lock, and falls through otherwise. That no writer holds
// the lock is the caller's to know. No wake-up is lost: who sets one of the two
// flags sees by that step or after it whether the lock is free, and if it is
// not, its release comes later and finds the flag.
func wakeDue(g *gen, c reg.GPPhysical) {
	if g.variant.guardInReach() {
		g.add(x86.TESTQ, g.imm("readerMask"), c)
		g.JEQ(label("due"))
		g.Comment(roomForOne)
		g.add(x86.CMPQ, c, g.imm("nearGuard"))
		g.JCS(label("done"))
		g.Label("due")
	} else {
		g.add(x86.TESTQ, g.imm("readerMask"), c)
		g.JNE(label("done"))
	}
	g.add(x86.TESTB, imm8("flagAsleep|flagHandoff"), c.As8())
	g.JNE(label("slow"))
	g.Label("done")
}
