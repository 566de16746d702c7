package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDataFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.jsonl")
	file, err := newDataFile(name)
	require.NoError(t, err)
	x := 4.0
	want := record{Table: "sweep/x", Cell: "c4", X: &x, Lock: "rwsem", Metrics: map[string][]float64{metricThroughput: {1, 2.5}}}
	file.add(want)

	read := func() []record {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		got, err := readRecords(bytes.NewReader(data))
		require.NoError(t, err)
		return got
	}
	got := read()
	require.Len(t, got, 2, "written at once")
	assert.Equal(t, want, got[1])
	assert.NotEmpty(t, got[0].Run.Go)
	assert.Zero(t, got[0].Run.Ended, "still running")

	require.NoError(t, file.close())
	got = read()
	require.Len(t, got, 2)
	assert.False(t, got[0].Run.Ended.Before(got[0].Run.Started), "ended")

	var none *dataFile
	none.add(want)
	assert.NoError(t, none.close())
}

func TestDataFileError(t *testing.T) {
	_, err := newDataFile(filepath.Join(t.TempDir(), "no", "x.jsonl"))
	assert.ErrorContains(t, err, "-json")

	file, err := newDataFile(filepath.Join(t.TempDir(), "x.jsonl"))
	require.NoError(t, err)
	file.add(record{Metrics: map[string][]float64{"x": {nan}}})
	file.add(record{})
	assert.ErrorContains(t, file.close(), "NaN", "the first error")
}

const (
	runLine   = `{"Run":{"Command":["-quick"],"Go":"go1"}}` + "\n"
	lineOne   = `{"Table":"grid","Cell":"a","Lock":"sync","Metrics":{"Mops/s":[1]}}` + "\n"
	lineTwo   = `{"Table":"grid","Cell":"b","Lock":"sync","Metrics":{"Mops/s":[2,3]}}` + "\n"
	endedLine = `{"Ended":"2026-01-02T03:04:05Z"}` + "\n"
)

// A run that is killed leaves what it had, wherever that was.
func TestCutShort(t *testing.T) {
	whole := runLine + lineOne + lineTwo + endedLine
	for n := 1; n < len(whole); n++ {
		got, err := readRecords(strings.NewReader(whole[:n]))
		kept := strings.Count(whole[:n], "\n")
		last := whole[strings.LastIndex(whole[:n], "\n")+1 : n]
		if last != "" && !json.Valid([]byte(last)) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, whole[:n])
		} else {
			require.NoError(t, err, whole[:n])
			if last != "" { // only the end of the line is missing
				kept++
			}
		}
		require.Len(t, got, min(kept, 3), whole[:n])
	}
	got, err := readRecords(strings.NewReader(whole))
	require.NoError(t, err)
	require.Len(t, got, 3)
	assert.Equal(t, 2026, got[0].Run.Ended.Year())
}

func TestMalformed(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"no JSON":           {runLine + "hello\n" + lineOne, "line 2: invalid character"},
		"no JSON at all":    {"hello", "line 1: invalid character"},
		"cut in between":    {runLine + lineOne[:20] + "\n" + lineTwo, "line 2: invalid character"},
		"cut at a comma":    {runLine + lineOne[:16] + "\n" + lineTwo, "line 2: unexpected end"},
		"two on a line":     {runLine + strings.TrimSpace(lineOne) + lineTwo, "line 2: invalid character"},
		"another type":      {runLine + `{"Table":3}` + "\n", "line 2: json: cannot unmarshal"},
		"no run":            {lineOne, "line 1: not in a run"},
		"after the end":     {runLine + endedLine + lineOne, "line 3: not in a run"},
		"no lock":           {runLine + lineOne + `{"Table":"grid","Cell":"a"}`, "line 3: a record needs"},
		"something else":    {runLine + `{"a":1}`, "line 2: a record needs"},
		"line numbers":      {runLine + "\n\nhello\n", "line 4: "},
		"an array":          {"[]\n", "line 1: json: cannot unmarshal"},
		"numbers too large": {runLine + strings.Replace(lineOne, "[1]", "[1e999]", 1), "line 2: json: cannot unmarshal"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readRecords(strings.NewReader(tt.data))
			assert.ErrorContains(t, err, tt.want)
			assert.NotErrorIs(t, err, io.ErrUnexpectedEOF)
		})
	}
	got, err := readRecords(strings.NewReader(runLine + "\n" + lineOne + runLine + lineTwo + endedLine))
	require.NoError(t, err)
	require.Len(t, got, 4, "two runs in a file")
	assert.Zero(t, got[0].Run.Ended, "the first broken off")
	assert.NotZero(t, got[2].Run.Ended)
}

func TestMoreIsBetter(t *testing.T) {
	for metric, want := range map[string]bool{
		metricThroughput: true, metricFairness: true, "kops/s": true,
		metricCPU: false, metricCPUs: false, "read-p99-ns": false, "ns/op": false,
	} {
		assert.Equal(t, want, moreIsBetter(metric), metric)
	}
}

func TestUnknownLeftOut(t *testing.T) {
	d := &series{mops: []float64{1, 2}, slowest: []float64{1, 1}, cpuEach: []float64{nan, 1}}
	m := d.metrics()
	assert.Equal(t, map[string][]float64{metricThroughput: {1, 2}, metricFairness: {1, 1}}, m)
	_, err := json.Marshal(record{Metrics: m})
	assert.NoError(t, err)
}
