package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// A data file holds what was measured: for each run a line of JSON that
// describes it, and then one for each cell and lock, a record. Tables, pictures
// and comparisons are made from it.

// record is what one lock did in one cell.
type record struct {
	Run   *runInfo   `json:",omitempty"` // in the first line of a run, which has nothing else
	Ended *time.Time `json:",omitempty"` // in the last line of a run that was not broken off, likewise

	Table string   `json:",omitempty"` // what was measured, such as "grid"
	Cell  string   `json:",omitempty"` // a name that is unique in its table
	X     *float64 `json:",omitempty"` // where the cell stands on the axis of a sweep
	Lock  string   `json:",omitempty"` // key of a lock, "rwsem" and its setting, or what else the table compares

	// Metrics are by name, which ends in the unit, with one value for each
	// round. Rounds with the same index were measured next to each other.
	Metrics map[string][]float64 `json:",omitempty"`
}

// runInfo is the circumstances of a run.
type runInfo struct {
	Command  []string // as after "go run ./bench"
	Started  time.Time
	Go       string
	Platform string
	CPU      string
	CPUs     int
	Procs    int // GOMAXPROCS
	Revision string

	Ended time.Time `json:"-"` // zero if the run was broken off; filled in by readRecords
}

// Names of metrics. A name ends in its unit or in a word; of those that end in
// "/s" or in metricFairness more is better, of all others less.
const (
	metricThroughput = "Mops/s"
	metricTime       = "ns/op"
	metricFairness   = "slowest/mean"
	metricCPU        = "cpu-us/op"        // CPU time of the whole process
	metricCPUs       = "cpus"             // CPUs in use on average
	metricBeside     = "beside-Mpieces/s" // work of goroutines that have nothing to do with the lock

	// Waits and calls, each behind a class and a dash: "read-p99.9-ns".
	metricP50   = "p50-ns"
	metricP90   = "p90-ns"
	metricP99   = "p99-ns"
	metricP999  = "p99.9-ns"
	metricP9999 = "p99.99-ns"
	metricMax   = "max-ns"
	metricWorst = "worst-ns" // the median of the goroutines' worst

	metricWaiting   = "waiting"           // time spent waiting, of all goroutines' time
	metricBacklog   = "backlog"           // arrivals still waiting when the last was planned, of all
	metricElsewhere = "charged-elsewhere" // what the mutex profile charges to others than Unlock, of all
)

// againSuffix is behind the name of what was run a second time in every round.
const againSuffix = " again"

// rwsemDefault is rwsem as it is, where others are rwsem with a setting.
const rwsemDefault = "rwsem default"

// moreIsBetter tells which way a metric counts.
func moreIsBetter(metric string) bool {
	return strings.HasSuffix(metric, "/s") || strings.HasSuffix(metric, metricFairness)
}

func newRunInfo(args []string) *runInfo {
	info := &runInfo{
		Command: args, Started: time.Now().Truncate(time.Second),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuid.CPU.BrandName, CPUs: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0),
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch {
			case s.Key == "vcs.revision":
				info.Revision = s.Value + info.Revision
			case s.Key == "vcs.modified" && s.Value == "true":
				info.Revision += " and changes"
			}
		}
	}
	return info
}

// dataFile writes a data file. A nil one writes nothing.
type dataFile struct {
	file *os.File
	err  error
}

// jsonFlag adds the flag that names a data file.
func jsonFlag(fs *flag.FlagSet, name *string) {
	fs.StringVar(name, "json", "", "also write what was measured to this `file`, a line of JSON for each cell and lock")
}

// newDataFile creates a data file, none without a name. A file that is there
// already is replaced.
func newDataFile(name string) (*dataFile, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("-json: %w", err)
	}
	r := &dataFile{file: file}
	r.add(record{Run: newRunInfo(os.Args[1:])})
	return r, nil
}

// add writes a record at once, so that a run which is broken off leaves what it
// has. An error is kept for close.
func (r *dataFile) add(rec record) {
	if r == nil || r.err != nil {
		return
	}
	line, err := json.Marshal(rec)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	r.err = err
}

// close ends a run that was not broken off.
func (r *dataFile) close() error {
	if r == nil {
		return nil
	}
	now := time.Now().Truncate(time.Second)
	r.add(record{Ended: &now})
	return errors.Join(r.err, r.file.Close())
}

// readRecords reads a data file. If its last line was cut short, as that of a
// run which was killed, it returns those before and io.ErrUnexpectedEOF. The
// lines that end runs are not returned but told by their runInfo.
func readRecords(r io.Reader) ([]record, error) {
	var all []record
	var run *runInfo
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			rec, err := parseRecord(line, run != nil)
			switch {
			case last && cutShort(line):
				return all, fmt.Errorf("line %d: %w", n, io.ErrUnexpectedEOF)
			case err != nil:
				return nil, fmt.Errorf("line %d: %w", n, err)
			case rec.Ended != nil:
				run.Ended, run = *rec.Ended, nil
			case rec.Run != nil:
				run = rec.Run
				fallthrough
			default:
				all = append(all, rec)
			}
		}
		if last {
			return all, nil
		}
	}
}

// parseRecord reads a line, which may stand inside of a run.
func parseRecord(line []byte, inRun bool) (record, error) {
	var rec record
	err := json.Unmarshal(line, &rec)
	switch {
	case err != nil:
		return rec, err
	case rec.Run != nil:
		return rec, nil
	case !inRun:
		return rec, errors.New("not in a run: no line that describes it comes before")
	case rec.Ended == nil && (rec.Table == "" || rec.Cell == "" || rec.Lock == ""):
		return rec, errors.New("a record needs a table, a cell and a lock")
	}
	return rec, nil
}

// cutShort tells whether the end of a line of JSON is missing.
func cutShort(line []byte) bool {
	return errors.Is(json.NewDecoder(bytes.NewReader(line)).Decode(new(record)), io.ErrUnexpectedEOF)
}

// metrics are what a series amounts to, by name. Values that are not known are
// left out.
func (d *series) metrics() map[string][]float64 {
	m := map[string][]float64{metricThroughput: d.mops, metricFairness: d.slowest}
	putKnown(m, metricCPU, d.cpuEach)
	putKnown(m, metricCPUs, d.cpus)
	if sum(d.burnt) > 0 {
		putKnown(m, metricBeside, d.burnt)
	}
	return m
}

// metrics are the quantiles of a class of waits, by name.
func (q *quantiles) metrics(class string, into map[string][]float64) {
	put := func(name string, xs []float64) { putKnown(into, class+"-"+name, xs) }
	put(metricP50, q.p50)
	put(metricP90, q.p90)
	put(metricP99, q.p99)
	put(metricP999, q.p999)
	put(metricP9999, q.p9999)
	put(metricMax, q.max)
	put(metricWorst, q.worstMid)
}

func putKnown(m map[string][]float64, name string, xs []float64) {
	for _, x := range xs {
		if x != x { // NaN is no JSON
			return
		}
	}
	if len(xs) > 0 {
		m[name] = xs
	}
}
