package rwsem

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindStatus(t *testing.T) {
	g := func(words map[uintptr]uint32) func(uintptr) uint32 {
		return func(off uintptr) uint32 { return words[off] }
	}
	type words = map[uintptr]uint32
	for name, s := range map[string]struct {
		running, waiting words
		want             uintptr
	}{
		"one":                {words{144: 2, 8: 2}, words{144: 4, 12: 4}, 144},
		"while it is traced": {words{144: 0x1002}, words{144: 0x1004}, 144},
		"the last word":      {words{252: 2}, words{252: 4}, 252},
		"none":               {words{144: 2}, words{148: 4}, 0},
		"both run":           {words{144: 2}, words{144: 2}, 0},
		"two":                {words{144: 2, 152: 2}, words{144: 4, 152: 4}, 0},
		"three":              {words{4: 2, 144: 2, 152: 2}, words{4: 4, 144: 4, 152: 4}, 0},
		"runnable":           {words{144: 1}, words{144: 4}, 0},
	} {
		assert.Equal(t, s.want, findStatus(g(s.running), g(s.waiting)), name)
	}
}

// With a named owner its state is known, with one that is not only time tells.
func TestRunning(t *testing.T) {
	if self() == ownerAnonymous {
		require.Zero(t, statusOffset)
		require.True(t, running(self()))
		return
	}
	require.NotZero(t, statusOffset, "the probe found nothing in this Go release: time bounds only")
	require.True(t, running(self()))

	var g atomic.Uintptr
	end := make(chan struct{})
	done := start(func() {
		g.Store(self())
		<-end
	})
	for g.Load() == 0 || running(g.Load()) {
		runtime.Gosched()
	}
	require.False(t, running(g.Load()|ownerFlags), "whatever flags stand beside it")

	// Who meets an owner that sleeps gives up at the first look.
	var rw RWMutex
	rw.count.Store(writerWord(g.Load()))
	rw.nameOwner(g.Load())
	ok, _ := rw.spinWriteLoop(false)
	require.False(t, ok)
	rw.count.Add(readerBias)
	require.False(t, rw.spinRead(time.Hour))
	rw.count.Add(^uint64(readerBias - 1))
	require.False(t, rw.firstMaySpin(&waiter{}, rw.count.Load()))

	defer func(offset uintptr) { statusOffset = offset }(statusOffset)
	statusOffset = 0
	require.True(t, running(g.Load()), "where the probe failed nobody is known to sleep")
	require.True(t, rw.firstMaySpin(&waiter{}, rw.count.Load()|flagHandoff))
	close(end)
	awaitDone(t, &rw, "the sleeper", done)
}
