//go:build rwsem_ownercount && (amd64 || arm64) && !rwsemnarrow

package rwsem

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// As many readers as the count can hold beside the owner, the published 32 Ki - 1.
func TestReaderLimit(t *testing.T) {
	const limit = 32<<10 - 1
	var rw RWMutex
	for range limit - 1 {
		rw.RLock()
	}
	require.True(t, rw.TryRLock())
	require.False(t, rw.TryRLock())
	require.False(t, rw.TryRLockFor(time.Millisecond))
	more := start(rw.RLock)
	awaitQueued(t, &rw, 1, 0)
	for range limit {
		rw.RUnlock()
	}
	awaitDone(t, &rw, "the reader beyond the limit", more)
	rw.RUnlock()
	requireAtRest(t, &rw)
}
