//go:build !rwsemdebug

package align

import (
	"unsafe"

	"github.com/rwsem/rwsem"
)

const _ = 48 - unsafe.Sizeof(rwsem.RWMutex{})
