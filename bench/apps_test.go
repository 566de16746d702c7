package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	nolock "github.com/rwsem/rwsem/bench/nolock"
)

func TestReplaceLock(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"field": {`package p

import (
	"fmt"
	"sync"
)

// T is kept with its comment.
type T struct {
	mu sync.RWMutex // guards all
}

func f() { fmt.Println() }
`, `package p

import (
	"fmt"
	"github.com/rwsem/rwsem"
)

// T is kept with its comment.
type T struct {
	mu rwsem.RWMutex // guards all
}

func f() { fmt.Println() }
`},
		"embedded, sync still used": {`package p

import "sync"

type T struct {
	sync.RWMutex
	once sync.Once
}
`, `package p

import (
	"github.com/rwsem/rwsem"
	"sync"
)

type T struct {
	rwsem.RWMutex
	once sync.Once
}
`},
		"renamed import": {`package p

import s "sync"

var mu = new(s.RWMutex)
`, `package p

import (
	"github.com/rwsem/rwsem"
)

var mu = new(rwsem.RWMutex)
`},
		"only a mutex": {`package p

import "sync"

var   mu sync.Mutex // left as it is, format and all
`, `package p

import "sync"

var   mu sync.Mutex // left as it is, format and all
`},
		"another sync": {`package p

import "example.com/sync"

var mu sync.RWMutex
`, `package p

import "example.com/sync"

var mu sync.RWMutex
`},
		"shadowed": {`package p

import "sync"

var once sync.Once

func f() int {
	var sync struct{ RWMutex int }
	return sync.RWMutex
}
`, `package p

import "sync"

var once sync.Once

func f() int {
	var sync struct{ RWMutex int }
	return sync.RWMutex
}
`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := replaceLock("p.go", []byte(tt.in))
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
		})
	}

	_, err := replaceLock("p.go", []byte("package p\nimport . \"sync\"\nvar mu RWMutex\n"))
	assert.ErrorContains(t, err, "dot import")
	_, err = replaceLock("p.go", []byte("package"))
	assert.Error(t, err)
}

func TestReadBenchmark(t *testing.T) {
	const get, set = "BenchmarkGet-2  1000  12.5 ns/op  0 B/op\n", "BenchmarkSet/big-2  1000  2000 ns/op\n"
	ns, err := readBenchmark(strings.NewReader("goos: linux\n" + get + "PASS\n"))
	require.NoError(t, err)
	assert.InDelta(t, 12.5, ns, 1e-6)
	for out, want := range map[string]string{
		"PASS\n":                          "no benchmark ran",
		get + set:                         "2 benchmarks ran instead of one",
		"BenchmarkGet-2  1000  x ns/op\n": "parsing measurement",
	} {
		_, err := readBenchmark(strings.NewReader(out))
		assert.ErrorContains(t, err, want)
	}
}

func TestBenchmarkPattern(t *testing.T) {
	b := &appBenchmark{name: "Counter/labels=values,a.b"}
	assert.Equal(t, `^BenchmarkCounter$/^labels=values,a\.b$`, b.pattern())
}

func TestGist(t *testing.T) {
	for out, want := range map[string]string{
		"x: exit status 2\nfatal error: concurrent map writes\n\ngoroutine 7": "fatal error: concurrent map writes",
		"x: exit status 2\npanic: gone [recovered]\n\tpanic: gone":            "panic: gone [recovered]",
		"x: not over after 1m0s\nmore":                                        "x: not over after 1m0s",
	} {
		assert.Equal(t, want, gist(fmt.Errorf("%s", out)))
	}
}

func TestAppsList(t *testing.T) {
	var modules []string
	for _, p := range apps {
		t.Run(p.module, func(t *testing.T) {
			assert.NotContains(t, modules, p.module)
			modules = append(modules, p.module)
			assert.NotZero(t, p.tests)
			quick := 0
			for _, pkg := range p.packages {
				all := strings.Fields(pkg.benchmarks)
				assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "one is there twice")
				assert.Subset(t, all, strings.Fields(pkg.quick))
				assert.Subset(t, all, strings.Fields(pkg.racing))
				for name := range pkg.targets {
					assert.Contains(t, all, name)
				}
				quick += len(strings.Fields(pkg.quick))
			}
			assert.NotZero(t, quick, "none with -quick")
		})
	}
}

