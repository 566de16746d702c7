// Package proof holds the checks of the lock that need other modules: its tests
// record what random programs see of a lock and have porcupine decide whether a
// sequential reader-writer lock could have answered the same.
package proof
