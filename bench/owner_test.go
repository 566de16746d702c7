package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseProcs(t *testing.T) {
	got, err := parseProcs("1x,3,8x,1x")
	require.NoError(t, err)
	n := runtime.NumCPU()
	if n == 3 {
		assert.Equal(t, []int{3, 24}, got)
	} else {
		assert.Equal(t, []int{n, 3, 8 * n}, got)
	}
	for _, bad := range []string{"", "x", "0", "-1x", "2y", "1x,"} {
		_, err := parseProcs(bad)
		assert.Error(t, err, bad)
	}
}

func TestOwnerCells(t *testing.T) {
	all := ownerCells([]int{2, 8})
	assert.Equal(t, "p2/g4/r0/180ns", all[0].name())
	assert.Equal(t, "p8/g16/r50/sleep/b8", all[len(all)-1].name())
	for quick, want := range map[bool]int{false: 8, true: 2} {
		w := &owner{trial: trial{session: &session{options: options{quick: quick}, all: all}}}
		w.chooseCells()
		require.Len(t, w.groups, 4)
		for _, group := range w.groups {
			assert.Len(t, group, want)
			for _, c := range group {
				assert.Equal(t, group[0].procs, c.procs)
				assert.Equal(t, group[0].burners, c.burners)
			}
		}
	}
}

func TestParseCell(t *testing.T) {
	cells := append(allCells(2), ownerCells([]int{2, 8})...)
	cells = append(cells, cell{procs: 2, goroutines: 8, readPct: 50, urgent: true})
	got, err := parseCells(formatCells(cells))
	require.NoError(t, err)
	assert.Equal(t, cells, got)
	for _, bad := range []string{"p2", "p0/g2/r0/6ns", "p2/g0/r0/6ns", "p2/g2/x0/6ns", "p2/g2/r0/7ns", "p2/g2/r0/6ns/b", "p2/g2/r0/6ns/b99999999999999999999"} {
		_, err := parseCell(bad)
		assert.Error(t, err, bad)
	}
}

// recorder is a target that records which loop ran.
type recorder struct {
	target
	ran string
}

func (r *recorder) mixed(*worker)   { r.ran = "mixed" }
func (r *recorder) urgent(*worker)  { r.ran = "urgent" }
func (r *recorder) pausing(*worker) { r.ran = "pausing" }
func (r *recorder) apart(*worker)   { r.ran = "apart" }

func TestLoops(t *testing.T) {
	s := &session{options: options{turn: shortTurn}, sizes: sectionSizes}
	for name, want := range map[string]string{
		"p2/g2/r50/6ns": "mixed", "p2/g2/u50/6ns": "urgent", "p2/g2/r0/yield": "pausing", "p2/g2/r0/sleep/b2": "pausing",
	} {
		c, err := parseCell(name)
		require.NoError(t, err)
		r := new(recorder)
		s.load(c).everyRole()[0].loop(r)(nil)
		assert.Equal(t, want, r.ran, name)
	}
	r := new(recorder)
	role{outside: 1}.loop(r)(nil)
	assert.Equal(t, "apart", r.ran)
	// Nothing else shows that the generated loop is what its name says.
	src, err := os.ReadFile("loops_gen.go")
	require.NoError(t, err)
	assert.Regexp(t, `(?s)\(l \*rwsemLoops\) urgent\([^}]*RUnlock\(\)\s+} else {\s+l\.mu\.LockUrgent\(\)`, string(src))
	assert.Regexp(t, `(?s)\(l \*rwsemLoops\) apart\([^}]*RUnlock\(\)\s+} else {[^}]*}\s+section\(w\.outside\)`, string(src))
}

func TestRunBesides(t *testing.T) {
	ld := load{procs: 2, readPcts: []float64{0, 100}, dur: 100 * time.Millisecond, burners: 2, burnSteps: 100}
	paused := make(chan bool, 1)
	ld.pause = func() {
		select {
		case paused <- true:
		default:
		}
		runtime.Gosched()
	}
	for _, kind := range allLocks {
		got := ld.run(kind, nil)
		assert.Len(t, got.Ops, 2)
		assert.Positive(t, got.Burnt)
		select {
		case <-paused:
		default:
			assert.Fail(t, "no section was a pause", kind.name)
		}
		if runtime.GOOS == "linux" {
			assert.Positive(t, got.CPU)
		}
	}
}

func TestCPUFigures(t *testing.T) {
	var d series
	d.add(tally{Ops: []float64{1e6, 2e6}, Elapsed: 2 * time.Second, CPU: 3 * time.Second, Burnt: 4e6})
	assert.Equal(t, []float64{1}, d.cpuEach)
	assert.Equal(t, []float64{1.5}, d.cpus)
	assert.Equal(t, []float64{2}, d.burnt)
	d.add(tally{Ops: []float64{1}, Elapsed: time.Second})
	assert.Equal(t, "-", figure("%.2f", d.cpus[1]), "CPU time not known")
	assert.False(t, ratioOf(d.cpuEach[1:], d.cpuEach[1:]).known())
}

