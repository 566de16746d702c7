package proof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// locker is a lock with all calls.
type locker interface {
	RLock()
	RUnlock()
	Lock()
	Unlock()
	TryRLock() bool
	TryLock() bool
	TryRLockFor(time.Duration) bool
	TryLockFor(time.Duration) bool
	RLockContext(context.Context) error
	LockContext(context.Context) error
	LockUrgent()
	Downgrade()
	RLocker() sync.Locker
	SetReaderSpin(time.Duration)
}

// A program is what some goroutines do with one lock. It is made from its seed
// alone.
type program struct {
	seed       uint64
	readerSpin time.Duration
	visits     [][]visit // by goroutine
}

// A visit is a call that takes the lock, and what follows if it does.
type visit struct {
	before pause
	attempt
	inside    pause
	within    []attempt // while the lock is held
	downgrade bool      // a write lock
	elsewhere bool      // another goroutine releases it
}

// An attempt is a call that takes the lock with its argument.
type attempt struct {
	call
	patience time.Duration // of a timed call, and until a context ends
	endless  bool          // the context does not end
}

// pause is what a goroutine does meanwhile.
type pause struct {
	how rune // 0 nothing, 'y' yield, 'w' work, 's' sleep
	d   time.Duration
}

func (p pause) do() {
	switch p.how {
	case 'y':
		runtime.Gosched()
	case 'w':
		for end := time.Now().Add(p.d); time.Now().Before(end); {
		}
	case 's':
		time.Sleep(p.d)
	}
}

// generator draws programs.
type generator struct {
	*rand.Rand
	reads, tries, timed int           // percent
	longest             time.Duration // of a pause asleep
	restless            int           // percent of pauses in which something is done
}

func newProgram(seed uint64) *program {
	rng := rand.New(rand.NewPCG(seed, 0))
	g := generator{
		Rand:     rng,
		reads:    []int{20, 50, 50, 80, 95}[rng.IntN(5)],
		tries:    []int{5, 20, 60}[rng.IntN(3)],
		timed:    []int{10, 30, 60}[rng.IntN(3)],
		longest:  40 * time.Microsecond,
		restless: []int{10, 40, 80}[rng.IntN(3)],
	}
	if rng.IntN(4) == 0 { // waits of more than the handoff time
		g.longest = time.Millisecond
	}
	p := &program{seed: seed, readerSpin: -1}
	if rng.IntN(4) == 0 {
		p.readerSpin = g.upTo(20 * time.Microsecond)
	}
	// One goroutine alone gets exact answers only.
	goroutines := 1 + rng.IntN(6)
	visits := 2 + rng.IntN(60/goroutines)
	if goroutines > 1 {
		visits = min(visits, 16)
	}
	for range goroutines {
		var all []visit
		for range visits {
			all = append(all, g.visit())
		}
		p.visits = append(p.visits, all)
	}
	return p
}

func (g generator) percent(n int) bool { return g.IntN(100) < n }

func (g generator) upTo(d time.Duration) time.Duration { return time.Duration(g.Int64N(int64(d) + 1)) }

func (g generator) pause() pause {
	if !g.percent(g.restless) {
		return pause{}
	}
	switch g.IntN(4) {
	case 0:
		return pause{'y', 0}
	case 1:
		return pause{'s', g.upTo(g.longest)}
	default:
		return pause{'w', g.upTo(3 * time.Microsecond)}
	}
}

func (g generator) visit() visit {
	v := visit{before: g.pause(), attempt: g.attempt(true), inside: g.pause()}
	v.elsewhere = g.percent(5)
	if calls[v.call].effect == takesWrite {
		v.downgrade = g.percent(25)
	}
	if !v.elsewhere && g.percent(15) {
		for range 1 + g.IntN(2) {
			v.within = append(v.within, g.attempt(false))
		}
	}
	return v
}

