//go:build arm64 && !purego && !race && !rwsemhooks && !rwsemexplore && (rwsem_ownercount || !rwsemnarrow)

package rwsem

import "github.com/klauspost/cpuid/v2"

// hasLSE is whether the CPU has the atomic instructions of ARMv8.1. The assembly
// reads it. It is set before any package that imports this one is initialised.
var hasLSE = cpuid.CPU.Supports(cpuid.ATOMICS)
