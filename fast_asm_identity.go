//go:build (amd64 || arm64) && !purego && !race && !rwsemhooks && !rwsemexplore && rwsem_ownercount

package rwsem

// identity is writerWord as lock and tryLock compute it, for tests: they can
// make up addresses that no goroutine has. gp has none of ownerFlags.
func identity(gp uintptr) uint64
