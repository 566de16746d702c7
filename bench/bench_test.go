package main

import (
	"bytes"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCells(t *testing.T) {
	all := allCells(2)
	require.Len(t, all, 90)
	assert.Len(t, allCells(manyProcs), 45, "the same GOMAXPROCS twice")

	seen := map[string]bool{}
	for _, c := range all {
		assert.False(t, seen[c.name()], c.name())
		seen[c.name()] = true
	}
	tests := map[string]struct {
		re   string
		want int
	}{
		"one":        {`^p2/g8/r90/6ns$`, 1},
		"unanchored": {`g8/r90`, 6},
		"p16":        {`^p16/`, 45},
		"none":       {`g7`, 0},
		"quick":      {quickGrid.String(), 10},
		"latency":    {usualLatency.String(), 16},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, matching(all, regexp.MustCompile(tt.re)), tt.want)
		})
	}
}

func TestRoundTime(t *testing.T) {
	ms := time.Millisecond
	cpus := time.Duration(runtime.NumCPU())
	tests := map[string]struct {
		goroutines  int
		turn        turn
		wantAllCPUs time.Duration
	}{
		"least":      {2, shortTurn, 100 * ms},
		"long, few":  {8, longTurn, max(100*ms, 800*ms/cpus)},
		"long, many": {64, longTurn, max(100*ms, 2560*ms/cpus)},
		"short":      {64, shortTurn, max(100*ms, 1280*ms/cpus)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := options{dur: 100 * ms, turn: tt.turn}
			for _, procs := range []int{int(cpus), int(cpus) * 8} {
				assert.Equal(t, tt.wantAllCPUs, o.roundTime(cell{procs: procs, goroutines: tt.goroutines}))
			}
		})
	}
	o := options{dur: ms, turn: longTurn}
	assert.Equal(t, 2560*ms, o.roundTime(cell{procs: 1, goroutines: 64}), "on one processor")
	assert.Equal(t, 2560*ms, o.roundTime(cell{procs: 1, goroutines: 48, burners: 16}), "burners run too")
}

func TestRotation(t *testing.T) {
	var order []int
	roundsOf(allLocks[:3], 3, func(_, lock int) { order = append(order, lock) })
	assert.Equal(t, []int{0, 1, 2, 1, 2, 0, 2, 0, 1}, order)
}

func TestUsage(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":            {[]string{"-h"}, 0, "-only parts"},
		"apps help":       {[]string{"apps", "-h"}, 0, "-benchtime duration"},
		"policies help":   {[]string{"policies", "-h"}, 0, "-settings settings"},
		"builds help":     {[]string{"builds", "-h"}, 0, "-tags builds"},
		"owner help":      {[]string{"owner", "-h"}, 0, "-procs values"},
		"rows help":       {[]string{"rows", "-h"}, 0, "-steps numbers"},
		"soak help":       {[]string{"soak", "-h"}, 0, "-stuck duration"},
		"unknown command": {[]string{"nope"}, 2, `unknown command "nope"; there are: apps, policies, builds, owner`},
		"unknown flag":    {[]string{"-nope"}, 2, "not defined"},
		"argument":        {[]string{"-quick", "x"}, 2, `unexpected argument "x"`},
		"unknown part":    {[]string{"-only", "grid,x"}, 2, `no part "x"; there are: pairs, grid`},
		"unknown lock":    {[]string{"-locks", "x"}, 2, `no lock "x"; there are: rwsem, sync`},
		"bad regexp":      {[]string{"-cells", "("}, 2, "-cells"},
		"no such cell":    {[]string{"-cells", "g7"}, 2, "matches none of the"},
		"negative":        {[]string{"-rounds", "-1"}, 2, "must be positive"},
		"no rounds":       {[]string{"-rounds", "0"}, 2, "must be positive"},
		"no time":         {[]string{"owner", "-dur", "0"}, 2, "must be positive"},
		"too many":        {[]string{"builds", "-goroutines", "999999999"}, 2, "more than"},
		"too many procs":  {[]string{"owner", "-procs", "9999999x"}, 2, "more than"},
		"setting twice":   {[]string{"policies", "-settings", "claim=0;claim=0"}, 2, `"claim=0" is there twice`},
		"unknown setting": {[]string{"policies", "-settings", "claim=0;nope=0"}, 2, "not its value: nope=0"},
		"policies cells":  {[]string{"policies", "-cells", "g7"}, 2, "matches none of the"},
		"build twice":     {[]string{"builds", "-tags", "purego;purego"}, 2, `"purego" is there twice`},
		"no tags":         {[]string{"builds", "-tags", "purego;a b"}, 2, `-tags: "a b" is not a list of build tags`},
		"no goroutines":   {[]string{"builds", "-goroutines", "1,0"}, 2, `-goroutines: "0" is not a positive number`},
		"builds cells":    {[]string{"builds", "-cells", "g7"}, 2, "matches none of the"},
		"builds negative": {[]string{"builds", "-dur", "-1s"}, 2, "must be positive"},
		"no procs":        {[]string{"owner", "-procs", "2,0x"}, 2, `-procs: "0x" is neither`},
		"owner cells":     {[]string{"owner", "-cells", "r99"}, 2, "matches none of the"},
		"apps rounds":     {[]string{"apps", "-rounds", "0"}, 2, "must be positive"},
		"apps time":       {[]string{"apps", "-benchtime", "-1s"}, 2, "must be positive"},
		"apps modules":    {[]string{"apps", "-modules", "nope"}, 2, `-modules "nope" matches none of the`},
		"apps regexp":     {[]string{"apps", "-modules", "("}, 2, "-modules"},
		"unknown row":     {[]string{"rows", "-only", "A3,A1"}, 2, `no row "A1"; there are: A3, A7`},
		"rows cells":      {[]string{"rows", "-only", "E", "-cells", "g7$"}, 2, `matches no scene, such as g7000/`},
		"rows steps":      {[]string{"rows", "-steps", "0"}, 2, `-steps: "0" is not a positive number`},
		"rows negative":   {[]string{"rows", "-rounds", "-1"}, 2, "must be positive"},
		"soak time":       {[]string{"soak", "-for", "0"}, 2, "must be positive"},
		"soak stuck":      {[]string{"soak", "-stuck", "-1s"}, 2, "must be positive"},
		"unknown phase":   {[]string{"soak", "-only", "mixed,nope"}, 2, `no phase "nope"; there are: mixed, readers`},
		"checks alone":    {[]string{"-locks", "mutex"}, 2, "need rwsem or sync"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			assert.Equal(t, tt.code, realMain(tt.args, &out, &out))
			assert.Contains(t, out.String(), tt.want)
		})
	}
}

