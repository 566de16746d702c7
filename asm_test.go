//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The assembly is tested against fast_stub.go, the slow ways out included. The
// real slow functions sleep or end the process, so the comparison takes place
// in stand-in packages: copies of the generated files, the stubs, the words,
// RLock and RUnlock of rwsem.go, and this file, with slow functions that only
// record that they were reached. TestAssembly writes two of them into a
// temporary module and runs itself there, with the layout of its own build:
//
//   - plain has the generated files as they are;
//   - hooked has hooks at the atomic steps, the pauses and what asks the
//     processor, and the count as a type of its own, so that what another
//     processor does to the count just before an atomic step is a table entry
//     and the cycle counter is a variable.

// A standInPackage is what a stand-in package tells of itself.
type standInPackage struct {
	name string

	slow   *string                 // the slow function that was reached last
	slowRW *unsafe.Pointer         // the lock it was given
	calls  *int                    // how many were reached
	result *bool                   // what the slow tries answer
	onSlow *func(string, *RWMutex) // if set, called instead of recording

	hooks *standInHooks // of hooked
}

// standInHooks are the variables that hooked's macros use.
type standInHooks struct {
	target        **uint64    // the count that assembly works on
	interfere     *[64]uint64 // what is added to the count before each atomic step
	locks         *int        // atomic steps so far
	tsc, tick     *uint64     // the cycle counter, and by what each look at it moves it
	pauses, looks *int        // pauses and looks at the cycle counter so far
	arch          standInArch // what else the architecture's hooks use
}

// standIn is set by the stand-in packages' own files.
var standIn *standInPackage

// The subtests of TestAssembly in each stand-in package, in their order: what
// fails an early one may well hang a later one.
var assemblyTests = map[string][]struct {
	name string
	test func(*testing.T)
}{
	"plain": {
		{"Stub", testAssemblyStub},
		{"Traceback", testAssemblyTraceback},
		{"StackGrowth", testAssemblyStackGrowth},
		{"Self", testAssemblySelf},
		{"LoadStatus", testAssemblyLoadStatus},
		{"Cycles", testAssemblyCycles},
		{"Hammer", testAssemblyHammer},
	},
	"hooked": {
		{"Stub", testAssemblyStub},
		{"Interfere", testAssemblyInterfere},
		{"Cycles", testAssemblyHookedCycles},
		{"Relax", testAssemblyRelax},
		{"Pause", testAssemblyPause},
		{"Invariant", testAssemblyInvariant},
	},
}

// An assemblyForm is one of the forms of the assembly that a CPU can choose.
type assemblyForm struct {
	name   string
	hooked bool        // only in hooked
	choose func() bool // makes the assembly take it, if this CPU has it
}

func TestAssembly(t *testing.T) {
	if standIn != nil {
		for _, form := range assemblyForms {
			if form.hooked && standIn.name != "hooked" || !form.choose() {
				continue
			}
			for _, test := range assemblyTests[standIn.name] {
				if !t.Run(form.name+test.name, test.test) {
					return
				}
			}
		}
		return
	}

	dir := t.TempDir()
	writeStandIns(t, dir)
	args := []string{"test", "-count=1", "-timeout=5m", "-v", "-run=^TestAssembly$", "-tags=" + layoutTags()}
	if emulator := os.Getenv("RWSEM_TEST_EXEC"); emulator != "" {
		args = append(args, "-exec", emulator)
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./...")...)
	cmd.Dir = dir
	// The go command may be a program of another architecture than this one.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOPROXY=off",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if testing.Verbose() {
		t.Logf("%s", out)
	}
	for pkg, tests := range assemblyTests {
		assert.Regexp(t, `(?m)^ok\s+github.com/rwsem/rwsem/`+pkg+`\s`, string(out))
		for _, form := range assemblyForms {
			if form.hooked && pkg != "hooked" || !form.choose() {
				continue
			}
			for _, test := range tests {
				assert.Contains(t, string(out), "--- PASS: TestAssembly/"+form.name+test.name+" ", pkg)
			}
		}
	}
}

// layoutTags are the tags of the layout that this test was built with.
func layoutTags() string {
	var tags []string
	if ownerInCount {
		tags = append(tags, "rwsem_ownercount")
	}
	if readerShift == 60 {
		tags = append(tags, "rwsemnarrow")
	}
	return strings.Join(tags, ",")
}

