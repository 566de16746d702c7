// Package align does not compile where a lock is not aligned to 8 bytes.
package align

import (
	"unsafe"

	"github.com/rwsem/rwsem"
)

type embedding struct {
	_ uint32
	rwsem.RWMutex
	_ bool
	b rwsem.RWMutex
}

const (
	_ = -(unsafe.Offsetof(embedding{}.RWMutex) % 8)
	_ = -(unsafe.Offsetof(embedding{}.b) % 8)
	_ = -(unsafe.Alignof(rwsem.RWMutex{}) % 8)
	_ = -(unsafe.Sizeof(rwsem.RWMutex{}) % 8)
)
