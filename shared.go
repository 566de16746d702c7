//go:build !rwsemexplore

package rwsem

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// What goroutines share, by names that stand for something else under
// -tags rwsemexplore: there each access is a step of the explorer
// (shared_explore.go).
type (
	word32  = atomic.Uint32
	word64  = atomic.Uint64
	wordPtr = atomic.Uintptr
	mutex   = sync.Mutex
	pool    = sync.Pool
)

func random() uint32 { return rand.Uint32() }

const (
	// writerRounds is how many times as long as roundTime a writer pauses that
	// waits for writers and has no claim yet: each look takes the cache line from
	// the holder.
	writerRounds = 4

	// claimRounds is for how many rounds of a free lock a claim is heeded.
	claimRounds = 6

	// clockRounds is how often a spinner looks at the clock and at the run
	// queue: every so many rounds. The clock costs as much as most of a round.
	clockRounds = 8

	// maxNullRounds bounds the rounds in which a spinner finds the count held
	// by a writer and the owner word empty: that writer may have lost its
	// processor between the two stores.
	maxNullRounds = 8

	// maxWake is how many readers are woken at a time, the published bound.
	maxWake = 256

	// wakeFan is how many waiters a waker wakes itself: each of these wakes as many
	// others before its call goes on. So whoever unlocks pays for so many wake-ups,
	// not for 256, and the last of them is woken by a chain of four.
	wakeFan = 4
)
