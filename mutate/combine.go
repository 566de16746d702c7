package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// All mutants are built at once: each function gets a copy for each mutant of it,
// and chooses by a variable, set from the environment at start, which of them
// runs in its place. So one build serves hundreds of mutants.

const (
	chosen    = "rwsemMutant"  // the variable
	chosenEnv = "RWSEM_MUTANT" // where it comes from

	// unchanged has every function run a copy in which nothing is changed: the
	// lock itself, in the way in which the mutants run.
	unchanged = -1
)

// chooserSource declares chosen.
const chooserSource = `package rwsem

import (
	"os"
	"strconv"
)

var ` + chosen + ` = func() int {
	n, _ := strconv.Atoi(os.Getenv("` + chosenEnv + `"))
	return n
}()
`

// A span is where the copy for a mutant stands in a combined file.
type span struct{ start, end, id int }

// combine returns src with a copy of its function for each of the mutants, which
// are all of this file.
func combine(src []byte, mutants []*mutant) (text []byte, spans []span) {
	byFunction := map[*function][]*mutant{}
	var fns []*function
	for _, m := range mutants {
		if byFunction[m.fn] == nil {
			fns = append(fns, m.fn)
		}
		byFunction[m.fn] = append(byFunction[m.fn], m)
	}
	slices.SortFunc(fns, func(a, b *function) int { return a.start - b.start })

	var out bytes.Buffer
	last := 0
	for _, fn := range fns {
		out.Write(src[last:fn.body])
		fmt.Fprintf(&out, "\n\tswitch %s {\n", chosen)
		choose := func(id int) {
			fmt.Fprintf(&out, "\tcase %d:\n\t\t%s\n", id, fmt.Sprintf(fn.call, fn.copyName(src, id)))
		}
		choose(unchanged)
		for _, m := range byFunction[fn] {
			choose(m.id)
		}
		out.WriteString("\t}\n")
		out.Write(src[fn.body:fn.end])
		last = fn.end

		write := func(id, start, end int, text string) {
			out.WriteString("\n\n")
			from := out.Len()
			out.Write(src[fn.start:fn.nameStart])
			out.WriteString(fn.copyName(src, id))
			out.Write(src[fn.nameEnd:start])
			out.WriteString(text)
			out.Write(src[end:fn.end])
			spans = append(spans, span{from, out.Len(), id})
		}
		write(unchanged, fn.end, fn.end, "")
		for _, m := range byFunction[fn] {
			write(m.id, m.start, m.end, m.text)
		}
	}
	out.Write(src[last:])
	return out.Bytes(), spans
}

func (fn *function) copyName(src []byte, id int) string {
	name := string(src[fn.nameStart:fn.nameEnd])
	if id == unchanged {
		return name + "Unchanged"
	}
	return fmt.Sprintf("%sMutant%d", name, id)
}

// imports are shared by all checks.
var imports = importer.Default()

// check type-checks the package in dir as it is with the given tags, files being
// there in the place of those of these names, and returns by mutant what keeps
// it from being built.
func check(dir, tags string, files map[string][]byte, spans map[string][]span) (map[int]string, error) {
	ctx := build.Default
	ctx.BuildTags = strings.Split(tags, ",")
	pkg, err := ctx.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	names := slices.Clone(pkg.GoFiles)
	for name := range files {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		var src any
		if text, ok := files[name]; ok {
			src = text
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	invalid := map[int]string{}
	var others []error
	cfg := types.Config{
		Importer: imports,
		Error: func(err error) {
			e := err.(types.Error)
			p := fset.Position(e.Pos)
			for _, s := range spans[filepath.Base(p.Filename)] {
				if p.Offset >= s.start && p.Offset < s.end && s.id != unchanged {
					invalid[s.id] = e.Msg
					return
				}
			}
			others = append(others, err)
		},
	}
	_, err = cfg.Check("rwsem", fset, parsed, nil)
	if len(others) > 0 {
		return nil, fmt.Errorf("the package does not build with tags %q: %w", tags, others[0])
	}
	if err != nil && len(invalid) == 0 {
		return nil, err
	}
	return invalid, nil
}
