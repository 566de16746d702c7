//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The atomic instructions of arm64 are checked word by word, since emulation on
// other machines does not show a weaker order and disassemblers do not know all
// of them. This needs no arm64. compiled_encoding_test.go does the same for what
// is compiled, MEMORY.md says why these orders are enough.

// A word is an instruction that the test looks at: one that is atomic, that
// orders others, or that pauses or reads the counter.
type word struct {
	op               string
	acquire, release bool
}

// Each atomic step has a form for CPUs with LSE and one for those without.
type asmStep struct {
	lse       word
	exclusive []word
}

var (
	swapAcquire = asmStep{word{"CAS", true, false}, []word{{"LDXR", true, false}, {"STXR", false, false}}}
	swapRelease = asmStep{word{"CAS", false, true}, []word{{"LDXR", false, false}, {"STXR", false, true}}}
	addRelease  = asmStep{word{"LDADD", false, true}, []word{{"LDXR", false, false}, {"STXR", false, true}}}
)

// asmSteps and asmWords are all that the functions may have of such words. The
// exclusive forms lie behind the function.
var (
	asmSteps = map[string][]asmStep{
		"lock":           {swapAcquire, swapAcquire},
		"unlock":         {addRelease},
		"downgrade":      {addRelease},
		"tryLock":        {swapAcquire},
		"tryRLock":       {swapAcquire},
		"tryRLockExpect": {swapAcquire, swapAcquire},
	}
	asmWords = map[string][]word{
		"rlockRare":   {{"LDAR", true, false}},
		"runlockRare": nil,
		"self":        nil,
		"loadStatus":  nil,
		"relax":       {{op: "MRS"}, {op: "ISB"}, {op: "MRS"}},
		"relaxYield":  {{op: "MRS"}, {op: "YIELD"}, {op: "MRS"}},
		"pause":       {{op: "ISB"}},
		"cycles":      {{op: "MRS"}},
	}
)

// encode is w in the bit fields of the architecture's manual, with registers in
// the order in which the assembler has them.
func (w word) encode(r []uint32) (uint32, error) {
	operands := map[string]int{"CAS": 3, "LDADD": 3, "LDXR": 2, "STXR": 3, "LDAR": 2, "MRS": 1}
	if len(r) != operands[w.op] {
		return 0, fmt.Errorf("%s has registers %v", w.op, r)
	}
	bit := func(on bool, n int) uint32 {
		if on {
			return 1 << n
		}
		return 0
	}
	const (
		doubleWord = 0b11 << 30
		none       = 0b11111 // in place of a register
	)
	switch w.op {
	case "CAS": // size 0010001 A 1 Rs R 11111 Rn Rt
		return doubleWord | 0b0010001<<23 | bit(w.acquire, 22) | 1<<21 | r[0]<<16 | bit(w.release, 15) | none<<10 | r[1]<<5 | r[2], nil
	case "LDADD": // size 111000 A R 1 Rs 0 000 00 Rn Rt
		return doubleWord | 0b111000<<24 | bit(w.acquire, 23) | bit(w.release, 22) | 1<<21 | r[0]<<16 | r[1]<<5 | r[2], nil
	case "LDXR": // size 001000 0 1 0 11111 A 11111 Rn Rt
		return doubleWord | 0b001000<<24 | 1<<22 | none<<16 | bit(w.acquire, 15) | none<<10 | r[0]<<5 | r[1], nil
	case "STXR": // size 001000 0 0 0 Rs R 11111 Rn Rt
		return doubleWord | 0b001000<<24 | r[2]<<16 | bit(w.release, 15) | none<<10 | r[1]<<5 | r[0], nil
	case "LDAR": // size 001000 1 1 0 11111 1 11111 Rn Rt
		return doubleWord | 0b001000<<24 | 1<<23 | 1<<22 | none<<16 | 1<<15 | none<<10 | r[0]<<5 | r[1], nil
	case "ISB":
		return 0xd503_3fdf, nil
	case "YIELD":
		return 0xd503_203f, nil
	case "MRS": // of CNTVCT_EL0
		return 0xd53b_e040 | r[0], nil
	}
	return 0, fmt.Errorf("no such word: %s", w.op)
}

