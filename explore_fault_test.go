//go:build rwsemexplore

package rwsem

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exploredFaults are those of testdata/faults that are orders of steps, which the
// explorer has to find by itself.
var exploredFaults = []string{
	"counted-after-told",
	"told-after-woken",
	"node-reused-before-woken",
	"node-touched-after-woken",
	"handoff-left-empty",
	"handoff-left-heir",
	"handoff-subtracted",
	"handoff-on-free-lock",
	"heir-not-woken",
	"hidden-zero-queue",
	"hidden-zero-backout",
	"woken-mark-after-try",
	"woken-mark-after-queue",
	"granted-though-cancelled",
	"dismissed-not-cancelled",
	"reader-joins-spinner",
	"reader-behind-readers",
	"waiters-behind-nobody",
	"passed-not-asleep",
	"convoy-writer",
	"convoy-readers",
	"stale-reader-owner",
	"unlock-order",
	"somebody-elses-handoff",
	"others-not-woken",
	"batch-left-behind",
	"explore/tell-before-promise",
	"explore/others-before-settle",
	"explore/more-before-settle",
	"explore/hint-read-twice",
	"explore/stop-not-awaited",
	"explore/free-woken",
	"explore/free-since",
	"explore/sleep-without-recheck",
	"explore/granted-by-old-look",
}

// guardFaults are such ones of the readers' guard: they are found where few readers
// fit into the count.
var guardFaults = []string{
	"read-fail-room",
	"read-fail-queue",
	"read-fail-rejoin",
	"read-fail-batch",
	"read-fail-grant",
	"read-fail-try",
	"read-fail-waits",
	"read-fail",
	"heir-read-fail",
}

// foundAtOnce are some that the explorer finds with its first programs, each by
// another check: they show that it can fail.
var foundAtOnce = []string{"unlock-order", "told-after-woken", "counted-after-told", "explore/sleep-without-recheck", "explore/free-woken", "read-fail-queue"}

// TestExploreFaults checks that the patches apply, puts foundAtOnce one after the
// other into a copy of the package and has the explorer find it, with
// -rwsem.explore=faults all of them.
func TestExploreFaults(t *testing.T) {
	sources := map[string]string{}
	for _, pattern := range []string{"*.go", "*.s", "go.mod", "go.sum"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "explore") || name == "explore_fault_test.go" {
				continue
			}
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			sources[name] = string(b)
		}
	}
	for _, fault := range slices.Concat(exploredFaults, guardFaults) {
		t.Run(fault, func(t *testing.T) {
			name, text := putBack(t, sources, fault)
			if *exploreMode != "faults" && !slices.Contains(foundAtOnce, fault) {
				return
			}
			tags := "rwsemexplore"
			if slices.Contains(guardFaults, fault) {
				tags += ",rwsemnarrow"
			}
			found := exploreFault(t, sources, name, text, tags)
			t.Logf("%s: %s", fault, found)
			assert.Contains(t, found, "found")
		})
	}
}

var (
	scheduleFails = regexp.MustCompile(`schedule (\d+) fails: (.*)`)
	schedulesMade = regexp.MustCompile(`: +(\d+) schedules, .* exhausted`)
	programFails  = regexp.MustCompile(`(\S+ sections=.*): schedule \d+ fails`)
)

// exploreFault explores sources, built with the given tags, in which the file of the
// given name has the given text, and says whether that failed and after how many schedules.
func exploreFault(t *testing.T, sources map[string]string, name, text, tags string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := buildFaulty(ctx, t, sources, name, text, tags)
	start := time.Now()
	out, err := run("-test.v", "-test.failfast", "-test.run=^TestExplore$")
	made := 0
	for _, m := range schedulesMade.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[1])
		made += n
	}
	if err == nil {
		return fmt.Sprintf("survived %d schedules", made)
	}
	m, p := scheduleFails.FindStringSubmatch(out), programFails.FindStringSubmatch(out)
	require.NotNil(t, m, "it should fail by its own means:\n%s", out)
	return fmt.Sprintf("found by schedule %s of %s, after %d in all and %v: %s", m[1], p[1], made, time.Since(start).Round(time.Millisecond), m[2])
}
