//go:build arm64 && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLSE compares what was found out about the CPU with what the kernel says,
// and with RWSEM_TEST_LSE, true or false, if that is set.
func TestLSE(t *testing.T) {
	t.Log("LSE:", hasLSE)
	if want := os.Getenv("RWSEM_TEST_LSE"); want != "" {
		assert.Equal(t, want, fmt.Sprint(hasLSE))
	}
	switch runtime.GOOS {
	case "linux":
		assert.Equal(t, kernelSaysLSE(t), hasLSE)
	case "darwin", "ios":
		assert.True(t, hasLSE, "every such CPU has it")
	}
}

// kernelSaysLSE reads the vector that Linux hands to every program.
func kernelSaysLSE(t *testing.T) bool {
	const hwcap, atomics = 16, 1 << 8 // AT_HWCAP, HWCAP_ATOMICS
	vector, err := os.ReadFile("/proc/self/auxv")
	require.NoError(t, err)
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == hwcap {
			return binary.NativeEndian.Uint64(vector[8:])&atomics != 0
		}
	}
	t.Fatal("the kernel does not say")
	return false
}

// assemblyForms are the two that each atomic step has, and in hooked a third in
// which each exclusive store fails at first. A build for CPUs that all have LSE
// takes the first always.
var assemblyForms = []assemblyForm{
	{"LSE/", false, func() bool { return chooseLSE(true, 0) }},
	{"Exclusive/", false, func() bool { return chooseLSE(false, 0) }},
	{"ExclusiveRetry/", true, func() bool { return chooseLSE(false, 1) }},
}

var cpuHasLSE = hasLSE

func chooseLSE(lse bool, fail uint64) bool {
	if lse && !cpuHasLSE {
		return false
	}
	hasLSE = lse
	if standIn != nil && standIn.hooks != nil {
		*standIn.hooks.arch.fail = fail
	}
	return true
}

// alwaysLSE reports whether the build is for CPUs that all have LSE.
func alwaysLSE(t *testing.T) bool {
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	for _, s := range info.Settings {
		if s.Key == "GOARM64" {
			return !strings.HasPrefix(s.Value, "v8.0") || strings.Contains(s.Value, ",lse")
		}
	}
	t.Fatal("the build does not say which CPUs it is for")
	return false
}

// standInArch is whether exclusive stores fail at first, how many did, and how
// many atomic steps of each form there were.
type standInArch struct{ fail, failures, lse, exclusive *uint64 }

const archHooks = "standInArch{&hookFail, &hookFailures, &hookLSE, &hookExclusive}"

const archHookSource = `
var hookFail, hookFailures, hookLSE, hookExclusive, hookLost uint64
`

var (
	lseAtomic      = regexp.MustCompile(`(?m)^\t(?:CAS|SWP|LDADD|LDCLR|LDSET|LDEOR)[AL]*D .*\n`)
	exclusiveLoop  = regexp.MustCompile(`(?m)^(\w+Exclusive):\n((?:\t//.*\n)*\tLDA?XR )`)
	exclusiveAgain = regexp.MustCompile(`(?m)^(\tCBNZ +R\d+, \w+Exclusive)$`)
	exclusiveStore = regexp.MustCompile(`(?m)^\tSTL?XR .*\n`)
	pauseLine      = regexp.MustCompile(`(?m)^\t(?:ISB +\$15|YIELD)\n`)
	cyclesLine     = regexp.MustCompile(`(?m)^\tMRS +CNTVCT_EL0, (R\d+)\n`)
)