// The lock that does nothing has to fit wherever sync's is, the size included.
func TestNoLock(t *testing.T) {
	methods := func(lock any) map[string]string {
		typ, all := reflect.TypeOf(lock), map[string]string{}
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			all[m.Name] = strings.ReplaceAll(m.Type.String(), typ.String(), "lock")
		}
		return all
	}
	assert.Equal(t, methods(new(sync.RWMutex)), methods(new(nolock.RWMutex)))
	assert.Equal(t, reflect.TypeFor[sync.RWMutex]().Size(), reflect.TypeFor[nolock.RWMutex]().Size())

	var mu nolock.RWMutex
	mu.Lock()
	assert.True(t, mu.TryLock() && mu.TryRLock())
	mu.RLocker().Lock()
	mu.Lock()
}

// benchmarkOf makes a benchmark from ratios to std of each lock, by rounds.
func benchmarkOf(name string, twin, ours, none []float64) *appBenchmark {
	b := &appBenchmark{name: name, pkg: appPackage{targets: map[string]float64{"Won": 0.5, "Lost": 1}}, ns: map[string][]float64{}}
	std := slices.Repeat([]float64{200}, len(ours))
	for lock, ratios := range map[string][]float64{lockStd: slices.Repeat([]float64{1}, len(ours)), lockTwin: twin, lockOurs: ours, lockNone: none} {
		for i, r := range ratios {
			b.ns[lock] = append(b.ns[lock], r*std[i])
		}
	}
	return b
}

func TestAppsTable(t *testing.T) {
	var out bytes.Buffer
	p := &program{
		appsRun: &appsRun{session: &session{options: options{rounds: 3}, out: &out}, benchtime: time.Second},
		app:     app{module: "example.com/p", why: "slow ones"},
		benchmarks: []*appBenchmark{
			benchmarkOf("Won", []float64{1, 0.95, 1}, []float64{0.7, 0.5, 0.6}, []float64{0.2, 0.2, 0.3}),
			benchmarkOf("Lost", []float64{1, 1, 1.1}, []float64{1.2, 1.2, 1.3}, []float64{0.9, 0.8, 0.8}),
			// The noise counts both ways: 0.8x might as well have been 1.25x.
			benchmarkOf("Noisy", []float64{1, 0.8, 1}, []float64{1.2, 1.2, 1.2}, []float64{0.85, 0.85, 0.85}),
			benchmarkOf("Divided", []float64{1, 1, 1}, []float64{0.5, 0.5, 1.1}, []float64{0.1, 0.1, 0.1}),
			benchmarkOf("Racing", []float64{1, 1, 1}, []float64{1, 1, 1}, nil),
			benchmarkOf("Crashing", []float64{1, 1, 1}, []float64{0.9, 0.9, 0.9}, nil),
		},
	}
	p.benchmarks[4].noCeiling = needsLock
	p.benchmarks[5].noCeiling = "without a lock: panic: x"
	p.table()
	for _, want := range []*regexp.Regexp{
		line("Won", "200.0", "120.0", "0.60x", "0.50..0.70", "0.95..1.00", "0.20x", "50%", "target <= 0.50x: short"),
		line("Lost", "200.0", "240.0", "1.20x", "1.20..1.30", "1.00..1.10", "0.80x", "-100%", "target <= 1.00x: short"),
		line("Noisy", "200.0", "240.0", "1.20x~", "1.20..1.20", "0.80..1.00", "0.85x", "-"),
		line("Divided", "200.0", "100.0", "0.50x~", "0.50..1.10", "1.00..1.00", "0.10x", "56%"),
		line("Racing", "200.0", "200.0", "1.00x~", "1.00..1.00", "1.00..1.00", "-", "-"),
		line("Crashing", "200.0", "180.0", "0.90x", "0.90..0.90", "1.00..1.00", "-", "-"),
		regexp.MustCompile(`(?m)^no ceiling \(several goroutines write\): Racing$`),
		regexp.MustCompile(`(?m)^no ceiling \(without a lock: panic: x\): Crashing$`),
		regexp.MustCompile(`(?m)^left out: slow ones$`),
	} {
		assert.Regexp(t, want, out.String())
	}

	out.Reset()
	p.benchmarks = p.benchmarks[:5]
	p.programs = []*program{p, {app: app{module: "example.com/q"}, failed: true}}
	p.summary()
	assert.Regexp(t, line("example.com/p", "5", "1", "1", "3", "0.85x"), out.String())
	assert.Regexp(t, line("example.com/q", "failed"), out.String())
}

