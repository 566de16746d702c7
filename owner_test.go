package rwsem

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Addresses of g that were made up, with what the count names for each.
func TestWriterWord(t *testing.T) {
	for _, s := range []struct {
		g    uint64
		fits bool
	}{
		{0xc000_0021_c0, true},
		{1 << 46, true},
		{1<<47 - 32, true},
		{64, true},
		{1 << 47, false},        // too far up
		{1<<48 - 32, false},     // where arm64 may have it
		{1<<63 + 1<<20, false},  // the other half of the address space
		{0xc000_0021_d0, false}, // between two of them
		{ownerAnonymous, false}, // a build that cannot name it
	} {
		g := uintptr(s.g)
		if uint64(g) != s.g {
			continue // wider than this machine's addresses
		}
		for flags := range uintptr(ownerFlags + 1) {
			word := writerWord(g | flags)
			switch {
			case !ownerInCount:
				assert.EqualValues(t, writerLocked, word)
			case s.fits:
				assert.Equal(t, 2*s.g+1, word, "%#x", s.g)
				assert.Equal(t, g, ownerIn(word), "%#x", s.g)
			default:
				assert.EqualValues(t, ownerReserved|writerLocked, word, "%#x", s.g)
				assert.EqualValues(t, ownerAnonymous, ownerIn(word), "%#x", s.g)
			}
			assert.Zero(t, word&^writerMask, "%#x", s.g)
		}
	}
}

// However a writer gets the lock, at once or after it slept, the owner is its own.
func TestOwnerIsNamed(t *testing.T) {
	setHandoffTime(t, time.Hour)
	var rw RWMutex
	for name, lock := range map[string]func(){
		"Lock": rw.Lock,
		"TryLock": func() {
			for !rw.TryLock() {
				runtime.Gosched()
			}
		},
		"LockUrgent":  rw.LockUrgent,
		"LockContext": func() { require.NoError(t, rw.LockContext(context.Background())) },
		"TryLockFor":  func() { require.True(t, rw.TryLockFor(time.Hour)) },
	} {
		for _, sleeps := range []bool{false, true} {
			rw.Lock()
			var me uintptr
			done := start(func() { me = self(); lock() })
			if sleeps && name != "TryLock" {
				awaitQueued(t, &rw, 0, 1)
			}
			rw.Unlock()
			awaitDone(t, &rw, name, done)
			require.Equal(t, me, rw.loadOwner(rw.count.Load())&^ownerFlags, name)
			rw.Unlock()
		}
	}
	requireAtRest(t, &rw)
}
