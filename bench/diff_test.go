package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dataOf writes a data file of a run that ended.
func dataOf(t *testing.T, info runInfo, records ...record) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, rec := range append(append([]record{{Run: &info}}, records...), record{Ended: &ended}) {
		require.NoError(t, enc.Encode(rec))
	}
	name := filepath.Join(t.TempDir(), "x.jsonl")
	require.NoError(t, os.WriteFile(name, buf.Bytes(), 0o666))
	return name
}

func gridRecord(cell, lock string, mops ...float64) record {
	return record{Table: "grid", Cell: cell, Lock: lock, Metrics: map[string][]float64{metricThroughput: mops, metricCPUs: mops}}
}

func runDiff(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Zero(t, realMain(append([]string{"diff"}, args...), &out, &errs), errs.String())
	return out.String(), errs.String()
}

func TestDiff(t *testing.T) {
	older := dataOf(t, runInfo{CPU: "a"},
		gridRecord("faster", "rwsem", 10, 11, 12, 13, 14),
		gridRecord("same", "rwsem", 10, 11, 12, 13, 14),
		gridRecord("same", "sync", 10, 11, 12, 13, 14),
		gridRecord("few", "sync", 1, 1.5, 2),
		gridRecord("gone", "rwsem", 1),
		record{Table: "latency", Cell: "faster", Lock: "rwsem", Metrics: map[string][]float64{
			"read-p99.9-ns": {1000, 1001, 1002, 1003, 1004}, "read-p99.99-ns": {1, 2, 3, 4, 5}}},
		record{Table: "apps", Cell: "faster", Lock: "ours", Metrics: map[string][]float64{"ns/op": {3, 3.1, 3.2, 3.3}}})
	newer := dataOf(t, runInfo{CPU: "a", Revision: "other"},
		gridRecord("faster", "rwsem", 20, 22, 24, 26, 28),
		gridRecord("same", "rwsem", 10.5, 11.5, 12, 12.5, 13.5),
		gridRecord("same", "sync", 10, 11, 12, 13, 14),
		gridRecord("few", "sync", 10, 15, 20),
		gridRecord("new", "rwsem", 1),
		record{Table: "latency", Cell: "faster", Lock: "rwsem", Metrics: map[string][]float64{
			"read-p99.9-ns": {1500, 1501, 1502, 1503, 1504}, "read-p99.99-ns": {11, 12, 13, 14, 15}}},
		record{Table: "apps", Cell: "faster", Lock: "ours", Metrics: map[string][]float64{"ns/op": {2, 2.1, 2.2, 2.3}}})

	out, warnings := runDiff(t, older, newer)
	assert.Empty(t, warnings)
	// The two-sided p of five above five is 2/252.
	assert.Regexp(t, `(?m)^faster +rwsem +12 +24 +\+100\.0% +0\.008 +0\.0\d\d +5 +better$`, out)
	assert.Regexp(t, `(?m)^faster +rwsem +1µs +1\.5µs +\+49\.9% +0\.008 +0\.0\d\d +5 +worse$`, out)
	assert.Regexp(t, `(?m)^faster +ours +3\.15 +2\.15 +-31\.7% +0\.029 +0\.0\d\d +4 +better`, out)
	assert.NotRegexp(t, `(?m)^(same|few|gone|new) `, out)
	assert.NotContains(t, out, "cpus")
	assert.NotContains(t, out, "p99.99")
	assert.Contains(t, out, "not shown: 3 of 4 rows")
	assert.Contains(t, out, "cells): rwsem 1.414x (2), sync 3.162x (2)")
	assert.Contains(t, out, "3 of 5 comparisons have a p below 0.05; if nothing had changed, about 0 would")
	assert.Contains(t, out, "1 of 6 comparisons have too few rounds")

	all, _ := runDiff(t, older, newer, "-all", "-metrics", "^Mops|cpus")
	assert.Regexp(t, `(?m)^same +rwsem +12 +12 +~ +1\.000 +1\.000 +5$`, all)
	assert.Regexp(t, `(?m)^few +sync +1\.5 +15 +~ +0\.100 +1\.000 +3 +too few rounds to tell$`, all)
	assert.Contains(t, all, "== grid: cpus, less is better")
	assert.Regexp(t, `(?m)^faster .* worse$`, all, "more CPUs")
	assert.NotContains(t, all, "latency")

	some, _ := runDiff(t, "-cells", "^same", "-locks", "sync", older, newer)
	assert.Contains(t, some, "cells): sync 1.000x (1)")
	assert.NotContains(t, some, "faster")
}

