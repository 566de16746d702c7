package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
)

const rwsemPath = "github.com/rwsem/rwsem"

// replaceLock does to a source file what gofmt -r 'sync.RWMutex ->
// rwsem.RWMutex' does, and mends the imports. A file that does not use the
// lock comes back as it is.
func replaceLock(filename string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filename, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	name, err := importName(file, "sync")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filename, err)
	}
	replaced := false
	astutil.Apply(file, func(c *astutil.Cursor) bool {
		sel, ok := c.Node().(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "RWMutex" {
			return true
		}
		// A name with an object is declared in the file: not the package.
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == name && pkg.Obj == nil {
			pkg.Name = "rwsem"
			replaced = true
		}
		return true
	}, nil)
	if !replaced {
		return src, nil
	}
	astutil.AddImport(fset, file, rwsemPath)
	if !astutil.UsesImport(file, "sync") {
		astutil.DeleteNamedImport(fset, file, explicitName(file, "sync"), "sync")
	}
	var out bytes.Buffer
	if err := format.Node(&out, fset, file); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// importName is the name by which the file knows a package: "" if it does not.
func importName(file *ast.File, path string) (string, error) {
	if importSpec(file, path) == nil {
		return "", nil
	}
	switch name := explicitName(file, path); name {
	case "":
		return path, nil
	case ".":
		return "", fmt.Errorf("dot import of %s is not supported", path)
	default:
		return name, nil
	}
}

func explicitName(file *ast.File, path string) string {
	if spec := importSpec(file, path); spec != nil && spec.Name != nil {
		return spec.Name.Name
	}
	return ""
}

func importSpec(file *ast.File, path string) *ast.ImportSpec {
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == path {
			return spec
		}
	}
	return nil
}

// replaceLockInTree replaces the lock in all Go files and returns in how many.
func replaceLockInTree(dir string) (files int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out, err := replaceLock(path, src)
		if err != nil || bytes.Equal(src, out) {
			return err
		}
		files++
		return os.WriteFile(path, out, 0o644)
	})
	return files, err
}