// standInFiles are what a stand-in package has of this one as it is.
var standInFiles = []string{
	"layout_*.go", "shared.go", "owner.go", "fast_asm*.go", "pause_asm*.go", "fast_stub.go",
	"cpu_*.go", "fast_*.s", "pause_*.s", "asm_test.go", "asm_*64_test.go", "asm_identity_test.go",
}

// writeStandIns writes the module of the stand-in packages to dir.
func writeStandIns(t *testing.T, dir string) {
	for _, name := range []string{"go.mod", "go.sum"} {
		mustWrite(t, filepath.Join(dir, name), mustRead(t, name))
	}
	for pkg := range assemblyTests {
		d := filepath.Join(dir, pkg)
		require.NoError(t, os.Mkdir(d, 0o755))
		hooked := pkg == "hooked"
		for _, pattern := range standInFiles {
			names, err := filepath.Glob(pattern)
			require.NoError(t, err)
			require.NotEmpty(t, names, pattern)
			for _, name := range names {
				text := mustRead(t, name)
				if hooked && strings.HasSuffix(name, "_"+runtime.GOARCH+".s") {
					text = hookAssembly(t, text)
				}
				mustWrite(t, filepath.Join(d, name), text)
			}
		}
		text := lockWords(t)
		recorder := "name: " + strconv.Quote(pkg) + ", slow: &slow, slowRW: &slowRW, calls: &calls, result: &result, onSlow: &onSlow"
		if hooked {
			text = replaceOnce(t, text, "count word64", "count hookedUint64")
			mustWrite(t, filepath.Join(d, "hooks.go"), hookSource+archHookSource)
			recorder += ", hooks: &standInHooks{&hookTarget, &hookInterfere, &hookLocks, &hookTSC, &hookTick, &hookPauses, &hookLooks, " + archHooks + "}"
		}
		mustWrite(t, filepath.Join(d, "words.go"), text)
		mustWrite(t, filepath.Join(d, "recorder.go"), recorderSource)
		mustWrite(t, filepath.Join(d, "recorder_test.go"),
			"package rwsem\n\nfunc init() { standIn = &standInPackage{"+recorder+"} }\n")
	}
}

// lockWords returns the constants of rwsem.go, the type, and of its methods
// those that begin a fast path themselves.
func lockWords(t *testing.T) string {
	src := mustRead(t, "rwsem.go")
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "rwsem.go", src, parser.SkipObjectResolution)
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("package rwsem\n")
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.TYPE && d.Specs[0].(*ast.TypeSpec).Name.Name != "RWMutex" ||
				d.Tok != token.TYPE && d.Tok != token.CONST {
				continue
			}
		case *ast.FuncDecl:
			if d.Name.Name != "RLock" && d.Name.Name != "RUnlock" {
				continue
			}
		}
		b.WriteString("\n" + src[fset.Position(d.Pos()).Offset:fset.Position(d.End()).Offset] + "\n")
	}
	return b.String()
}

const recorderSource = `package rwsem

import "unsafe"

type waiter struct{}

const raceEnabled = false

func raceRLock(*RWMutex)   {}
func raceRUnlock(*RWMutex) {}

const debugEnabled = false

type debugState struct{}

func debugRLock(*RWMutex)   {}
func debugRUnlock(*RWMutex) {}

var (
	slow   string
	slowRW unsafe.Pointer
	calls  int
	result bool
	onSlow func(string, *RWMutex)
)

func record(name string, rw *RWMutex) {
	if onSlow != nil {
		onSlow(name, rw)
		return
	}
	slow, slowRW = name, unsafe.Pointer(rw)
	calls++
}

func rlockSlow(rw *RWMutex)       { record("rlockSlow", rw) }
func runlockMisuse(rw *RWMutex)   { record("runlockMisuse", rw) }
func releaseSlow(rw *RWMutex)     { record("releaseSlow", rw) }
func unlockSlow(rw *RWMutex)      { record("unlockSlow", rw) }
func lockSlow(rw *RWMutex)        { record("lockSlow", rw) }
func unlockMisuse(rw *RWMutex)    { record("unlockMisuse", rw) }
func downgradeMisuse(rw *RWMutex) { record("downgradeMisuse", rw) }
func downgradeSlow(rw *RWMutex)   { record("downgradeSlow", rw) }

func tryRLockSlow(rw *RWMutex) bool {
	record("tryRLockSlow", rw)
	return result
}

func tryLockSlow(rw *RWMutex) bool {
	record("tryLockSlow", rw)
	return result
}
`

