package rwsem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rwsem/rwsem"
)

func ExampleRWMutex() {
	var (
		mu   rwsem.RWMutex // as with sync.RWMutex
		hits = map[string]int{}
		wg   sync.WaitGroup
	)
	for range 10 {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			hits["home"]++
		})
	}
	wg.Wait()

	mu.RLock()
	defer mu.RUnlock()
	fmt.Println(hits["home"])
	// Output: 10
}

func ExampleRWMutex_LockContext() {
	var mu rwsem.RWMutex
	mu.RLock() // somebody reads for long

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := mu.LockContext(ctx); err != nil {
		fmt.Println("not locked:", errors.Is(err, context.DeadlineExceeded))
	}

	mu.RUnlock()
	if err := mu.LockContext(context.Background()); err == nil {
		fmt.Println("locked")
		mu.Unlock()
	}
	// Output:
	// not locked: true
	// locked
}

func ExampleRWMutex_RLockContext() {
	var mu rwsem.RWMutex
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(mu.RLockContext(ctx)) // though the lock is free
	// Output: context canceled
}

func ExampleRWMutex_TryLockFor() {
	var mu rwsem.RWMutex
	mu.RLock()
	fmt.Println(mu.TryLockFor(time.Millisecond), mu.TryRLockFor(time.Millisecond))
	// Output: false true
}

func ExampleRWMutex_Downgrade() {
	var (
		mu     rwsem.RWMutex
		config = "old"
	)
	mu.Lock()
	config = "new"
	mu.Downgrade() // readers may come in, writers may not
	fmt.Println(config, mu.TryRLock(), mu.TryLock())
	mu.RUnlock()
	mu.RUnlock()
	// Output: new true false
}

func ExampleRWMutex_SetReaderSpin() {
	cache := struct {
		rwsem.RWMutex
		m map[string]string
	}{m: map[string]string{}}
	cache.SetReaderSpin(0) // its writers hold the lock for long: readers sleep at once

	cache.RLock()
	fmt.Println(len(cache.m))
	cache.RUnlock()
	// Output: 0
}

func ExampleDescribe() {
	var mu rwsem.RWMutex
	fmt.Println(rwsem.Describe(&mu))
	// Output: unlocked, owner none, 0 readers, no waiters
}

func ExampleReadEvents() {
	before := rwsem.ReadEvents()
	var mu rwsem.RWMutex
	mu.Lock()
	mu.TryLockFor(time.Millisecond) // sleeps
	mu.Unlock()
	fmt.Println(rwsem.ReadEvents().SleepWriter - before.SleepWriter)
	// Output: 1
}