func TestMeanOver(t *testing.T) {
	off := map[string]*series{"a": rounds(2, 9), "b": rounds(8, 9), "c": rounds(100, 100)}
	on := map[string]*series{"a": rounds(1, 9), "b": rounds(1, 1), "c": rounds(1, 1)}
	got := meanOver([]string{"a", "b"}, off, on, func(d *series) []float64 { return d.mops })
	assert.InDelta(t, 3.5, got.median, 1e-9)
	assert.InDelta(t, 3, got.min, 1e-9)
	assert.InDelta(t, 4, got.max, 1e-9)
}

func TestOwnerTable(t *testing.T) {
	var out bytes.Buffer
	c := ownerCells([]int{2})[8]
	require.Equal(t, "p2/g4/r0/180ns/b2", c.name())
	one := func(mops, cpuEach, burnt float64) map[string]*series {
		return map[string]*series{c.name(): {
			mops: []float64{mops}, cpuEach: []float64{cpuEach}, cpus: []float64{2}, burnt: []float64{burnt},
		}}
	}
	w := &owner{trial: trial{
		session:  &session{out: &out, sizes: []sectionSize{{}, {}, {measured: 3000}}},
		peers:    map[string]map[string]*series{"sync": one(3, 3, 0.25)},
		variants: []*variant{{name: "default", throughput: one(2, 1, 0.5)}, {name: "ownercheck=0", throughput: one(1, 4, 0.125)}},
	}}
	w.table([]cell{c})
	w.summary([]cell{c})
	same := "1.00..1.00"
	assert.Regexp(t, line(c.name(), "sync.RWMutex", "3000", "1.50x", "1.50..1.50", "3", "3.00x", "3.00..3.00", "2.00", "0.75", "0.50x", "0.50..0.50"), out.String())
	assert.Regexp(t, line(c.name(), "default", "2000", "1.00x", same, "1", "1.00x", same, "2.00", "1.50", "1.00x", same), out.String())
	assert.Regexp(t, line(c.name(), "ownercheck=0", "1000", "0.50x", "0.50..0.50", "4", "4.00x", "4.00..4.00", "2.00", "0.38", "0.25x", "0.25..0.25"), out.String())
	assert.Regexp(t, line("180ns", "GOMAXPROCS", "1", "0.50x", "0.50..0.50", "4.00x", "4.00..4.00", "0.25x", "0.25..0.25"), out.String())
}

func TestTinyOwner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "owner.json")
	out := tiny(t, "owner", "-procs", "2", "-cells", "r0/(180ns|sleep)", "-json", file)
	const ratio = ` +\d+\.\d\dx +[\d.]+`
	for _, cell := range []string{"p2/g4/r0/180ns", "p2/g4/r0/sleep", "p2/g4/r0/180ns/b2", "p2/g4/r0/sleep/b2"} {
		for _, lock := range []string{"sync.RWMutex", "default", "ownercheck=0"} {
			assert.Regexp(t, `(?m)^`+cell+` +`+lock+` +[\d.]+`+ratio, out)
		}
	}
	if runtime.GOOS == "linux" {
		assert.Regexp(t, `(?m)^p2/g4/r0/180ns/b2 +ownercheck=0 +[\d.]+`+ratio+` +[\d.e+]+`+ratio+` +\d\.\d\d +\d\.\d\d`+ratio+`$`, out)
	}
	assert.Regexp(t, `(?m)^sleep +none +1`+ratio, out)
	assert.Regexp(t, `(?m)^180ns +GOMAXPROCS +1`+ratio, out)
	assert.NotContains(t, out, "NaN")
	for _, rec := range readFile(t, file)[1:] {
		assert.Equal(t, strings.HasSuffix(rec.Cell, "/b2"), rec.Metrics[metricBeside] != nil, rec.Cell)
	}
}

func TestFailingOwner(t *testing.T) {
	t.Setenv(failingSetting, "ownercheck=0")
	var stdout, stderr bytes.Buffer
	args := []string{"owner", "-rounds", "2", "-dur", "5ms", "-procs", "2", "-cells", "r0/180ns"}
	assert.Equal(t, 1, realMain(args, &stdout, &stderr))
	assert.Regexp(t, `(?s)ownercheck=0: left out.*exit status 3\nfailing as asked\n.*bench: failed: ownercheck=0\n`, stderr.String())
	assert.Equal(t, 1, strings.Count(stderr.String(), "failing as asked"))
	assert.Regexp(t, `(?m)^p2/g4/r0/180ns/b2 +ownercheck=0 +failed$`, stdout.String())
	assert.NotContains(t, stdout.String(), "geometric means")
}