const hookSource = `package rwsem

import "sync/atomic"

var (
	hookTarget    *uint64
	hookInterfere [64]uint64
	hookLocks     int

	hookTSC, hookTick     uint64
	hookPauses, hookLooks int
)

type hookedUint64 struct{ atomic.Uint64 }

func (h *hookedUint64) interfere() {
	h.Uint64.Add(hookInterfere[hookLocks])
	hookLocks++
}

func (h *hookedUint64) Add(d uint64) uint64 {
	h.interfere()
	return h.Uint64.Add(d)
}

func (h *hookedUint64) CompareAndSwap(old, want uint64) bool {
	h.interfere()
	return h.Uint64.CompareAndSwap(old, want)
}
`

// A fencedLock is a lock between two words that nobody may touch.
type fencedLock struct {
	before uint64
	rw     RWMutex
	after  uint64
}

// A startState is what a fast path starts from.
type startState struct {
	count  uint64
	owner  uintptr
	steals uint32
	result bool // what a slow try answers
}

// An endState is what a fast path leaves behind.
type endState struct {
	bytes  [unsafe.Sizeof(fencedLock{})]byte
	slow   string
	calls  int
	result bool
	locks  int
}

func (o *endState) String() string {
	c := (*fencedLock)(unsafe.Pointer(&o.bytes))
	return fmt.Sprintf("count %#x owner %#x steals %d, slow %q (%d calls), result %v, %d atomic steps",
		c.rw.count.Load(), c.rw.owner.Load(), c.rw.steals.Load(), o.slow, o.calls, o.result, o.locks)
}

// runFrom lets f work on a lock that starts from s.
func runFrom(f func(*RWMutex) bool, s startState, o *endState) {
	c := (*fencedLock)(unsafe.Pointer(&o.bytes))
	*(*[unsafe.Sizeof(fencedLock{})]byte)(unsafe.Pointer(c)) = [unsafe.Sizeof(fencedLock{})]byte{}
	c.before, c.after = math.MaxUint64, math.MaxUint64
	c.rw.ctl.Store(math.MaxUint32)
	c.rw.count.Store(s.count)
	c.rw.owner.Store(s.owner)
	c.rw.steals.Store(s.steals)
	*standIn.slow, *standIn.calls, *standIn.result, *standIn.slowRW = "", 0, s.result, unsafe.Pointer(&c.rw)
	if h := standIn.hooks; h != nil {
		*h.target, *h.locks = (*uint64)(unsafe.Pointer(&c.rw.count)), 0
	}
	o.result = f(&c.rw)
	o.slow, o.calls, o.locks = *standIn.slow, *standIn.calls, 0
	if *standIn.slowRW != unsafe.Pointer(&c.rw) {
		o.slow += " of another lock"
	}
	if h := standIn.hooks; h != nil {
		o.locks = *h.locks
	}
}

func withoutResult(f func(*RWMutex)) func(*RWMutex) bool {
	return func(rw *RWMutex) bool {
		f(rw)
		return false
	}
}

// tryRLockExpectStub is tryRLockExpect in Go.
func tryRLockExpectStub(rw *RWMutex) bool {
	if rw.count.CompareAndSwap(unlocked, readerBias) {
		return true
	}
	return tryRLockStub(rw)
}

// leaving hands the lock's count to f as what a reader left behind, and has the
// lock itself say the opposite: f must not look there.
func leaving(f func(*RWMutex, uint64)) func(*RWMutex) bool {
	return func(rw *RWMutex) bool {
		c := rw.count.Load()
		rw.count.Store(^c)
		f(rw, c)
		return false
	}
}

// rlockStub is RLock, with nobody between its two steps. It says itself when the
// second one is due.
func rlockStub(rw *RWMutex) {
	c := rw.count.Add(readerBias)
	if c&(writerLocked|flagHandoff|flagReadFail|flagClaim) != 0 || c&flagWaiters != 0 && rw.stealDue() {
		rlockSlow(rw)
	}
}

// runlockStub is RUnlock; it takes the second step always.
func runlockStub(rw *RWMutex) {
	runlockRareStub(rw, rw.count.Add(^uint64(readerBias-1)))
}

