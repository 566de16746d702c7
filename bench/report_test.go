package main

import (
	"bytes"
	"flag"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

const reportData = "testdata/report"

func runReport(args ...string) (code int, output string) {
	var out bytes.Buffer
	code = realMain(append([]string{"report"}, args...), &out, &out)
	return code, out.String()
}

// golden makes a report of the test data.
func golden(t *testing.T) (document string) {
	t.Helper()
	document = filepath.Join(t.TempDir(), "RESULTS.md")
	code, out := runReport("-data", reportData, "-o", document)
	require.Zero(t, code, out)
	assert.Contains(t, out, "2.jsonl: line ", "warned of the broken last line")
	return document
}

func TestReport(t *testing.T) {
	document := golden(t)
	got, err := os.ReadFile(document)
	require.NoError(t, err)
	want := filepath.Join(reportData, "RESULTS.golden.md")
	if *update {
		require.NoError(t, os.WriteFile(want, got, 0o666))
	}
	expected, err := os.ReadFile(want)
	require.NoError(t, err)
	assert.Empty(t, differentLine(got, expected), "-update accepts it")

	for _, link := range regexpLinks.FindAllStringSubmatch(string(got), -1) {
		assert.FileExists(t, filepath.Join(filepath.Dir(document), link[1]))
	}
}

// What the figures must be, worked out by hand.
func TestReportFigures(t *testing.T) {
	got, err := os.ReadFile(golden(t))
	require.NoError(t, err)
	for _, line := range []string{
		// Quotients 0.8, 0.8, 0.4 to the mutex, and 1.5, 2, 2.5 to sync.
		"| p2/g2/r0/6ns | 8 | 5 | 10 | 0.80x | 0.40..0.80 | 0.80 | 0.90 | 0.50 | below 0.9x |",
		"| p2/g8/r90/3us | 4 | 2 | 1 | 2.00x | 1.50..2.50 | 0.30 | 0.60 | 0.60 | NOT WON: unfair |",
		"| grid | p2/g2/r0/6ns | 0.80x | 0.40..0.80 |",
		"2 of 32 kinds of times are above 1x in some cell.",
		"| latency | read-p99.9-ns | 1 | 1 | 1 | 4.00x (3.00..5.00) |",
		"| grid | p2/g8/r90/3us | 0.30 | 0.60 | 2.00x |",
		"| latency | p2/g8/r90/6ns | read-p99.9-ns | 12µs | 3µs | 4.00x (3.00..5.00) | yes |",
		"| latency | p2/g8/r90/6ns | write-p99.9-ns | 60ns | 55ns | 1.09x (0.91..1.27) |  |",
		"| apps | example.org/a/BenchmarkX | ns/op | 11.5 | 10 | 1.15x (1.10..1.20) | yes |",
		"| p2/g2/r0/6ns | rwsem | 1.10x | 1.00..1.20 |",
		"| claim=0 | 1.50x | 1.00..2.00 | 0.75x | 0.50..1.00 | 0 | p2/g2/r0/6ns (1.50x) | 0 | 0.90 |",
		"| two writers | Mops/s | more | rwsem -tags rwsem_ownercount | 1 | 2.5 | 2.50x (2.00..3.00) | 0.83x (0.67..1.00) |",
		`| odd \| name | sync | 2 |  |`,
		"Run 2, **broken off**; 3 rounds, medians over them.",
		"| 3 | `go run ./bench -quick -json 3.jsonl` | 2026-01-04 03:00 UTC | 0123abc | none: superseded | quick |",
		"| 1 | `go run ./bench -cells 'p2/(g2\\|g8)' -json 1.jsonl` | 2026-01-02 03:00 UTC |",
		"| go1.26.8 linux/amd64, Some CPU, 4 CPUs, GOMAXPROCS 2 | 3 |",
	} {
		assert.Contains(t, string(got), line)
	}
	assert.Contains(t, string(got), "Geometric mean of 2 cells, with its 95 % interval: **1.26x (")
	assert.NotContains(t, string(got), "NaN")
}

// The same data make the same bytes.
func TestReportDeterministic(t *testing.T) {
	r, err := readReport(reportData, io.Discard)
	require.NoError(t, err)
	first, err := r.files("x.md")
	require.NoError(t, err)
	again, err := readReport(reportData, io.Discard)
	require.NoError(t, err)
	second, err := again.files("x.md")
	require.NoError(t, err)
	require.Equal(t, slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)))
	for name := range first {
		assert.True(t, bytes.Equal(first[name], second[name]), name)
	}
	assert.Len(t, first, 1+2*5)
}

