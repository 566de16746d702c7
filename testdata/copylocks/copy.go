// Package copylocks copies locks in every way that go vet knows.
package copylocks

import "github.com/rwsem/rwsem"

type cache struct {
	rwsem.RWMutex
	m map[string]int
}

func assign(c *cache) {
	d := *c // want
	_ = &d
	var rw rwsem.RWMutex
	other := rw // want
	_ = &other
}

func parameter(rw rwsem.RWMutex) {} // want

func result(c *cache) rwsem.RWMutex { return c.RWMutex } // want

func (c cache) receiver() {} // want

func argument(c *cache) { parameter(c.RWMutex) } // want

func ranges(cs []cache) {
	for _, c := range cs { // want
		_ = &c
	}
}

func literal(c *cache) any { return []rwsem.RWMutex{c.RWMutex} } // want

// Pointers are fine.
func pointer(c *cache) *rwsem.RWMutex { return &c.RWMutex }
