package main

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestBitmask takes every run of ones that is rotated and repeated, and what is
// next to it.
func TestBitmask(t *testing.T) {
	all := map[uint64]bool{}
	for size := 2; size <= 64; size *= 2 {
		for ones := 1; ones < size; ones++ {
			for turn := range size {
				n := uint64(0)
				for i := range 64 {
					if (i+turn)%size < ones {
						n |= 1 << i
					}
				}
				all[n] = true
			}
		}
	}
	assert.Len(t, all, 5334, "as many as the architecture has")
	for n := range all {
		assert.True(t, bitmask(n), "%#x", n)
		for i := range 64 {
			assert.Equal(t, all[n^1<<i], bitmask(n^1<<i), "%#x", n^1<<i)
		}
	}
	assert.False(t, bitmask(0))
	assert.False(t, bitmask(1<<64-1))
	assert.False(t, bitmask(bits.Reverse64(5)))
}