// publish makes a module proxy of the given modules, each files by name, and
// has the go command ask it first, with a module cache of its own. One without
// files is damaged.
func publish(t *testing.T, modules map[string]map[string]string) {
	t.Helper()
	root := t.TempDir()
	write := func(name string, content []byte) {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, content, 0o666))
	}
	for module, files := range modules {
		var archive bytes.Buffer
		w := zip.NewWriter(&archive)
		for name, content := range files {
			f, err := w.Create(module + "@v1.0.0/" + name)
			require.NoError(t, err)
			_, err = f.Write([]byte(content))
			require.NoError(t, err)
		}
		if len(files) > 0 {
			require.NoError(t, w.Close())
		}
		write(module+"/@v/v1.0.0.info", []byte(`{"Version":"v1.0.0"}`))
		write(module+"/@v/v1.0.0.mod", []byte("module "+module+"\n"))
		write(module+"/@v/v1.0.0.zip", archive.Bytes())
	}
	env := func(name string) string {
		value, err := goCommand("", "env", name)
		require.NoError(t, err)
		return value
	}
	const file = "file://"
	t.Setenv("GOPROXY", file+filepath.ToSlash(root)+","+file+filepath.ToSlash(env("GOMODCACHE"))+"/cache/download,"+env("GOPROXY"))
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOFLAGS", "-modcacherw")
}

const counterSource = `package counter

import "sync"

type Counter struct {
	Mu sync.RWMutex
	n  int
}

func (c *Counter) Add() {
	c.Mu.Lock()
	c.n++
	c.Mu.Unlock()
}
`

// The first test fails with any lock but ours, the second unless the runtime
// behaves as in the days of a program without a go.mod.
const counterTest = `package counter

import (
	"math/rand"
	"reflect"
	"testing"
)

func TestLock(t *testing.T) {
	if got := reflect.TypeFor[Counter]().Field(0).Type.String(); got != "rwsem.RWMutex" {
		t.Fatal(got)
	}
}

func TestSeed(t *testing.T) {
	rand.Seed(1)
	first := rand.Int63()
	rand.Seed(1)
	if rand.Int63() != first {
		t.Fatal("not seeded")
	}
}

func BenchmarkAdd(b *testing.B) {
	b.Run("one", func(b *testing.B) {
		var c Counter
		for b.Loop() {
			c.Add()
		}
	})
	b.Run("other", func(b *testing.B) { b.Fatal("not asked for") })
}
`

const benchTest = `package bench

import (
	"testing"

	"example.com/counter"
)

func BenchmarkNeedsLock(b *testing.B) {
	for b.Loop() {
		var c counter.Counter
		c.Mu.Lock()
		if c.Mu.TryLock() {
			panic("twice")
		}
	}
}

func BenchmarkRaces(b *testing.B) {
	for b.Loop() {
		var c counter.Counter
		c.Mu.Lock()
		if c.Mu.TryLock() {
			panic("it ran without a lock")
		}
	}
}
`

