//go:build amd64 && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAssemblyLocks reads the generated files: every atomic instruction is on
// the count and has the LOCK prefix, and nothing else has it.
func TestAssemblyLocks(t *testing.T) {
	for _, name := range []string{"fast_amd64.s", "fast_ownercount_amd64.s"} {
		t.Run(name, func(t *testing.T) { testLocks(t, mustRead(t, name)) })
	}
}

func testLocks(t *testing.T, text string) {
	atomic := regexp.MustCompile(`^\s+(XADD|CMPXCHG|XCHG)`)
	onCount := regexp.MustCompile(`^\s+(XADDQ|CMPXCHGQ)\s+[A-Z0-9]+, RWMutex_count\([A-Z0-9]+\)$`)
	locked, steps := false, 0
	for n, line := range strings.Split(text, "\n") {
		if locked || atomic.MatchString(line) {
			assert.True(t, locked, "line %d: no LOCK before %s", n+1, line)
			assert.Regexp(t, onCount, line, "line %d", n+1)
			steps++
		}
		locked = strings.TrimSpace(line) == "LOCK"
	}
	assert.Equal(t, 8, steps)
}

// assemblyForms: CPUs do not differ in what the assembly uses.
var assemblyForms = []assemblyForm{{"", false, func() bool { return true }}}

// standInArch is what CPUID answers: the highest extended leaf, and EDX of the
// leaf that tells of the cycle counter.
type standInArch struct{ maxLeaf, power *uint32 }

const archHooks = "standInArch{&hookMaxLeaf, &hookPower}"

const archHookSource = `
var hookMaxLeaf, hookPower uint32
`

// hookAssembly defines instructions as macros: LOCK lets others change the
// count first, PAUSE counts, RDTSC and CPUID read variables.
func hookAssembly(t *testing.T, text string) string {
	require.NotRegexp(t, `\bR1[0-3]\b`, text, "the macros use these")
	return replaceOnce(t, text, includeLast, includeLast+hookMacros)
}

const includeLast = "#include \"textflag.h\"\n"

const hookMacros = `
#define LOCK \
	MOVQ ·hookLocks(SB), R10; \
	LEAQ ·hookInterfere(SB), R11; \
	MOVQ (R11)(R10*8), R12; \
	MOVQ ·hookTarget(SB), R13; \
	ADDQ R12, (R13); \
	INCQ ·hookLocks(SB); \
	BYTE $0xF0

#define PAUSE \
	INCQ ·hookPauses(SB)

#define RDTSC \
	MOVQ ·hookTick(SB), R10; \
	MOVQ ·hookTSC(SB), R11; \
	ADDQ R10, ·hookTSC(SB); \
	INCQ ·hookLooks(SB); \
	MOVL R11, AX; \
	SHRQ $32, R11; \
	MOVL R11, DX

// What other leaves answer is wrong for those that are asked.
#define CPUID \
	MOVL AX, R10; \
	MOVL ·hookPower(SB), R11; \
	MOVL R11, DX; \
	NOTL DX; \
	XORL AX, AX; \
	CMPL R10, $0x80000007; \
	CMOVLEQ R11, DX; \
	MOVL ·hookMaxLeaf(SB), R11; \
	CMPL R10, $0x80000000; \
	CMOVLEQ R11, AX; \
	MOVL $-1, BX; \
	MOVL $-1, CX
`

func testAssemblyInvariant(t *testing.T) {
	const bit = 1 << 8
	a := standIn.hooks.arch
	for _, test := range []struct {
		maxLeaf, power uint32
		want           bool
	}{
		{0, bit, false}, {0x8000_0000, bit, false}, {0x8000_0006, bit, false}, {0x7fff_ffff, bit, false},
		{0x8000_0007, bit, true}, {0x8000_0007, math.MaxUint32, true}, {0x8000_0008, bit, true}, {math.MaxUint32, bit, true},
		{0x8000_0007, 0, false}, {0x8000_0008, ^uint32(bit), false}, {0x8000_0007, bit<<1 | bit>>1, false},
	} {
		*a.maxLeaf, *a.power = test.maxLeaf, test.power
		assert.Equal(t, test.want, invariantTSC(), "%+v", test)
		assert.Equal(t, test.want, cyclesInvariant())
	}
}
