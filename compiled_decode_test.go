//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What compiled arm64 code does to memory: a decoder of the words that the
// compiler writes, and an interpreter that follows pointers to locks and waiters
// through registers and stack slots, so that it can say of an access which field
// it is to. It follows every branch; what it cannot follow it reports.

// A decoded is an instruction as far as the interpreter needs it.
type decoded struct {
	op               string // LOAD and STORE are plain; "" if it does not touch memory
	acquire, release bool
	width            int64 // how many bytes at the address
	base             uint32
	off              int64
	indexed          bool // by a register: off is not known
	writeBack        int64

	loads  []uint32 // registers written by the access, in the order of the addresses
	stores []uint32
	status uint32 // written by STXR, none if not
	float  bool   // loads and stores are registers of the other kind

	writes uint32 // a register written by anything else, none if not
	move   bool   // writes = from + add
	from   uint32
	add    int64

	jump jumpKind
	to   int64 // relative
}

type jumpKind int

const (
	noJump   jumpKind = iota
	jumpTo            // B
	jumpIf            // B.cond and others
	jumpCall          // BL, BLR
	jumpEnd           // RET, BRK
	jumpAnywhere
)

const (
	none  = 31 // in place of a register; for a base it is SP
	stack = 31
)

// memoryOps are the atomic memory operations, by their number.
var memoryOps = []string{"LDADD", "LDCLR", "LDEOR", "LDSET", "LDSMAX", "LDSMIN", "LDUMAX", "LDUMIN"}

func signed(v uint32, bits int) int64 {
	return int64(v<<(32-bits)) << 32 >> (64 - bits) // sign-extends the lowest bits
}

// decode reads one word by the encoding tables of the architecture's manual.
func decode(code uint32) (decoded, error) {
	field := func(hi, lo int) uint32 { return code >> lo & (1<<(hi-lo+1) - 1) }
	bit := func(n int) bool { return code>>n&1 != 0 }
	d := decoded{status: none, writes: none}
	rd := field(4, 0)
	switch group := field(28, 25); {
	case group&0b1110 == 0b1000: // data, immediate
		if field(28, 23) != 0b100010 {
			d.writes = rd
			return d, nil
		}
		if bit(29) { // sets flags
			d.writes = rd
			return d, nil
		}
		n := int64(field(21, 10))
		if bit(22) {
			n <<= 12
		}
		if bit(30) {
			n = -n
		}
		return decoded{status: none, writes: rd, move: bit(31), from: field(9, 5), add: n}, nil

	case group&0b0111 == 0b0101: // data, register
		switch {
		case rd == none: // compares, and what nobody reads
		case code&0xffe0_ffe0 == 0xaa00_03e0: // MOV
			d.writes = rd
			if m := field(20, 16); m != none {
				d.move, d.from = true, m
			}
		case field(28, 21) == 0b11010010: // conditional compare: writes flags only
		default:
			d.writes = rd
		}
		return d, nil

	case group&0b0101 == 0b0100:
		return decodeMemory(code)

	case group&0b1110 == 0b1010:
		switch {
		case field(30, 26) == 0b00101:
			d.jump, d.to = jumpTo, 4*signed(field(25, 0), 26)
			if bit(31) {
				d.jump = jumpCall
			}
		case field(31, 25) == 0b0101010, field(30, 25) == 0b011010: // B.cond, CBZ
			d.jump, d.to = jumpIf, 4*signed(field(23, 5), 19)
		case field(30, 25) == 0b011011: // TBZ
			d.jump, d.to = jumpIf, 4*signed(field(18, 5), 14)
		case field(31, 25) == 0b1101011:
			switch field(24, 21) {
			case 0b0000:
				d.jump = jumpAnywhere
			case 0b0001:
				d.jump, d.to = jumpCall, 0
			default:
				d.jump = jumpEnd
			}
		case field(31, 24) == 0b11010100: // BRK
			d.jump = jumpEnd
		case field(31, 24) == 0b11010101: // system
			if bit(21) && rd != none { // MRS
				d.writes = rd
			}
		default:
			return d, fmt.Errorf("unknown branch %08x", code)
		}
		return d, nil

	case group&0b0111 == 0b0111: // floating point; a few write a general register
		if rd != none {
			d.writes = rd
		}
		return d, nil
	}
	return d, fmt.Errorf("unknown instruction %08x", code)
}

