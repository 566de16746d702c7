//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && !rwsemdebug && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var measureForms = flag.Bool("rwsem.forms", false, "measure TryRLock's two forms, which takes half a minute")

// A tryForm is one of the two ways to write TryRLock, with a loop that calls it
// directly: the loops differ in nothing else.
type tryForm struct {
	name string
	try  func(*RWMutex) bool
	loop func(rw *RWMutex, stop *atomic.Bool) (pairs int)
}

// formBatch is how many pairs are between two looks at whether to stop.
const formBatch = 64

var tryForms = [2]tryForm{
	{"load first", tryRLock, func(rw *RWMutex, stop *atomic.Bool) (pairs int) {
		for !stop.Load() {
			for range formBatch {
				if tryRLock(rw) {
					rw.RUnlock()
					pairs++
				}
			}
		}
		return pairs
	}},
	{"expect unlocked", tryRLockExpect, func(rw *RWMutex, stop *atomic.Bool) (pairs int) {
		for !stop.Load() {
			for range formBatch {
				if tryRLockExpect(rw) {
					rw.RUnlock()
					pairs++
				}
			}
		}
		return pairs
	}},
}

// TestTryRLockForms checks that both forms take and leave the lock. With
// -rwsem.forms it then compares them, as row D of the design asks: in rounds
// that run both, the one and the other first in turn, on a lock that is free
// but for them and on one that a reader holds all the time.
//
//	go test -run '^TestTryRLockForms$' -rwsem.forms -v .
func TestTryRLockForms(t *testing.T) {
	for _, form := range tryForms {
		t.Run(form.name, func(t *testing.T) { checkForm(t, form) })
	}
	if !*measureForms {
		return
	}
	t.Logf("%s %s/%s, %d CPUs, GOMAXPROCS %d: TryRLock and RUnlock, medians of %d rounds of %v",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0), formRounds, formTime)
	const row = "%-15s %10s  %17s %22s %8s %12s"
	t.Logf(row, "lock", "goroutines", tryForms[0].name+" kops/s", tryForms[1].name+" kops/s", "ratio", "spread")
	for _, lock := range []struct {
		name string
		read bool
	}{{"free", false}, {"with a reader", true}} {
		for _, n := range []int{1, 2, 4, 8} {
			var rw RWMutex
			if lock.read {
				rw.RLock()
			}
			before := rw.count.Load()
			load, expect := compareForms(&rw, n)
			require.Equal(t, before, rw.count.Load(), "the count does not balance")
			ratios := make([]float64, len(load))
			for i := range ratios {
				ratios[i] = expect[i] / load[i]
			}
			t.Logf(row, lock.name, fmt.Sprint(n), fmt.Sprintf("%.0f", middle(load)), fmt.Sprintf("%.0f", middle(expect)),
				fmt.Sprintf("%.2fx", middle(ratios)), fmt.Sprintf("%.2f..%.2f", slices.Min(ratios), slices.Max(ratios)))
		}
	}
}

func checkForm(t *testing.T, form tryForm) {
	var rw RWMutex
	for readers := range 3 {
		require.True(t, form.try(&rw), "with %d readers", readers)
		require.EqualValues(t, (readers+1)*readerBias, rw.count.Load())
	}
	for range 3 {
		rw.RUnlock()
	}
	rw.Lock()
	locked := rw.count.Load()
	require.False(t, form.try(&rw), "with a writer")
	require.Equal(t, locked, rw.count.Load())
	rw.Unlock()

	// Side by side with writers; what it guards is written by those alone.
	var first, second int
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !stop.Load() {
				rw.Lock()
				first++
				second++
				rw.Unlock()
			}
		})
		all.Go(func() {
			for !stop.Load() {
				if form.try(&rw) {
					if first != second {
						t.Error("read while a writer wrote")
						stop.Store(true)
					}
					rw.RUnlock()
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	stop.Store(true)
	all.Wait()
	require.Zero(t, rw.count.Load(), "the count does not balance")

	require.Positive(t, runForm(form, &rw, 2, 5*time.Millisecond), "the loop does not take the lock")
	require.Zero(t, rw.count.Load(), "the loop leaves a count that does not balance")
}

const (
	formRounds = 15 // odd: each round has a figure, and so has their median
	formTime   = 100 * time.Millisecond
)

// compareForms returns the kops/s of both forms with n goroutines, by rounds.
func compareForms(rw *RWMutex, n int) (load, expect []float64) {
	var kops [2][]float64
	for r := range formRounds {
		for i := range tryForms {
			f := (r + i) % len(tryForms)
			kops[f] = append(kops[f], runForm(tryForms[f], rw, n, formTime))
		}
	}
	return kops[0], kops[1]
}

// runForm returns the kops/s of n goroutines that run the form's loop for d.
func runForm(form tryForm, rw *RWMutex, n int, d time.Duration) (kops float64) {
	var pairs atomic.Int64
	var stop atomic.Bool
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			pairs.Add(int64(form.loop(rw, &stop)))
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	time.Sleep(d)
	stop.Store(true)
	done.Wait()
	return float64(pairs.Load()) / float64(time.Since(began).Microseconds()) * 1000
}

// middle is the median of an odd number of values.
func middle(xs []float64) float64 { return slices.Sorted(slices.Values(xs))[len(xs)/2] }
