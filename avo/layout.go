package main

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math/big"
	"math/bits"
	"strings"
)

// A layout says where the count word has what; see rwsem.go.
type layout struct {
	name       string
	doc        string // which builds have it
	constraint string
	owner      field // the writer's identity; none if it is empty
	readers    field // up to the guard
}

// A field is the bits from low to below end.
type field struct{ low, end int }

func (f field) empty() bool  { return f == field{} }
func (f field) mask() uint64 { return 1<<f.end - 1<<f.low }

const (
	flagBits = 5  // writerLocked, flagWaiters, flagHandoff, flagAsleep, flagClaim
	guardBit = 63 // flagReadFail

	ownerReservedBit = 6 // of the identity that stands for those that do not fit
)

// layouts are all there are. The narrow ones have so few bits for the readers
// that a test can fill them.
var layouts = []layout{
	{
		name:       "default",
		doc:        "the default",
		constraint: "!(rwsem_ownercount && (amd64 || arm64)) && !rwsemnarrow",
		readers:    field{8, guardBit},
	},
	{
		name:       "narrow",
		doc:        "the default with few readers, for tests",
		constraint: "!(rwsem_ownercount && (amd64 || arm64)) && rwsemnarrow",
		readers:    field{60, guardBit},
	},
	{
		name:       "ownercount",
		doc:        "with the identity of the writer that holds the lock",
		constraint: "rwsem_ownercount && (amd64 || arm64) && !rwsemnarrow",
		owner:      field{6, 48},
		readers:    field{48, guardBit},
	},
	{
		name:       "ownercount_narrow",
		doc:        "with the writer's identity and few readers, for tests",
		constraint: "rwsem_ownercount && (amd64 || arm64) && rwsemnarrow",
		owner:      field{6, 48},
		readers:    field{60, guardBit},
	},
}

// A variant is a set of layouts that share an assembly file, in which the
// package's constants stand by their names.
type variant struct {
	suffix     string // of the file's name
	constraint []string
	layouts    []layout
}

// variants leave out the narrow layout: the readers' mask does not fit the
// default's instructions there, and the Go stubs are good enough for that test.
var variants = []variant{
	{"", []string{"!rwsem_ownercount", "!rwsemnarrow"}, layouts[:1]},
	{"_ownercount", []string{"rwsem_ownercount"}, layouts[2:]},
}

// anyVariant is when one of variants applies. As in every list of constraints
// here, a space says or.
var anyVariant = []string{"rwsem_ownercount !rwsemnarrow"}

// asmConstraint is when there is assembly for the architecture.
var asmConstraint = []string{"!purego", "!race", "!rwsemhooks", "!rwsemexplore"}

func (l layout) check() error {
	at := flagBits
	for _, f := range []field{l.owner, l.readers} {
		if f.empty() {
			continue
		}
		if f.low < at || f.end <= f.low || f.end > guardBit {
			return fmt.Errorf("layout %s: bits %d to %d overlap others", l.name, f.low, f.end-1)
		}
		at = f.end
	}
	if !l.owner.empty() && (ownerReservedBit < l.owner.low || ownerReservedBit >= l.owner.end) {
		return fmt.Errorf("layout %s: bit %d is not the owner's", l.name, ownerReservedBit)
	}
	if at != guardBit || l.readers.empty() {
		return fmt.Errorf("layout %s: the readers do not reach up to the guard", l.name)
	}
	return nil
}

// text is the Go file that declares l.
func (l layout) text() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	var doc []string
	at := 0
	part := func(end int, what string) {
		switch end - at {
		case 0:
		case 1:
			doc = append(doc, fmt.Sprintf("bit %d: %s", at, what))
		default:
			doc = append(doc, fmt.Sprintf("bits %d to %d: %s", at, end-1, what))
		}
		at = end
	}
	part(flagBits, "flags")
	mask := "0"
	if !l.owner.empty() {
		part(l.owner.low, "spare")
		part(l.owner.end, "the writer's identity")
		mask = fmt.Sprintf("1<<%d - 1<<%d", l.owner.end, l.owner.low)
	}
	part(l.readers.low, "spare")
	part(l.readers.end, fmt.Sprintf("the number of readers, %s at the most", l.mostReaders()))
	part(guardBit+1, "the readers' guard")

	return fmt.Appendf(nil, `%s

//go:build %s

package rwsem

// The layout of the count: %s.
//
//   - %s
const (
	// ownerInCount says whether the count has the identity of the writer that
	// holds the lock.
	ownerInCount = %t
	// ownerMask is the bits that have it.
	ownerMask = %s
	// readerShift is the lowest of the bits that have the number of readers.
	readerShift = %d
	// guardInReach says whether a program may have more readers than that.
	guardInReach = %t
)
`, generated, l.constraint, l.doc, strings.Join(doc, "\n//   - "), !l.owner.empty(), mask, l.readers.low, l.guardInReach()), nil
}