// fastPaths are the pairs to compare, and by which ways each is left. RLock and
// RUnlock are there as rwsem.go has them.
var fastPaths = map[string]struct {
	asm, stub func(*RWMutex) bool
	ways      []string
}{
	"RLock":       {withoutResult((*RWMutex).RLock), withoutResult(rlockStub), []string{"false", "rlockSlow false"}},
	"RUnlock":     {withoutResult((*RWMutex).RUnlock), withoutResult(runlockStub), []string{"false", "releaseSlow false", "runlockMisuse false"}},
	"rlockRare":   {withoutResult(rlockRare), withoutResult(rlockRareStub), []string{"false", "rlockSlow false"}},
	"runlockRare": {leaving(runlockRare), leaving(runlockRareStub), []string{"false", "releaseSlow false", "runlockMisuse false"}},
	"lock":        {withoutResult(lock), withoutResult(lockStub), []string{"false", "lockSlow false"}},
	"unlock":      {withoutResult(unlock), withoutResult(unlockStub), []string{"false", "unlockSlow false", "unlockMisuse false"}},
	"downgrade":   {withoutResult(downgrade), withoutResult(downgradeStub), []string{"downgradeMisuse false", "downgradeSlow false", "false"}},
	"tryRLock":    {tryRLock, tryRLockStub, []string{"false", "true", "tryRLockSlow false", "tryRLockSlow true"}},
	"tryRLockExpect": {tryRLockExpect, tryRLockExpectStub,
		[]string{"false", "true", "tryRLockSlow false", "tryRLockSlow true"}},
	"tryLock": {tryLock, tryLockStub, []string{"false", "true", "tryLockSlow false", "tryLockSlow true"}},
}

