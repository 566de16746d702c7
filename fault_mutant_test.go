package rwsem

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var runMutants = flag.Bool("rwsem.mutants", false, "put each fault back and run its test, which takes minutes")

// A fault that locks of this design have had, put back by a patch: its test has
// to fail then.
type fault struct {
	row   string
	patch string // in testdata/faults, without .patch
	test  string
	tags  string
	cpu   int // GOMAXPROCS for the test, 0 for the default
}

var faults = []fault{
	{"counted after woken", "counted-after-told", "TestFaultCountedAfterWoken", "rwsemhooks", 0},
	{"told after woken", "told-after-woken", "TestFaultToldAfterWoken", "rwsemhooks", 0},
	{"told after woken: node used again", "node-reused-before-woken", "TestFaultToldAfterWoken", "rwsemhooks", 0},
	{"told after woken: node touched", "node-touched-after-woken", "TestFaultNodeTouchedAfterWake", "rwsemhooks", 1},
	{"stale reader owner", "stale-reader-owner", "TestFaultStaleReaderOwner", "purego", 0},
	{"stale reader owner: after Downgrade", "stale-reader-owner-downgrade", "TestFaultStaleReaderOwner", "purego", 0},
	{"unknown owner", "unknown-owner", "TestFaultUnknownOwner", "purego", 0},
	{"unknown owner: first waiter", "first-waiter-unknown-owner", "TestFaultFirstWaiterUnknownOwner", "purego", 0},
	{"reader stream", "reader-stream", "TestFaultReaderStream", "purego", 0},
	{"handoff left behind: empty queue", "handoff-left-empty", "TestFaultHandoffLeftBehind", "rwsemhooks", 0},
	{"handoff left behind: heir", "handoff-left-heir", "TestFaultHandoffLeftBehind", "rwsemhooks", 0},
	{"handoff left behind: subtracted", "handoff-subtracted", "TestFaultHandoffLeftBehind", "rwsemhooks", 0},
	{"handoff: set while the lock comes free", "handoff-on-free-lock", "TestFaultHandoffOnFreeLock", "rwsemhooks", 0},
	{"heir not woken", "heir-not-woken", "TestFaultHeirNotWoken", "rwsemhooks", 0},
	{"somebody else's handoff", "somebody-elses-handoff", "TestFaultSomebodyElsesHandoff", "rwsemhooks", 0},
	{"between count and owner", "null-owner-unbounded", "TestFaultBetweenCountAndOwner", "rwsemhooks", 0},
	{"grant on wake for writers", "grant-on-wake", "TestFaultGrantOnWake", "purego", 0},
	{"granted while not running", "granted-not-running", "TestFaultGrantedNotRunning", "rwsemhooks", 0},
	{"waiters behind nobody", "waiters-behind-nobody", "TestFaultWaitersBehindNobody", "purego", 0},
	{"waiters behind nobody: a reader behind readers", "reader-behind-readers", "TestFaultReaderBehindReaders", "rwsemhooks", 0},
	{"waiters behind nobody: a reader behind a spinner", "reader-joins-spinner", "TestFaultReaderJoinsSpinner", "rwsemhooks", 0},
	{"phase collapse", "phase-collapse", "TestFaultPhaseCollapse", "purego", 0},
	{"spinners take the holder's CPU", "spinners-keep-processor", "TestFaultSpinnersKeepProcessor", "purego", 0},
	{"unlock touches a freed lock", "unlock-order", "TestFaultUnlockOrder", "rwsemhooks", 0},
	{"hidden zero: who queues", "hidden-zero-queue", "TestFaultHiddenZero", "rwsemhooks", 0},
	{"hidden zero: who backs out, or returns an error", "hidden-zero-backout", "TestFaultHiddenZero", "rwsemhooks", 0},
	{"woken mark lost: after a try", "woken-mark-after-try", "TestFaultWokenMarkLost", "rwsemhooks", 0},
	{"woken mark lost: after queueing", "woken-mark-after-queue", "TestFaultWokenMarkLost", "rwsemhooks", 0},
	{"convoy after handoff: writer", "convoy-writer", "TestFaultConvoyAfterHandoff", "rwsemhooks", 0},
	{"convoy after handoff: readers", "convoy-readers", "TestFaultConvoyAfterHandoff", "rwsemhooks", 0},
	{"waiter lock holder descheduled", "spinner-waits-for-slot", "TestFaultSpinnerStopped", "rwsemhooks", 0},
	{"batch of 256", "batch-left-behind", "TestFaultBatchOf256", "purego", 0},
	{"spin flags lost: Unlock", "spin-flags-unlock", "TestFaultSpinFlagsLost", "purego", 0},
	{"spin flags lost: Downgrade", "spin-flags-downgrade", "TestFaultSpinFlagsLost", "purego", 0},
	{"spin flags lost: adaptive writer", "spin-flags-adaptive", "TestFaultSpinFlagsLost", "purego", 0},
	{"granted though cancelled", "granted-though-cancelled", "TestFaultGrantedThoughCancelled", "rwsemhooks", 0},
	{"dismissed, then cancelled", "dismissed-not-cancelled", "TestFaultDismissedThenCancelled", "rwsemhooks", 0},
	{"read-fail guard", "read-fail", "TestFaultReadFail", "purego", 0},
	{"read-fail guard: heir", "heir-read-fail", "TestFaultHeirUnderReadFail", "purego", 0},
	{"read-fail guard: a try", "read-fail-try", "TestFaultNarrowReadFail", "purego,rwsemnarrow", 0},
	{"read-fail guard: who queues", "read-fail-queue", "TestFaultNarrowReadFail", "purego,rwsemnarrow", 0},
	{"read-fail guard: who waits stays in the count", "read-fail-waits", "TestFaultReadFailLeaves", "purego", 0},
	{"read-fail guard: who is let in", "read-fail-grant", "TestFaultNarrowStorm", "purego,rwsemnarrow", 0},
	{"read-fail guard: who was dismissed", "read-fail-rejoin", "TestFaultNarrowStorm", "purego,rwsemnarrow", 0},
	{"subtracting one's own identity", "own-identity", "TestFaultOwnIdentity", "purego,rwsem_ownercount", 0},
	{"subtracting one's own identity: two that unlock", "made-up-owner", "TestFaultMadeUpOwner", "purego,rwsem_ownercount", 0},
	{"reader behind writers", "reader-behind-writers", "TestFaultReaderBehindWriters", "purego", 0},
	{"reader behind writers: passes one again", "writer-passed-again", "TestFaultReaderBehindWriters", "purego", 0},
	{"reader behind writers: in the writers' turn", "passed-in-their-turn", "TestFaultReaderBehindWriters", "purego", 0},
	{"reader behind writers: never woken", "passed-not-asleep", "TestFaultReaderBehindWriters", "purego", 0},
	{"reader behind writers: before an urgent one", "urgent-passed", "TestFaultReaderBehindWriters", "purego", 0},
	{"reader behind writers: first behind readers", "first-behind-readers", "TestFaultFirstBehindReaders", "purego", 0},
	{"read-fail guard: a batch", "read-fail-batch", "TestFaultNarrowGrant", "purego,rwsemnarrow", 0},
	{"passed on its way: for ever", "passed-for-ever", "TestFaultPassedOnItsWay", "purego", 0},
	{"passed on its way: where sections are long", "passed-where-long", "TestFaultPassedOnItsWay", "purego", 0},
	{"spin on readers that cannot run", "spin-on-crowd", "TestFaultSpinOnCrowd", "rwsemhooks", 0},
	{"batch of 256: those who wake others", "others-not-woken", "TestFaultBatchOf256", "purego", 0},
	{"read-fail guard: room for one", "read-fail-room", "TestFaultNarrowRoom", "purego,rwsemnarrow", 0},
}

