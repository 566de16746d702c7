package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// benchPath is this program's import path.
const benchPath = rwsemPath + "/bench"

// buildLimit ends a build, which may have modules to fetch.
const buildLimit = 10 * time.Minute

// goCommand runs the go command in a directory and returns its output.
func goCommand(dir string, args ...string) (string, error) {
	ctx, cancel := withLimit(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	out, _, err := capture(ctx, cmd)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("the go command is needed to build other versions of this program: %w", exec.ErrNotFound)
	}
	return strings.TrimSpace(string(out)), err
}

// thisFile is where this file was when this program was built.
func thisFile() string {
	_, file, _, _ := runtime.Caller(0)
	return file
}

// findSources is where the sources of this program are: where the go command
// sees them from here, be it from the repository's root or from a directory
// below, else where the given file of them was at build time.
func findSources(file string) (string, error) {
	dir, err := goCommand("", "list", "-f", "{{.Dir}}", benchPath)
	if err == nil || errors.Is(err, exec.ErrNotFound) {
		return dir, err
	}
	if dir := filepath.Dir(file); filepath.IsAbs(file) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the sources of this program are not found (to be run inside the rwsem repository): %w", err)
}

// buildBench builds this program from its sources in dir with the given tags,
// commas between them.
func buildBench(dir, tags, exe string) error {
	_, err := goCommand(dir, "build", "-buildvcs=false", "-tags", tags, "-o", exe, ".")
	return err
}

// filesBuilt names all the files that a build with the given tags is made from.
func filesBuilt(dir, tags string) (string, error) {
	return goCommand(dir, "list", "-deps", "-tags", tags,
		"-f", "{{.ImportPath}} {{.GoFiles}} {{.CgoFiles}} {{.SFiles}}", ".")
}
