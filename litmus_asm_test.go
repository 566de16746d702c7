//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

// The form of TryRLock that is in assembly only.
func init() {
	forReaders = append(forReaders, litmus{name: "tryRLockExpect, by its first swap", until: writerLocked, events: silent,
		take: func(k *taker) { k.ok = tryRLockExpect(&k.rw) }}, litmus{
		name: "tryRLockExpect past waiters, by its second swap", setUp: pretendWaiters(1), until: writerLocked, events: silent, proof: stole,
		take: func(k *taker) { k.ok = tryRLockExpect(&k.rw) }})
}
