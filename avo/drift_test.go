package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Run these with -count=1: they read files of another module, of which go test
// does not know when it decides whether a cached result still holds.

// TestDrift compares the checked-in files with what the generator writes.
func TestDrift(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run("..", dir))
	for _, target := range targets {
		want, err := os.ReadFile(filepath.Join(dir, target.file))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", target.file))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the generator writes (%v): run go generate ./avo", target.file, err)
		}
	}
}

// TestAlone generates where nothing but the declarations and broken results
// exist.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	copyDeclarations(t, dir)
	for _, target := range targets {
		require.NoError(t, os.WriteFile(filepath.Join(dir, target.file), []byte("broken"), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rwsem.go"), []byte("broken"), 0o644))
	require.NoError(t, run(dir, dir))
	for _, target := range targets {
		want, err := target.text("..", target)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, target.file))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
}

// TestUndeclared wants an error for what is declared and not implemented, and
// the reverse, and nothing written then.
func TestUndeclared(t *testing.T) {
	for text, message := range map[string]string{
		"package rwsem\n\nfunc cycles() uint64\n\nfunc pause(n uint32)\n\nfunc relax(ticks uint32)\n\nfunc more()\n": "more is declared and not implemented",
		"package rwsem\n\nfunc cycles() uint64\n\nfunc pause(n uint32)\n":                                            "relax is not declared",
	} {
		dir := t.TempDir()
		copyDeclarations(t, dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pause_asm.go"), []byte(text), 0o644))
		require.ErrorContains(t, run(dir, dir), message)
		assert.NoFileExists(t, filepath.Join(dir, "fast_amd64.s"))
	}
}

// copyDeclarations copies the files with the declarations to dir.
func copyDeclarations(t *testing.T, dir string) {
	for _, target := range targets {
		for _, name := range target.decls {
			text, err := os.ReadFile(filepath.Join("..", name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
	}
}
