package rwsem

// A hookPoint names a place in the slow paths between two steps that others
// can observe.
type hookPoint int

const (
	hookCounted   hookPoint = iota // after an acquiring count change, before the owner store
	hookPark                       // decided to park, not parked yet
	hookTell                       // readers counted, not told yet
	hookWake                       // waitLock dropped, waiter told, not woken yet
	hookBackOut                    // about to take a reader's bias out of the count
	hookBackedOut                  // bias out of the count, wake rule not applied yet
	hookQueue                      // about to take waitLock to queue
	hookRelease                    // released with waiters, waitLock not taken yet
	hookHandoff                    // waitLock held, about to set flagHandoff
	hookSpin                       // a spinner's round begins
	numHookPoints
)