// Rows without a patch, and why.
var faultsWithoutPatch = map[string]string{
	"missing acquire": "Go's atomics are all sequentially consistent, and so is amd64's LOCK: there is no weaker form " +
		"to put in their place. On arm64 there is: TestAssemblyEncodingFinds and TestCompiledEncoding put them in and see " +
		"them found. In race builds TestLitmus finds an exit without any. What the race detector is told at each exit is the " +
		"race tests' matter.",
	"recursive read lock":            "A property of every lock that bounds a writer's wait; documented at RWMutex.",
	"false race report, missed race": "Needs the race detector: the race tests' matter.",
}

// TestFaults checks that each patch still applies and names a test; with
// -rwsem.mutants it also sees that test pass without the patch and fail with it.
func TestFaults(t *testing.T) {
	sources := map[string]string{}
	var tests strings.Builder
	for _, pattern := range []string{"*.go", "*.s", "go.mod", "go.sum"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			switch isTest := strings.HasSuffix(name, "_test.go"); {
			case name == "fault_test.go" || name == "fault_hooks_test.go" || name == "fault_narrow_test.go":
				tests.Write(b)
				sources[name] = string(b)
			case !isTest || name == "facts_linkname_test.go" || name == "facts_portable_test.go":
				sources[name] = string(b)
			}
		}
	}
	files, err := filepath.Glob("testdata/faults/*.patch")
	require.NoError(t, err)
	var listed []string
	for _, f := range faults {
		listed = append(listed, filepath.Join("testdata", "faults", f.patch+".patch"))
		assert.Contains(t, tests.String(), "func "+f.test+"(t *testing.T) {")
	}
	assert.ElementsMatch(t, files, listed)
	if t.Failed() {
		return
	}

	unpatched := map[string]bool{}
	for _, f := range faults {
		t.Run(f.patch, func(t *testing.T) {
			name, text := putBack(t, sources, f.patch)
			if !*runMutants {
				return
			}
			if run := fmt.Sprint(f.test, f.tags, f.cpu); !unpatched[run] {
				unpatched[run] = true
				out, failed := runFault(t, f, sources, "", "")
				require.False(t, failed, "%s fails without the fault:\n%s", f.test, out)
			}
			out, failed := runFault(t, f, sources, name, text)
			require.True(t, failed, "%s passes with the fault %q:\n%s", f.test, f.row, out)
			t.Log(out)
			require.Contains(t, out, "--- FAIL: "+f.test, "it should fail by its own means")
		})
	}
	for row, why := range faultsWithoutPatch {
		assert.NotEmpty(t, why, row)
	}
}

