// The benchmarks name their locks as go run ./bench does: rwsem, sync
// (sync.RWMutex) and mutex (sync.Mutex). This is a sweep over processors, of
// six minutes:
//
//	go test -run '^$' -bench . -cpu 1,2,4,8 .
//
// With -count 6 and its output in a file, benchstat compares the locks:
//
//	go run golang.org/x/perf/cmd/benchstat@latest -col '/lock@(sync rwsem mutex)' FILE
//
// -bench Contended leaves out the calls that nobody competes with.

package rwsem_test

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rwsem/rwsem"
)

// A rwLock is what the locks under comparison have in common.
type rwLock interface {
	sync.Locker
	RLock()
	RUnlock()
}

// A plainMutex stands beside the reader-writer locks: for short sections it is
// often the better one.
type plainMutex struct{ sync.Mutex }

func (m *plainMutex) RLock()   { m.Lock() }
func (m *plainMutex) RUnlock() { m.Unlock() }

// BenchmarkRWMutex measures pairs of calls that nobody competes with, called
// as a program calls them.
func BenchmarkRWMutex(b *testing.B) {
	b.Run("lock=rwsem/op=read", func(b *testing.B) {
		var mu rwsem.RWMutex
		for b.Loop() {
			mu.RLock()
			mu.RUnlock()
		}
	})
	b.Run("lock=sync/op=read", func(b *testing.B) {
		var mu sync.RWMutex
		for b.Loop() {
			mu.RLock()
			mu.RUnlock()
		}
	})
	b.Run("lock=rwsem/op=write", func(b *testing.B) {
		var mu rwsem.RWMutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock()
		}
	})
	b.Run("lock=sync/op=write", func(b *testing.B) {
		var mu sync.RWMutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock()
		}
	})
	b.Run("lock=mutex/op=write", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock()
		}
	})
	b.Run("lock=rwsem/op=tryread", func(b *testing.B) {
		var mu rwsem.RWMutex
		for b.Loop() {
			mu.TryRLock()
			mu.RUnlock()
		}
	})
	b.Run("lock=sync/op=tryread", func(b *testing.B) {
		var mu sync.RWMutex
		for b.Loop() {
			mu.TryRLock()
			mu.RUnlock()
		}
	})
	b.Run("lock=rwsem/op=trywrite", func(b *testing.B) {
		var mu rwsem.RWMutex
		for b.Loop() {
			mu.TryLock()
			mu.Unlock()
		}
	})
	b.Run("lock=sync/op=trywrite", func(b *testing.B) {
		var mu sync.RWMutex
		for b.Loop() {
			mu.TryLock()
			mu.Unlock()
		}
	})
	b.Run("lock=rwsem/op=downgrade", func(b *testing.B) {
		var mu rwsem.RWMutex
		for b.Loop() {
			mu.Lock()
			mu.Downgrade()
			mu.RUnlock()
		}
	})
}

// BenchmarkContended measures mixes of reads and writes on one lock, with
// parallelism times GOMAXPROCS goroutines and work accesses to shared memory
// in each section. go run ./bench sweep from the root has more, with latency
// and fairness.
func BenchmarkContended(b *testing.B) {
	locks := []struct {
		name string
		make func() rwLock
	}{
		{"rwsem", func() rwLock { return new(rwsem.RWMutex) }},
		{"sync", func() rwLock { return new(sync.RWMutex) }},
		{"mutex", func() rwLock { return new(plainMutex) }},
	}
	for _, reads := range []int{100, 99, 90, 50, 0} {
		for _, work := range []int{0, 100} {
			for _, parallelism := range []int{1, 8} {
				for _, lock := range locks {
					b.Run(fmt.Sprintf("lock=%s/reads=%d/work=%d/parallelism=%d", lock.name, reads, work, parallelism), func(b *testing.B) {
						contend(b, lock.make(), reads, work, parallelism)
					})
				}
			}
		}
	}
}

func contend(b *testing.B, mu rwLock, reads, work, parallelism int) {
	var shared [8]uint64
	b.SetParallelism(parallelism)
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.NewPCG(rand.Uint64(), rand.Uint64())
		var sum uint64
		for pb.Next() {
			if int(rng.Uint64()%100) < reads {
				mu.RLock()
				for i := range work {
					sum += shared[i%len(shared)]
				}
				mu.RUnlock()
			} else {
				mu.Lock()
				for i := range work {
					shared[i%len(shared)]++
				}
				mu.Unlock()
			}
		}
		if sum == 1 {
			b.Log(sum) // keeps the reads from being left out
		}
	})
}