func TestDiffWarns(t *testing.T) {
	older := dataOf(t, runInfo{CPU: "a"}, gridRecord("c", "sync", 1, 2))
	newer := dataOf(t, runInfo{CPU: "b"}, gridRecord("c", "sync", 1, 2))
	data, err := os.ReadFile(newer)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(newer, append(data, `{"Run":{"CPU`...), 0o666))
	_, warnings := runDiff(t, older, newer)
	assert.Contains(t, warnings, "the machines differ")
	assert.Contains(t, warnings, "the last line is cut short")
}

// Files put together have more rounds.
func TestDiffPools(t *testing.T) {
	var files []string
	for _, mops := range [][]float64{{1, 2}, {11, 12}} {
		one, err := os.ReadFile(dataOf(t, runInfo{}, gridRecord("c", "sync", mops...)))
		require.NoError(t, err)
		name := filepath.Join(t.TempDir(), "two.jsonl")
		require.NoError(t, os.WriteFile(name, bytes.Repeat(one, 3), 0o666))
		files = append(files, name)
	}
	out, _ := runDiff(t, files...)
	assert.Regexp(t, `(?m)^c +sync +1\.5 +11\.5 .* 6 +better$`, out)
}

func TestDiffUsage(t *testing.T) {
	good := dataOf(t, runInfo{}, gridRecord("c", "sync", 1, 2))
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	require.NoError(t, os.WriteFile(bad, []byte(runLine+"x\n"), 0o666))
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	require.NoError(t, os.WriteFile(empty, nil, 0o666))
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":        {[]string{"-h"}, 0, "OLD.jsonl NEW.jsonl"},
		"one file":    {[]string{good}, 2, "two data files are wanted, not 1"},
		"three files": {[]string{good, good, good}, 2, "not 3"},
		"bad regexp":  {[]string{good, good, "-metrics", "("}, 2, "-metrics"},
		"no lock":     {[]string{good, good, "-locks", "x"}, 2, `no lock "x"; there are: sync`},
		"no cell":     {[]string{good, good, "-cells", "x"}, 2, "nothing to compare"},
		"no file":     {[]string{good, good + "x"}, 1, "x.jsonlx"},
		"bad file":    {[]string{good, bad}, 1, bad + ": line 2: invalid character"},
		"empty file":  {[]string{empty, good}, 1, empty + ": there is no run in it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			assert.Equal(t, tt.code, realMain(append([]string{"diff"}, tt.args...), &out, &out))
			assert.Contains(t, out.String(), tt.want)
		})
	}
}

func TestLeastP(t *testing.T) {
	assert.InDelta(t, 0.1, leastP(3, 3), 1e-9)
	assert.InDelta(t, 2.0/70, leastP(4, 4), 1e-9)
	assert.InDelta(t, 2.0/56, leastP(3, 5), 1e-9)
	assert.InDelta(t, 1, leastP(1, 1), 1e-9)
}

// The example of four p-values worked by hand.
func TestCorrect(t *testing.T) {
	d := diff{tables: []diffTable{{rows: []*difference{
		{p: 0.04}, {p: 0.01}, {p: 0.001, tooFew: true, q: 1}, {p: 0.03}, {p: 0.5},
	}}}}
	d.correct()
	var got []string
	for _, c := range d.rows() {
		got = append(got, fmt.Sprintf("%.4f", c.q))
	}
	assert.Equal(t, "0.0533 0.0400 1.0000 0.0533 0.5000", strings.Join(got, " "))
	assert.Equal(t, "better ?", difference{old: 1, new: 2, p: 0.04, q: 0.0533}.verdict(true))
	assert.Equal(t, "worse", difference{old: 1, new: 2, p: 0.01, q: 0.04}.verdict(false))
	assert.Equal(t, "from 0", difference{new: 2, p: 0.01}.change())
}