// putBack returns the name of the file of sources that a fault's patch changes, and
// its text then.
func putBack(t *testing.T, sources map[string]string, fault string) (name, text string) {
	patch, err := os.ReadFile(filepath.Join("testdata", "faults", fault+".patch"))
	require.NoError(t, err)
	name, text, err = applyPatch(sources, string(patch))
	require.NoError(t, err)
	require.NotEqual(t, sources[name], text)
	return name, text
}

// buildFaulty builds the tests among sources in which the file of the given name has
// the given text, and returns how to run them, which ends with ctx.
func buildFaulty(ctx context.Context, t *testing.T, sources map[string]string, name, text, tags string) (run func(args ...string) (out string, err error)) {
	dir := t.TempDir()
	for n, s := range sources {
		if n == name {
			s = text
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte(s), 0o600))
	}
	command := func(name string, args ...string) (string, error) {
		c := exec.CommandContext(ctx, name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "RWSEMDEBUG=")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	bin := filepath.Join(dir, "faulty.test")
	out, err := command("go", "test", "-c", "-p=1", "-vet=off", "-tags", tags, "-o", bin)
	require.NoError(t, err, "build: %s", out)
	return func(args ...string) (string, error) {
		out, err := command(bin, args...)
		require.NoError(t, ctx.Err(), "%s", out)
		return out, err
	}
}

// runFault runs f's test on sources in which the file of the given name has the
// given text.
func runFault(t *testing.T, f fault, sources map[string]string, name, text string) (out string, failed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tags := f.tags
	if !linked {
		tags += ",rwsem_nolinkname"
	}
	run := buildFaulty(ctx, t, sources, name, text, tags)
	args := []string{"-test.v", "-test.run=^" + f.test + "$", "-test.timeout=1m"}
	if f.cpu != 0 {
		args = append(args, "-test.cpu="+strconv.Itoa(f.cpu))
	}
	out, err := run(args...)
	require.Contains(t, out, "=== RUN   "+f.test, "the test did not run")
	return out, err != nil
}

// applyPatch applies a unified diff of one file to sources. Each hunk has to
// be found in its place or, lines having moved, near to it; no line of it may
// differ.
func applyPatch(sources map[string]string, patch string) (name, text string, err error) {
	head, body, ok := strings.Cut(patch, "\n@@ ")
	if !ok {
		return "", "", fmt.Errorf("no hunk")
	}
	_, name, ok = strings.Cut(head, "\n+++ b/")
	if !ok {
		return "", "", fmt.Errorf("no file name")
	}
	if _, ok = sources[name]; !ok {
		return "", "", fmt.Errorf("no file %s", name)
	}
	lines := strings.Split(sources[name], "\n")
	for i, hunk := range strings.Split(body, "\n@@ ") {
		where, hunk, _ := strings.Cut(hunk, "\n")
		var at, moved int
		if _, err := fmt.Sscanf(where, "-%d,%d +%d", new(int), new(int), &at); err != nil {
			return "", "", fmt.Errorf("hunk %d: %q: %w", i+1, where, err)
		}
		var before, after []string
		for _, l := range strings.Split(strings.TrimSuffix(hunk, "\n"), "\n") {
			if !strings.HasPrefix(l, "+") {
				before = append(before, l[min(1, len(l)):])
			}
			if !strings.HasPrefix(l, "-") {
				after = append(after, l[min(1, len(l)):])
			}
		}
		const reach = 500
		found := -1
		for moved = 0; moved < reach && found < 0; moved++ {
			for _, p := range []int{at - 1 + moved, at - 1 - moved} {
				if p >= 0 && p+len(before) <= len(lines) && slices.Equal(lines[p:p+len(before)], before) {
					found = p
				}
			}
		}
		if found < 0 {
			return "", "", fmt.Errorf("hunk %d of %s does not apply any more", i+1, name)
		}
		lines = slices.Replace(lines, found, found+len(before), after...)
	}
	return name, strings.Join(lines, "\n"), nil
}