// tiny runs a part on next to nothing.
func tiny(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(args, "-quick", "-rounds", "1", "-dur", "5ms")
	require.Zero(t, realMain(args, &stdout, &stderr), stderr.String())
	assert.NotEmpty(t, stderr.String(), "no progress")
	return stdout.String()
}

func TestTinyGrid(t *testing.T) {
	out := tiny(t, "-only", "grid", "-cells", `^p16/g2/r50/6ns$`)
	for _, l := range allLocks {
		assert.Regexp(t, `p16/g2/r50/6ns +`+l.name, out)
	}
	assert.Contains(t, out, "geometric mean over 1 cells")
	assert.Contains(t, out, "(1 of 90 cells)")
}

func TestTinyLatency(t *testing.T) {
	out := tiny(t, "-only", "latency", "-cells", `^p16/g2/r50/6ns$`)
	assert.Regexp(t, `read +rwsem\.RWMutex`, out)
	assert.Regexp(t, `write +sync\.RWMutex`, out)
}

func TestTinyNoise(t *testing.T) {
	out := tiny(t, "-only", "noise", "-cells", `^p16/g2/r50/6ns$`, "-locks", "sync")
	assert.Regexp(t, `p16/g2/r50/6ns +sync\.RWMutex +\d`, out)
}

func TestTinyChecks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds")
	}
	out := tiny(t, "-only", "checks", "-locks", "sync")
	assert.Regexp(t, `sync\.RWMutex +readers`, out)
	assert.Regexp(t, `sync\.RWMutex +100 `, out)
}

func TestTinyPairs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	out := tiny(t, "-only", "pairs", "-locks", "rwsem,sync")
	assert.Contains(t, out, "rwsem.RWMutex -tags purego")
	assert.Contains(t, out, "<= 0.60x")
}

func TestChild(t *testing.T) {
	var out bytes.Buffer
	require.Zero(t, realMain([]string{pairsChild, "-n", "10"}, &out, &out))
	assert.Regexp(t, `^{"rwsem":{"Read":.*"sync":`, out.String())
}

func TestHung(t *testing.T) {
	kind := lockByKey("rwsem")
	var out bytes.Buffer
	hung(&out, kind, kind.fresh())
	assert.Contains(t, out.String(), "rwsem.RWMutex: round still running 30s")
	assert.Contains(t, out.String(), "goroutine ")
}

func TestVerdicts(t *testing.T) {
	var out bytes.Buffer
	s := &session{out: &out}
	s.checks = []check{
		atMost("low", ratio{1.05, 1, 2}, 1.05),
		atMost("high", ratio{1.06, 1, 2}, 1.05),
		atLeast("enough", ratio{1, 1, 1}, 1),
		atLeast("missing", ratioOf(nil, nil), 1),
	}
	printChecks(s)
	var verdicts []string
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		if len(fields) > 0 {
			verdicts = append(verdicts, fields[len(fields)-1])
		}
	}
	assert.Equal(t, []string{"ok", "short", "ok", "short"}, verdicts[2:])
}

func TestCellBound(t *testing.T) {
	cell := func(name string) cell {
		c, err := parseCell(name)
		require.NoError(t, err)
		return c
	}
	assert.InDelta(t, 1e3/180, cell("p2/g2/r0/180ns").bound(2), 1e-9)
	assert.InDelta(t, 2e3/180, cell("p2/g2/r100/180ns").bound(2), 1e-9)
	assert.InDelta(t, 2e3/180, cell("p16/g64/r100/180ns").bound(2), 1e-9)
	assert.InDelta(t, 1/(3*0.75), cell("p2/g8/r50/3us").bound(2), 1e-9)
	assert.InDelta(t, 1/(3*(0.5+0.5/8)), cell("p16/g8/r50/3us").bound(64), 1e-9)
	assert.Zero(t, cell("p2/g2/r0/6ns").bound(2), "the lock's own cost is more than the section")
	assert.Zero(t, cell("p2/g2/r0/3us").bound(0))
}
