//go:build !(go1.26 && !go1.28 && !rwsem_nolinkname) && !rwsemexplore

package rwsem

// What a build on public API shows of waiters and of misuse.
const (
	linked = false

	lockState  = "sync.Mutex.Lock" // in dumps
	rlockState = "sync.Mutex.Lock"
	sleepFrame = "sync.\\(\\*Mutex\\)" // in profiles
)

// leftover is the wake-ups that w's call has not taken.
func leftover(w *waiter) int32 { return w.sema.tokens.Load() }
