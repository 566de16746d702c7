package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

const reportHelp = `Report makes RESULTS.md and its pictures from data files, which any command
writes with -json.

    go run ./bench report [flags]     inside the rwsem repository

A table is made from the latest run that has it, or from the latest of those that
ran to their end and without -quick, if there is one. Which they are, and what
is wrong with the others, stands in the document. The pictures, as SVG and as
PNG, go to the directory plots beside it. The same data always give the same
files.

What is explained in the document stands in RESULTS.md.tmpl: a section for every
kind of table. Figures come from the data alone.

With -check nothing is written; the files there are compared with what would
have been.

Exit status: 0 if the files were written, or are what they should be; 1 if not;
2 for a mistake in the command line.

Flags:
`

// sections are the texts of the document, by the kind of table that they
// introduce.
//
//go:embed RESULTS.md.tmpl
var sections string

// plotsDir is where the pictures are, seen from the document.
const plotsDir = "plots"

func reportCommand(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("bench report", flag.ContinueOnError)
	data := fs.String("data", "", "`directory` of the data files, *.jsonl (default results beside the sources)")
	out := fs.String("o", "", "`file` to write (default RESULTS.md beside the sources)")
	check := fs.Bool("check", false, "write nothing, and fail if the files are not what they would be")
	if err := parse(fs, args, reportHelp, stdout); err != nil {
		return err
	}
	if *data == "" || *out == "" {
		src, err := findSources(thisFile())
		if err != nil {
			return err
		}
		*data = cmp.Or(*data, filepath.Join(src, "results"))
		*out = cmp.Or(*out, filepath.Join(src, "RESULTS.md"))
	}
	r, err := readReport(*data, stderr)
	if err != nil {
		return err
	}
	files, err := r.files(filepath.Base(*out))
	if err != nil {
		return err
	}
	dir := filepath.Dir(*out)
	if *check {
		return checkFiles(dir, files, stdout)
	}
	return writeFiles(dir, files, stdout, stderr)
}

// report is what is to be told.
type report struct {
	runs   []*dataRun
	tables []*dataTable // one of each name, in the order of the document
}

// readReport reads the data files of a directory.
func readReport(dir string, warnings io.Writer) (*report, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no data files (*.jsonl) in %s; -json writes them", dir)
	}
	r := new(report)
	for _, name := range names {
		runs, err := readRuns(name, warnings)
		if err != nil {
			return nil, err
		}
		r.runs = append(r.runs, runs...)
	}
	slices.SortStableFunc(r.runs, func(a, b *dataRun) int { return a.info.Started.Compare(b.info.Started) })
	r.chooseTables()
	return r, nil
}

// chooseTables takes each table from the latest run, one without flaws before
// all others.
func (r *report) chooseTables() {
	chosen := map[string]*dataTable{}
	for _, run := range r.runs {
		for _, t := range tablesOf(run.records) {
			t.run = run
			if was := chosen[t.name]; was == nil || was.run.flaws() != "" || run.flaws() == "" {
				chosen[t.name] = t
			}
		}
	}
	r.tables = slices.SortedFunc(maps.Values(chosen), func(a, b *dataTable) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.name, b.name))
	})
}

// kinds are the tables that are known, in the order of the document.
var kinds = []string{"grid", "noise", "latency", "closed", "scheduled", "unlock", "sweep", "apps", "policies", "builds", "owner", "rows", "soak"}

// kind is the word that a table's name begins with, "other" if it is not known.
func (t *dataTable) kind() string {
	kind := t.name
	if i := strings.IndexAny(kind, "/,"); i >= 0 {
		kind = kind[:i]
	}
	if !slices.Contains(kinds, kind) {
		return "other"
	}
	return kind
}

func (t *dataTable) rank() int {
	if i := slices.Index(kinds, t.kind()); i >= 0 {
		return i
	}
	return len(kinds)
}

// files are the document and the pictures, by their path from the document.
func (r *report) files(document string) (map[string][]byte, error) {
	texts, err := template.New("").Parse(sections)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var doc bytes.Buffer
	if err := texts.ExecuteTemplate(&doc, "top", nil); err != nil {
		return nil, err
	}
	r.writeRuns(&doc)
	if err := texts.ExecuteTemplate(&doc, "losses", nil); err != nil {
		return nil, err
	}
	findLosses(r.tables).write(&doc)

	last := ""
	for _, t := range r.tables {
		if kind := t.kind(); kind != last {
			if err := texts.ExecuteTemplate(&doc, kind, nil); err != nil {
				return nil, err
			}
			last = kind
		}
		if t.name != t.kind() {
			fmt.Fprintf(&doc, "### %s\n\n", t.name)
		}
		pictures, err := t.pictures()
		if err != nil {
			return nil, err
		}
		r.writeSource(&doc, t)
		for _, p := range pictures {
			file := path.Join(plotsDir, p.name)
			for files[file+".svg"] != nil { // names that differ in other characters only
				file += "-"
			}
			fmt.Fprintf(&doc, "[![%s](%s.png)](%s.svg)\n\n", p.title, file, file)
			files[file+".svg"], files[file+".png"] = p.svg, p.png
		}
		t.write(&doc)
	}
	files[document] = append(bytes.TrimRight(doc.Bytes(), "\n"), '\n')
	return files, nil
}

