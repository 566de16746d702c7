package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseBuilds(t *testing.T) {
	got, err := parseBuilds(defaultBuilds)
	require.NoError(t, err)
	assert.Equal(t, []string{"", "rwsem_ownercount", "rwsem_nolinkname", "purego"}, got)
	got, err = parseBuilds("a,b.c; d")
	require.NoError(t, err)
	assert.Equal(t, []string{"", "a,b.c", "d"}, got)
	for _, bad := range []string{"a b", "a,", ",a", "-x", "a;a"} {
		_, err := parseBuilds(bad)
		assert.ErrorAs(t, err, new(usageError), bad)
	}
}

func TestParseCounts(t *testing.T) {
	got, err := parseCounts("1,64")
	require.NoError(t, err)
	assert.Equal(t, []int{1, 64}, got)
	for _, bad := range []string{"", "0", "-1", "1,", "x"} {
		_, err := parseCounts(bad)
		assert.Error(t, err, bad)
	}
}

func TestBuildCells(t *testing.T) {
	for quick, want := range map[bool][2]int{false: {12, 7}, true: {5, 5}} {
		b := &builds{trial: trial{session: &session{options: options{quick: quick}, procs: 2, all: allCells(2)}}}
		b.chooseCells()
		assert.Len(t, b.grid, want[0])
		assert.Len(t, b.goroutines, want[1])
	}
	b := &builds{trial: trial{session: &session{procs: 2}}, goroutines: []int{1, 8}}
	var names []string
	for _, sc := range scalings {
		for _, c := range b.cells(sc) {
			names = append(names, c.name())
		}
	}
	assert.Equal(t, []string{"p2/g1/r0/6ns", "p2/g8/r0/6ns", "p2/g1/r50/6ns", "p2/g8/r50/6ns", "p2/g1/u50/6ns", "p2/g8/u50/6ns"}, names)
}

// line is a row of a table, however wide its columns are.
func line(cells ...string) *regexp.Regexp {
	for i, c := range cells {
		cells[i] = regexp.QuoteMeta(c)
	}
	return regexp.MustCompile(`(?m)^ *` + strings.Join(cells, " +") + `$`)
}

func rounds(mops ...float64) *series { return &series{mops: mops} }

func TestScalingTable(t *testing.T) {
	var out bytes.Buffer
	one, two := "p2/g1/r0/6ns", "p2/g2/r0/6ns"
	b := &builds{
		trial: trial{
			session: &session{procs: 2, out: &out},
			peers:   map[string]map[string]*series{"sync": {one: rounds(5, 5, 5), two: rounds(0.0123, 0.0123, 0.0123)}},
			variants: []*variant{
				{name: "default", throughput: map[string]*series{one: rounds(10, 20, 30), two: rounds(8, 8, 8)}},
				{name: "faster", throughput: map[string]*series{one: rounds(20, 60, 30), two: rounds(4, 2, 1)}},
				{name: "broken", failed: true},
			},
		},
		goroutines: []int{1, 2},
	}
	b.scalingTable(scalings[0])
	assert.Contains(t, out.String(), "writers only, sections of 6ns, GOMAXPROCS 2")
	assert.Regexp(t, line("faster", "broken"), out.String())
	assert.Regexp(t, line("1", "5000", "20000", "30000", "2.00x", "1.00..3.00", "failed"), out.String())
	assert.Regexp(t, line("2", "12.3", "8000", "2000", "0.25x", "0.12..0.50", "failed"), out.String())
}

func TestPairsTable(t *testing.T) {
	var out bytes.Buffer
	b := &builds{
		trial: trial{
			session:  &session{out: &out},
			variants: []*variant{{name: "default"}, {name: "purego"}, {name: "broken", failed: true}},
		},
		pairs: make([]fourPairs, 3),
	}
	b.pairs[0].add(pairTimes{1, 2, 3, 4})
	b.pairs[0].add(pairTimes{1, 2, 3, 4})
	b.pairs[1].add(pairTimes{2, 2, 3, 1})
	b.pairs[1].add(pairTimes{3, 2, 3, 1})
	b.syncPairs.add(pairTimes{5, 6, 7, 8})
	b.syncPairs.add(pairTimes{5, 6, 7, 8})
	b.pairsTable()
	same := []string{"1.00x", "1.00..1.00"}
	row := func(cells ...any) *regexp.Regexp {
		var flat []string
		for _, c := range cells {
			switch c := c.(type) {
			case string:
				flat = append(flat, c)
			case []string:
				flat = append(flat, c...)
			}
		}
		return line(flat...)
	}
	assert.Regexp(t, row("default", "1.00", same, "2.00", same, "3.00", same, "4.00", same), out.String())
	assert.Regexp(t, row("purego", "2.50", "2.50x", "2.00..3.00", "2.00", same, "3.00", same, "1.00", "0.25x", "0.25..0.25"), out.String())
	assert.Regexp(t, row("broken", "failed"), out.String())
	assert.Regexp(t, row("sync.RWMutex", "5.00", "5.00x", "5.00..5.00", "6.00", "3.00x", "3.00..3.00", "7.00", "2.33x", "2.33..2.33", "8.00", "2.00x", "2.00..2.00"), out.String())
}

func TestFindSources(t *testing.T) {
	bench, err := os.Getwd()
	require.NoError(t, err)
	for _, from := range []string{bench, filepath.Dir(bench)} {
		t.Chdir(from)
		got, err := findSources("")
		require.NoError(t, err)
		assert.Equal(t, bench, got)
	}

	t.Chdir(t.TempDir())
	got, err := findSources(thisFile())
	require.NoError(t, err, "from elsewhere")
	assert.Equal(t, bench, got)
	for _, moved := range []string{"", benchPath + "/build.go", filepath.Join(t.TempDir(), "build.go")} {
		_, err := findSources(moved)
		assert.ErrorContains(t, err, "the sources of this program are not found (to be run inside the rwsem repository)", moved)
	}
	t.Setenv("PATH", "")
	_, err = findSources(thisFile())
	assert.ErrorContains(t, err, "the go command is needed")
}

