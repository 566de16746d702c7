//go:build amd64 && !purego && !race && !rwsemhooks

package rwsem

// unlocked is the count of a lock that nobody holds and nobody waits for.
const unlocked = 0

// tryRLockExpect is tryRLock but for its first expectation, which is the
// unlocked value instead of a load. Row D of the design asks for both forms;
// which of them tryRLock is, is chosen per architecture by measurement.
//
//go:noescape
func tryRLockExpect(rw *RWMutex) bool
