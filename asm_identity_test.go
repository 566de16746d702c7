//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && rwsem_ownercount

package rwsem

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func init() {
	assemblyTests["plain"] = append(assemblyTests["plain"], struct {
		name string
		test func(*testing.T)
	}{"Identity", testAssemblyIdentity})
}

// testAssemblyIdentity makes up addresses: no goroutine has one that does not fit.
func testAssemblyIdentity(t *testing.T) {
	const top = 1 << 47
	gs := []uint64{
		self64(), 0, 8, 16, 24, 31, 32, 33, 40, 48, 63, 64, 96, 1 << 32, otherG,
		top - 64, top - 32, top - 31, top - 1, top, top + 32, 1 << 48, 1<<48 - 32, 1 << 63, 1<<63 | 32,
		math.MaxUint64, math.MaxUint64 - 31,
	}
	for bit := range 64 {
		gs = append(gs, 1<<bit, otherG|1<<bit, otherG&^(1<<bit))
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		g := r.Uint64()
		gs = append(gs, g, g&^31, g>>17, g>>17&^31, g>>r.Uint64N(64)&^31)
	}
	fits := 0
	for _, g := range gs {
		want := uint64(0x41) // the reserved identity, and the writer
		if g%32 == 0 && g < top {
			want = g*2 + 1
			fits++
		}
		if !assert.Equal(t, want, identity(uintptr(g)), "%#x", g) {
			return
		}
		if g&ownerFlags == 0 {
			assert.Equal(t, writerWord(uintptr(g)), identity(uintptr(g)), "%#x", g)
		}
	}
	assert.Greater(t, fits, 10_000)
	assert.Greater(t, len(gs)-fits, 10_000)
}

func self64() uint64 { return uint64(self()) }
