package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"

	"github.com/mmcloughlin/avo/gotypes"
)

// declarations are the functions that Go files declare without a body, and
// which of them have been implemented.
type declarations struct {
	pkg         *types.Package
	implemented map[string]bool
	errs        []error
}

// read reads the named files. avo's own Package would load and check the whole
// package, which fails while the assembly that is to be generated is missing;
// these files need nothing but the type's name.
func (d *declarations) read(dir string, names []string) error {
	fset := token.NewFileSet()
	stub, err := parser.ParseFile(fset, "stub.go", "package rwsem; type RWMutex struct{}", 0)
	if err != nil {
		return err
	}
	d.implemented = map[string]bool{}
	files := []*ast.File{stub}
	for _, name := range names {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body == nil {
				d.implemented[fn.Name.Name] = false
			}
		}
	}
	cfg := types.Config{IgnoreFuncBodies: true}
	d.pkg, err = cfg.Check("rwsem", fset, files, nil)
	return err
}

// implement notes that the function of the given name is implemented.
func (d *declarations) implement(name string) *gotypes.Signature {
	done, ok := d.implemented[name]
	if !ok || done {
		d.errorf("%s is not declared, or implemented twice", name)
	}
	d.implemented[name] = true
	sig, err := gotypes.LookupSignature(d.pkg, name)
	if err != nil {
		d.errorf("%w", err)
		sig = gotypes.NewSignatureVoid()
	}
	return sig
}

func (d *declarations) errorf(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(format, args...))
}

// err is the first thing that went wrong.
func (d *declarations) err() error {
	for _, name := range slices.Sorted(maps.Keys(d.implemented)) {
		if !d.implemented[name] {
			d.errorf("%s is declared and not implemented", name)
		}
	}
	if len(d.errs) > 0 {
		return d.errs[0]
	}
	return nil
}

// component is a parameter or result that fits a register.
func (d *declarations) component(c gotypes.Component) *gotypes.Basic {
	b, err := c.Resolve()
	if err != nil {
		d.errorf("%w", err)
		return &gotypes.Basic{}
	}
	return b
}
