//go:build !js

package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// policyEnv tells a child process what to check of its policy.
const policyEnv = "RWSEM_TEST_POLICY"

func TestPolicyEnvironment(t *testing.T) {
	if field, ok := os.LookupEnv(policyEnv); ok {
		if field != "" && policyField(field) {
			t.Fatalf("%s is on", field)
		}
		// Whatever is left out, the lock stays one.
		var rw RWMutex
		var all sync.WaitGroup
		n := 0
		for i := range 8 {
			all.Go(func() {
				for range 300 {
					if i%2 == 0 {
						rw.Lock()
						n++
						rw.Unlock()
					} else {
						rw.RLock()
						_ = n
						rw.RUnlock()
					}
				}
			})
		}
		awaitDone(t, &rw, "everybody", start(all.Wait))
		assert.Equal(t, 4*300, n)
		requireAtRest(t, &rw)
		return
	}

	run := func(debug, field string) (stderr string, ok bool) {
		cmd := thisTest(t.Context(), "-test.run=^TestPolicyEnvironment$", "-test.count=1", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), "RWSEMDEBUG="+debug, policyEnv+"="+field, "GORACE=atexit_sleep_ms=0")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		assert.False(t, err != nil && !errors.As(err, &exit), "%v", err)
		assert.NoError(t, err, "%s: %s%s", debug, &out, &errs)
		return errs.String(), err == nil
	}
	for name, field := range policySwitches {
		stderr, _ := run(name+"=0", field)
		assert.Empty(t, stderr, name)
	}
	var off []string
	for name := range policySwitches {
		off = append(off, name+"=0")
	}
	stderr, _ := run(strings.Join(off, ","), "handoff")
	assert.Empty(t, stderr)
	stderr, _ = run("nosuch=1,handoff=0", "handoff")
	assert.Equal(t, "rwsem: RWSEMDEBUG: no such setting, or not its value: nosuch=1\n", stderr)
}
