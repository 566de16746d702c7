// Package rwsem provides a reader-writer lock that replaces [sync.RWMutex] by
// changing an import. It carries the 2019 re-architecture of the Linux
// kernel's reader-writer semaphore (lock hand-off, optimistic spinning of
// readers and writers, adaptive disabling, the owner kept beside the count)
// over to goroutines. DESIGN.md in the repository says where each mechanism
// stands and by which measurement its policy was chosen, README.md which build
// tags there are and which mechanisms the environment variable RWSEMDEBUG turns
// off.
package rwsem

import (
	"context"
	"sync"
	"time"
)

// The count word. It alone says for certain that a writer holds the lock; its
// readers may be passing: a reader on its slow path counts until it backs out.
// Bits 0 to 4 are flags, bit 63 and what lies below it the readers. What is in
// between differs by layout (layout_*.go): spare bits, or with
// -tags rwsem_ownercount the identity of the writer that holds the lock.
const (
	// writerLocked: a writer holds the lock. Set by the compare-and-swap that
	// takes a free lock, or by the waker that hands the lock to the first
	// waiter; cleared by Unlock and Downgrade. Never lags.
	writerLocked = 1 << 0

	// flagWaiters: the wait list is not empty. Set and cleared under the wait
	// lock together with the list, cleared only when the list empties. Never
	// lags for who holds the wait lock; for others by one queue operation.
	flagWaiters = 1 << 1

	// flagHandoff: the first waiter was found to have waited its handoff time;
	// nobody may take the lock but it, the readers let in together with it,
	// and those that were let in before and join readers. A reader that is put
	// first takes it over. Set under the wait lock; cleared in the atomic step
	// that gives the lock to the first waiter, or when that waiter leaves.
	flagHandoff = 1 << 2

	// flagAsleep: the first waiter sleeps (or finds on its way back to sleep that
	// it was told), so a release that leaves nobody holding the lock has to wake
	// it. While waiters are present and it is clear, the first of them was woken,
	// or is about to be, and has not finished its try. Set under the wait lock
	// with the first entry of the wait list, when another waiter becomes the
	// first, and by the first waiter in the step that ends its try in vain;
	// cleared under it by the waker, and when the list empties.
	flagAsleep = 1 << 3

	// flagClaim: a writer that is awake waits for the readers to drain. It is
	// a request to arriving readers, which step back for a moment and then
	// take the lock all the same, so that a claimant that lost its processor
	// holds up nobody for long. Set by writers that spin, a woken first waiter
	// among them; cleared by them, by any writer that takes the lock on a slow
	// path or by a try, by who stepped back for a claimant that did not come, when
	// another waiter becomes the first, and when the list empties by a cancel. It
	// may be lost.
	flagClaim = 1 << 4

	// writerMask is all of the count that a writer is: writerLocked, and its
	// identity where the count has it. Both are set and cleared in one step.
	writerMask = writerLocked | ownerMask

	// readerBias is one reader. The bits from readerShift to 62 hold the number
	// of readers, those included that were granted the lock and do not run yet,
	// and those that are about to back out.
	readerBias = 1 << readerShift

	// flagReadFail is the guard above the readers: there are more than their
	// bits can count. Set by arriving readers, of which each that finds it set
	// backs out and queues; cleared by the back-out that makes them fit again.
	// As many again may be on their way out at a time before the count is wrong.
	flagReadFail = 1 << 63

	flagMask   = readerBias - 1
	spareMask  = flagMask &^ (1<<5 - 1 | ownerMask) // set only by what borrows through it: misuse
	readerMask = ^uint64(flagMask)                  // the guard included

	// nearGuard is the count from which on there is room for one more reader
	// only, or for none.
	nearGuard = flagReadFail - 2*readerBias

	// held is what keeps a writer out, whether it is first in the queue or not.
	held = readerMask | writerLocked
	// readBlocked keeps an arriving reader out.
	readBlocked = writerLocked | flagHandoff | flagReadFail
	// writeBlocked keeps an arriving writer out.
	writeBlocked = held | flagHandoff

	// readRare sends an arriving reader off the path that is inlined, readDone
	// a leaving one.
	readRare = readBlocked | flagWaiters | flagClaim
	readDone = writerLocked | flagHandoff | flagReadFail | flagAsleep
)