// edgeCounts are the counts at which a fast path may change its way: every
// combination of flags with every edge of the number of readers, what lies
// between those, what lies beside them, and some that are nothing special.
func edgeCounts() []uint64 {
	const (
		most  = 1<<(63-readerShift) - 1
		flags = writerLocked | flagWaiters | flagHandoff | flagAsleep | flagClaim
		spare = flagMask &^ (flags | ownerMask)
	)
	between := []uint64{0, spare, spare & -spare, ownerMask, spare | ownerMask}
	if ownerInCount {
		for _, g := range []uintptr{self(), otherG, ownerReserved >> 1} {
			between = append(between, writerWord(g)&ownerMask, writerWord(g)&ownerMask|spare)
		}
	}
	for bit := uint64(1); bit <= spare; bit <<= 1 {
		if spare&bit != 0 {
			between = append(between, bit)
		}
	}
	set := map[uint64]bool{}
	for _, readers := range []uint64{0, 1, 2, 3, 254, 255, 256, 257, most - 1, most} {
		if readers > most {
			continue
		}
		for _, guard := range []uint64{0, flagReadFail} {
			c := guard | readers<<readerShift
			for f := range uint64(flags + 1) {
				set[c|f] = true
				for _, b := range between {
					if readers < 2 || f&(flagHandoff|flagClaim) == 0 && b != 0 {
						set[c|f|b] = true
					}
				}
			}
			set[c-1], set[c-2] = true, true
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		set[r.Uint64()], set[r.Uint64()&^(readBlocked|spare)] = true, true
		set[r.Uint64()&r.Uint64()&r.Uint64()], set[r.Uint64()>>r.Uint64N(64)] = true, true
		set[r.Uint64N(4)<<readerShift|r.Uint64N(flagMask+1)] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// otherG is the g of no goroutine, with the looks of one.
const otherG = 0x7f00_1234_5680

func edgeOwners() []uintptr {
	owners := []uintptr{ownerAnonymous, ownerUnknown, ^uintptr(0), self()}
	for flags := range uintptr(ownerFlags + 1) {
		owners = append(owners, flags, otherG|flags)
	}
	return owners
}

func edgeSteals() []uint32 {
	set := map[uint32]bool{}
	for _, n := range []uint32{0, 1 << stealsGivenShift, 1 << stealsAtShift, 3 << stealsAtShift, 1 << 31, 0x8765_4320, 1<<stealsAtShift | 1} {
		set[n-2], set[n-1], set[n], set[n+1] = true, true, true, true
	}
	return slices.Sorted(maps.Keys(set))
}

// A way is how a fast path was left.
type way struct {
	slow   string
	result bool
}

func (w way) String() string { return strings.TrimSpace(fmt.Sprint(w.slow, " ", w.result)) }

// compareFrom lets assembly and stub work on s and reports whether they agree. It
// adds the way that was taken to ways.
func compareFrom(t *testing.T, name string, s startState, ways map[way]bool) bool {
	p := fastPaths[name]
	var asm, stub endState
	runFrom(p.asm, s, &asm)
	runFrom(p.stub, s, &stub)
	ways[way{asm.slow, asm.result}] = true
	if asm == stub {
		return true
	}
	t.Errorf("%s of count %#x owner %#x steals %d result %v:\nassembly %v\nstub     %v",
		name, s.count, s.owner, s.steals, s.result, &asm, &stub)
	return false
}

func testAssemblyStub(t *testing.T) {
	for name, p := range fastPaths {
		t.Run(name, func(t *testing.T) {
			counts, owners, steals := edgeCounts(), edgeOwners(), edgeSteals()
			ways := map[way]bool{}
			for j, c := range counts {
				for _, o := range owners {
					if !compareFrom(t, name, startState{count: c, owner: o}, ways) {
						return
					}
				}
				// A quarter of them, for each count another one.
				for i := j % 4; i < len(steals); i += 4 {
					n := steals[i]
					s := startState{count: c, owner: owners[i%len(owners)], steals: n, result: n>>stealsAtShift&1 != 0}
					if !compareFrom(t, name, s, ways) {
						return
					}
				}
			}
			var names []string
			for w := range ways {
				names = append(names, w.String())
			}
			require.ElementsMatch(t, p.ways, names)
		})
	}
}

// testAssemblyInterfere changes the count before the atomic steps as other goroutines
// would, so that compare-and-swaps fail.
func testAssemblyInterfere(t *testing.T) {
	minus := ^uint64(0)
	h := standIn.hooks
	defer func() { *h.interfere = [64]uint64{} }()
	counts, owners, steals := edgeCounts(), edgeOwners(), edgeSteals()
	const identity = ownerReserved & ownerMask // 0 where the count has none
	for _, deltas := range [][]uint64{
		{readerBias}, {minus * readerBias}, {writerLocked}, {minus * writerLocked}, {flagWaiters}, {flagHandoff}, {flagAsleep}, {flagClaim},
		{flagWaiters | flagAsleep}, {flagHandoff | flagAsleep}, {minus * flagWaiters}, {minus * flagAsleep}, {minus * flagClaim}, {flagReadFail},
		{0, readerBias}, {0, minus * readerBias}, {0, writerLocked}, {0, flagWaiters}, {0, flagHandoff}, {0, flagAsleep}, {0, flagClaim},
		{flagWaiters | flagAsleep, minus * flagAsleep}, {flagWaiters, minus * flagWaiters}, {writerLocked, minus * writerLocked},
		{flagClaim, minus * flagClaim}, {flagClaim, flagWaiters},
		{readerBias, readerBias, readerBias}, {readerBias, flagWaiters, writerLocked}, {flagWaiters, readerBias, flagHandoff},
		{flagClaim, minus * flagClaim, flagClaim},
		{identity}, {minus * identity}, {identity | writerLocked}, {minus * (identity | writerLocked)}, {0, identity},
	} {
		*h.interfere = [64]uint64{}
		copy(h.interfere[:], deltas)
		most := map[string]int{}
		for name := range fastPaths {
			ways := map[way]bool{}
			for j, c := range counts {
				for i := range 4 {
					n := steals[(i*11+j)%len(steals)]
					s := startState{count: c, owner: owners[(i+j)%len(owners)], steals: n, result: n>>stealsAtShift&1 != 0}
					if !compareFrom(t, name, s, ways) {
						t.Fatalf("while others add %#x", deltas)
					}
					most[name] = max(most[name], *h.locks)
				}
			}
		}
		assert.GreaterOrEqual(t, most["tryRLock"], 1)
		assert.Equal(t, []int{1, 1, 0, 0}, []int{most["RLock"], most["RUnlock"], most["rlockRare"], most["runlockRare"]})
		if !ownerInCount {
			assert.Equal(t, []int{1, 1}, []int{most["unlock"], most["downgrade"]})
		}
		if deltas[0] == flagClaim && len(deltas) == 3 {
			assert.Equal(t, 4, most["tryLock"], "three failures and a success")
		}
		if len(deltas) == 3 && deltas[0] == readerBias && deltas[1] == readerBias {
			assert.Equal(t, 2, most["lock"])
			assert.Equal(t, 4, most["tryRLock"], "three failures and a success")
			assert.Equal(t, 4, most["tryRLockExpect"])
		}
	}
}

// testAssemblyHammer lets processors meet on the count.
func testAssemblyHammer(t *testing.T) {
	const (
		rounds = 100_000
		each   = 3 // readers at a time from each goroutine
		most   = 1<<(63-readerShift) - 1
	)
	procs := min(max(4, runtime.GOMAXPROCS(0)), (most-1)/each)
	others := uint64(min(1000, most-each*procs))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))

	for _, flags := range []uint64{0, flagWaiters, flagWaiters | flagAsleep, flagClaim} {
		t.Run(fmt.Sprintf("readers/%#x", flags), func(t *testing.T) {
			var rw RWMutex
			rw.count.Store(others*readerBias | flags)
			rw.steals.Store(stealsLeft)
			*standIn.onSlow = func(name string, rw *RWMutex) {
				switch name {
				case "rlockSlow": // it counts already
				case "tryRLockSlow":
					rw.count.Add(readerBias)
				default:
					panic(name + " was reached among readers")
				}
			}
			*standIn.result = true
			defer func() { *standIn.onSlow = nil }()
			var wg sync.WaitGroup
			for range procs {
				wg.Go(func() {
					for range rounds {
						rw.RLock()
						if !tryRLock(&rw) || !tryRLockExpect(&rw) {
							panic("a reader failed among readers")
						}
						rw.RUnlock()
						rw.RUnlock()
						rw.RUnlock()
					}
				})
			}
			wg.Wait()
			require.Equal(t, others*readerBias|flags, rw.count.Load())
			require.Zero(t, rw.owner.Load())
			require.Equal(t, flags&flagWaiters != 0, rw.steals.Load() != stealsLeft)
		})
	}

	t.Run("writers", func(t *testing.T) {
		var rw RWMutex
		*standIn.onSlow = func(name string, rw *RWMutex) {
			if name != "lockSlow" {
				panic(name + " was reached among those who respect the lock")
			}
			for !tryLock(rw) {
				runtime.Gosched()
			}
		}
		defer func() { *standIn.onSlow = nil }()
		var wg sync.WaitGroup
		guarded := 0
		for range procs {
			wg.Go(func() {
				for i := range rounds {
					lock(&rw)
					guarded++ // no atomic step: the lock guards it
					if i%2 == 0 {
						downgrade(&rw)
						rw.RUnlock()
					} else {
						unlock(&rw)
					}
					if i%4 == 0 && (tryRLock(&rw) || tryRLockExpect(&rw)) {
						rw.RUnlock()
					}
				}
			})
		}
		wg.Wait()
		require.Zero(t, rw.count.Load())
		require.Equal(t, procs*rounds, guarded)
	})
}

// callAssembly calls without a function value, so that rw may stay on the
// caller's stack.
//
//go:noinline
func callAssembly(name string, rw *RWMutex) bool {
	switch name {
	case "rlockRare":
		rlockRare(rw)
	case "runlockRare":
		runlockRare(rw, rw.count.Load())
	case "lock":
		lock(rw)
	case "unlock":
		unlock(rw)
	case "downgrade":
		downgrade(rw)
	case "tryRLock":
		return tryRLock(rw)
	case "tryRLockExpect":
		return tryRLockExpect(rw)
	case "tryLock":
		return tryLock(rw)
	default:
		panic(name)
	}
	return false
}

// tailJumps says from which count a fast path ends in which slow function.
var tailJumps = []struct {
	name, slow string
	count      uint64
}{
	{"rlockRare", "rlockSlow", readerBias | writerLocked},
	{"rlockRare", "rlockSlow", readerBias | flagReadFail},
	{"rlockRare", "rlockSlow", readerBias | flagClaim},
	{"rlockRare", "rlockSlow", readerBias | flagWaiters},
	{"runlockRare", "runlockMisuse", math.MaxUint64 - flagMask},
	{"runlockRare", "runlockMisuse", writerLocked},
	{"runlockRare", "releaseSlow", flagWaiters | flagAsleep},
	{"runlockRare", "releaseSlow", flagWaiters | flagHandoff},
	{"lock", "lockSlow", writerLocked},
	{"lock", "lockSlow", flagClaim},
	{"lock", "lockSlow", flagWaiters},
	{"unlock", "unlockMisuse", 0},
	{"unlock", "unlockSlow", writerLocked | flagWaiters | flagAsleep},
	{"unlock", "unlockSlow", writerLocked | flagWaiters | flagHandoff},
	{"downgrade", "downgradeMisuse", 0},
	{"downgrade", "downgradeSlow", writerLocked | flagWaiters},
	{"tryRLock", "tryRLockSlow", flagWaiters},
	{"tryRLockExpect", "tryRLockSlow", flagWaiters},
	{"tryLock", "tryLockSlow", flagWaiters},
}

//go:noinline
func deepStack(n int) byte {
	var frame [1 << 10]byte
	frame[n&(len(frame)-1)] = byte(n)
	if n > 0 {
		frame[0] += deepStack(n - 1)
	}
	return frame[0] + frame[len(frame)-1]
}

// testAssemblyStackGrowth grows the stack, and so moves it, in a slow function that was
// jumped to, while the lock itself lies on that stack.
func testAssemblyStackGrowth(t *testing.T) {
	defer func() { *standIn.onSlow = nil }()
	for _, j := range tailJumps {
		for _, answer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%#x/%v", j.name, j.count, answer), func(t *testing.T) {
				const mark = 0xabcd00
				*standIn.result = answer
				*standIn.onSlow = func(_ string, rw *RWMutex) {
					deepStack(1 << 10)
					runtime.GC()
					rw.owner.Store(mark)
				}
				var before, after uintptr
				var owner uintptr
				var got bool
				var guard [2]uint64
				done := make(chan bool)
				go func() {
					defer close(done)
					var c fencedLock
					c.before, c.after = 0x1111, 0x2222
					c.rw.count.Store(j.count)
					before = uintptr(unsafe.Pointer(&c))
					got = callAssembly(j.name, &c.rw)
					after = uintptr(unsafe.Pointer(&c))
					owner = c.rw.owner.Load()
					guard = [2]uint64{c.before, c.after}
				}()
				<-done
				require.NotEqual(t, before, after, "the stack did not move")
				require.EqualValues(t, mark, owner, "the slow function had another lock")
				require.Equal(t, [2]uint64{0x1111, 0x2222}, guard)
				require.Equal(t, answer && strings.HasPrefix(j.name, "try"), got)
			})
		}
	}
}

