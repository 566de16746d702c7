package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Mutants of what the generator writes for amd64: an instruction is left out, a
// jump or an operation turned round, a flag left out of a constant. They are
// TestAssembly's matter, which reads the files where it runs: a copy of the
// package's directory for each.

var (
	asmText  = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	asmLine  = regexp.MustCompile(`^\t([A-Z]\w*)\b(.*)$`)
	asmFlags = regexp.MustCompile(`\$\(([^()]*\|[^()]*)\)`)
)

// turnedAsm are jumps and operations of amd64 and what is put in their place.
var turnedAsm = map[string]string{
	"JEQ": "JNE", "JNE": "JEQ", "JCC": "JCS", "JCS": "JCC", "JHI": "JLS", "JLS": "JHI",
	"JGE": "JLT", "JLT": "JGE", "JGT": "JLE", "JLE": "JGT", "JMI": "JPL", "JPL": "JMI",
	"ANDQ": "ORQ", "ORQ": "ANDQ", "ANDL": "ORL", "ORL": "ANDL", "ADDQ": "SUBQ", "SUBQ": "ADDQ",
	"DECL": "INCL", "INCL": "DECL", "CMOVQNE": "CMOVQEQ", "CMOVQEQ": "CMOVQNE", "SHRQ": "SHLQ", "SHLQ": "SHRQ",
	"RORQ": "ROLQ",
}

func generateAsm(file string, src []byte) []*mutant {
	var all []*mutant
	fn, ordinals := "", map[string]int{}
	at := 0
	for i, line := range strings.SplitAfter(string(src), "\n") {
		start := at
		at += len(line)
		line = strings.TrimSuffix(line, "\n")
		if m := asmText.FindStringSubmatch(line); m != nil {
			fn = m[1]
			clear(ordinals)
		}
		m := asmLine.FindStringSubmatch(line)
		if fn == "" || m == nil {
			continue
		}
		add := func(op, text string) {
			ordinals[op]++
			all = append(all, &mutant{
				Name:   file + ":" + fn + ":" + op + ":" + strconv.Itoa(ordinals[op]),
				Change: oneLine(line) + " -> " + oneLine(text),
				Line:   i + 1,
				file:   file,
				start:  start, end: start + len(line), text: text,
			})
		}
		add(opDrop, "")
		if to := turnedAsm[m[1]]; to != "" {
			op := opBits
			if m[1][0] == 'J' {
				op = opNegate
			}
			add(op, "\t"+to+m[2])
		}
		if at := asmFlags.FindStringSubmatchIndex(m[2]); at != nil {
			flags := strings.Split(m[2][at[2]:at[3]], "|")
			for n := range flags {
				var kept []string
				for k, f := range flags {
					if k != n {
						kept = append(kept, f)
					}
				}
				add(opBits, "\t"+m[1]+m[2][:at[2]]+strings.Join(kept, "|")+m[2][at[3]:])
			}
		}
	}
	return all
}

// asmTags are the tags of the build that has the file.
func asmTags(file string) string {
	if strings.Contains(file, "ownercount") {
		return "rwsem_ownercount"
	}
	return ""
}

// asmTime is how long TestAssembly takes at the most, a quarter of it without others
// beside it.
const asmTime = 15 * time.Second

var notBuilt = regexp.MustCompile(`\[(build|setup) failed\]`)

// judgeAsm runs TestAssembly in a copy of the package that has m.
func (l *lab) judgeAsm(ctx context.Context, binary string, m *mutant) (result, error) {
	dir, err := os.MkdirTemp(l.tmp, "asm")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	entries, err := os.ReadDir(l.root)
	if err != nil {
		return result{}, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(l.root, e.Name()))
		if err != nil {
			return result{}, err
		}
		if e.Name() == m.file {
			text = []byte(string(text[:m.start]) + m.text + string(text[m.end:]))
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), text, 0o644); err != nil {
			return result{}, err
		}
	}
	const test = "TestAssembly"
	l.mu.Lock()
	l.took[test] = max(l.took[test], asmTime)
	l.mu.Unlock()
	r := result{mutant: *m, Status: survived}
	rep := l.command(ctx, dir, binary, 0, "-test.v", "-test.run=^"+test+"$")
	switch {
	case notBuilt.MatchString(rep.output):
		r.Status = invalid
	case rep.failed:
		r.Status, r.Stage, r.Test, r.How = caught, "assembly", test, rep.how
	}
	return r, nil
}
