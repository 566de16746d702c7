package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A lab is the package, and what is built of it.
type lab struct {
	root string // where the package is
	tmp  string

	overlay  string // of the go command: the combined files
	binaries map[string]string
	mu       sync.Mutex
	took     map[string]time.Duration // tests, without a mutant
}

// environment is what tests run in: nothing of the caller's that changes the lock
// or how it is built.
func environment(id int) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return name == "RWSEMDEBUG" || name == "GOFLAGS" || name == chosenEnv
	})
	return append(env, "GOFLAGS=-buildvcs=false", chosenEnv+"="+strconv.Itoa(id))
}

// prepare combines the mutants, of which it returns what cannot be built, and
// builds a test binary for each set of tags.
func (l *lab) prepare(ctx context.Context, mutants []*mutant, tags []string) (map[int]string, error) {
	sources, valid := map[string][]byte{}, mutants
	bad := map[int]string{}
	files := map[string][]byte{}
	for round := 0; ; round++ {
		clear(files)
		spans := map[string][]span{}
		for name, of := range byFile(valid) {
			if sources[name] == nil {
				text, err := os.ReadFile(filepath.Join(l.root, name))
				if err != nil {
					return nil, err
				}
				sources[name] = text
			}
			files[name], spans[name] = combine(sources[name], of)
		}
		files["rwsem_mutant.go"] = []byte(chooserSource)
		found := 0
		for _, t := range tags {
			now, err := check(l.root, t, files, spans)
			if err != nil {
				return nil, err
			}
			for id, why := range now {
				bad[id] = why
				found++
			}
		}
		if found == 0 {
			break
		}
		valid = slices.DeleteFunc(slices.Clone(valid), func(m *mutant) bool { return bad[m.id] != "" })
	}

	replace := map[string]string{}
	for name, text := range files {
		path := filepath.Join(l.tmp, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
		replace[filepath.Join(l.root, name)] = path
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	l.overlay = filepath.Join(l.tmp, "overlay.json")
	if err := os.WriteFile(l.overlay, text, 0o644); err != nil {
		return nil, err
	}
	for _, t := range tags {
		if l.binaries[t], err = l.build(ctx, t, "-overlay="+l.overlay); err != nil {
			return nil, err
		}
	}
	return bad, nil
}

// build builds the package's tests with the given tags.
func (l *lab) build(ctx context.Context, tags string, flags ...string) (string, error) {
	f, err := os.CreateTemp(l.tmp, "*.test")
	if err != nil {
		return "", err
	}
	f.Close()
	args := slices.Concat([]string{"test", "-c", "-vet=off", "-ldflags=-w", "-tags=" + tags, "-o", f.Name()}, flags, []string{"."})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = l.root
	cmd.Env = append(environment(0), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return f.Name(), nil
}

func byFile(mutants []*mutant) map[string][]*mutant {
	files := map[string][]*mutant{}
	for _, m := range mutants {
		files[m.file] = append(files[m.file], m)
	}
	return files
}

// patience is for how long a test may go on beyond what it takes without a mutant,
// several times. Most tests have bounds of their own, of 5 s and more.
const patience = 8 * time.Second

// run runs the tests of s, or only the named one, with the mutant of the given
// number.
func (l *lab) run(ctx context.Context, s stage, id int, only string) report {
	names := s.run
	args := []string{"-test.v", "-test.failfast", "-test.timeout=10m"}
	if only != "" {
		names = "^" + only + "$"
	} else if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	args = append(args, "-test.run="+names)
	return l.command(ctx, l.root, l.binaries[s.tags], id, append(args, s.args...)...)
}

var testBegins = regexp.MustCompile(`^=== RUN   (\w+)`)
var testEnds = regexp.MustCompile(`^--- \w+: (\w+) \(([\d.]+)s\)`)

// command runs a test binary in dir and ends it when one test goes on for too
// long.
func (l *lab) command(ctx context.Context, dir, binary string, id int, args ...string) report {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = dir
	cmd.Env = environment(id)
	inGroup(cmd)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return report{failed: true, how: "crashes", output: err.Error()}
	}
	ended := false
	watchdog := time.AfterFunc(patience, func() {
		l.mu.Lock()
		ended = true
		l.mu.Unlock()
		_ = endGroup(cmd)
	})
	var output strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		const most = 1 << 20
		in := bufio.NewScanner(r)
		in.Buffer(nil, most)
		for in.Scan() {
			line := in.Text()
			if m := testBegins.FindStringSubmatch(line); m != nil {
				l.mu.Lock()
				watchdog.Reset(patience + 4*l.took[m[1]])
				l.mu.Unlock()
			}
			if m := testEnds.FindStringSubmatch(line); m != nil && id == unchanged {
				if d, err := time.ParseDuration(m[2] + "s"); err == nil {
					l.mu.Lock()
					l.took[m[1]] = max(l.took[m[1]], d)
					l.mu.Unlock()
				}
			}
			if output.Len() < most {
				output.WriteString(line + "\n")
			}
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	err := cmd.Wait()
	watchdog.Stop()
	w.Close()
	<-done
	_ = endGroup(cmd) // what its tests have started
	l.mu.Lock()
	defer l.mu.Unlock()
	return read(output.String(), err != nil, ended)
}