func TestReportCheck(t *testing.T) {
	document := golden(t)
	dir := filepath.Dir(document)
	code, out := runReport("-check", "-data", reportData, "-o", document)
	require.Zero(t, code, out)

	r, err := readReport(reportData, io.Discard)
	require.NoError(t, err)
	files, err := r.files(filepath.Base(document))
	require.NoError(t, err)
	grid, old := filepath.Join(dir, plotsDir, "grid.png"), filepath.Join(dir, plotsDir, "old.svg")
	tests := map[string]struct {
		file string
		now  []byte // nil: removed
		want string
	}{
		"a figure": {document, bytes.Replace(files["RESULTS.md"], []byte("1.09x (0.91"), []byte("1.01x (0.91"), 1),
			"RESULTS.md: line "},
		"cut short":          {document, files["RESULTS.md"][:bytes.Index(files["RESULTS.md"], []byte("\n## Noise"))], "(end of file)\nand should be"},
		"a picture missing":  {grid, nil, "plots/grid.png: missing"},
		"another picture":    {grid, files["plots/unlock.png"], "plots/grid.png: size is"},
		"a pixel":            {grid, otherPixel(t, files["plots/grid.png"]), "plots/grid.png: differs at (3,2)"},
		"a drawing":          {filepath.Join(dir, plotsDir, "grid.svg"), []byte("<svg/>"), "plots/grid.svg: line 1 is"},
		"a broken picture":   {grid, []byte("x"), "plots/grid.png: no picture"},
		"a picture too many": {old, []byte("<svg/>"), "plots/old.svg: not made from these data"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.now == nil {
				require.NoError(t, os.Remove(tt.file))
			} else {
				require.NoError(t, os.WriteFile(tt.file, tt.now, 0o666))
			}
			var out bytes.Buffer
			assert.ErrorContains(t, checkFiles(dir, files, &out), "1 files are not what report makes")
			assert.Contains(t, out.String(), tt.want)

			var warnings bytes.Buffer
			require.NoError(t, writeFiles(dir, files, io.Discard, &warnings))
			if tt.file == old {
				assert.Contains(t, warnings.String(), old, "left to its owner to remove")
				require.NoError(t, os.Remove(old))
			}
			assert.NoError(t, checkFiles(dir, files, io.Discard))
		})
	}
}

// otherPixel changes a pixel of a picture.
func otherPixel(t *testing.T, data []byte) []byte {
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	img.(draw.Image).Set(3, 2, color.Black)
	var buf bytes.Buffer
	require.NoError(t, png.Encode(&buf, img))
	return buf.Bytes()
}

// Bad data leave the document alone.
func TestReportBadData(t *testing.T) {
	dir := t.TempDir()
	document := filepath.Join(dir, "RESULTS.md")
	require.NoError(t, os.WriteFile(document, []byte("precious"), 0o666))
	code, out := runReport("-data", dir, "-o", document)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no data files")

	data := filepath.Join(dir, "x.jsonl")
	require.NoError(t, os.WriteFile(data, []byte(runLine+lineOne+"rubbish\n"+lineTwo), 0o666))
	code, out = runReport("-data", dir, "-o", document)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, data+": line 3: ")
	left, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(left))
	assert.NoDirExists(t, filepath.Join(dir, plotsDir))

	code, out = runReport("-x")
	assert.Equal(t, 2, code, out)
}

