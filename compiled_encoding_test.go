//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The orders that compiled code has on arm64, read from the object as those of
// the assembly are (asm_encoding_test.go). What the compiler makes of a function
// is its own affair, so nothing is required of the sequence: only that each access
// to a field that carries an edge has its order, in every function of the package,
// and that where the source has such accesses the object has as many.

// What every function has to keep to. count is written by atomic steps only: that
// is what makes an edge pass through the steps of others (MEMORY.md).
type orderedField struct {
	name     string
	in       pointee
	off, end int64
}

var orderedFields = []orderedField{
	fieldAt("count", toLock, unsafe.Offsetof(RWMutex{}.count), unsafe.Sizeof(RWMutex{}.count)),
	fieldAt("owner", toLock, unsafe.Offsetof(RWMutex{}.owner), unsafe.Sizeof(RWMutex{}.owner)),
	fieldAt("waitLock", toLock, unsafe.Offsetof(RWMutex{}.waitLock), unsafe.Sizeof(RWMutex{}.waitLock)),
	fieldAt("ctl", toLock, unsafe.Offsetof(RWMutex{}.ctl), unsafe.Sizeof(RWMutex{}.ctl)),
	fieldAt("steals", toLock, unsafe.Offsetof(RWMutex{}.steals), unsafe.Sizeof(RWMutex{}.steals)),
	fieldAt("state", toWaiter, unsafe.Offsetof(waiter{}.state), unsafe.Sizeof(waiter{}.state)),
}

func fieldAt(name string, in pointee, off, size uintptr) orderedField {
	return orderedField{name, in, int64(off), int64(off + size)}
}

func init() {
	for _, p := range []pointer{
		{toLock, int64(unsafe.Offsetof(RWMutex{}.head))},
		{toLock, int64(unsafe.Offsetof(RWMutex{}.writers))},
		{toWaiter, int64(unsafe.Offsetof(waiter{}.next))},
		{toWaiter, int64(unsafe.Offsetof(waiter{}.prev))},
		{toWaiter, int64(unsafe.Offsetof(waiter{}.wakes))},
	} {
		linkedFields[p] = true
	}
}

// An atLeast is how many accesses to a field a function of the source has itself:
// loads, atomic steps (additions, swaps, bits set and cleared) and stores.
type atLeast struct {
	field                string
	loads, steps, stores int
}

