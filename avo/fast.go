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
}

const (
	readersAcquire = "Acquire: pairs with the release in unlock and downgrade, whose writer's stores are then seen."
	writersAcquire = "Acquire: pairs with the release of whoever left the lock free, in unlock or RUnlock."
	pastWaiters    = "Only waiters: past them, but for a look at their age once in a while."
	loopEnds       = "Each failure is somebody else's progress, and who stops the world stops them first: the loop ends."
)

func rlockRare(g *gen) {
	g.text("rlockRare",
		"if rw.count & (readBlocked|flagClaim) != 0 || stealDue(++rw.steals)",
		"	goto rlockSlow",
	)
	rw := g.rwMutex()
	blocked := g.GP64()
	g.add(x86.MOVQ, imm64("readBlocked|flagClaim"), blocked)
	g.Comment(readersAcquire,
		"A load is enough: RLock has counted the reader already, so no writer can come in between.")
	g.TESTQ(blocked, rw.count())
	g.JNE(label("slow"))
	g.Comment(pastWaiters)
	steal(g, rw)
	g.RET()

	g.Label("slow")
	g.tailJump("rlockSlow")
}

func runlockRare(g *gen) {
	g.text("runlockRare",
		"if c + readerBias < readerBias || c & writerLocked != 0",
		"	goto runlockMisuse",
		"if wakeDue(c)",
		"	goto releaseSlow",
	)
	c := reg.RAX
	g.Load(g.Param("c"), c)
	g.Comment("RUnlock had the release. Unsigned: the count went below 0 where no reader was in it.")
	g.add(x86.CMPQ, c, imm32("-readerBias"))
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
	g.text("lock",
		"Atomically:",
		"	old = rw.count",
		"	if old == unlocked",
		"		rw.count = writerLocked",
		"if old != unlocked",
		"	if old & (writeBlocked|flagClaim) != 0 || old & flagWaiters != 0 && stealDue(++rw.steals)",
		"		goto lockSlow",
		"	Atomically:",
		"		if rw.count == old",
		"			rw.count = old | writerLocked",
		"		else",
		"			goto lockSlow",
		"rw.owner = g",
	)
	rw := g.rwMutex()
	old, want := reg.RAX, g.GP64()
	g.add(x86.MOVL, imm32("unlocked"), old.As32())
	g.add(x86.MOVL, imm32("writerLocked"), want.As32())
	g.Comment(writersAcquire)
	g.cmpxchg(want, rw)
	g.JNE(label("seldom"))

	g.Label("acquired")
	storeSelf(g, rw)
	g.RET()

	g.Label("seldom")
	g.add(x86.TESTQ, imm32("writeBlocked|flagClaim"), old)
	g.JNE(label("slow"))
	g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
	g.JEQ(label("take"))
	g.Comment(pastWaiters)
	steal(g, rw)

	g.Label("take")
	again := g.GP64()
	g.MOVQ(old, again)
	g.add(x86.ORQ, imm32("writerLocked"), again)
	g.Comment(writersAcquire)
	g.cmpxchg(again, rw)
	g.JEQ(label("acquired"))

	g.Label("slow")
	g.tailJump("lockSlow")
}

func unlock(g *gen) {
	g.text("unlock",
		"rw.owner &= rdNonspinnable",
		"Atomically:",
		"	old = rw.count",
		"	rw.count -= writerLocked",
		"if old & writerLocked == 0",
		"	goto unlockMisuse",
		"if old & (flagAsleep | flagHandoff) != 0",
		"	goto releaseSlow",
	)
	rw := g.rwMutex()
	old := reg.RAX
	g.Comment("Relaxed: a hint. Not locked: while the lock is the caller's, only spinners write it too, and their marks may get lost.")
	g.add(x86.ANDQ, imm32("rdNonspinnable"), rw.owner())
	g.add(x86.MOVQ, imm32("-writerLocked"), old)
	g.Comment("Release: pairs with the acquire of whoever takes the lock next; what was done under the lock stays before it.")
	g.xadd(old, rw)
	g.Comment("Not 0: the old count was not the writer alone.")
	g.JNE(label("seldom"))
	g.RET()

	g.Label("seldom")
	g.add(x86.TESTB, imm8("writerLocked"), old.As8())
	g.JEQ(label("misuse"))
	g.Comment("Also with readers in the count: they have the lock from here on, and a reader that waits joins them.")
	g.add(x86.TESTB, imm8("flagAsleep|flagHandoff"), old.As8())
	g.JNE(label("slow"))
	g.RET()

	g.Label("slow")
	g.tailJump("releaseSlow")
	g.Label("misuse")
	g.tailJump("unlockMisuse")
}

