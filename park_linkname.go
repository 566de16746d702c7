//go:build go1.26 && !go1.28 && !rwsem_nolinkname && !rwsemexplore

package rwsem

import _ "unsafe" // for go:linkname

// Everything that is taken from the runtime by linkname. It was tested with Go
// 1.26 and 1.27; a later release gets park_portable.go, since of what is taken
// here the RWMutex semaphores, procyield and fatal carry no promise to stay: a
// new release may cost speed, never the build.

//go:linkname runtime_SemacquireRWMutex sync.runtime_SemacquireRWMutex
func runtime_SemacquireRWMutex(s *uint32, lifo bool, skipframes int)

//go:linkname runtime_SemacquireRWMutexR sync.runtime_SemacquireRWMutexR
func runtime_SemacquireRWMutexR(s *uint32, lifo bool, skipframes int)

//go:linkname runtime_Semrelease sync.runtime_Semrelease
func runtime_Semrelease(s *uint32, handoff bool, skipframes int)

//go:linkname runtime_canSpin sync.runtime_canSpin
func runtime_canSpin(i int) bool

// nanotime is the monotonic clock in nanoseconds.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// fatal ends the process with a message.
//
//go:linkname fatal sync.fatal
func fatal(string)

// procyield makes n pauses, or on arm64 one of n nanoseconds.
//
//go:linkname procyield runtime.procyield
func procyield(n uint32)

// canSpin is Go's need_resched turned round: it is true if another processor
// runs that could release the lock and no goroutine waits for this one.
func canSpin() bool { return runtime_canSpin(0) }

// A parker is where a waiter sleeps: a semaphore of the runtime.
type parker uint32

// park sleeps until w is woken, once for each unpark. Acquire: it pairs with
// the release in unpark, so that a granted waiter needs no other edge.
//
//go:norace
func park(w *waiter) {
	if w.reader {
		runtime_SemacquireRWMutexR((*uint32)(&w.sema), false, 1)
	} else {
		runtime_SemacquireRWMutex((*uint32)(&w.sema), false, 1)
	}
}

// unpark wakes w, and with yield switches to it at once if it sleeps.
func unpark(w *waiter, yield bool) {
	runtime_Semrelease((*uint32)(&w.sema), yield, 2)
}
