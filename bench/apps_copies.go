package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	goversion "go/version"
)

// fetchLimit ends the fetching of a module.
const fetchLimit = 5 * time.Minute

// copied are the locks that a copy of the program is made for. The other one
// runs the first copy again.
var copied = []string{lockStd, lockOurs, lockNone}

//go:embed nolock/rwsem.go
var noLockSource []byte

// writeNoLock makes a module that takes the place of rwsem, and asks for the
// same versions of others, so that it builds the same program.
func (a *appsRun) writeNoLock(dir string) error {
	a.noLock = dir
	mod, err := os.ReadFile(filepath.Join(a.root, "go.mod"))
	if err != nil {
		return err
	}
	return errors.Join(
		os.MkdirAll(dir, 0o777),
		os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o666),
		os.WriteFile(filepath.Join(dir, "rwsem.go"), noLockSource, 0o666))
}

// copyDir is the directory of the program with a lock.
func (p *program) copyDir(lock string) string {
	if lock == lockTwin {
		lock = lockStd
	}
	return filepath.Join(p.dir, lock)
}

// prepare fetches the program and makes its copies, which differ in the lock
// only.
func (p *program) prepare() error {
	src, err := p.fetch()
	if err != nil {
		return err
	}
	for _, lock := range copied {
		dir := p.copyDir(lock)
		if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
			return err
		}
		if err := p.goMod(lock); err != nil {
			return err
		}
		if lock == lockStd {
			continue
		}
		if p.replaced, err = replaceLockInTree(dir); err != nil {
			return err
		}
		if p.replaced == 0 {
			return errors.New("it has no sync.RWMutex")
		}
	}
	return nil
}

// fetch returns where the go command has put the module.
func (p *program) fetch() (string, error) {
	if err := os.MkdirAll(p.dir, 0o777); err != nil {
		return "", err
	}
	out, err := p.command(fetchLimit, p.dir, "go", "mod", "download", "-json", p.module+"@"+p.version)
	var m struct{ Dir, Error string }
	switch jsonErr := json.Unmarshal(out, &m); {
	case jsonErr == nil && m.Error != "":
		return "", fmt.Errorf("%s cannot be fetched: %s", p.version, m.Error)
	case err != nil:
		return "", fmt.Errorf("%s cannot be fetched: %w", p.version, err)
	}
	return m.Dir, nil
}

// goMod puts rwsem into the go.mod of a copy. All copies get the same language
// version, which rwsem asks for; how the runtime behaves is left to the version
// that the program names.
func (p *program) goMod(lock string) error {
	dir := p.copyDir(lock)
	file := filepath.Join(dir, "go.mod")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(file, []byte("module "+p.module+"\n"), 0o666); err != nil {
			return err
		}
	}
	out, err := p.command(fetchLimit, dir, "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	mod := struct{ Go string }{"1.16"} // what the go command takes it for without
	if err := json.Unmarshal(out, &mod); err != nil {
		return err
	}
	language := p.goVersion
	if goversion.Compare("go"+mod.Go, "go"+language) > 0 {
		language = mod.Go
	}
	rwsem := p.root
	if lock == lockNone {
		rwsem = p.noLock
	}
	_, err = p.command(fetchLimit, dir, "go", "mod", "edit", "-go="+language,
		"-godebug=default="+goversion.Lang("go"+mod.Go),
		"-require="+rwsemPath+"@v0.0.0", "-replace="+rwsemPath+"="+rwsem)
	return err
}

// build builds the tests of every package with every lock.
func (p *program) build() error {
	for _, lock := range copied {
		for _, pkg := range p.packages {
			dir := p.packageDir(lock, pkg)
			// Without vet, which finds fault with old code that is not ours to change.
			if _, err := p.command(buildLimit, dir, "go", "test", "-vet=off", "-c", "-o", p.testBinary(lock, pkg), "."); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *program) packageDir(lock string, pkg appPackage) string {
	return filepath.Join(p.copyDir(lock), filepath.FromSlash(pkg.dir))
}

// testBinary is beside the copy, where no test of the program finds it.
func (p *program) testBinary(lock string, pkg appPackage) string {
	name := filepath.Base(p.copyDir(lock)) + "-" + strings.ReplaceAll(pkg.dir, "/", "-") + ".test"
	return filepath.Join(p.dir, name)
}