// decodeMemory is decode for loads and stores.
func decodeMemory(code uint32) (decoded, error) {
	field := func(hi, lo int) uint32 { return code >> lo & (1<<(hi-lo+1) - 1) }
	bit := func(n int) bool { return code>>n&1 != 0 }
	size := field(31, 30)
	rt, rs, rt2 := field(4, 0), field(20, 16), field(14, 10)
	d := decoded{status: none, writes: none, base: field(9, 5), width: 1 << size, float: bit(26)}
	load := func(regs ...uint32) { d.op, d.loads = "LOAD", regs }
	store := func(regs ...uint32) { d.op, d.stores = "STORE", regs }
	unknown := fmt.Errorf("unknown access %08x", code)

	switch {
	case field(29, 24) == 0b001000: // exclusive, ordered, compare-and-swap
		switch field(23, 21) {
		case 0b000:
			d.op, d.release, d.stores, d.status = "STXR", bit(15), []uint32{rt}, rs
		case 0b010:
			d.op, d.acquire, d.loads = "LDXR", bit(15), []uint32{rt}
		case 0b100:
			d.op, d.release, d.stores = "STLR", bit(15), []uint32{rt}
		case 0b110:
			d.op, d.acquire, d.loads = "LDAR", bit(15), []uint32{rt}
		case 0b101, 0b111:
			d.op, d.acquire, d.release, d.loads = "CAS", bit(22), bit(15), []uint32{rs}
		default:
			return d, unknown
		}
		return d, nil

	case field(29, 24) == 0b111000 && bit(21) && field(11, 10) == 0b00:
		if !bit(15) {
			d.op = memoryOps[field(14, 12)]
		} else if field(14, 12) == 0 {
			d.op = "SWP"
		} else {
			return d, unknown
		}
		// With no register to load there is no acquire, whatever the bit says.
		d.acquire, d.release, d.loads = bit(23) && rt != none, bit(22), []uint32{rt}
		return d, nil

	case field(29, 27) == 0b011 && field(25, 24) == 0b00: // literal
		d.writes = rt
		if d.float {
			d.writes = none
		}
		return d, nil

	case field(29, 27) == 0b101 && !bit(25): // pairs
		scale := 2 + size>>1
		if d.float {
			scale = 2 + size
		}
		d.width = 2 << scale
		imm := signed(field(21, 15), 7) << scale
		if bit(22) {
			load(rt, rt2)
		} else {
			store(rt, rt2)
		}
		d.offset(field(24, 23), imm)
		return d, nil

	case field(29, 27) == 0b111 && (bit(24) || !bit(21) || field(11, 10) == 0b10):
		scale := size
		opc := field(23, 22)
		switch {
		case d.float:
			if opc&0b10 != 0 {
				scale = 4
			}
			if opc&1 != 0 {
				load(rt)
			} else {
				store(rt)
			}
		case opc == 0:
			store(rt)
		case size == 3 && opc == 2: // a prefetch
			return decoded{status: none, writes: none}, nil
		default:
			load(rt)
		}
		d.width = 1 << scale
		switch {
		case bit(24):
			d.off = int64(field(21, 10)) << scale
		case bit(21):
			d.indexed = true
		default:
			d.offset(field(11, 10), signed(field(20, 12), 9))
		}
		return d, nil
	}
	return d, unknown
}

// offset reads the mode of an address with an immediate: 01 adds it after the
// access, 11 before.
func (d *decoded) offset(mode uint32, imm int64) {
	switch mode {
	case 0b01:
		d.writeBack = imm
	case 0b11:
		d.off, d.writeBack = imm, imm
	default:
		d.off = imm
	}
}

// A pointer is what the interpreter knows of a value: where it points to.
type pointer struct {
	to  pointee
	off int64
}

type pointee int

const (
	toNothing pointee = iota // that is known
	toLock
	toWaiter
	toStack
)

// A machine is what is known at one place of a function.
type machine struct {
	registers [32]pointer // that of SP too
	slots     map[int64]pointer
}

func (m *machine) clone() *machine {
	return &machine{m.registers, maps.Clone(m.slots)}
}

// meet leaves in m what o knows too, and reports whether m knew more.
func (m *machine) meet(o *machine) (changed bool) {
	for r, p := range m.registers {
		if p != o.registers[r] && p.to != toNothing {
			m.registers[r], changed = pointer{}, true
		}
	}
	for at, p := range m.slots {
		if p != o.slots[at] {
			delete(m.slots, at)
			changed = true
		}
	}
	return changed
}

// An instruction of a function, at pc from its start. reloc is what the linker
// will put in.
type instruction struct {
	pc            int64
	code          uint32
	source, reloc string
}

// An access is one that a function makes to memory, but for its stack.
type access struct {
	decoded
	at instruction
	to pointer
}

func (a access) String() string {
	s := a.op
	if a.acquire {
		s += " acquire"
	}
	if a.release {
		s += " release"
	}
	return fmt.Sprintf("%s at %s (%08x)", s, a.at.source, a.at.code)
}

// linkedFields are the fields of a lock and of a waiter that point to waiters.
var linkedFields = map[pointer]bool{}