// attempt draws a call, one that ends with the lock held by its own goroutine
// too unless it may wait for ever.
func (g generator) attempt(mayWait bool) attempt {
	var a attempt
	read := g.percent(g.reads)
	pick := func(r, w call) {
		if a.call = w; read {
			a.call = r
		}
	}
	switch {
	case g.percent(g.tries):
		pick(tryRLock, tryLock)
	case g.percent(g.timed) || !mayWait:
		a.patience = g.upTo(60*time.Microsecond) - 5*time.Microsecond
		if g.IntN(8) == 0 {
			a.patience = g.upTo(g.longest)
		}
		if g.IntN(2) == 0 {
			pick(tryRLockFor, tryLockFor)
		} else {
			pick(rlockContext, lockContext)
			a.endless = mayWait && g.percent(20)
		}
	case read:
		a.call = []call{rlock, rlock, rlock, rlocker}[g.IntN(4)]
	default:
		a.call = []call{lock, lock, lock, lockUrgent}[g.IntN(4)]
	}
	return a
}

func (a attempt) argument() string {
	switch {
	case calls[a.call].patience == hasTime:
		return a.patience.String()
	case calls[a.call].patience != hasCtx:
		return ""
	case a.endless:
		return "Background"
	case a.patience <= 0:
		return "ended"
	default:
		return "ends in " + a.patience.String()
	}
}

func (a attempt) String() string { return input{a.call, a.argument()}.String() }

func (p pause) String() string {
	switch p.how {
	case 'y':
		return "yield"
	case 'w':
		return "work " + p.d.String()
	case 's':
		return "sleep " + p.d.String()
	default:
		return ""
	}
}

func (v visit) String() string {
	words := []string{v.before.String(), v.attempt.String(), v.inside.String()}
	for _, a := range v.within {
		words = append(words, "try "+a.String())
	}
	if v.downgrade {
		words = append(words, "Downgrade")
	}
	if v.elsewhere {
		words = append(words, "released elsewhere")
	}
	var said []string
	for _, w := range words {
		if w != "" {
			said = append(said, w)
		}
	}
	return strings.Join(said, ", ")
}

func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %d, SetReaderSpin(%v)\n", p.seed, p.readerSpin)
	for i, visits := range p.visits {
		fmt.Fprintf(&b, "goroutine %d:\n", i)
		for _, v := range visits {
			fmt.Fprintf(&b, "\t%v\n", v)
		}
	}
	return b.String()
}

// A recorder is a goroutine of a program and what it saw.
type recorder struct {
	lock    locker
	clock   *atomic.Int64
	id      int
	history []porcupine.Operation
}

// record times a call. The clock is a counter: whatever ends before something
// else begins has the smaller number, and nothing else is certain of clocks of
// several processors.
func (r *recorder) record(in input, do func() answer) (ok bool) {
	began := time.Now()
	from := r.clock.Add(1)
	a := do()
	to := r.clock.Add(1)
	a.began, a.ended = began, time.Now()
	r.history = append(r.history, porcupine.Operation{ClientId: r.id, Input: in, Call: from, Output: a, Return: to})
	return !a.failed
}

func answerOf(ok bool) answer { return answer{failed: !ok} }

// attempt makes a call and reports whether it took the lock.
func (r *recorder) attempt(a attempt) bool {
	in := input{a.call, a.argument()}
	l := r.lock
	switch a.call {
	case rlock:
		return r.record(in, func() answer { l.RLock(); return answer{} })
	case rlocker:
		return r.record(in, func() answer { l.RLocker().Lock(); return answer{} })
	case lock:
		return r.record(in, func() answer { l.Lock(); return answer{} })
	case lockUrgent:
		return r.record(in, func() answer { l.LockUrgent(); return answer{} })
	case tryRLock:
		return r.record(in, func() answer { return answerOf(l.TryRLock()) })
	case tryLock:
		return r.record(in, func() answer { return answerOf(l.TryLock()) })
	case tryRLockFor:
		return r.timed(in, a.patience, l.TryRLockFor)
	case tryLockFor:
		return r.timed(in, a.patience, l.TryLockFor)
	case rlockContext:
		return r.context(in, a, l.RLockContext)
	case lockContext:
		return r.context(in, a, l.LockContext)
	}
	panic("no call that takes the lock: " + in.String())
}

