package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplaceLock(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"field": {`package p

import (
	"fmt"
	"sync"
)

// T is kept with its comment.
type T struct {
	mu sync.RWMutex // guards all
}

func f() { fmt.Println() }
`, `package p

import (
	"fmt"
	"github.com/rwsem/rwsem"
)

// T is kept with its comment.
type T struct {
	mu rwsem.RWMutex // guards all
}

func f() { fmt.Println() }
`},
		"embedded, sync still used": {`package p

import "sync"

type T struct {
	sync.RWMutex
	once sync.Once
}
`, `package p

import (
	"github.com/rwsem/rwsem"
	"sync"
)

type T struct {
	rwsem.RWMutex
	once sync.Once
}
`},
		"renamed import": {`package p

import s "sync"

var mu = new(s.RWMutex)
`, `package p

import (
	"github.com/rwsem/rwsem"
)

var mu = new(rwsem.RWMutex)
`},
		"only a mutex": {`package p

import "sync"

var   mu sync.Mutex // left as it is, format and all
`, `package p

import "sync"

var   mu sync.Mutex // left as it is, format and all
`},
		"another sync": {`package p

import "example.com/sync"

var mu sync.RWMutex
`, `package p

import "example.com/sync"

var mu sync.RWMutex
`},
		"shadowed": {`package p

import "sync"

var once sync.Once

func f() int {
	var sync struct{ RWMutex int }
	return sync.RWMutex
}
`, `package p

import "sync"

var once sync.Once

func f() int {
	var sync struct{ RWMutex int }
	return sync.RWMutex
}
`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := replaceLock("p.go", []byte(tt.in))
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
		})
	}

	_, err := replaceLock("p.go", []byte("package p\nimport . \"sync\"\nvar mu RWMutex\n"))
	assert.ErrorContains(t, err, "dot import")
	_, err = replaceLock("p.go", []byte("package"))
	assert.Error(t, err)
}

func TestReadBenchmarks(t *testing.T) {
	times := newBenchTimes()
	for range 2 {
		require.NoError(t, times.read(strings.NewReader(`goos: linux
BenchmarkGet-2   	 1000	        12.5 ns/op	 0 B/op
BenchmarkSet/big-2   	 1000	        2000 ns/op
PASS
`)))
	}
	assert.Equal(t, []string{"Get", "Set/big"}, times.names)
	assert.InDeltaSlice(t, []float64{12.5, 12.5}, times.ns["Get"], 1e-6)
	assert.ErrorContains(t, newBenchTimes().read(strings.NewReader("PASS\n")), "no benchmark")
}