// interpret returns the accesses of a function that is called with arguments in
// registers, or written in assembly if there are none, in the order of the code.
func interpret(code []instruction, arguments []pointee) ([]access, error) {
	if len(code) == 0 {
		return nil, fmt.Errorf("no code")
	}
	index := map[int64]int{}
	for i, in := range code {
		index[in.pc] = i
	}
	begin := &machine{slots: map[int64]pointer{}}
	for r, to := range arguments {
		begin.registers[r] = pointer{to: to}
	}
	if arguments == nil { // assembly: its first argument, on the stack, is the lock
		begin.slots[8] = pointer{to: toLock}
	}
	begin.registers[stack] = pointer{to: toStack}

	// Blocks begin where a branch leads to, and behind one.
	at := map[int]*machine{0: begin}
	leads := map[int]bool{0: true}
	all := make([]decoded, len(code))
	for i, in := range code {
		d, err := decode(in.code)
		if err != nil {
			d.op = "UNKNOWN" // fails if it is reached: between functions there is padding
		}
		all[i] = d
		if d.jump == jumpTo || d.jump == jumpIf {
			leads[i+1] = true
			if in.reloc == "" {
				leads[index[in.pc+d.to]] = true
			}
		}
	}

	found := map[int]access{}
	for work := []int{0}; len(work) > 0; {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		m := at[i].clone()
		goTo := func(j int) {
			if old := at[j]; old == nil {
				at[j] = m.clone()
			} else if !old.meet(m) {
				return
			}
			work = append(work, j)
		}
		for ; ; i++ {
			if i >= len(code) {
				return nil, fmt.Errorf("runs over its end")
			}
			in, d := code[i], &all[i]
			if d.op == "UNKNOWN" {
				return nil, fmt.Errorf("%s: unknown instruction %08x", in.source, in.code)
			}
			if a, ok := m.step(d); ok {
				a.at = in
				found[i] = a // a later visit knows less
			}
			end := false
			switch d.jump {
			case jumpAnywhere:
				return nil, fmt.Errorf("%s: a computed jump", in.source)
			case jumpEnd:
				end = true
			case jumpCall:
				m.call(in.reloc)
				end = neverReturns(in.reloc)
			case jumpTo, jumpIf:
				end = d.jump == jumpTo
				if in.reloc != "" { // a tail call
					break
				}
				j, ok := index[in.pc+d.to]
				if !ok {
					return nil, fmt.Errorf("%s: a jump out of the function", in.source)
				}
				goTo(j)
			}
			if end {
				break
			}
			if leads[i+1] {
				goTo(i + 1)
				break
			}
		}
	}
	var accesses []access
	for _, i := range slices.Sorted(maps.Keys(found)) {
		accesses = append(accesses, found[i])
	}
	return accesses, nil
}

// neverReturns reports whether a call of what reloc names is the end: code
// behind it belongs to another part of the function.
func neverReturns(reloc string) bool {
	for _, name := range []string{"runtime.panic", "runtime.gopanic", "runtime.goPanic", "runtime.throw"} {
		if strings.Contains(reloc, name) {
			return true
		}
	}
	return false
}

// call forgets all registers but SP: none is the callee's to keep. The write
// barrier keeps all but those that calls by the linker use too.
func (m *machine) call(reloc string) {
	if strings.HasPrefix(reloc, "runtime.gcWriteBarrier") {
		for _, r := range []int{16, 17, 25, 27, 30} {
			m.registers[r] = pointer{}
		}
		return
	}
	sp := m.registers[stack]
	m.registers = [32]pointer{stack: sp}
	if strings.HasSuffix(reloc, ".newWaiter") {
		m.registers[0].to = toWaiter
	}
}

// step does what d does, and returns its access if it is one to memory other
// than the stack.
func (m *machine) step(d *decoded) (a access, ok bool) {
	set := func(r uint32, p pointer) {
		if r != none {
			m.registers[r] = p
		}
	}
	if d.move {
		p := m.registers[d.from]
		if p.to != toNothing {
			p.off += d.add
		}
		m.registers[d.writes] = p // SP too
		return
	}
	if d.op == "" {
		set(d.writes, pointer{})
		return
	}

	p := m.registers[d.base]
	if d.indexed {
		p = pointer{}
	}
	if p.to != toNothing {
		p.off += d.off
	}
	width := d.width / int64(max(1, len(d.loads), len(d.stores)))
	if p.to == toStack {
		for i, r := range d.stores {
			at := p.off + int64(i)*width
			for n := int64(0); n < width; n++ {
				delete(m.slots, at+n)
			}
			if v := m.registers[r]; r != none && !d.float && width == 8 && v.to != toNothing {
				m.slots[at] = v
			}
		}
	} else {
		a, ok = access{decoded: *d, to: p}, true
	}
	for i, r := range d.loads {
		var v pointer
		where := pointer{p.to, p.off + int64(i)*width}
		switch {
		case d.float || width != 8:
		case p.to == toStack:
			v = m.slots[where.off]
		case linkedFields[where]:
			v.to = toWaiter
		}
		if !d.float {
			set(r, v)
		}
	}
	set(d.status, pointer{})
	if d.writeBack != 0 {
		if b := &m.registers[d.base]; b.to != toNothing {
			b.off += d.writeBack
		}
	}
	return a, ok
}
