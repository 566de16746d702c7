package rwsem

// Who holds the lock for writing: in the owner word, or in the count word with
// -tags rwsem_ownercount. There the count never says that a writer holds the
// lock without saying which, and one step takes the lock and names its owner.

// An identity is a g's address moved up by one, which puts what differs between
// the addresses, bits 5 to 46, right above the flags. ownerReserved is for a g
// that lies elsewhere or is not aligned as a g is, and for builds that cannot
// name it: no g has address ownerReserved>>1.
const (
	ownerAddressBits = 47
	ownerAlignment   = 32
	ownerReserved    = ownerAlignment << 1
)

// writerWord is what a writer whose goroutine is o, less flags, is in the count.
func writerWord(o uintptr) uint64 {
	if !ownerInCount {
		return writerLocked
	}
	g := uint64(o &^ ownerFlags)
	if g%ownerAlignment != 0 || g>>ownerAddressBits != 0 {
		return ownerReserved | writerLocked
	}
	return g<<1 | writerLocked
}

// nameOwner says that the writer o holds rw, with what flags o has, after the
// step that put writerWord(o) into the count. Relaxed: a hint.
func (rw *RWMutex) nameOwner(o uintptr) {
	if ownerInCount {
		o &= ownerFlags
	}
	rw.owner.Store(o)
}

// loadOwner is the owner word as of count c, wherever the owner is kept.
// Relaxed: a hint.
func (rw *RWMutex) loadOwner(c uint64) uintptr {
	o := rw.owner.Load()
	if !ownerInCount || c&writerLocked == 0 {
		return o
	}
	return o&ownerFlags | ownerIn(c)
}

// ownerIn is the writer that count c names.
func ownerIn(c uint64) uintptr {
	if id := c & ownerMask; id != ownerReserved {
		return uintptr(id >> 1)
	}
	return ownerAnonymous
}
