//go:build !race

package rwsem

const raceEnabled = false

func raceEnter(*RWMutex)       {}
func raceIgnore()              {}
func raceLeave()               {}
func raceReadLocked(*RWMutex)  {}
func raceWriteLocked(*RWMutex) {}
func raceRLock(*RWMutex)       {}
func raceRUnlock(*RWMutex)     {}

//lint:ignore U1000 called where Go stands in for assembly
func raceEnterWrite(*RWMutex) {}
