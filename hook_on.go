//go:build rwsemhooks && !rwsemexplore

package rwsem

import "sync/atomic"

// testHook, if set, is called at every hook point of every lock.
var testHook atomic.Pointer[func(hookPoint)]

func hook(p hookPoint) {
	if f := testHook.Load(); f != nil {
		(*f)(p)
	}
}