// testAssemblyTraceback wants the assembly's caller right below the slow function.
func testAssemblyTraceback(t *testing.T) {
	defer func() { *standIn.onSlow = nil }()
	for _, j := range tailJumps {
		t.Run(fmt.Sprintf("%s/%#x", j.name, j.count), func(t *testing.T) {
			var names []string
			var dump string
			*standIn.onSlow = func(string, *RWMutex) {
				pcs := make([]uintptr, 64)
				frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
				for more := true; more; {
					var f runtime.Frame
					f, more = frames.Next()
					names = append(names, f.Function[strings.LastIndexByte(f.Function, '/')+1:])
				}
				buf := make([]byte, 1<<16)
				dump = string(buf[:runtime.Stack(buf, false)])
			}
			rw := new(RWMutex)
			rw.count.Store(j.count)
			callAssembly(j.name, rw)
			at := slices.Index(names, "plain."+j.slow)
			require.GreaterOrEqual(t, at, 0, "%q", names)
			require.Equal(t, "plain.callAssembly", names[at+1], "%q", names)
			require.Equal(t, "testing.tRunner", names[len(names)-2], "%q", names)
			require.Regexp(t, `plain\.`+j.slow+`\((?s:.*)plain\.callAssembly\((?s:.*)testing\.tRunner\(`, dump)
			require.NotContains(t, dump, "unexpected")
		})
	}
}