// A whole run counts more than a later one that is not.
func TestChooseTables(t *testing.T) {
	runs := func(texts ...string) *report {
		dir := t.TempDir()
		for i, text := range texts {
			require.NoError(t, os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".jsonl"), []byte(text), 0o666))
		}
		r, err := readReport(dir, io.Discard)
		require.NoError(t, err)
		return r
	}
	run := func(day, arg string) string {
		return `{"Run":{"Command":["` + arg + `"],"Started":"2026-01-0` + day + `T00:00:00Z"}}` + "\n" + lineOne
	}
	tests := map[string]struct {
		texts []string
		want  string
	}{
		"the later":           {[]string{run("2", "-x") + endedLine, run("1", "-x") + endedLine}, "2"},
		"not the quick":       {[]string{run("1", "-x") + endedLine, run("2", "-quick") + endedLine}, "1"},
		"not quick after all": {[]string{run("1", "-x") + endedLine, run("2", "-quick=false") + endedLine}, "2"},
		"not the broken off":  {[]string{run("1", "-x") + endedLine, run("2", "-x")}, "1"},
		"the later of two":    {[]string{run("1", "--quick=true") + endedLine, run("2", "-x")}, "2"},
		"two in a file":       {[]string{run("1", "-x") + run("3", "-x") + endedLine, run("2", "-x") + endedLine}, "3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := runs(tt.texts...)
			require.Len(t, r.tables, 1)
			assert.Equal(t, "2026-01-0"+tt.want+" 00:00 UTC", r.tables[0].run.info.started())
		})
	}
}

// Data that a table's name does not promise are printed all the same.
func TestReportOddTables(t *testing.T) {
	var records []record
	for _, table := range append([]string{"other"}, kinds...) {
		for _, lock := range []string{"rwsem", "sync", "rwsem default", "ours", "std"} {
			records = append(records, record{Table: table, Cell: "odd", Lock: lock,
				Metrics: map[string][]float64{"widgets": {7}, metricThroughput: {0, 0}, "read-p99.9-ns": {0, 0, 0}, metricFairness: {}}})
		}
	}
	x := -1.0
	records = append(records, record{Table: "sweep/odd", Cell: "minus", X: &x, Lock: "rwsem", Metrics: map[string][]float64{metricThroughput: {1}}})
	dir := filepath.Dir(dataOf(t, runInfo{}, records...))
	document := filepath.Join(t.TempDir(), "x.md")
	code, out := runReport("-data", dir, "-o", document)
	require.Zero(t, code, out)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "NaN")
	assert.NotContains(t, string(text), "Inf")
}

// The worst comes first.
func TestLossesSorted(t *testing.T) {
	var records []record
	for cell, ours := range map[string]float64{"a": 0.8, "b": 0.5, "c": 2, "d": 0.7} {
		records = append(records,
			record{Table: "grid", Cell: cell, Lock: "rwsem", Metrics: map[string][]float64{metricThroughput: {ours}, metricFairness: {ours / 2}, "read-p99-ns": {1 / ours}}},
			record{Table: "grid", Cell: cell, Lock: "sync", Metrics: map[string][]float64{metricThroughput: {1}, metricFairness: {1}, "read-p99-ns": {1}}})
	}
	l := findLosses(tablesOf(records))
	var slow, unfair, waits string
	for _, c := range l.slow {
		slow += c.res.name
	}
	for _, c := range l.unfair {
		unfair += c.res.name
	}
	for _, w := range l.waits {
		waits += w.cell
	}
	assert.Equal(t, []string{"bda", "bda", "bda"}, []string{slow, unfair, waits})
}

func TestSections(t *testing.T) {
	for _, kind := range append([]string{"top", "losses", "other"}, kinds...) {
		assert.Contains(t, sections, `{{define "`+kind+`"`)
	}
}

func TestShellWords(t *testing.T) {
	assert.Equal(t, `-cells 'p2/(g8|g64)' '' 'it'\''s' a=b,c`, shellWords([]string{"-cells", "p2/(g8|g64)", "", "it's", "a=b,c"}))
}

func TestWaitText(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0s", 7: "7ns", 123: "123ns", 1234: "1.23µs", 45678: "45.7µs", 12345678: "12.3ms", 1.5e9: "1.5s", 9.999e5: "1ms", nan: "-",
	} {
		assert.Equal(t, want, waitText(ns))
	}
}

func TestSplitWait(t *testing.T) {
	for metric, want := range map[string][2]string{
		"read-p99.9-ns":   {"read", metricP999},
		"write-p99.99-ns": {"write", metricP9999},
		"last-p50-ns":     {"last", metricP50},
		"read-worst-ns":   {"read", metricWorst},
		metricThroughput:  {"", metricThroughput},
		"ns/op":           {"", "ns/op"},
	} {
		class, stat := splitWait(metric)
		assert.Equal(t, want, [2]string{class, stat}, metric)
	}
}
