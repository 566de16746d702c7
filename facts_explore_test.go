//go:build rwsemexplore

package rwsem

// What a build for exploration shows of waiters and of misuse.
const (
	linked = false

	lockState  = "running" // in dumps
	rlockState = "running"
	sleepFrame = "rwsem.park" // in profiles
)

// leftover is the wake-ups that w's call has not taken.
func leftover(w *waiter) int32 { return w.sema.tokens.Load() }