// testAssemblySelf knows a g by its containing its goroutine's number, always in the
// same place.
func testAssemblySelf(t *testing.T) {
	number := func() uint64 {
		buf := make([]byte, 64)
		fields := bytes.Fields(buf[:runtime.Stack(buf, false)])
		n, err := strconv.ParseUint(string(fields[1]), 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	const goroutines, bytesOfG = 16, 256
	var mu sync.Mutex
	places := map[uintptr]int{}
	selves := map[uintptr]bool{}
	var all, wg sync.WaitGroup
	all.Add(goroutines)
	for range goroutines {
		wg.Go(func() {
			g := self()
			n := number()
			mu.Lock()
			selves[g] = true
			for off := uintptr(0); off < bytesOfG; off += 8 {
				if uint64(loadStatus(g, off))|uint64(loadStatus(g, off+4))<<32 == n {
					places[off]++
				}
			}
			mu.Unlock()
			all.Done()
			all.Wait()
			deepStack(100)
			runtime.Gosched()
			assert.Equal(t, g, self())
			var rw RWMutex
			lock(&rw)
			assert.Equal(t, g, rw.loadOwner(rw.count.Load()))
			unlock(&rw)
			assert.True(t, tryLock(&rw))
			assert.Equal(t, g, rw.loadOwner(rw.count.Load()))
		})
	}
	wg.Wait()
	require.Len(t, selves, goroutines)
	require.Contains(t, slices.Collect(maps.Values(places)), goroutines, "%v", places)
	for g := range selves {
		require.Zero(t, g&(ownerFlags|ownerAnonymous))
	}
}

func testAssemblyLoadStatus(t *testing.T) {
	words := [4]uint32{0xfedc_ba98, 0x8000_0001, 0xffff_ffff, 0x7654_3210}
	base := uintptr(unsafe.Pointer(&words))
	for i, w := range words {
		assert.Equal(t, w, loadStatus(base, uintptr(4*i)))
		assert.Equal(t, w, loadStatus(base+16, uintptr(4*i)-16))
	}
	runtime.KeepAlive(&words)
}

func testAssemblyCycles(t *testing.T) {
	before := cycles()
	time.Sleep(time.Millisecond)
	assert.Positive(t, int64(cycles()-before))
	for _, n := range []uint32{0, 1, 100, math.MaxUint32} {
		relax(n)
		pause(n)
	}
	t.Log("the counter's rate is constant:", cyclesInvariant())
}

func testAssemblyHookedCycles(t *testing.T) {
	h := standIn.hooks
	*h.tick = 0
	for _, c := range []uint64{0, 1, 1<<32 - 1, 1 << 32, 0x8765_4321_89ab_cdef, math.MaxUint64} {
		*h.tsc = c
		assert.Equal(t, c, cycles())
	}
}

func testAssemblyRelax(t *testing.T) {
	minus := ^uint64(0)
	h := standIn.hooks
	for _, test := range []struct {
		ticks  uint32
		tick   uint64
		pauses int
	}{
		{0, 1, 1}, {0, 0, 1}, {0, minus, 1},
		{1, 1, 1}, {1, 1000, 1}, {2, 1, 2}, {9, 3, 3}, {10, 3, 4},
		{15, 1, 15}, {16, 1, 16}, {17, 1, 16}, {1000, 1, 16}, {1, 0, 16}, {math.MaxUint32, 1, 16},
		{math.MaxUint32, 1 << 28, 16}, {1<<31 + 1, 1 << 30, 3}, {1, 1 << 32, 1}, {math.MaxUint32, 1 << 32, 1},
		{1, minus, 1}, {math.MaxUint32, minus, 1}, {1000, minus * 1000, 1}, {1000, 1 << 63, 1}, {1, minus << 40, 1},
	} {
		for _, start := range []uint64{0, 1000, 1<<32 - 5, math.MaxUint64 - 5, 1<<63 - 5, 0x1234_5678_9abc} {
			*h.tsc, *h.tick, *h.pauses, *h.looks = start, test.tick, 0, 0
			relax(test.ticks)
			assert.Equal(t, []int{test.pauses, test.pauses + 1}, []int{*h.pauses, *h.looks},
				"relax(%d) from %#x by %#x", test.ticks, start, test.tick)
		}
	}
}

func testAssemblyPause(t *testing.T) {
	h := standIn.hooks
	for _, n := range []uint32{0, 1, 2, 9, 15, 16, 17, 128, 1 << 31, 1<<31 + 1, math.MaxUint32} {
		*h.pauses, *h.looks = 0, 0
		pause(n)
		assert.Equal(t, []int{int(min(n, 16)), 0}, []int{*h.pauses, *h.looks}, n)
	}
}

func mustRead(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func mustWrite(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}

func replaceOnce(t *testing.T, text, old, by string) string {
	require.Equal(t, 1, strings.Count(text, old), "%q", old)
	return strings.Replace(text, old, by, 1)
}
