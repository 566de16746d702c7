//go:build !rwsemdebug

package rwsem

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"
)

// What the debug build puts around the public methods is nothing here.

const debugEnabled = false

type debugState struct{}

const _ = -unsafe.Sizeof(RWMutex{}.debug) // it takes no room

func debugRLock(*RWMutex)                                     {}
func debugRUnlock(*RWMutex)                                   {}
func debugLock(*RWMutex)                                      {}
func debugUnlock(*RWMutex)                                    {}
func debugTryRLock(*RWMutex) (ok bool)                        { return }
func debugTryLock(*RWMutex) (ok bool)                         { return }
func debugDowngrade(*RWMutex)                                 {}
func debugLockUrgent(*RWMutex)                                {}
func debugLockContext(*RWMutex, context.Context, bool) error  { return nil }
func debugTryLockFor(*RWMutex, time.Duration, bool) (ok bool) { return }
func debugAssert(*RWMutex, bool)                              {}
func debugDisown(*RWMutex)                                    {}
func debugHolders(rw *RWMutex) string                         { return Describe(rw) }
func debugSetHandler(func(string))                            {}
func debugSetMaxWait(time.Duration) time.Duration             { return 0 }
func debugSetting(name, value string) bool                    { return false }

func debugCheckHeld() error {
	return fmt.Errorf("rwsem: only a build with -tags rwsemdebug knows which locks are held: %w", errors.ErrUnsupported)
}
