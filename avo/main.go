// Command avo writes the assembly of package rwsem. Run it by
//
//	go generate ./avo
//
// from the root of the repository. It reads the Go declarations of what it
// implements and nothing else of the package, so that it works whatever state
// the rest of the package is in, the generated files included.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: avo DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "avo:", err)
		os.Exit(1)
	}
}

// A target is one generated file.
type target struct {
	file  string   // its name
	decls []string // the Go files that declare what it implements
	build func(*gen)
}

var targets = []target{
	{"fast_amd64.s", []string{"fast_asm.go", "fast_asm_row_d.go"}, fast},
	{"pause_amd64.s", []string{"pause_asm.go"}, pause},
}

// run generates every target from the declarations in pkg and writes them to
// out, nothing of them if one of them fails.
func run(pkg, out string) error {
	texts := make([][]byte, len(targets))
	for i, t := range targets {
		var err error
		if texts[i], err = generate(pkg, t); err != nil {
			return fmt.Errorf("%s: %w", t.file, err)
		}
	}
	for i, t := range targets {
		if err := os.WriteFile(filepath.Join(out, t.file), texts[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}
