//go:build go1.26 && !go1.28 && !rwsem_nolinkname && !rwsemexplore

package rwsem

// What a linked build shows of waiters and of misuse.
const (
	linked = true

	lockState  = "sync.RWMutex.Lock" // in dumps
	rlockState = "sync.RWMutex.RLock"
	sleepFrame = "runtime_SemacquireRWMutex" // in profiles
)

// leftover is the wake-ups that w's call has not taken.
//
//go:norace
func leftover(w *waiter) int32 { return int32(w.sema) }