func TestBuildBench(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir, err := findSources(thisFile())
	require.NoError(t, err)
	exe := filepath.Join(t.TempDir(), "bench")
	require.NoError(t, buildBench(dir, "purego,rwsem_nosuchtag", exe))
	info, err := buildinfo.ReadFile(exe)
	require.NoError(t, err)
	tags := ""
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			tags = s.Value
		}
	}
	assert.Equal(t, "purego,rwsem_nosuchtag", tags)
	assert.Equal(t, benchPath, info.Path)

	files := func(tags string) string {
		files, err := filesBuilt(dir, tags)
		require.NoError(t, err)
		return files
	}
	// Not with what prints the lists when it fails: they are long.
	assert.True(t, files("purego") != files(""), "the tag makes no difference")
	assert.True(t, files("rwsem_nosuchtag") == files(""), "an unknown tag makes a difference")
	assert.True(t, strings.Contains(files("purego"), "fast_generic.go"), "no files of rwsem")
}

// overlay adds files, given by name and source, to those of this program for
// the go command alone.
func overlay(t *testing.T, files ...string) {
	t.Helper()
	src, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	for i := 0; i < len(files); i += 2 {
		added := filepath.Join(dir, files[i])
		require.NoError(t, os.WriteFile(added, []byte(files[i+1]), 0o666))
		replace[filepath.Join(src, files[i])] = added
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list, 0o666))
	t.Setenv("GOFLAGS", "-overlay="+file)
}

func TestTinyBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	// A cell that the tables over goroutines have as well.
	grid := fmt.Sprintf("p%d/g2/r50/6ns", runtime.GOMAXPROCS(0))
	out := tiny(t, "builds", "-tags", "rwsem_nosuchtag;purego", "-cells", "^"+grid+"$", "-goroutines", "1,2")
	const ratio = ` +\d+\.\d\dx +[\d.]+`
	assert.Regexp(t, `(?m)^rwsem_nosuchtag: made from the same files`, out)
	assert.NotRegexp(t, `(?m)^(purego|default): made`, out)
	assert.Regexp(t, `(?m)^default `+ratio+` +1\.00x +1\.00\.\.1\.00 +[01]  `+grid+` \([\d.]+x\) +[01] +[\d.]+$`, out)
	assert.Regexp(t, `(?m)^purego `+ratio+ratio+` +[01]  `+grid, out)
	for _, sc := range scalings {
		assert.Regexp(t, sc.name+`.*\n +rwsem_nosuchtag +purego\n.*sync\.RWMutex.*\n +1(  +\d+){3}`+ratio+` +\d+`+ratio+`\n +2 `, out)
	}
	assert.Regexp(t, `(?m)^default +[\d.]+ +1\.00x +1\.00\.\.1\.00.*\nrwsem_nosuchtag( +[\d.]+`+ratio+`){4}\npurego( +[\d.]+`+ratio+`){4}\nsync\.RWMutex( +[\d.]+`+ratio+`){4}$`, out)
	assert.NotContains(t, out, "NaN")

	contended, _, _ := strings.Cut(out, "== Uncontended")
	spreads := regexp.MustCompile(`([\d.]+\d)\.\.([\d.]+)`).FindAllStringSubmatch(contended, -1)
	assert.Len(t, spreads, 6+12)
	for _, s := range spreads {
		assert.Equal(t, s[1], s[2], "more than one round in a table")
	}
}

func TestFailingBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	overlay(t, "overlaid.go", `//go:build rwsem_broken || rwsem_exits

package main

import "os"

func init() {
	if len(os.Args) > 1 && os.Args[1] == roundsChild {
		println("failing as asked")
		os.Exit(exitStatus)
	}
}
`, "overlaid_exits.go", "//go:build rwsem_exits\n\npackage main\n\nconst exitStatus = 3\n")
	var stdout, stderr bytes.Buffer
	args := []string{"builds", "-quick", "-rounds", "1", "-dur", "5ms", "-cells", `^p16/g2/r50/6ns$`, "-goroutines", "1",
		"-tags", "rwsem_broken;rwsem_exits"}
	assert.Equal(t, 1, realMain(args, &stdout, &stderr))
	assert.Regexp(t, `(?s)rwsem_broken: left out from here on: go build .*undefined: exitStatus`, stderr.String())
	assert.Regexp(t, `(?s)rwsem_exits: left out from here on: .*exit status 3\nfailing as asked\n`, stderr.String())
	assert.Equal(t, 1, strings.Count(stderr.String(), "failing as asked"))
	assert.Contains(t, stderr.String(), "bench: failed: rwsem_broken; rwsem_exits\n")
	for _, table := range strings.Split(stdout.String(), "\n== ")[1:] {
		assert.Equal(t, 2, strings.Count(table, "failed"), table)
	}
	assert.Regexp(t, `(?m)^default +\d`, stdout.String())
	assert.NotContains(t, stdout.String(), "NaN")

	// Nothing can be compared without the default build.
	overlay(t, "overlaid.go", "package main\n\nvar _ = undefined\n")
	stderr.Reset()
	assert.Equal(t, 1, realMain(args, &stdout, &stderr))
	assert.Regexp(t, `(?s)bench: go build .*undefined: undefined`, stderr.String())
}