func (r *recorder) timed(in input, d time.Duration, try func(time.Duration) bool) bool {
	began := time.Now()
	return r.record(in, func() answer {
		a := answerOf(try(d))
		if took := time.Since(began); a.failed && took < d {
			a.wrong = fmt.Sprintf("gave up after %v", took)
		}
		return a
	})
}

func (r *recorder) context(in input, a attempt, take func(context.Context) error) bool {
	ctx := context.Background()
	if !a.endless {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.patience)
		defer cancel()
	}
	return r.record(in, func() answer {
		before := ctx.Err()
		err := take(ctx)
		res := answerOf(err == nil)
		switch {
		case err == nil && before != nil:
			res.wrong = "the context had ended"
		case err != nil && err != ctx.Err():
			res.wrong = fmt.Sprintf("%v where the context's error is %v", err, ctx.Err())
		}
		return res
	})
}

func (r *recorder) release(c call) {
	l := r.lock
	do := map[call]func(){
		runlock: l.RUnlock, unlock: l.Unlock, downgrade: l.Downgrade,
		rlockerUnlock: func() { l.RLocker().Unlock() },
	}[c]
	r.record(input{call: c}, func() answer { do(); return answer{} })
}

// releaseOf is the call that gives up what a call has taken.
func releaseOf(c call) call {
	switch {
	case c == rlocker:
		return rlockerUnlock
	case calls[c].effect == takesRead:
		return runlock
	default:
		return unlock
	}
}

// visits makes them one after the other. A lock that another goroutine is to
// release goes to elsewhere.
func (r *recorder) visits(all []visit, elsewhere chan<- call) {
	defer close(elsewhere)
	for _, v := range all {
		v.before.do()
		if !r.attempt(v.attempt) {
			continue
		}
		v.inside.do()
		for _, a := range v.within {
			if r.attempt(a) {
				r.release(releaseOf(a.call))
			}
		}
		last := releaseOf(v.call)
		if v.downgrade {
			r.release(downgrade)
			last = runlock
		}
		if v.elsewhere {
			elsewhere <- last
		} else {
			r.release(last)
		}
	}
}

// stuckTime is after which a program that does not end counts as stuck.
const stuckTime = 20 * time.Second

// run has a lock go through the program and returns what was seen.
func (p *program) run(l locker) ([]porcupine.Operation, error) {
	l.SetReaderSpin(p.readerSpin)
	var (
		clock   atomic.Int64
		all     sync.WaitGroup
		start   = make(chan struct{})
		n       = len(p.visits)
		records = make([]recorder, 2*n)
	)
	for i := range records {
		records[i] = recorder{lock: l, clock: &clock, id: i}
	}
	for i, visits := range p.visits {
		elsewhere := make(chan call, 1)
		all.Go(func() {
			<-start
			records[i].visits(visits, elsewhere)
		})
		all.Go(func() {
			for c := range elsewhere {
				records[n+i].release(c)
			}
		})
	}
	close(start)
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	stuck := time.NewTimer(stuckTime)
	defer stuck.Stop()
	select {
	case <-over:
	case <-stuck.C:
		buf := make([]byte, 1<<20)
		return nil, fmt.Errorf("stuck\n%v\n%s", p, buf[:runtime.Stack(buf, true)])
	}
	var history []porcupine.Operation
	for _, r := range records {
		history = append(history, r.history...)
	}
	markBeside(history)
	return history, nil
}

// markBeside finds out beside which answers there were others that may have kept the
// call out.
func markBeside(history []porcupine.Operation) {
	for i := range history {
		op := &history[i]
		a := op.Output.(answer)
		if !a.failed {
			continue
		}
		for j, other := range history {
			age := a.ended.Sub(other.Output.(answer).began)
			if j != i && other.Call <= op.Return && op.Call <= other.Return && other.Input.(input).keepsOut(op.Input.(input).call, age) {
				a.beside = true
			}
		}
		op.Output = a
	}
}
