//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

// The fast paths in assembly, written by avo's generator; fast_stub.go says
// in Go what each does. Where one does not succeed it ends in a tail jump to
// the Go function that the stub calls there. The first step of RLock and
// RUnlock is in rwsem.go, for the compiler to inline.

//go:noescape
func rlockRare(rw *RWMutex)

//go:noescape
func runlockRare(rw *RWMutex, c uint64)

//go:noescape
func lock(rw *RWMutex)

//go:noescape
func unlock(rw *RWMutex)

//go:noescape
func tryRLock(rw *RWMutex) bool

//go:noescape
func tryLock(rw *RWMutex) bool

//go:noescape
func downgrade(rw *RWMutex)

// self returns the calling goroutine's g.
func self() uintptr

// loadStatus returns the 32-bit word at off in g, which must be the address of
// a g: those are never freed, so the read is safe whatever became of it.
func loadStatus(gp, off uintptr) uint32

// shardHint differs between goroutines.
func shardHint() uintptr { return self() >> 9 }
