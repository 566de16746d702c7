//go:build !js

package rwsem

import "testing"

func init() {
	// Somebody else's RUnlock took a reader out that was only passing.
	misuses = append(misuses, struct {
		name, message string
		prepare       func(*testing.T, *RWMutex)
		misuse        func(*RWMutex)
	}{"RUnlock, of a reader on its way out", misuseRUnlock, nil, (*RWMutex).backOut})
}
