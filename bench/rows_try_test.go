//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && (rwsem_ownercount || !rwsemnarrow)

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rwsem/rwsem"
)

func TestTryForms(t *testing.T) {
	sc := scene{Procs: 2, Dur: 5 * time.Millisecond, Crews: []crew{{N: 2, ReadPct: 100}}}
	for _, kind := range tryForms {
		var mu *rwsem.RWMutex
		var form string
		got := sc.run(lockKind{key: kind.key, fresh: func() target {
			l := kind.fresh()
			switch l := l.(type) {
			case *tryLoadLoops:
				mu, form = &l.mu, tryLoadLock
			case *tryExpectLoops:
				mu, form = &l.mu, tryExpectLock
			}
			return l
		}})
		assert.Positive(t, sum(got.Tally.Ops), kind.key)
		require.NotNil(t, mu, kind.key)
		key, held := strings.CutSuffix(kind.key, "-held")
		assert.Equal(t, key, form)
		if held {
			assert.False(t, mu.TryLock(), "%s: the reader is gone", kind.key)
			mu.RUnlock()
		}
		assert.True(t, mu.TryLock(), "%s: a reader is left", kind.key)
	}
	// The forms differ in nothing that a caller could see.
	src, err := os.ReadFile("rows_try.go")
	require.NoError(t, err)
	for _, form := range []string{"Load", "Expect"} {
		assert.Regexp(t, `\(l \*try`+form+`Loops\) mixed\([^}]* tryRLock`+form+`\(`, string(src))
	}
}