// writeSource says which run a table is from.
func (r *report) writeSource(w io.Writer, t *dataTable) {
	fmt.Fprintf(w, "Run %d", 1+slices.Index(r.runs, t.run))
	if flaws := t.run.flaws(); flaws != "" {
		fmt.Fprintf(w, ", **%s**", flaws)
	}
	rounds := 0
	for _, metrics := range t.values {
		for _, xs := range metrics {
			rounds = max(rounds, len(xs))
		}
	}
	fmt.Fprintf(w, "; %d rounds, medians over them.\n\n", rounds)
}

// writeRuns lists the runs and says on what machine they were.
func (r *report) writeRuns(w io.Writer) {
	machines := mdTable{head: []string{"machine", "runs"}}
	runsOf := map[string][]string{}
	var order []string
	runs := mdTable{head: []string{"run", "command", "started", "revision", "tables", ""}}
	for i, run := range r.runs {
		n := fmt.Sprint(i + 1)
		order = appendNew(order, run.info.machine())
		runsOf[run.info.machine()] = append(runsOf[run.info.machine()], n)
		var used []string
		for _, t := range r.tables {
			if t.run == run {
				used = append(used, t.name)
			}
		}
		runs.row(n, "`go run ./bench "+shellWords(run.info.Command)+"`", run.info.started(), run.info.Revision,
			cmp.Or(strings.Join(used, "; "), "none: superseded"), run.flaws())
	}
	for _, m := range order {
		machines.row(m, strings.Join(runsOf[m], ", "))
	}
	machines.write(w, 2)
	runs.write(w, len(runs.head))
}

// shellWords are arguments as they are typed.
func shellWords(args []string) string {
	var words []string
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n|&;<>()$`\\\"'*?[]#~%{}!^") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// writeFiles writes the document last, as it is what refers to the others.
func writeFiles(dir string, files map[string][]byte, stdout, stderr io.Writer) error {
	if err := os.MkdirAll(filepath.Join(dir, plotsDir), 0o777); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(files))
	slices.Reverse(names) // "plots/..." is behind "RESULTS.md"
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), files[name], 0o666); err != nil {
			return err
		}
	}
	stale, err := stalePictures(dir, files)
	for _, name := range stale {
		fmt.Fprintf(stderr, "%s is not made from these data any more: to be removed\n", filepath.Join(dir, name))
	}
	fmt.Fprintf(stdout, "%d files written to %s\n", len(files), dir)
	return err
}

// checkFiles says which files are not as they should be.
func checkFiles(dir string, files map[string][]byte, stdout io.Writer) error {
	wrong, err := stalePictures(dir, files)
	if err != nil {
		return err
	}
	for _, name := range wrong {
		fmt.Fprintf(stdout, "%s: not made from these data\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		is, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		differs := ""
		switch {
		case errors.Is(err, fs.ErrNotExist):
			differs = "missing"
		case err != nil:
			return err
		case path.Ext(name) == ".png":
			differs = differentPixels(is, files[name])
		default:
			differs = differentLine(is, files[name])
		}
		if differs != "" {
			wrong = append(wrong, name)
			fmt.Fprintf(stdout, "%s: %s\n", name, differs)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d files are not what report makes from the data", len(wrong))
	}
	return nil
}

// stalePictures are those that are there and not among the files.
func stalePictures(dir string, files map[string][]byte) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, plotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var stale []string
	for _, e := range entries {
		name := path.Join(plotsDir, e.Name())
		if _, ok := files[name]; !ok && (path.Ext(name) == ".svg" || path.Ext(name) == ".png") {
			stale = append(stale, name)
		}
	}
	return stale, err
}

// differentLine shows the first line that differs, "" if none does.
func differentLine(is, want []byte) string {
	if bytes.Equal(is, want) {
		return ""
	}
	have, wanted := strings.Split(string(is), "\n"), strings.Split(string(want), "\n")
	i := 0
	for i < len(have) && i < len(wanted) && have[i] == wanted[i] {
		i++
	}
	at := func(lines []string) string {
		if i < len(lines) {
			return lines[i]
		}
		return "(end of file)"
	}
	return fmt.Sprintf("line %d is\n    %s\nand should be\n    %s", i+1, at(have), at(wanted))
}

// differentPixels compares what is in the pictures, as other releases of Go may
// compress them otherwise.
func differentPixels(is, want []byte) string {
	if bytes.Equal(is, want) {
		return ""
	}
	a, errA := png.Decode(bytes.NewReader(is))
	b, errB := png.Decode(bytes.NewReader(want))
	switch {
	case errA != nil:
		return fmt.Sprintf("no picture: %v", errA)
	case errB != nil:
		return fmt.Sprintf("should be a picture: %v", errB)
	case a.Bounds() != b.Bounds():
		return fmt.Sprintf("size is %v and should be %v", a.Bounds().Size(), b.Bounds().Size())
	}
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			if a.At(x, y) != b.At(x, y) {
				return fmt.Sprintf("differs at %v", image.Pt(x, y))
			}
		}
	}
	return ""
}