// compiledOrder is every function in which a call of the lock may end with the
// lock, give it up, or tell another that it has it, and what else writes the count.
// The stubs are the fast paths of builds without assembly.
var compiledOrder = map[string][]atLeast{
	"(*RWMutex).RLock":   {{"count", 0, 1, 0}},
	"(*RWMutex).RUnlock": {{"count", 0, 1, 0}},
	"(*rlocker).Lock":    {{"count", 0, 1, 0}}, // RLock, inlined
	"(*rlocker).Unlock":  {{"count", 0, 1, 0}},

	"rlockRareStub": {{"count", 1, 0, 0}},
	"lockStub":      {{"count", 1, 2, 0}},
	"tryRLockStub":  {{"count", 1, 1, 0}},
	"tryLockStub":   {{"count", 1, 1, 0}},
	"tryRLockSlow":  {{"count", 1, 1, 0}},
	"tryLockSlow":   {{"count", 1, 1, 0}},

	"(*RWMutex).rlockAwake":    {{"count", 1, 1, 0}},
	"(*RWMutex).rejoin":        {{"count", 1, 1, 0}},
	"(*RWMutex).rlockSpin":     {{"count", 1, 1, 0}},
	"(*RWMutex).spinRead":      {{"count", 1, 0, 0}},
	"(*RWMutex).lockAwake":     {{"count", 2, 1, 0}},
	"(*RWMutex).spinWriteLoop": {{"count", 1, 1, 0}},

	"(*RWMutex).enqueue":      {{"count", 1, 2, 0}, {"state", 1, 0, 2}, {"waitLock", 0, 2, 0}},
	"(*RWMutex).wait":         {{"count", 0, 1, 0}, {"state", 3, 0, 0}},
	"(*RWMutex).tryFirstOnce": {{"count", 1, 2, 0}, {"state", 1, 0, 0}, {"waitLock", 0, 2, 0}},
	"(*RWMutex).wakeFirst":    {{"count", 1, 1, 0}},
	"(*RWMutex).grantWriter":  {{"count", 0, 1, 0}, {"state", 0, 0, 1}},
	"(*RWMutex).grantReaders": {{"count", 1, 1, 0}},
	"(*wakeList).tell":        {{"state", 0, 0, 1}},
	"(*RWMutex).cancel":       {{"count", 0, 1, 0}, {"state", 1, 0, 2}, {"waitLock", 0, 2, 0}},
	"(*RWMutex).wakeUp":       {{"waitLock", 0, 2, 0}},
	"(*RWMutex).firstIsDue":   {{"count", 1, 0, 0}, {"waitLock", 0, 2, 0}},

	"freeWaiter":              {{"state", 0, 0, 1}},
	"(*RWMutex).preferReader": {}, // by renewFirst, which is inlined

	"(*RWMutex).backOut":    {{"count", 0, 1, 0}},
	"(*RWMutex).setHandoff": {{"count", 0, 1, 0}},
	"(*RWMutex).renewFirst": {{"count", 0, 2, 0}},
	"(*RWMutex).spinWrite":  {{"count", 0, 1, 0}},
	"(*RWMutex).claim":      {{"count", 0, 1, 0}},
	"(*RWMutex).stepBack":   {{"count", 1, 1, 0}},
	"(*RWMutex).spinFirst":  {{"count", 1, 0, 0}, {"state", 1, 0, 0}},
}

// Those that differ by where the owner is.
var (
	compiledOrderDefault = map[string][]atLeast{
		"unlockStub":    {{"count", 0, 1, 0}},
		"downgradeStub": {{"count", 0, 1, 0}},

		"(*RWMutex).takeWriterOut": {}, // not called
	}
	compiledOrderOwner = map[string][]atLeast{
		"(*RWMutex).takeWriterOut": {{"count", 1, 1, 0}},
		"unlockStub":               {}, // by takeWriterOut
		"downgradeStub":            {},
	}
)

// compiledOrders is compiledOrder for a build with tags.
func compiledOrders(tags string) map[string][]atLeast {
	all := maps.Clone(compiledOrder)
	if tags == "rwsem_ownercount" {
		maps.Copy(all, compiledOrderOwner)
	} else {
		maps.Copy(all, compiledOrderDefault)
	}
	return all
}

// field is that field which carries order that a is to, "" if it is to none.
func (a *access) field() string {
	for _, f := range orderedFields {
		if f.in == a.to.to && a.to.off < f.end && a.to.off+a.width > f.off {
			return f.name
		}
	}
	return ""
}

// isNilCheck reports whether a only looks whether a pointer may be read through.
func (a *access) isNilCheck() bool {
	const scratch = 27 // the assembler's
	return a.op == "LOAD" && a.width == 1 && len(a.loads) == 1 && (a.loads[0] == scratch || a.loads[0] == none)
}

// misordered is what is wrong with a, "" if nothing is.
func (a *access) misordered() string {
	field := a.field()
	switch a.op {
	case "LOAD", "STORE":
		if field != "" && !a.isNilCheck() {
			return "is not atomic"
		}
	case "LDXR", "LDAR":
		if !a.acquire {
			return "does not acquire"
		}
	case "STXR", "STLR":
		if !a.release {
			return "does not release"
		}
		if a.op == "STLR" && field == "count" {
			return "is not one step with a load"
		}
	default:
		if !a.acquire || !a.release {
			return "does not acquire and release"
		}
	}
	return ""
}

// compiledCounts is how many accesses there are to a field.
type compiledCounts struct{ loads, stores, lse, loadExclusive, storeExclusive int }

func countAccesses(all []access) map[string]*compiledCounts {
	counts := map[string]*compiledCounts{}
	for _, a := range all {
		field := a.field()
		n := counts[field]
		if n == nil {
			n = new(compiledCounts)
			counts[field] = n
		}
		switch a.op {
		case "LOAD", "STORE":
		case "LDAR":
			n.loads++
		case "STLR":
			n.stores++
		case "LDXR":
			n.loadExclusive++
		case "STXR":
			n.storeExclusive++
		default:
			n.lse++
		}
	}
	return counts
}

func changes(n *compiledCounts) bool { return n != nil && n.stores+n.lse+n.storeExclusive > 0 }

// A compiledFunction is a function of the object. Those that assembly calls have
// two bodies, of which one calls the other.
type compiledFunction struct {
	bodies    [][]instruction
	arguments []pointee
}

// accesses is all that a function's bodies access.
func (f compiledFunction) accesses() (all []access, err error) {
	for _, body := range f.bodies {
		found, err := interpret(body, f.arguments)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// misorders is what is wrong with all accesses of a function.
func misorders(all []access, want []atLeast, lse bool) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, a := range all {
		if why := a.misordered(); why != "" {
			complain("%v %s %s", a, a.field(), why)
		}
	}
	counts := countAccesses(all)
	for _, w := range want {
		n := counts[w.field]
		if n == nil {
			n = new(compiledCounts)
		}
		forms := []struct {
			what        string
			found, want int
		}{
			{"loads", n.loads, w.loads}, {"stores", n.stores, w.stores},
			{"steps", n.lse, w.steps},
		}
		if !lse {
			forms = append(forms, []struct {
				what        string
				found, want int
			}{{"exclusive loads", n.loadExclusive, w.steps}, {"exclusive stores", n.storeExclusive, w.steps}}...)
		}
		for _, c := range forms {
			if c.found < c.want {
				complain("%d %s of %s, not %d", c.found, c.what, w.field, c.want)
			}
		}
	}
	return wrong
}

// checkAllCompiled checks every function of an object.
func checkAllCompiled(functions map[string]compiledFunction, orders map[string][]atLeast, lse bool) (wrong []string, all map[string][]access) {
	all, wrong = map[string][]access{}, vanished(functions, orders)
	for name, f := range functions {
		a, err := f.accesses()
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", name, err))
		}
		all[name] = a
		for _, w := range misorders(a, orders[name], lse) {
			wrong = append(wrong, name+": "+w)
		}
	}
	return wrong, all
}

// vanished is which of the functions are not there.
func vanished(functions map[string]compiledFunction, orders map[string][]atLeast) (wrong []string) {
	for name := range orders {
		if _, ok := functions[name]; !ok {
			wrong = append(wrong, name+" is missing")
		}
	}
	return wrong
}

var compiledVariants = []struct {
	tags string
	lse  bool
}{{"", false}, {"", true}, {"rwsem_ownercount", false}, {"rwsem_ownercount", true}}

func TestCompiledEncoding(t *testing.T) {
	for _, v := range compiledVariants {
		t.Run(fmt.Sprintf("LSE=%v/%s", v.lse, v.tags), func(t *testing.T) {
			t.Parallel()
			functions, orders := compiledFunctions(t, v.tags, v.lse), compiledOrders(v.tags)
			wrong, all := checkAllCompiled(functions, orders, v.lse)
			require.Empty(t, wrong)
			counts := countAccesses(slices.Concat(slices.Collect(maps.Values(all))...))
			for _, f := range append(orderedFields, orderedField{}) {
				if n := counts[f.name]; n != nil {
					t.Logf("%-8s %+v", f.name, *n)
				}
			}

			// The list is complete: who changes the count or a waiter's state is in it.
			for name, accesses := range all {
				n := countAccesses(accesses)
				if changes(n["count"]) || changes(n["state"]) {
					assert.Contains(t, orders, name)
				}
			}

			// It would miss no order that were left out, nor a function.
			mutants := 0
			for name, accesses := range all {
				for i, a := range accesses {
					for what, code := range a.mutants() {
						d, err := decode(code)
						require.NoError(t, err)
						faulty := slices.Clone(accesses)
						faulty[i].decoded = d
						assert.NotEmpty(t, misorders(faulty, orders[name], v.lse), "%s: %v without %s", name, a, what)
						mutants++
					}
				}
			}
			t.Log(mutants, "mutants")
			require.NotZero(t, mutants)
			for name := range orders {
				left := maps.Clone(functions)
				delete(left, name)
				assert.Equal(t, []string{name + " is missing"}, vanished(left, orders))
			}
		})
	}
}

// mutants are a's word with one of its orders left out each.
func (a *access) mutants() map[string]uint32 {
	const plain = 0b111001 << 24 // size 111001 opc imm12 Rn Rt
	code := a.at.code
	without := func(bit int) uint32 { return code &^ (1 << bit) }
	sizeAndRegisters := code & (0b11<<30 | 0b11111<<5 | 0b11111)
	switch a.op {
	case "LOAD", "STORE":
		return nil
	case "LDXR":
		return map[string]uint32{"acquire": without(15)}
	case "STXR":
		return map[string]uint32{"release": without(15)}
	case "LDAR":
		m := map[string]uint32{"acquire": without(15)}
		if a.field() != "" {
			m["atomic"] = sizeAndRegisters | plain | 0b01<<22
		}
		return m
	case "STLR":
		m := map[string]uint32{"release": without(15)}
		if a.field() != "" {
			m["atomic"] = sizeAndRegisters | plain
		}
		return m
	case "CAS":
		return map[string]uint32{"acquire": without(22), "release": without(15)}
	}
	return map[string]uint32{"acquire": without(23), "release": without(22), "result": code | none}
}

// Faults in the source are found where they are.
func TestCompiledEncodingFinds(t *testing.T) {
	const plainCount, plainState = "*(*uint64)(unsafe.Pointer(&rw.count))", "*(*uint32)(unsafe.Pointer(&w.state))"
	faults := []struct{ file, with, without, found string }{
		{"spin.go", "// Acquire: pairs with the release in Unlock and Downgrade.\n\t\tc := rw.count.Load()", "c := " + plainCount,
			`\(\*RWMutex\).spinRead: LOAD at \S+ \(\w+\) count is not atomic`},
		{"slowpath.go", "passed := false, false\n\tfor {\n\t\tc := rw.count.Load()", "passed := false, false\n\tfor {\n\t\tc := " + plainCount,
			`\(\*RWMutex\).rlockAwake: LOAD at \S+ \(\w+\) count is not atomic`},
		{"slowpath.go", "state := w.state.Load()\n\tswitch", "state := " + plainState + "\n\tswitch",
			`\(\*RWMutex\).wait: LOAD at \S+ \(\w+\) state is not atomic`},
		{"slowpath.go", "c := rw.count.Add(^uint64(readerBias - 1)) // Relaxed", "c := rw.count.Load() - readerBias\n\trw.count.Store(c) // Relaxed",
			`\(\*RWMutex\).backOut: STLR release at \S+ \(\w+\) count is not one step with a load`},
		{"slowpath.go", "(rw *RWMutex) rejoin()", "(rw *RWMutex) joinAgain()", `\(\*RWMutex\).rejoin is missing`},
		{"slowpath.go", "rw.rejoin()", "rw.joinAgain()", ""},
		{"timed.go", "rw.rejoin()", "rw.joinAgain()", ""},
		{"waiter.go", "w.state.Store(state)", plainState + " = state",
			`\(\*wakeList\).tell: STORE at \S+ \(\w+\) state is not atomic`},
	}
	dir, files, replace := t.TempDir(), map[string]string{}, []string{}
	for _, f := range faults {
		if _, ok := files[f.file]; !ok {
			files[f.file] = mustRead(t, f.file)
		}
		require.Equal(t, 1, strings.Count(files[f.file], f.with), f.with)
		files[f.file] = strings.Replace(files[f.file], f.with, f.without, 1)
	}
	for name, text := range files {
		if strings.Contains(text, "unsafe.") {
			text = strings.Replace(text, "package rwsem\n", "package rwsem\n\nimport \"unsafe\"\n", 1)
		}
		faulty := filepath.Join(dir, name)
		mustWrite(t, faulty, text)
		original, err := filepath.Abs(name)
		require.NoError(t, err)
		replace = append(replace, fmt.Sprintf("%q: %q", original, faulty))
	}
	overlay := filepath.Join(dir, "overlay.json")
	mustWrite(t, overlay, fmt.Sprintf(`{"Replace": {%s}}`, strings.Join(replace, ", ")))
	for _, lse := range []bool{false, true} {
		wrong, _ := checkAllCompiled(compiledFunctions(t, "", lse, "-overlay="+overlay), compiledOrders(""), lse)
		for _, f := range faults {
			assert.Regexp(t, f.found, strings.Join(wrong, "\n"))
		}
	}
}

