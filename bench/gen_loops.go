//go:build ignore

// Command gen_loops writes loops_gen.go: the measuring loops once for each
// lock, so that every lock's methods are called directly and can be inlined.
package main

import (
	"bytes"
	"go/format"
	"log"
	"os"
	"text/template"
)

type lock struct {
	Key        string // for -locks
	Name       string // in tables
	Type       string // generated type
	Decl       string // type of its lock field
	Fresh      string // expression for a new one
	RLock      string
	RUnlock    string
	TryRLock   string // what stands after if
	LockUrgent string // Lock where there is no such thing
	Describe   string
}

// loop is one of the loops that run sections and do not time them.
type loop struct{ Name, Lock, Section, Outside string }

// Loops are written out one by one, so that none pays for what only another
// one needs.
func (l lock) Loops() []loop {
	const plain, work = "l.mu.Lock()", "section(w.steps)"
	return []loop{
		{"mixed", plain, work, ""},
		{"urgent", l.LockUrgent, work, ""},
		{"pausing", plain, "w.pause()", ""},
		{"apart", plain, work, "section(w.outside)"},
	}
}

var locks = []lock{
	{
		Key: "rwsem", Name: "rwsem.RWMutex", Type: "rwsemLoops",
		Decl: "rwsem.RWMutex", Fresh: "new(rwsemLoops)",
		RLock: "l.mu.RLock()", RUnlock: "l.mu.RUnlock()",
		TryRLock: "l.mu.TryRLock()", LockUrgent: "l.mu.LockUrgent()",
		Describe: "rwsem.Describe(&l.mu)",
	},
	{
		Key: "sync", Name: "sync.RWMutex", Type: "syncLoops",
		Decl: "sync.RWMutex", Fresh: "new(syncLoops)",
		RLock: "l.mu.RLock()", RUnlock: "l.mu.RUnlock()",
		TryRLock: "l.mu.TryRLock()", LockUrgent: "l.mu.Lock()",
		Describe: `"sync.RWMutex"`,
	},
	{
		Key: "mutex", Name: "sync.Mutex", Type: "mutexLoops",
		Decl: "sync.Mutex", Fresh: "new(mutexLoops)",
		RLock: "l.mu.Lock()", RUnlock: "l.mu.Unlock()",
		TryRLock: "l.mu.TryLock()", LockUrgent: "l.mu.Lock()",
		Describe: `"sync.Mutex"`,
	},
	{
		Key: "rbmutex", Name: "xsync.RBMutex", Type: "rbmutexLoops",
		Decl: "*xsync.RBMutex", Fresh: "&rbmutexLoops{mu: xsync.NewRBMutex()}",
		RLock: "token := l.mu.RLock()", RUnlock: "l.mu.RUnlock(token)",
		TryRLock: "ok, token := l.mu.TryRLock(); ok", LockUrgent: "l.mu.Lock()",
		Describe: `"xsync.RBMutex"`,
	},
}

func main() {
	log.SetFlags(0)
	t, err := template.ParseFiles("loops.go.tmpl")
	if err != nil {
		log.Fatal(err)
	}
	var src bytes.Buffer
	if err := t.Execute(&src, locks); err != nil {
		log.Fatal(err)
	}
	out, err := format.Source(src.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("loops_gen.go", out, 0o644); err != nil {
		log.Fatal(err)
	}
}
