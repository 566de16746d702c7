//go:build rwsemnarrow

package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With -tags rwsemnarrow the count has room for few readers, so that tests
// reach the guard above them:
//
//	go test -tags rwsemnarrow -run TestFaultNarrow .
//
// Other tests take more read locks at a time than there is room for.

const narrowLimit = 1<<(63-readerShift) - 1

func TestFaultNarrowReadFail(t *testing.T) {
	for _, due := range []time.Duration{time.Microsecond, time.Hour} {
		setHandoffTime(t, due)
		for _, writer := range []bool{false, true} {
			var rw RWMutex
			for range narrowLimit {
				rw.RLock()
			}
			require.EqualValues(t, narrowLimit, rw.count.Load()>>readerShift)
			require.False(t, rw.TryRLock())
			require.False(t, rw.TryLock())
			require.False(t, rw.TryRLockFor(time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			require.ErrorIs(t, rw.RLockContext(ctx), context.DeadlineExceeded)
			cancel()
			require.EqualValues(t, narrowLimit, rw.count.Load()>>readerShift, "who left is in the count")

			var more []*bgCall // as many again
			for i := range narrowLimit {
				more = append(more, inBackgroundErr(func() error {
					if i%2 == 0 {
						rw.RLock()
					} else if err := rw.RLockContext(context.Background()); err != nil {
						return err
					}
					rw.RUnlock()
					return nil
				}))
			}
			awaitQueue(t, &rw, len(more))
			if writer {
				more = append(more, inBackground(func() { rw.Lock(); rw.Unlock() }))
				awaitQueue(t, &rw, len(more))
			}
			require.EqualValues(t, narrowLimit, rw.count.Load()>>readerShift, "who queued is in the count")
			for range narrowLimit {
				rw.RUnlock()
			}
			for _, c := range more {
				c.wait(t, "who waited beyond the limit gets the lock")
				require.NoError(t, c.err)
			}
			requireRest(t, &rw)
		}
	}
}

// A reader beyond the limit gets in as soon as one reader leaves, however long
// the others stay.
func TestFaultNarrowRoom(t *testing.T) {
	for _, due := range []time.Duration{0, time.Hour} {
		setHandoffTime(t, due)
		var rw RWMutex
		for range narrowLimit {
			rw.RLock()
		}
		var more []*bgCall
		for n := range narrowLimit {
			more = append(more, inBackground(rw.RLock))
			awaitQueue(t, &rw, n+1)
		}
		for n := range narrowLimit {
			rw.RUnlock()
			awaitTrue(t, "one more reader is in", func() bool {
				in := 0
				for _, c := range more {
					if c.done.Load() {
						in++
					}
				}
				return in == n+1
			})
			awaitQueue(t, &rw, narrowLimit-n-1)
		}
		for range narrowLimit {
			rw.RUnlock()
		}
		requireRest(t, &rw)
	}
}

// Twice the limit of readers come and go, and writers among them.
func TestFaultNarrowStorm(t *testing.T) {
	const rounds = 5000
	var (
		rw            RWMutex
		readers, full atomic.Int32
		wrong         atomic.Int32
		writing       bool
		storm         []*bgCall
	)
	for n := range 2 * narrowLimit {
		storm = append(storm, inBackground(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for range rounds {
				switch r.IntN(16) {
				case 0:
					rw.Lock()
					writing = true
					if readers.Load() != 0 {
						wrong.Add(1)
					}
					writing = false
					if r.IntN(2) == 0 {
						rw.Unlock()
						continue
					}
					rw.Downgrade()
				case 1:
					if !rw.TryRLock() {
						continue
					}
				case 2:
					if !rw.TryRLockFor(time.Duration(r.IntN(int(50 * time.Microsecond)))) {
						continue
					}
				default:
					rw.RLock()
				}
				switch in := readers.Add(1); {
				case in > narrowLimit || writing:
					wrong.Add(1)
				case in == narrowLimit:
					full.Add(1)
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Duration(r.IntN(int(20 * time.Microsecond))))
				}
				readers.Add(-1)
				rw.RUnlock()
			}
		}))
	}
	for _, c := range storm {
		c.wait(t, "the storm ends")
	}
	require.Zero(t, wrong.Load(), "more readers than the limit, or a writer among readers")
	require.NotZero(t, full.Load(), "the limit was not reached")
	requireRest(t, &rw)
}

// Readers that are in the count and about to back out leave no room for others.
func TestFaultNarrowGrant(t *testing.T) {
	for long := range uint32(2) {
		var rw RWMutex
		rw.ctl.Store(long * ctlLongMask)
		for range 8 {
			rw.push(&waiter{reader: true}, false)
		}
		const c = flagReadFail | flagWaiters | flagAsleep
		rw.count.Store(c)
		var l wakeList
		require.False(t, rw.grantReaders(&l, false))
		require.Zero(t, l.told)
		require.Equal(t, uint64(c), rw.count.Load())
	}
}
