package main

import "regexp"

// A stage is a run of tests. Mutants go from one to the next until one stops
// them, so the quick ones come first.
type stage struct {
	name string
	tags string
	run  string // tests, as for -test.run
	skip string // and for -test.skip
	args []string

	// needs is a test's name: the stage is left out while no test file has it.
	needs string

	// again has a failure count only if it comes twice: for tests that look at
	// times, which other programs can take.
	again bool
}

// notTheLocks are tests that the code of the slow paths is nothing to.
const notTheLocks = `^Test(Assembly|LSE|Alignment|Vet|Release|Linknames|Race|Method|Size|TryRLockForms|Faults$|FindStatus|` +
	`PolicyEnvironment|PauseTakes|Procyield|TicksIn|InstructionsIn|Unpark|NanotimeInBubble|CanSpinReads|WriterWord)`

// timed are tests that look at times, or take long.
const timed = `^Test(Hammer|Starvation|Misuse|FaultCancellationStorm|FaultPhaseCollapse|FaultGrantOnWake|FaultSpinnersKeep|Exclusion|` +
	`FaultReaderStream|TryForEnds|ContextEndsAs|Contention|GoroutineDump)`

var stages = []stage{
	{name: "steps", tags: "rwsemhooks", run: `^TestStep`},
	{name: "faults", tags: "rwsemhooks", run: `^TestFault`, skip: notTheLocks + "|" + timed},
	{name: "units", tags: "rwsemhooks", run: `.`, skip: `^Test(Fault|Step)|` + notTheLocks + "|" + timed, again: true},
	{name: "narrow", tags: "purego,rwsemnarrow", run: `^TestFaultNarrow`, again: true},
	{name: "explore", tags: "purego,rwsemexplore", run: `^TestExplore$`, needs: "TestExplore"},
	{name: "ownercount", tags: "purego,rwsem_ownercount", run: `^Test(FaultOwnIdentity|FaultMadeUpOwner|MisuseOfOther|Owner|Downgrade|Tries)`, again: true},
	{name: "named", run: `.`, skip: notTheLocks + "|" + timed, again: true},
	{name: "timed", tags: "rwsemhooks", run: timed, again: true},
	{name: "timednamed", run: timed, again: true},
}

// A report is how a run of tests went.
type report struct {
	failed bool
	how    string // fails, hangs (below) or crashes
	test   string // the first that failed
	output string
}

const hangs = "hangs"

// What became of a mutant.
const (
	caught   = "caught"
	survived = "survived"
	invalid  = "invalid" // it cannot be built
	notRun   = "not run"
)

// A result is what became of a mutant.
type result struct {
	mutant
	Status  string  `json:"status"`
	Stage   string  `json:"stage,omitempty"` // that stopped it
	Test    string  `json:"test,omitempty"`
	How     string  `json:"how,omitempty"`
	Seconds float64 `json:"seconds"`
}

// judge takes m through the stages. run runs the tests of a stage, or only the
// named one of them.
func judge(m *mutant, stages []stage, run func(s stage, only string) report) result {
	r := result{mutant: *m, Status: survived}
	for _, s := range stages {
		rep := run(s, "")
		if !rep.failed {
			continue
		}
		if s.again || rep.how == hangs { // a busy machine can make a test hang
			if rep.test == "" || !run(s, rep.test).failed {
				if rep = run(s, ""); !rep.failed {
					continue
				}
			}
		}
		r.Status, r.Stage, r.Test, r.How = caught, s.name, rep.test, rep.how
		break
	}
	return r
}

var (
	testFailed  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	testRunning = regexp.MustCompile(`(?m)^=== RUN   (\w+)`)
)

// read says how a run of tests with -test.v went that ended with or without an
// error, or was ended because it went on for too long.
func read(output string, failed, ended bool) report {
	rep := report{failed: failed || ended, output: output}
	if !rep.failed {
		return rep
	}
	if m := testFailed.FindStringSubmatch(output); m != nil {
		rep.how, rep.test = "fails", m[1]
		return rep
	}
	if all := testRunning.FindAllStringSubmatch(output, -1); all != nil {
		rep.test = all[len(all)-1][1]
	}
	rep.how = "crashes"
	if ended {
		rep.how = hangs
	}
	return rep
}