// watched reports whether the test looks at an instruction: the classes of
// exclusive and ordered loads and stores and of compare-and-swap, of the other
// atomic memory operations, of unscaled ordered loads and stores, and of system
// instructions, barriers among them.
func watched(code uint32) bool {
	return code>>24&0b111111 == 0b001000 ||
		code>>24&0b111111 == 0b111000 && code>>21&1 == 1 && code>>10&0b11 == 0 ||
		code>>24&0b111111 == 0b011001 && code>>21&1 == 0 && code>>10&0b11 == 0 ||
		code>>24 == 0xd5
}

func TestAssemblyEncoding(t *testing.T) {
	for _, tags := range []string{"", "rwsem_ownercount"} {
		for _, cpu := range []string{"v8.0", "v8.1"} {
			t.Run(cpu+"/"+tags, func(t *testing.T) {
				t.Parallel()
				assert.Empty(t, checkEncoding(t, tags, cpu == "v8.1"))
			})
		}
	}
}

// Each order that a step has is missed where it is left out.
func TestAssemblyEncodingFinds(t *testing.T) {
	const plain, owner = "fast_arm64.s", "fast_ownercount_arm64.s"
	for _, fault := range []struct{ file, tags, with, without string }{
		{plain, "", "CASAD", "CASD"},
		{plain, "", "LDADDLD", "LDADDD"},
		{plain, "", "LDAXR", "LDXR"},
		{plain, "", "STLXR", "STXR"},
		{plain, "", "LDAR", "MOVD"},
		{owner, "rwsem_ownercount", "CASAD", "CASD"},
		{owner, "rwsem_ownercount", "CASLD", "CASD"},
		{owner, "rwsem_ownercount", "STLXR", "STXR"},
	} {
		t.Run(fault.file+"/"+fault.with, func(t *testing.T) {
			t.Parallel()
			text := mustRead(t, fault.file)
			require.Contains(t, text, fault.with)
			dir := t.TempDir()
			faulty, overlay := filepath.Join(dir, fault.file), filepath.Join(dir, "overlay.json")
			mustWrite(t, faulty, strings.Replace(text, fault.with+" ", fault.without+" ", 1))
			original, err := filepath.Abs(fault.file)
			require.NoError(t, err)
			mustWrite(t, overlay, fmt.Sprintf(`{"Replace": {%q: %q}}`, original, faulty))
			assert.NotEmpty(t, checkEncoding(t, fault.tags, false, "-overlay="+overlay))
		})
	}
}

// checkEncoding returns what is wrong with the words of a build.
func checkEncoding(t *testing.T, tags string, lse bool, flags ...string) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	want := map[string][]word{}
	for name, words := range asmWords {
		want[name] = words
	}
	asks := map[string]int{}
	for name, steps := range asmSteps {
		if tags != "" && steps[0].lse.op == "LDADD" {
			steps = []asmStep{swapRelease} // out with whoever is there
		}
		for _, s := range steps {
			want[name] = append(want[name], s.lse)
		}
		for _, s := range steps {
			if !lse {
				want[name] = append(want[name], s.exclusive...)
				asks[name]++
			}
		}
	}
	if tags != "" {
		want["identity"] = nil
	}

	got := disassemble(t, tags, lse, flags...)
	for name, words := range want {
		f, ok := got[name]
		if !ok {
			complain("%s is missing", name)
			continue
		}
		if f.asks != asks[name] {
			complain("%s looks at hasLSE %d times, not %d", name, f.asks, asks[name])
		}
		if len(f.watched) != len(words) {
			complain("%s has %d words, not %d", name, len(f.watched), len(words))
		}
		for i, w := range words[:min(len(words), len(f.watched))] {
			line := f.watched[i]
			code, err := w.encode(line.registers)
			if err != nil || code != line.code {
				complain("%s: %s: %08x, not %08x (%v)", name, line.source, line.code, code, err)
			}
			if len(line.registers) > 1 && !strings.Contains(line.source, "RWMutex_count(R0)") {
				complain("%s: %s is not on the count", name, line.source)
			}
		}
	}
	if len(got) != len(want) {
		complain("%d functions, not %d", len(got), len(want))
	}
	return wrong
}

