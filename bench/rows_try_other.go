//go:build (!amd64 && !arm64) || purego || race || rwsemhooks || rwsemexplore || (!rwsem_ownercount && rwsemnarrow)

package main

// tryForms is empty: TryRLock has its second form in assembly only.
var tryForms []lockKind