// hookAssembly puts hooks into the text. Before each atomic step others change
// the count. An exclusive store loses its reservation once if hookFail says so;
// it may do so anyhow, and the step that begins again then is still the same.
func hookAssembly(t *testing.T, text string) string {
	require.NotRegexp(t, `\bR(19|2\d)\b`, text, "the hooks use these")
	loops := len(exclusiveStore.FindAllString(text, -1))
	require.Len(t, exclusiveLoop.FindAllString(text, -1), loops)
	require.Len(t, exclusiveAgain.FindAllString(text, -1), loops)
	text = lseAtomic.ReplaceAllStringFunc(text, func(line string) string {
		return increment("hookLSE") + interfereHook + line
	})
	begin := increment("hookExclusive") + interfereHook + "\tMOVD ZR, ·hookLost(SB)\n"
	text = exclusiveLoop.ReplaceAllString(text, "${1}:\n"+literal(begin)+"${1}Again:\n${2}")
	text = exclusiveAgain.ReplaceAllString(text, "${1}Again")
	lost := 0
	text = exclusiveStore.ReplaceAllStringFunc(text, func(line string) string {
		lost++
		return strings.ReplaceAll(loseHook, "LABEL", fmt.Sprintf("hook%d", lost)) + line
	})
	text = pauseLine.ReplaceAllLiteralString(text, increment("hookPauses"))
	return cyclesLine.ReplaceAllString(text, literal(increment("hookLooks"))+cyclesHook)
}

// literal is text for a template that does not refer to a match.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func increment(counter string) string {
	return "\tMOVD ·" + counter + "(SB), R19\n\tADD $1, R19\n\tMOVD R19, ·" + counter + "(SB)\n"
}

const interfereHook = `	MOVD ·hookLocks(SB), R19
	MOVD $·hookInterfere(SB), R20
	MOVD (R20)(R19<<3), R21
	ADD  $1, R19
	MOVD R19, ·hookLocks(SB)
	MOVD ·hookTarget(SB), R20
	MOVD (R20), R22
	ADD  R21, R22
	MOVD R22, (R20)
`

var loseHook = `	MOVD ·hookFail(SB), R19
	MOVD ·hookLost(SB), R20
	BIC  R20, R19
	CBZ  R19, LABEL
	MOVD R19, ·hookLost(SB)
	CLREX
` + increment("hookFailures") + `LABEL:
`

const cyclesHook = `	MOVD ·hookTSC(SB), ${1}
	MOVD ·hookTick(SB), R19
	ADD  ${1}, R19
	MOVD R19, ·hookTSC(SB)
`

// testAssemblyForm makes sure that the atomic steps have been of the form that
// the tests before this one were told.
func testAssemblyForm(t *testing.T) {
	a := standIn.hooks.arch
	wantLSE := hasLSE || alwaysLSE(t)
	assert.Equal(t, wantLSE, *a.lse != 0)
	assert.Equal(t, !wantLSE, *a.exclusive != 0)
	if !wantLSE && *a.fail != 0 {
		assert.Positive(t, *a.failures)
	} else {
		assert.Zero(t, *a.failures)
	}
	*a.failures, *a.lse, *a.exclusive = 0, 0, 0
}

func init() {
	tests := assemblyTests["hooked"]
	assemblyTests["hooked"] = append(tests, struct {
		name string
		test func(*testing.T)
	}{"Form", testAssemblyForm})
}

func testAssemblyInvariant(t *testing.T) {
	assert.True(t, cyclesInvariant())

	// relaxYield is relax but for the instruction.
	h := standIn.hooks
	for _, ticks := range []uint32{0, 1, 5, 15, 16, 17, math.MaxUint32} {
		for _, tick := range []uint64{0, 1, 3, 1 << 28, 1 << 32, math.MaxUint64} {
			*h.tsc, *h.tick, *h.pauses, *h.looks = 1000, tick, 0, 0
			relax(ticks)
			pauses, looks := *h.pauses, *h.looks
			*h.tsc, *h.pauses, *h.looks = 1000, 0, 0
			relaxYield(ticks)
			assert.Equal(t, []int{pauses, looks}, []int{*h.pauses, *h.looks}, "%d by %d", ticks, tick)
		}
	}
}