// An asmFunction is what a function has of watched words, and how often it looks
// at hasLSE.
type asmFunction struct {
	watched []asmLine
	asks    int
}

type asmLine struct {
	code      uint32
	source    string
	registers []uint32 // in the order of the source
}

var (
	functionLine = regexp.MustCompile(`^TEXT .*\.(\w+)\(SB\)`)
	wordLine     = regexp.MustCompile(`^\s+(\w+\.s):(\d+)\s+0x[0-9a-f]+\s+([0-9a-f]{8})\s`)
	register     = regexp.MustCompile(`\bR(\d+)\b`)
)

// buildArm64 builds the package for arm64 and returns the archive.
func buildArm64(t *testing.T, tags string, lse bool, flags ...string) string {
	archive := filepath.Join(t.TempDir(), "rwsem.a")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-tags=" + tags, "-o", archive}, flags, []string{"."})...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS=linux", "GOARCH=arm64", "GOARM64=v8.0", "CGO_ENABLED=0", "GOFLAGS=")
	if lse {
		cmd.Env = append(cmd.Env, "GOARM64=v8.1")
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return mustRead(t, archive)
}

// objdump disassembles a member of an archive.
func objdump(t *testing.T, member string) string {
	object := filepath.Join(t.TempDir(), "member.a")
	mustWrite(t, object, member)
	out, err := exec.Command("go", "tool", "objdump", object).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// compiledMember is the member of an archive that the compiler wrote; those of the
// assembler have the names of its files.
const compiledMember = "_go_.o"

// disassemble builds the package for arm64 and reads the functions that were
// assembled.
func disassemble(t *testing.T, tags string, lse bool, flags ...string) map[string]*asmFunction {
	functions := map[string]*asmFunction{}
	for name, member := range members(t, buildArm64(t, tags, lse, flags...)) {
		if name == "__.PKGDEF" || name == compiledMember {
			continue
		}
		var f *asmFunction
		for line := range strings.Lines(objdump(t, member)) {
			if m := functionLine.FindStringSubmatch(line); m != nil {
				require.NotContains(t, functions, m[1])
				f = &asmFunction{}
				functions[m[1]] = f
			}
			m := wordLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			source := strings.TrimSpace(sourceLine(t, m[1], m[2]))
			code, err := strconv.ParseUint(m[3], 16, 32)
			require.NoError(t, err)
			if strings.Contains(line, "hasLSE") {
				f.asks++
			}
			if !watched(uint32(code)) {
				continue
			}
			l := asmLine{code: uint32(code), source: source}
			for _, r := range register.FindAllStringSubmatch(source, -1) {
				n, err := strconv.ParseUint(r[1], 10, 5)
				require.NoError(t, err)
				l.registers = append(l.registers, uint32(n))
			}
			f.watched = append(f.watched, l)
		}
	}
	return functions
}

func sourceLine(t *testing.T, file, number string) string {
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return strings.Split(mustRead(t, file), "\n")[n-1]
}

// members returns the members of an archive, each as an archive of its own: the
// disassembler looks at the first one only.
func members(t *testing.T, archive string) map[string]string {
	const magic, headerSize, sizeAt = "!<arch>\n", 60, 48
	rest, ok := strings.CutPrefix(archive, magic)
	require.True(t, ok)
	found := map[string]string{}
	for len(rest) >= headerSize {
		size, err := strconv.Atoi(strings.TrimSpace(rest[sizeAt : sizeAt+10]))
		require.NoError(t, err)
		name := strings.TrimSpace(rest[:16])
		end := min(headerSize+size+size%2, len(rest))
		found[name] = magic + rest[:end]
		rest = rest[end:]
	}
	return found
}
