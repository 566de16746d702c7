package main

import (
	"go/ast"
	"go/build/constraint"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLayoutCheck(t *testing.T) {
	for _, l := range layouts {
		require.NoError(t, l.check())
	}
	for _, l := range []layout{
		{name: "no readers", owner: field{6, 63}},
		{name: "readers among the flags", readers: field{4, 63}},
		{name: "readers in the guard", readers: field{8, 64}},
		{name: "readers below the guard", readers: field{8, 62}},
		{name: "readers among the owner", owner: field{6, 48}, readers: field{47, 63}},
		{name: "owner among the flags", owner: field{4, 48}, readers: field{48, 63}},
		{name: "backwards", owner: field{48, 6}, readers: field{48, 63}},
	} {
		assert.ErrorContains(t, l.check(), l.name)
	}
}

// TestConstants compares what the generator takes the package's constants for
// with what they are.
func TestConstants(t *testing.T) {
	for _, l := range layouts {
		fset := token.NewFileSet()
		files := []*ast.File{}
		for _, name := range []string{"layout_" + l.name + ".go", "rwsem.go", "owner.go", "fast_asm_row_d.go"} {
			f, err := parser.ParseFile(fset, filepath.Join("..", name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
		cfg := types.Config{
			IgnoreFuncBodies: true,
			Importer:         importer.Default(),
			Error:            func(error) {}, // much of the package is missing
		}
		pkg, _ := cfg.Check("rwsem", fset, files, nil)
		for name, want := range l.constants() {
			c, ok := pkg.Scope().Lookup(name).(*types.Const)
			if assert.True(t, ok, name) {
				got, err := wrap(c.Val())
				require.NoError(t, err)
				assert.Equal(t, want, got, "%s in %s", name, l.name)
			}
		}
	}
}

// TestConstraints wants, whatever the build, one layout, and of each function
// either the assembly and its declaration or the Go twin.
func TestConstraints(t *testing.T) {
	tags := []string{"amd64", "arm64", "purego", "race", "rwsemhooks", "rwsemexplore", "rwsem_ownercount", "rwsemnarrow"}
	for set := range 1 << len(tags) {
		on := map[string]bool{}
		for i, tag := range tags {
			on[tag] = set>>i&1 != 0
		}
		if on["amd64"] && on["arm64"] {
			continue
		}
		built := func(patterns ...string) (names []string) {
			for _, pattern := range patterns {
				matches, err := filepath.Glob(filepath.Join("..", pattern))
				require.NoError(t, err)
				for _, name := range matches {
					if applies(t, name, on) {
						names = append(names, filepath.Base(name))
					}
				}
			}
			return names
		}
		assert.Len(t, built("layout_*.go"), 1, "%v", on)
		asm, decls := built("fast_*.s"), built("fast_asm.go")
		assert.Len(t, asm, len(decls), "%v", on)
		assert.Len(t, append(asm, built("fast_generic.go")...), 1, "%v", on)
		assert.Len(t, built("pause_*.s"), len(decls), "%v", on)
		assert.Len(t, built("pause_asm*.go", "fast_asm_row_d.go"), 3*len(decls), "%v", on)
		identity := 0
		if on["rwsem_ownercount"] {
			identity = len(decls)
		}
		assert.Len(t, built("fast_asm_identity.go"), identity, "%v", on)
	}
}

// applies reports whether the file is part of a build with the given tags.
func applies(t *testing.T, path string, on map[string]bool) bool {
	for _, arch := range []string{"amd64", "arm64"} {
		if strings.HasSuffix(strings.TrimSuffix(path, filepath.Ext(path)), "_"+arch) && !on[arch] {
			return false
		}
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); constraint.IsGoBuild(line) {
			expr, err := constraint.Parse(line)
			require.NoError(t, err)
			return expr.Eval(func(tag string) bool { return on[tag] })
		}
	}
	return true
}