// The owner word: the g of the writer that took the lock last, or what is left
// of the readers that did, with three flag bits below it (a g is aligned to 32
// bytes). It is a hint for those who spin and for those who debug; no
// correctness rests on it, and only a writer's g may be read through. Where the
// count has the writer's identity the owner word has nothing but the flags.
const (
	// readerOwned: readers own the lock, or did last. Set by Downgrade, and by
	// a spinner together with the two bits below; cleared by a writer's store
	// of itself. Readers do not set it: the count says whether they or a writer
	// own the lock, and their inlined path has no room for a second word. It
	// stays when readers drain, so it does not say that one holds the lock now.
	readerOwned = 1 << 0

	// rdNonspinnable: readers do not spin on this lock. Set by a writer whose
	// time on readers ran out, kept by Unlock and Downgrade, cleared by the
	// next writer unless that one saw wrNonspinnable after its own spinning.
	rdNonspinnable = 1 << 1

	// wrNonspinnable: writers do not spin on this lock. Set together with
	// rdNonspinnable, cleared by the next writer.
	wrNonspinnable = 1 << 2

	ownerFlags = readerOwned | rdNonspinnable | wrNonspinnable

	// ownerAnonymous is a writer that this build cannot name: spin on it within
	// the time bound, never read through it.
	ownerAnonymous = 1 << 3

	// ownerUnknown is an owner about which nothing is known: do not spin.
	ownerUnknown = 1 << 4
)

// A RWMutex is a reader-writer mutual exclusion lock: it is held by any number
// of readers or by one writer. Its zero value is an unlocked lock. It must not
// be copied after first use.
//
// It has every method of [sync.RWMutex] with the same meaning, so that a
// program changes over by changing the import. A locked RWMutex belongs to no
// goroutine: one may lock it and another unlock it.
//
// A goroutine that holds it for reading must not call RLock again while
// another may call Lock: once the first waiter, a writer, has waited its handoff
// time (half a millisecond by default, and 0.2 ms more at the most) new readers
// wait behind it, the second RLock among them. Up to that time a blocked Lock does
// not keep new readers out, where [sync.RWMutex] keeps them out at once.
//
// In the terminology of [the Go memory model], the n'th call to
// [RWMutex.Unlock] “synchronizes before” the m'th call to Lock for any n < m,
// as for [sync.Mutex]. For any call to RLock there is an n such that the n'th
// call to Unlock or [RWMutex.Downgrade] “synchronizes before” that call to
// RLock, and the matching call to [RWMutex.RUnlock] “synchronizes before” the
// n+1'th call to Lock. A call of another method that takes the lock counts as
// Lock or RLock; one that fails establishes no such relation.
//
// [the Go memory model]: https://go.dev/ref/mem
type RWMutex struct {
	count word64 // see the constants above

	owner wordPtr // see the constants above

	// waitLock guards the wait list and the flag bits of count. It parks those
	// who wait for it, since its holder may lose its processor; under it
	// nothing allocates, blocks or calls foreign code.
	waitLock mutex

	// head is the first waiter, writers the first of the writers behind it.
	// See waiter.go.
	head, writers *waiter

	debug debugState // of no size but in the debug build

	// ctl packs what spinning remembers. See spin.go.
	ctl word32

	// steals says in bits 0-7 how often the lock may yet be taken past the
	// present first waiter before a look at the clock, in bits 8-15 how often it
	// might after the last one, and in bits 16-31 when to look at that waiter's
	// age next; 0 when a waiter becomes the first. It paces those looks only:
	// steals may go uncounted, and assembly counts them without a lock prefix.
	steals word32
}

// RLock locks rw for reading and waits until that is possible.
//
// It must not be used for recursive read locking: see the type's
// documentation.
func (rw *RWMutex) RLock() {
	if debugEnabled {
		debugRLock(rw)
		return
	}
	if raceEnabled {
		raceRLock(rw)
		return
	}
	// Acquire: pairs with the release in Unlock and Downgrade.
	if rw.count.Add(readerBias)&readRare != 0 {
		rlockRare(rw)
	}
}

// RUnlock undoes one RLock. It ends the process with a fatal error if rw is not
// locked for reading. It does not affect other readers.
func (rw *RWMutex) RUnlock() {
	if debugEnabled {
		debugRUnlock(rw)
		return
	}
	if raceEnabled {
		raceRUnlock(rw)
		return
	}
	// Release: pairs with the acquire of the writer that finds no reader left.
	if c := rw.count.Add(^uint64(readerBias - 1)); c&readDone != 0 {
		runlockRare(rw, c)
	}
}