// tryRLock has two forms, which differ in what the first compare-and-swap
// expects: a load of the count, or the unlocked value.
func tryRLock(g *gen, name string, expectUnlocked bool) {
	doc := []string{
		"c = rw.count",
		"loop:",
		"	if c & readBlocked != 0",
		"		return false",
		"	if c & flagWaiters != 0 && stealDue(++rw.steals)",
		"		goto tryRLockSlow",
		"	Atomically:",
		"		if rw.count == c",
		"			rw.count = c + readerBias",
		"			break",
		"		c = rw.count",
		"return true",
	}
	if expectUnlocked {
		doc = append([]string{
			"Atomically:",
			"	c = rw.count",
			"	if c == unlocked",
			"		rw.count = readerBias",
			"		return true",
		}, doc[1:]...)
	}
	g.text(name, doc...)
	rw := g.rwMutex()
	old, want := reg.RAX, g.GP64()
	if expectUnlocked {
		g.add(x86.MOVL, imm32("unlocked"), old.As32())
		g.add(x86.MOVL, imm32("readerBias"), want.As32())
		g.Comment(readersAcquire)
		g.cmpxchg(want, rw)
		g.JEQ(label("acquired"))
	} else {
		g.MOVQ(rw.count(), old)
	}

	g.Label("loop")
	blocked := g.GP64()
	g.add(x86.MOVQ, imm64("readBlocked"), blocked)
	g.TESTQ(blocked, old)
	g.JNE(label("fail"))
	g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
	g.JNE(label("waiters"))

	g.Label("take")
	g.MOVQ(old, want)
	g.add(x86.ADDQ, imm32("readerBias"), want)
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
	g.text("tryLock",
		"c = rw.count",
		"loop:",
		"	if c & writeBlocked != 0",
		"		return false",
		"	if c & flagWaiters != 0 && stealDue(++rw.steals)",
		"		goto tryLockSlow",
		"	Atomically:",
		"		if rw.count == c",
		"			rw.count = c &^ flagClaim | writerLocked",
		"			break",
		"		c = rw.count",
		"rw.owner = g",
		"return true",
	)
	rw := g.rwMutex()
	old, want := reg.RAX, g.GP64()
	g.MOVQ(rw.count(), old)

	g.Label("loop")
	g.add(x86.TESTQ, imm32("writeBlocked"), old)
	g.JNE(label("fail"))
	g.add(x86.TESTB, imm8("flagWaiters"), old.As8())
	g.JNE(label("waiters"))

	g.Label("take")
	g.Comment("Who takes the lock for writing ends the claim, its own or another's.")
	g.MOVQ(old, want)
	g.add(x86.ANDQ, imm32("~flagClaim"), want)
	g.add(x86.ORQ, imm32("writerLocked"), want)
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
	g.text("downgrade",
		"rw.owner = rw.owner & rdNonspinnable | readerOwned",
		"Atomically:",
		"	old = rw.count",
		"	rw.count += readerBias - writerLocked",
		"if old & writerLocked == 0",
		"	goto downgradeMisuse",
		"if old & flagWaiters != 0",
		"	goto downgradeSlow",
	)
	rw := g.rwMutex()
	old := reg.RAX
	g.Comment("Relaxed: a hint. Stored while the lock is still the caller's alone.")
	owner := g.GP64()
	g.MOVQ(rw.owner(), owner)
	g.add(x86.ANDL, imm32("rdNonspinnable"), owner.As32())
	g.add(x86.ORL, imm32("readerOwned"), owner.As32())
	g.MOVQ(owner, rw.owner())
	g.add(x86.MOVQ, imm32("readerBias-writerLocked"), old)
	g.Comment("Release: pairs with the acquire of the readers that follow; what was written under the lock stays before it.")
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
	g.text("self", "return g")
	r := g.GP64()
	g.currentG(r)
	g.Store(r, g.ReturnIndex(0))
	g.RET()
}

func loadStatus(g *gen) {
	g.text("loadStatus", "return *(*uint32)(gp + off)")
	off, err := g.Param("off").Resolve()
	if err != nil {
		g.errorf("%w", err)
		return
	}
	address := g.Load(g.Param("gp"), g.GP64())
	g.ADDQ(off.Addr, address)
	status := g.GP32()
	g.Comment("Relaxed: a status is out of date as soon as it is read.")
	g.MOVL(operand.Mem{Base: address}, status)
	g.Store(status, g.ReturnIndex(0))
	g.RET()
}

// storeSelf names the calling goroutine as rw's owner.
func storeSelf(g *gen, rw rwMutex) {
	g.Comment("Relaxed: a hint.")
	me := g.GP64()
	g.currentG(me)
	g.MOVQ(me, rw.owner())
}

// steal counts a steal, goes to slow if stealDue says so, and falls through
// otherwise. It relies on stealPeriod's being a power of two.
func steal(g *gen, rw rwMutex) {
	g.Comment("Not locked: updates may get lost.")
	n, below := g.GP32(), g.GP32()
	g.INCL(rw.steals())
	g.MOVL(rw.steals(), n)
	g.Comment("Due at each multiple of stealPeriod and at each power of two, which from stealPeriod on is a multiple.")
	g.add(x86.TESTL, imm32("stealPeriod-1"), n)
	g.JEQ(label("slow"))
	g.LEAL(operand.Mem{Base: n.As64(), Disp: -1}, below)
	g.TESTL(below, n)
	g.JEQ(label("slow"))
}

// wakeDue goes to slow if no reader is in the count c and the first waiter
// sleeps or is owed the lock, and falls through otherwise. That no writer holds
// the lock is the caller's to know. No wake-up is lost: who sets one of the two
// flags sees by that step or after it whether the lock is free, and if it is
// not, its release comes later and finds the flag.
func wakeDue(g *gen, c reg.GPPhysical) {
	g.add(x86.TESTQ, imm32("readerMask"), c)
	g.JNE(label("done"))
	g.add(x86.TESTB, imm8("flagAsleep|flagHandoff"), c.As8())
	g.JNE(label("slow"))
	g.Label("done")
}