// decode is the inverse of the assembly test's encode, for the words of that.
func TestDecode(t *testing.T) {
	for _, w := range []word{
		{"CAS", true, true}, {"CAS", true, false}, {"CAS", false, true}, {"CAS", false, false},
		{"LDADD", true, true}, {"LDADD", true, false}, {"LDADD", false, true}, {"LDADD", false, false},
		{"LDXR", true, false}, {"LDXR", false, false}, {"STXR", false, true}, {"STXR", false, false},
		{"LDAR", true, false},
	} {
		for r := range uint32(30) {
			registers := []uint32{r, 7, 9}
			if w.op == "LDXR" || w.op == "LDAR" {
				registers = []uint32{7, r}
			}
			code, err := w.encode(registers)
			require.NoError(t, err)
			d, err := decode(code)
			require.NoError(t, err)
			assert.Equal(t, w, word{d.op, d.acquire, d.release})
			assert.EqualValues(t, 7, d.base)
			assert.EqualValues(t, 8, d.width)
			switch w.op {
			case "CAS", "LDXR", "LDAR":
				assert.Equal(t, []uint32{r}, d.loads)
			case "LDADD":
				assert.Equal(t, []uint32{9}, d.loads)
			case "STXR":
				assert.Equal(t, []uint32{r}, d.stores)
				assert.EqualValues(t, 9, d.status)
			}
		}
	}
	// A bit that stands for acquire is void where nothing is loaded.
	d, err := decode(0xf8e0_0000 | 3<<16 | 7<<5 | none) // LDADDAL R3, (R7), ZR
	require.NoError(t, err)
	assert.False(t, d.acquire)
	assert.True(t, d.release)
}

var compiledHead = regexp.MustCompile(`^TEXT (\S+)\(SB\)`)

// compiledFunctions builds the package for arm64 and reads the functions that
// were compiled.
func compiledFunctions(t *testing.T, tags string, lse bool, flags ...string) map[string]compiledFunction {
	member := members(t, buildArm64(t, tags, lse, flags...))[compiledMember]
	require.NotEmpty(t, member)
	arguments := argumentsInSource(t)
	functions := map[string]compiledFunction{}
	for name, bodies := range instructionsOf(t, member) {
		functions[name] = compiledFunction{bodies, append([]pointee{}, arguments[name]...)}
	}
	return functions
}