// Lock locks rw for writing and waits until that is possible.
func (rw *RWMutex) Lock() {
	if debugEnabled {
		debugLock(rw)
		return
	}
	lock(rw)
}

// Unlock unlocks rw for writing. It ends the process with a fatal error if rw
// is not locked for writing.
func (rw *RWMutex) Unlock() {
	if debugEnabled {
		debugUnlock(rw)
		return
	}
	unlock(rw)
}

// TryRLock tries to lock rw for reading without waiting for it and reports
// whether it succeeded. It may give up its processor to a waiter that is due.
// With no other call in progress it succeeds exactly if no writer holds the
// lock, and not the most readers that the build's count has room for. It fails
// as well where waiters are due to get the lock.
func (rw *RWMutex) TryRLock() bool {
	if debugEnabled {
		return debugTryRLock(rw)
	}
	return tryRLock(rw)
}

// TryLock tries to lock rw for writing without waiting for it and reports
// whether it succeeded. It may give up its processor to a waiter that is due.
// With no other call in progress it succeeds exactly if nobody holds the lock.
// It fails as well where a waiter is due to get the lock.
func (rw *RWMutex) TryLock() bool {
	if debugEnabled {
		return debugTryLock(rw)
	}
	return tryLock(rw)
}

// Downgrade turns the write lock that the caller holds into a read lock without
// letting another writer in between; waiting readers are let in if one of them
// is the first that waits, or has its time to go before the writers that do.
// What was written before it is seen by those who lock for reading after it. It
// ends the process with a fatal error if rw is not locked for writing. Release
// with [RWMutex.RUnlock].
func (rw *RWMutex) Downgrade() {
	if debugEnabled {
		debugDowngrade(rw)
		return
	}
	downgrade(rw)
}

// LockUrgent locks rw for writing like [RWMutex.Lock], for a writer whose
// latency matters more than the lock's throughput: it does not spin on
// readers, and once it is the first waiter and was woken in vain nobody else
// may take the lock before it. It does not go before others in the queue.
func (rw *RWMutex) LockUrgent() {
	if debugEnabled {
		debugLockUrgent(rw)
		return
	}
	lockUrgent(rw)
}

// LockContext locks rw for writing unless ctx ends before that is possible. It
// returns nil if rw is locked and else ctx.Err(), rw not being locked. A context
// that has ended already gives its error even when rw is free; one that ends
// just as the lock is granted may still give nil. It allocates only if it has to
// sleep.
//
// To wait for a lock does not block durably in the sense of testing/synctest,
// as with [sync.RWMutex]: a bubble's time stands still meanwhile, so that a
// deadline in it does not come.
func (rw *RWMutex) LockContext(ctx context.Context) error {
	if debugEnabled {
		return debugLockContext(rw, ctx, false)
	}
	return rw.lockContext(ctx, false)
}

// RLockContext is [RWMutex.LockContext] for reading.
func (rw *RWMutex) RLockContext(ctx context.Context) error {
	if debugEnabled {
		return debugLockContext(rw, ctx, true)
	}
	return rw.lockContext(ctx, true)
}

// TryLockFor tries to lock rw for writing, sleeping for d at the most after
// some microseconds of spinning, and reports whether it succeeded. With d of 0
// or less it tries once, as [RWMutex.TryLock] does. For testing/synctest see
// [RWMutex.LockContext].
func (rw *RWMutex) TryLockFor(d time.Duration) bool {
	if debugEnabled {
		return debugTryLockFor(rw, d, false)
	}
	return rw.tryLockFor(d, false)
}

// TryRLockFor is [RWMutex.TryLockFor] for reading.
func (rw *RWMutex) TryRLockFor(d time.Duration) bool {
	if debugEnabled {
		return debugTryLockFor(rw, d, true)
	}
	return rw.tryLockFor(d, true)
}

// SetReaderSpin sets for how long a reader that meets a writer may spin on this
// lock before it sleeps. 0: never. Negative: as the lock itself decides, the
// zero value's state. Else: up to d, rounded up to 100 ns and 1 ms at the most,
// while spinning pays off: an enabling count for each lock goes up where a spin
// ends in the lock and down where it does not, and readers spin while it is
// above 0. It may be called at any time.
func (rw *RWMutex) SetReaderSpin(d time.Duration) { rw.setReaderSpin(d) }

// RLocker returns a [sync.Locker] whose Lock and Unlock call rw.RLock and
// rw.RUnlock.
func (rw *RWMutex) RLocker() sync.Locker { return (*rlocker)(rw) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }
