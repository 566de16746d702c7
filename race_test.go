//go:build !js

package rwsem

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRaceDetector runs the programs of testdata/race with this lock and with
// sync.RWMutex. The detector must give both the verdict that is due.
func TestRaceDetector(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "race")
	out, err := hostCommand("go", "build", "-race", "-o", exe, "./testdata/race").CombinedOutput()
	require.NoError(t, err, "%s", out)
	list, err := exec.Command(exe, "list").Output()
	require.NoError(t, err)

	var children sync.WaitGroup
	slots := make(chan struct{}, 6)
	seen := map[string]int{}
	for line := range strings.Lines(string(list)) {
		verdict, program, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[verdict]++
		for _, lock := range []string{"sync", "rwsem"} {
			slots <- struct{}{}
			children.Go(func() {
				defer func() { <-slots }()
				got, out := raceVerdict(t, exe, lock, program)
				assert.Equal(t, verdict, got, "%s: %s\n%s", lock, program, out)
			})
		}
	}
	children.Wait()
	assert.Len(t, seen, 2, "programs of both verdicts")
}

// raceVerdict runs a program and reads the detector's verdict from its status.
func raceVerdict(t *testing.T, exe, lock, program string) (verdict, output string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*tooLong)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, lock, program)
	cmd.Env = append(cmd.Environ(), "GORACE=atexit_sleep_ms=0 exitcode=66")
	out, err := cmd.CombinedOutput()
	output = string(out)
	var exit *exec.ExitError
	switch reported := strings.Contains(output, "WARNING: DATA RACE"); {
	case !strings.Contains(output, "finished\n"):
		return "did not finish", output
	case err == nil && !reported:
		return "clean", output
	case errors.As(err, &exit) && exit.ExitCode() == 66 && reported:
		return "racy", output
	}
	return "no verdict: " + err.Error(), output
}

// The tests of this package find the lock's own races when they are built with
// -race; this one makes sure that such a build tells the detector anything.
func TestRaceBuild(t *testing.T) {
	out, err := hostCommand("go", "list", "-race", "-f", "{{.GoFiles}}", ".").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "race_on.go")
	assert.Contains(t, string(out), "fast_generic.go")
	assert.NotContains(t, string(out), "fast_asm.go")
}