// instructionsOf reads the bodies of the functions in a member of an archive.
func instructionsOf(t *testing.T, member string) map[string][][]instruction {
	functions := map[string][][]instruction{}
	var name string
	var body []instruction
	finish := func() {
		if len(body) != 0 { // a closure that is nowhere made has none
			functions[name] = append(functions[name], body)
		}
	}
	for line := range strings.Lines(objdump(t, member)) {
		if m := compiledHead.FindStringSubmatch(line); m != nil {
			finish()
			name, body = m[1][strings.LastIndex(m[1], "/")+1:], nil
			_, name, _ = strings.Cut(name, ".")
			continue
		}
		// Its source, address and word, the disassembler's reading, which knows no
		// better, and what the linker puts in.
		words := strings.Fields(line)
		if len(words) < 3 || !strings.HasPrefix(words[1], "0x") {
			continue
		}
		pc, err := strconv.ParseInt(words[1], 0, 64)
		require.NoError(t, err)
		code, err := strconv.ParseUint(words[2], 16, 32)
		require.NoError(t, err)
		in := instruction{pc: pc, code: uint32(code), source: words[0]}
		if last := words[len(words)-1]; strings.Contains(last, "]R_") {
			_, in.reloc, _ = strings.Cut(last[strings.Index(last, "]R_"):], ":")
		}
		body = append(body, in)
	}
	finish()
	return functions
}

// The assembly writes the count by atomic steps only, as compiled code does, and
// reads it otherwise only where a swap follows that has to find it unchanged.
func TestAssemblyPlainAccesses(t *testing.T) {
	for _, v := range compiledVariants {
		t.Run(fmt.Sprintf("LSE=%v/%s", v.lse, v.tags), func(t *testing.T) {
			t.Parallel()
			expects := []string{"tryLock", "tryRLock"}
			if v.tags != "" {
				expects = append(expects, "unlock", "downgrade")
			}
			steps := map[string]int{}
			for file, member := range members(t, buildArm64(t, v.tags, v.lse)) {
				if file == "__.PKGDEF" || file == compiledMember {
					continue
				}
				for name, bodies := range instructionsOf(t, member) {
					require.Len(t, bodies, 1)
					all, err := interpret(bodies[0], nil)
					require.NoError(t, err, "%s", name)
					for _, a := range all {
						switch {
						case a.field() != "count":
						case a.op == "LOAD":
							assert.Contains(t, expects, name, "%v", a)
						case a.op == "STORE" || a.op == "STLR":
							assert.Fail(t, "not one step with a load", "%s: %v", name, a)
						default:
							steps[name]++
						}
					}
				}
			}
			for name, s := range asmSteps {
				assert.GreaterOrEqual(t, steps[name], len(s), "steps of %s", name)
			}
			assert.Equal(t, 1, steps["rlockRare"])
		})
	}
}

// argumentsInSource is which of each function's arguments point to a lock or a
// waiter, in the order of the registers that they come in.
func argumentsInSource(t *testing.T) map[string][]pointee {
	all := map[string][]pointee{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name, fields := f.Name.Name, f.Type.Params.List
			if f.Recv != nil {
				if p, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
					name = fmt.Sprintf("(*%s).%s", p.X, name)
				}
				fields = append(f.Recv.List[:1:1], fields...)
			}
			all[name] = inRegisters(fields)
		}
	}
	return all
}

// inRegisters says of each register that begins with the first of fields what it
// points to, as far as the types are known to fill one each.
func inRegisters(fields []*ast.Field) (registers []pointee) {
	for _, f := range fields {
		what := toNothing
		switch x := f.Type.(type) {
		case *ast.StarExpr:
			switch fmt.Sprint(x.X) {
			case "RWMutex", "rlocker":
				what = toLock
			case "waiter":
				what = toWaiter
			}
		case *ast.Ident:
			if !slices.Contains([]string{"bool", "int", "int64", "uint32", "uint64", "uintptr", "event"}, x.Name) {
				return
			}
		case *ast.FuncType:
		case *ast.SelectorExpr:
			if x.Sel.Name != "Duration" {
				return
			}
		default:
			return
		}
		for range max(1, len(f.Names)) {
			registers = append(registers, what)
		}
	}
	return
}