func (l layout) guardInReach() bool { return l.readers.end-l.readers.low < 32 }

func (l layout) mostReaders() string {
	if n := l.readers.end - l.readers.low; n > 16 {
		return fmt.Sprintf("2^%d-1", n)
	}
	return fmt.Sprint(1<<(l.readers.end-l.readers.low) - 1)
}

// constants are the package's constants in l, as far as the assembly has them
// in 64-bit operations.
func (l layout) constants() map[string]uint64 {
	const (
		writerLocked = 1 << iota
		flagWaiters
		flagHandoff
		flagAsleep
		flagClaim
	)
	const flagReadFail uint64 = 1 << guardBit
	readerMask := l.readers.mask() | flagReadFail
	return map[string]uint64{
		"unlocked":       0,
		"writerLocked":   writerLocked,
		"flagWaiters":    flagWaiters,
		"flagHandoff":    flagHandoff,
		"flagAsleep":     flagAsleep,
		"flagClaim":      flagClaim,
		"writerMask":     writerLocked | l.owner.mask(),
		"ownerReserved":  1 << ownerReservedBit,
		"readerBias":     1 << l.readers.low,
		"readerMask":     readerMask,
		"nearGuard":      flagReadFail - 2<<l.readers.low,
		"readBlocked":    writerLocked | flagHandoff | flagReadFail,
		"writeBlocked":   writerLocked | flagHandoff | readerMask,
		"readerOwned":    1 << 0,
		"rdNonspinnable": 1 << 1,
	}
}

// value is what expr, in the names of constants, is in l.
func (l layout) value(expr string) (uint64, error) {
	pkg := types.NewPackage("layout", "layout")
	for name, v := range l.constants() {
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, types.Typ[types.UntypedInt], constant.MakeUint64(v)))
	}
	tv, err := types.Eval(token.NewFileSet(), pkg, token.NoPos, strings.ReplaceAll(expr, "~", "^"))
	if err != nil {
		return 0, err
	}
	return wrap(tv.Value)
}

// wrap is v as a 64-bit word.
func wrap(v constant.Value) (uint64, error) {
	n, ok := new(big.Int).SetString(v.ExactString(), 10)
	if !ok {
		return 0, fmt.Errorf("%v is no whole number", v)
	}
	return n.And(n, new(big.Int).SetUint64(1<<64-1)).Uint64(), nil
}

// all reports whether expr has a value that ok is content with in every layout
// of v.
func (v variant) all(expr string, ok func(uint64) bool) (bool, error) {
	for _, l := range v.layouts {
		if n, err := l.value(expr); err != nil || !ok(n) {
			return false, err
		}
	}
	return true, nil
}

func (v variant) guardInReach() bool { return len(v.layouts) > 0 && v.layouts[0].guardInReach() }

func (v variant) ownerInCount() bool {
	return len(v.layouts) > 0 && !v.layouts[0].owner.empty()
}

// identity says by how much an identity lies above its address, and how many
// bits of the address it has.
func (v variant) identity() (low, width int) {
	o := v.layouts[0].owner
	return o.low - 1, o.end - o.low
}

// signed32 is what amd64 takes as an immediate of a 64-bit operation.
func signed32(n uint64) bool { return n == uint64(int64(int32(n))) }

// unsigned32 is what amd64 takes as an immediate of a 32-bit load, which clears
// the upper half.
func unsigned32(n uint64) bool { return bits.Len64(n) <= 32 }
