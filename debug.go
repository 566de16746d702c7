package rwsem

import "time"

// The calls of the debug build, -tags rwsemdebug: debug_on.go has what is behind
// them there, debug_off.go what is left of them elsewhere.

// SetDebugHandler has h called with each report of the debug build, in place of
// the end of the process; nil brings that back. The call that was reported goes
// on when h returns, but for an Unlock, RUnlock or Downgrade by mistake, which
// then does nothing. h may be called by several goroutines at a time, that of the
// call or, for a long wait, another one, and may end them. It may use locks: it is
// not reported on itself. Other builds call nothing.
func SetDebugHandler(h func(report string)) { debugSetHandler(h) }

// SetMaxWait has the debug build report, once, each call that has waited for a
// lock for d, with the stacks of those who hold it, and returns what was set
// before. With 0, as at the start unless RWSEMDEBUG says maxwait=d, it reports
// none. Other builds report none and return 0.
func SetMaxWait(d time.Duration) (old time.Duration) { return debugSetMaxWait(d) }

// CheckHeld returns an error that lists all locks that are held, each with who
// took it and where, or nil if none is: TestMain can call it when the tests are
// over. Only the debug build knows; elsewhere the error is an
// [errors.ErrUnsupported], whatever is held.
func CheckHeld() error { return debugCheckHeld() }

// Holders returns who holds rw and who waits for it, each with the stack of its
// call, in the debug build; elsewhere what [Describe] says.
func Holders(rw *RWMutex) string { return debugHolders(rw) }

// Disown says that the calling goroutine's hold of rw is for another to release:
// the debug build then takes it for nobody's, so that a Lock that waits for that
// release is not reported as the caller's own deadlock, nor the order in which
// the caller goes on to take locks. Elsewhere it does nothing. It is never
// needed for the lock to work.
func Disown(rw *RWMutex) { debugDisown(rw) }

// AssertHeld ends the process if rw is not locked for writing. The debug build
// reports it as well if it is not the calling goroutine that has locked it, or
// one that has disowned it.
func AssertHeld(rw *RWMutex) {
	if debugEnabled {
		debugAssert(rw, false)
		return
	}
	if rw.count.Load()&writerLocked == 0 {
		fatal(assertHeldFailed)
	}
}

// AssertRHeld ends the process if rw is not locked, for reading or for writing,
// where a reader that passes may go for one. The debug build reports it as well
// if it is not the calling goroutine that has locked it, or one that has
// disowned it.
func AssertRHeld(rw *RWMutex) {
	if debugEnabled {
		debugAssert(rw, true)
		return
	}
	if rw.count.Load()&held == 0 {
		fatal(assertRHeldFailed)
	}
}

const (
	assertHeldFailed  = "rwsem: AssertHeld of RWMutex not locked for writing"
	assertRHeldFailed = "rwsem: AssertRHeld of unlocked RWMutex"
)
