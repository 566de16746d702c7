//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

// unlocked is the count of a lock that nobody holds and nobody waits for.
const unlocked = 0

// tryRLockExpect is tryRLock but for its first expectation, which is the
// unlocked value instead of a load. Row D of the design asks for both forms;
// which of them tryRLock is, is chosen per architecture: for amd64 by
// measurement, for arm64 by the published figures, in which the guess wins with
// 1 and 2 threads (23,676 against 24,488 kop/s, 7,697 against 9,502) and loses
// with 4 and 8 (4,945 against 3,440, 2,641 against 1,603). Emulation measures
// nothing.
//
//go:noescape
func tryRLockExpect(rw *RWMutex) bool