func TestTinyApps(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	publish(t, map[string]map[string]string{
		"example.com/counter":  {"counter.go": counterSource, "counter_test.go": counterTest, "sub/bench/bench_test.go": benchTest},
		"example.com/failing":  {"f.go": counterSource, "f_test.go": "package counter\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Fatal(\"never right\") }\n"},
		"example.com/damaged":  nil,
		"example.com/lockless": {"l.go": "package l\n", "l_test.go": "package l\n"},
	})
	before := apps
	t.Cleanup(func() { apps = before })
	plain := []appPackage{{benchmarks: "X", quick: "X"}}
	apps = []app{
		{module: "example.com/damaged", version: "v1.0.0", packages: plain},
		{module: "example.com/failing", version: "v1.0.0", packages: plain},
		{module: "example.com/lockless", version: "v1.0.0", packages: plain},
		{module: "example.com/counter", version: "v1.0.0", packages: []appPackage{
			{benchmarks: "Add/one Add", quick: "Add/one"},
			{dir: "sub/bench", benchmarks: "NeedsLock Races", quick: "NeedsLock Races", racing: "Races"},
		}},
		{module: "example.org/unwanted", version: "v1.0.0", packages: plain},
	}
	data := filepath.Join(t.TempDir(), "data")
	var stdout, stderr bytes.Buffer
	args := []string{"apps", "-quick", "-rounds", "2", "-benchtime", "1ms", "-modules", `\.com/`, "-json", data}
	assert.Equal(t, 1, realMain(args, &stdout, &stderr))

	for _, want := range []string{
		`example\.com/damaged: left out: v1\.0\.0 cannot be fetched: .*not a valid zip file`,
		`(?s)example\.com/failing: left out: its tests fail with rwsem \(unchanged they fail too\):.*never right`,
		`example\.com/lockless: left out: it has no sync\.RWMutex`,
		`bench: failed: example\.com/damaged; example\.com/failing; example\.com/lockless\n$`,
		`example\.com/counter: round 2 of 2: 20 of 20, about \d+s left`,
	} {
		assert.Regexp(t, want, stderr.String())
	}
	for _, want := range []string{
		`== example\.com/counter v1\.0\.0\nlock replaced in 1 file\(s\)\nits own tests with rwsem: ok\n`,
		`(?m)^Add/one +[\d.]+ +[\d.]+ +[\d.]+x~? +\S+\.\.\S+ +\S+\.\.\S+ +[\d.]+x `,
		`(?m)^sub/bench/NeedsLock .* - +-$`,
		`(?m)^no ceiling \(without a lock: panic: twice.*\): sub/bench/NeedsLock$`,
		`(?m)^no ceiling \(several goroutines write\): sub/bench/Races$`,
		`(?m)^example\.com/failing +failed$`,
		`(?m)^example\.com/counter +3 `,
	} {
		assert.Regexp(t, want, stdout.String())
	}
	assert.NotContains(t, stdout.String()+stderr.String(), "unwanted")
	assert.NotContains(t, stdout.String(), "NaN")

	file, err := os.Open(data)
	require.NoError(t, err)
	defer file.Close()
	records, err := readRecords(file)
	require.NoError(t, err)
	var got []string
	for _, rec := range records[1:] {
		assert.Equal(t, "apps", rec.Table)
		assert.Len(t, rec.Metrics["ns/op"], 2)
		got = append(got, rec.Cell+" "+rec.Lock)
	}
	assert.Equal(t, []string{
		"example.com/counter/Add/one std", "example.com/counter/Add/one ours",
		"example.com/counter/Add/one std again", "example.com/counter/Add/one none",
		"example.com/counter/sub/bench/NeedsLock std", "example.com/counter/sub/bench/NeedsLock ours",
		"example.com/counter/sub/bench/NeedsLock std again",
		"example.com/counter/sub/bench/Races std", "example.com/counter/sub/bench/Races ours",
		"example.com/counter/sub/bench/Races std again",
	}, got)
}
