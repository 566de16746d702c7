package rwsem

import (
	"fmt"
	"go/build/constraint"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// constraintOf returns the build constraint of a file, which is its first line.
func constraintOf(t *testing.T, name string) constraint.Expr {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(text), "\n")
	x, err := constraint.Parse(line)
	require.NoError(t, err, name)
	return x
}

// Exactly one of park_linkname.go and park_portable.go is built: the linked one
// with the releases it was tested with unless the tag says otherwise.
func TestReleases(t *testing.T) {
	for release := 25; release <= 30; release++ {
		for _, tag := range []bool{false, true} {
			ok := func(name string) bool {
				return constraintOf(t, name).Eval(func(s string) bool {
					var n int
					if _, err := fmt.Sscanf(s, "go1.%d", &n); err == nil {
						return n <= release
					}
					return s == "rwsem_nolinkname" && tag
				})
			}
			want := !tag && (release == 26 || release == 27)
			what := fmt.Sprintf("go1.%d, tag %v", release, tag)
			for _, name := range []string{"park_linkname.go", "linkname.s", "facts_linkname_test.go"} {
				assert.Equal(t, want, ok(name), "%s: %s", name, what)
			}
			for _, name := range []string{"park_portable.go", "park_portable_test.go", "facts_portable_test.go"} {
				assert.Equal(t, !want, ok(name), "%s: %s", name, what)
			}
		}
	}
}

// Of all the module's Go files park_linkname.go alone takes anything by linkname.
func TestLinknames(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.Contains(t, names, "park_portable.go")
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		used := slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "//go:linkname ")
		})
		assert.Equal(t, name == "park_linkname.go", used, name)
	}
}
