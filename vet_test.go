//go:build !js

package rwsem

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVetRefusesCopies(t *testing.T) {
	const file = "testdata/copylocks/copy.go"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	want := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "// want") {
			want[fmt.Sprint(i+1)] = true
		}
	}
	require.NotEmpty(t, want)

	out, err := command("go", "vet", "-copylocks", "./testdata/copylocks").CombinedOutput()
	require.Error(t, err, "go vet accepts copies")
	got := map[string]bool{}
	for _, m := range regexp.MustCompile(`copy\.go:(\d+):\d+: .*lock.* by value.*|copy\.go:(\d+):\d+: .*copies lock`).FindAllStringSubmatch(string(out), -1) {
		got[m[1]+m[2]] = true
	}
	assert.Equal(t, want, got, "%s", out)
}

// The count's address is a multiple of 8 wherever the lock stands in another
// type.
func TestVetAlignment(t *testing.T) {
	for _, arch := range []string{"386", "arm", "amd64"} {
		cmd := command("go", "vet", "./testdata/align")
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s: %s", arch, out)
	}
}

// What this binary was built from is what its tests take it for.
func TestReleaseOfThisBuild(t *testing.T) {
	out, err := command("go", "list", "-f", "{{.GoFiles}}", ".").Output()
	require.NoError(t, err)
	assert.Equal(t, linked, strings.Contains(string(out), "park_linkname.go"), "%s", out)
	assert.Equal(t, !linked, strings.Contains(string(out), "park_portable.go"), "%s", out)
}
