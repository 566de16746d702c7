package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dataRun is what a data file has of one run.
type dataRun struct {
	file    string
	info    *runInfo
	records []record
}

// readRuns reads a data file. What is merely cut short is warned of.
func readRuns(name string, warnings io.Writer) ([]*dataRun, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	records, err := readRecords(file)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		fmt.Fprintf(warnings, "%s: %v: the last line is cut short and left out\n", name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var runs []*dataRun
	for _, rec := range records {
		if rec.Run != nil {
			runs = append(runs, &dataRun{file: name, info: rec.Run})
			continue
		}
		last := runs[len(runs)-1]
		last.records = append(last.records, rec)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: there is no run in it", name)
	}
	return runs, nil
}

func (r *dataRun) quick() bool {
	return slices.ContainsFunc(r.info.Command, func(arg string) bool {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && name == "quick" && (value == "" || value == "true")
	})
}

func (r *dataRun) brokenOff() bool { return r.info.Ended.IsZero() }

// flaws is why the figures of a run count for less, "" if they do not.
func (r *dataRun) flaws() string {
	var flaws []string
	if r.brokenOff() {
		flaws = append(flaws, "broken off")
	}
	if r.quick() {
		flaws = append(flaws, "quick")
	}
	return strings.Join(flaws, ", ")
}

// machine is what has to be the same for two runs to be comparable.
func (i *runInfo) machine() string {
	return fmt.Sprintf("%s %s, %s, %d CPUs, GOMAXPROCS %d", i.Go, i.Platform, cmp.Or(i.CPU, "unknown processor"), i.CPUs, i.Procs)
}

type cellLock struct{ cell, lock string }

// dataTable is a table of the data, its cells and locks in the order in which
// they were measured.
type dataTable struct {
	name         string
	run          *dataRun // nil if it is of several
	cells, locks []string
	metrics      []string // sorted
	x            map[string]float64
	values       map[cellLock]map[string][]float64
}

// tablesOf sorts records into tables. Records of the same cell and lock are
// pooled, so that files put together give more rounds.
func tablesOf(records []record) []*dataTable {
	var tables []*dataTable
	for _, rec := range records {
		i := slices.IndexFunc(tables, func(t *dataTable) bool { return t.name == rec.Table })
		if i < 0 {
			i = len(tables)
			tables = append(tables, &dataTable{name: rec.Table,
				x: map[string]float64{}, values: map[cellLock]map[string][]float64{}})
		}
		tables[i].add(rec)
	}
	return tables
}

func (t *dataTable) add(rec record) {
	key := cellLock{rec.Cell, rec.Lock}
	if t.values[key] == nil {
		t.values[key] = map[string][]float64{}
	}
	t.cells = appendNew(t.cells, rec.Cell)
	t.locks = appendNew(t.locks, rec.Lock)
	if rec.X != nil {
		t.x[rec.Cell] = *rec.X
	}
	for _, metric := range slices.Sorted(maps.Keys(rec.Metrics)) {
		t.values[key][metric] = append(t.values[key][metric], rec.Metrics[metric]...)
		if i, there := slices.BinarySearch(t.metrics, metric); !there {
			t.metrics = slices.Insert(t.metrics, i, metric)
		}
	}
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// cpus is on how many the table was measured, 0 if on several machines.
func (t *dataTable) cpus() int {
	if t.run == nil || t.run.info == nil {
		return 0
	}
	return t.run.info.CPUs
}

// rounds are the values of a metric, none if it was not measured.
func (t *dataTable) rounds(cell, lock, metric string) []float64 {
	return t.values[cellLock{cell, lock}][metric]
}

// ratio compares a lock with another.
func (t *dataTable) ratio(cell, metric, lock, base string) ratio {
	return ratioOf(t.rounds(cell, lock, metric), t.rounds(cell, base, metric))
}

func (t *dataTable) has(lock string) bool { return slices.Contains(t.locks, lock) }

// result is a cell as the grid judges it, with some lock in rwsem's place.
func (t *dataTable) result(cell, subject string) *cellResult {
	res := &cellResult{name: cell, byLock: map[string]*series{}}
	for key, lock := range map[string]string{"rwsem": subject, "sync": "sync", "mutex": "mutex"} {
		if t.values[cellLock{cell, lock}] != nil {
			res.byLock[key] = t.series(cell, lock)
		}
	}
	res.judge()
	return res
}

func (t *dataTable) series(cell, lock string) *series {
	return &series{mops: t.rounds(cell, lock, metricThroughput), slowest: t.rounds(cell, lock, metricFairness)}
}

func (t *dataTable) results(subject string) []*cellResult {
	var results []*cellResult
	for _, cell := range t.cells {
		results = append(results, t.result(cell, subject))
	}
	return results
}

// waitStats are the figures of a class of waits or calls, in the order of
// columns.
var waitStats = []string{metricP50, metricP90, metricP99, metricP999, metricP9999, metricMax, metricWorst}

// splitWait takes "read-p99-ns" apart; one that is no figure of waits has no
// class.
func splitWait(metric string) (class, stat string) {
	for _, stat := range waitStats {
		if class, ok := strings.CutSuffix(metric, "-"+stat); ok {
			return class, stat
		}
	}
	return "", metric
}

// describe is a run in a line.
func (r *dataRun) describe() string {
	parts := []string{r.info.machine(), r.info.started()}
	if r.info.Revision != "" {
		parts = append(parts, "revision "+r.info.Revision)
	}
	if flaws := r.flaws(); flaws != "" {
		parts = append(parts, flaws)
	}
	return strings.Join(parts, ", ")
}

func (i *runInfo) started() string { return i.Started.UTC().Format("2006-01-02 15:04 UTC") }

// metricValue prints a value with three digits, and with its unit if it is a
// time whose metric has a class.
func metricValue(metric string, x float64) string {
	if isTime(metric) {
		return waitText(x)
	}
	return threeDigits(x)
}

func threeDigits(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.Abs(x) >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	default:
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
}

// waitText prints ns with three digits.
func waitText(ns float64) string {
	if math.IsNaN(ns) {
		return "-"
	}
	unit := math.Pow10(max(0, int(math.Floor(math.Log10(max(ns, 1))))-2))
	return time.Duration(math.Round(ns/unit) * unit).String()
}
