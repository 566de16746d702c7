package rwsem

import (
	"os"
	"strings"
	"time"
)

// The mechanisms that can be left out, read once at start from
// RWSEMDEBUG=name=value,... in the manner of GODEBUG: 0 turns a mechanism off
// and 1 on, which is where each of them starts. handoff and readerfirst take a
// duration as well: the handoff time, and that of readers where sections are long.
var policy = struct {
	readerSpin  bool // readerspin: readers spin on a writer
	writerSpin  bool // writerspin: writers spin on readers
	adaptive    bool // adaptive: a writer that spun on readers in vain stops readers from spinning
	shortPark   bool // shortpark: where sections are very short, who meets somebody sleeps at once
	claim       bool // claim: a writer that is awake asks the others to step back
	wakeMany    bool // wakemany: readers are woken together, past writers, else only those in front of the first writer
	handoff     bool // handoff: a first waiter that has waited its time gets the lock
	handoffSpin bool // handoffspin: a first waiter with handoff spins on a running writer
	ownerCheck  bool // ownercheck: spin only on an owner that runs
	readerFirst bool // readerfirst: a reader that has waited its time goes before writers, where sections are long much sooner
	urgent      bool // urgent: LockUrgent differs from Lock

	handoffTime time.Duration
	readerTime  time.Duration
	readerEach  time.Duration
}{
	readerSpin:  true,
	writerSpin:  true,
	adaptive:    true,
	shortPark:   true,
	claim:       true,
	wakeMany:    true,
	handoff:     true,
	handoffSpin: true,
	ownerCheck:  true,
	urgent:      true,
	readerFirst: true,

	// Between 0.1 and 1 ms the time matters little; with 4 ms, the published
	// one, the slowest goroutine falls behind and the worst waits get longer.
	// See DESIGN.md.
	handoffTime: 500 * time.Microsecond,

	// How long a reader that is to go before writers waits at the least, and for
	// each reader that comes in with it: to wake one costs some microseconds of
	// the lock's time. See DESIGN.md.
	readerTime: 100 * time.Microsecond,
	readerEach: 12 * time.Microsecond,
}

// longestHandoff stands for more: the sum of it and any time of the clock has to
// be one.
const longestHandoff = 1000 * time.Hour

func init() {
	if bad := setPolicy(os.Getenv("RWSEMDEBUG")); bad != "" {
		println("rwsem: RWSEMDEBUG: no such setting, or not its value:", bad)
	}
}

// setPolicy applies s and returns the first part of it that means nothing.
func setPolicy(s string) (bad string) {
	switches := map[string]*bool{
		"readerspin":  &policy.readerSpin,
		"writerspin":  &policy.writerSpin,
		"adaptive":    &policy.adaptive,
		"shortpark":   &policy.shortPark,
		"claim":       &policy.claim,
		"wakemany":    &policy.wakeMany,
		"handoff":     &policy.handoff,
		"handoffspin": &policy.handoffSpin,
		"ownercheck":  &policy.ownerCheck,
		"urgent":      &policy.urgent,
		"readerfirst": &policy.readerFirst,
	}
	for setting := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(setting, "=")
		on, known := switches[name]
		switch d, err := time.ParseDuration(value); {
		case known && (value == "0" || value == "1"):
			*on = value == "1"
		case name == "handoff" && err == nil && d > 0:
			policy.handoff, policy.handoffTime = true, min(d, longestHandoff)
		case name == "readerfirst" && err == nil && d > 0:
			policy.readerFirst, policy.readerTime = true, min(d, longestHandoff)
		case debugSetting(name, value):
		case bad == "" && setting != "":
			bad = setting
		}
	}
	return bad
}
