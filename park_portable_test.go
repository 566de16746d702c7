//go:build !(go1.26 && !go1.28 && !rwsem_nolinkname) && !rwsemexplore

package rwsem

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// canSpin follows GOMAXPROCS, which it does not read each time.
func TestCanSpinFollowsProcs(t *testing.T) {
	setProcs(t, 1)
	awaitTrue(t, "nobody may spin on one processor", func() bool { return !canSpin() })
	for range 2 {
		runtime.GOMAXPROCS(2)
		awaitTrue(t, "spinning on two processors", func() bool { return canSpin() == (runtime.NumCPU() > 1) })
		runtime.GOMAXPROCS(1)
		awaitTrue(t, "nobody may spin on one processor", func() bool { return !canSpin() })
	}
}

func TestCanSpinReadsProcsSeldom(t *testing.T) {
	canSpin()
	read := procsAt.Load()
	reads, looks := 0, 0
	for begin := nanotime(); before(begin + int64(5e6)); looks++ {
		canSpin()
		if at := procsAt.Load(); at != read {
			read, reads = at, reads+1
		}
	}
	assert.LessOrEqual(t, reads, 51, "in %d looks", looks)
}
