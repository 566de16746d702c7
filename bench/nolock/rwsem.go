// Package rwsem takes the place of the real one where the bench measures what
// programs take without any lock: its lock does nothing.
package rwsem

import "sync"

// RWMutex has the methods and the size of [sync.RWMutex], so that what lies
// beside it in a program stays where it is.
type RWMutex struct{ _ [3]uint64 }

func (*RWMutex) Lock()          {}
func (*RWMutex) Unlock()        {}
func (*RWMutex) RLock()         {}
func (*RWMutex) RUnlock()       {}
func (*RWMutex) TryLock() bool  { return true }
func (*RWMutex) TryRLock() bool { return true }

func (rw *RWMutex) RLocker() sync.Locker { return (*rlocker)(rw) }

type rlocker RWMutex

func (*rlocker) Lock()   {}
func (*rlocker) Unlock() {}
