package main

import (
	"fmt"
	"strings"
)

// A survivor that is accepted, as equivalent.txt lists them: a line for each, in
// four fields that tabs part.
type accepted struct {
	name   string
	kind   string // one of kinds
	change string // so that a name that has come to mean another mutant shows
	reason string
}

// kinds are why a survivor is accepted.
var kinds = map[string]string{
	"equivalent": "nothing can be observed of it",
	"policy":     "the lock is right with it too: what it changes is speed or fairness, judged by measurement",
	"build":      "shows only in a build or on a machine that these tests are not",
}

// parseAccepted reads a list of accepted survivors. Empty lines and those that
// begin with # say nothing.
func parseAccepted(text string) ([]accepted, error) {
	var all []accepted
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("line %d: %d fields, not 4", n, len(f))
		}
		a := accepted{f[0], f[1], f[2], f[3]}
		switch {
		case kinds[a.kind] == "":
			return nil, fmt.Errorf("line %d: no such kind: %q", n, a.kind)
		case strings.TrimSpace(a.reason) == "":
			return nil, fmt.Errorf("line %d: no reason", n)
		case seen[a.name]:
			return nil, fmt.Errorf("line %d: %s stands there twice", n, a.name)
		}
		seen[a.name] = true
		all = append(all, a)
	}
	return all, nil
}

// complaints returns what is wrong with results, given what is accepted:
// survivors that are not, accepted ones that are caught or are no mutants any more,
// and faults whose tests end in another way than to pass or fail. known are all
// mutants there are, whether run or not, and files those whose mutants they are.
func complaints(results []result, list []accepted, known map[string]*mutant, files []string) (wrong []string) {
	reasons := map[string]accepted{}
	for _, a := range list {
		file, _, _ := strings.Cut(a.name, ":")
		m := known[a.name]
		switch {
		case m == nil:
			for _, f := range files {
				if f == file {
					wrong = append(wrong, a.name+": accepted, and there is no such mutant any more")
				}
			}
			continue
		case m.Change != a.change:
			wrong = append(wrong, a.name+": accepted as "+a.change+", and now is "+m.Change)
			continue
		}
		reasons[a.name] = a
	}
	for _, r := range results {
		a, ok := reasons[r.Name]
		switch {
		case r.Status == survived && !ok:
			wrong = append(wrong, r.Name+": survived: "+r.Change)
		case r.Status == invalid && (r.file == "fault" || r.file == "order"):
			wrong = append(wrong, r.Name+": its test does not tell: "+r.Test)
		case r.Status == caught && ok:
			wrong = append(wrong, r.Name+": accepted as "+a.kind+", and now caught by "+r.Test)
		}
	}
	return wrong
}
