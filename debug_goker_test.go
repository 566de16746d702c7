//go:build rwsemdebug && !js

package rwsem

//lint:file-ignore SA2001 Empty sections are the subject here.

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The bugs with a sync.RWMutex among the public ones that the Go release tests its
// goroutine leak profile with (runtime/testdata/testgoroutineleakprofile/goker),
// each built anew after its structure: who holds what while waiting for whom. The
// calls come in the order in which they hang, and other mutexes that take part are
// locks of this package too. Each runs in a process of its own, which the report
// has to end.
var gokers = []struct {
	name string
	// What the first line says, and what functions the stacks show.
	title string
	shows []string
	run   func(*testing.T)
	// maxwait says that a lock alone cannot know better: who holds it waits for
	// something else, or is gone.
	maxwait bool
}{
	{
		name:  "cockroach16167",
		title: debugRecursive,
		shows: []string{"(*sqlExecutor).statement", "(*sqlExecutor).cachedDatabase", "(*sqlExecutor).newConfig"},
		run: func(t *testing.T) {
			e := &sqlExecutor{}
			e.changed = sync.NewCond(e.config.RLocker())
			e.statement(func() {
				go e.newConfig()
				awaitQueued(t, &e.config, 0, 1)
			})
		},
	},
	{
		name:  "cockroach3710",
		title: debugRecursive,
		shows: []string{"(*raftStore).scan", "(*raftStore).status", "(*raftStore).process"},
		run: func(t *testing.T) {
			s := &raftStore{}
			s.scan(func() {
				go s.process()
				awaitQueued(t, &s.mu, 0, 1)
			})
		},
	},
	{
		name:  "cockroach6181",
		title: debugRecursive,
		shows: []string{"(*rangeCache).lookup", "(*rangeCache).String"},
		run: func(t *testing.T) {
			c := &rangeCache{}
			c.lookup(func() {
				go c.lookup(func() {}) // as far as its Lock
				awaitQueued(t, &c.mu, 0, 1)
			})
		},
	},
	{
		name:  "etcd10492",
		title: "rwsem: Lock of RWMutex that this goroutine has locked already",
		shows: []string{"(*leases).renew", "(*leases).checkpoint"},
		run: func(*testing.T) {
			l := &leases{}
			l.onRenew = l.checkpoint
			l.renew()
		},
	},
	{
		name:    "etcd5509",
		title:   "rwsem: a call has waited for RWMutex for more than 100ms",
		shows:   []string{"(*rpcClient).stop", "(*rpcClient).acquire", "and has ended since"},
		maxwait: true,
		run: func(t *testing.T) {
			c := &rpcClient{cancel: func() {}}
			c.stop(func() {
				awaitDone(t, &c.mu, "a call", start(func() { assert.False(t, c.acquire()) }))
				// It can be known before anybody waits.
				assert.ErrorContains(t, CheckHeld(), "(*rpcClient).acquire")
			})
		},
	},
	{
		name:  "etcd6708",
		title: "rwsem: RLock of RWMutex that this goroutine has locked for writing",
		shows: []string{"(*memberClient).sync", "(*memberClient).do"},
		run:   func(*testing.T) { new(memberClient).sync() },
	},
	{
		name:    "etcd7492",
		title:   "rwsem: a call has waited for RWMutex for more than 100ms",
		shows:   []string{"(*tokens).expire", "(*tokens).assign", "chan send"},
		maxwait: true,
		run: func(t *testing.T) {
			k := &tokens{added: make(chan struct{}, 1), tick: make(chan struct{})}
			go k.keep()
			go k.assign(3) // one that is kept, one in the channel, one too many
			await(t, &k.mu, "assign to block", func() bool { return strings.Contains(allStacks(), "[chan send]") })
			k.tick <- struct{}{}
			select {}
		},
	},
	{
		name:  "hugo3251",
		title: debugCircle,
		shows: []string{"(*urlLocks).lock", "(*urlLocks).unlock"},
		run: func(*testing.T) {
			l := &urlLocks{of: map[string]*RWMutex{}}
			l.lock("u")
			l.unlock("u")
		},
	},
	{
		name:    "kubernetes10182",
		title:   "rwsem: a call has waited for RWMutex for more than 100ms",
		shows:   []string{"(*podStatuses).remove", "(*podStatuses).set", "chan send"},
		maxwait: true,
		run: func(t *testing.T) {
			s := &podStatuses{changed: make(chan bool)}
			go s.set()
			s.syncOne(func() {
				await(t, &s.mu, "the first set to end", func() bool { return s.mu.TryLock() })
				s.mu.Unlock()
				go s.set()
				await(t, &s.mu, "the second set", func() bool { return strings.Contains(Describe(&s.mu), "write-locked") })
			})
		},
	},
	{
		name:  "kubernetes13135",
		title: debugCircle,
		shows: []string{"(*cacher).fill", "(*watchCache).replace", "(*watchCache).add", "(*cacher).event"},
		run: func(*testing.T) {
			c := &cacher{}
			c.cache.onReplace, c.cache.onEvent = c.mu.Unlock, c.event
			c.fill()
			c.cache.add()
		},
	},
	{
		name:    "kubernetes26980",
		title:   "rwsem: a call has waited for RWMutex for more than 100ms",
		shows:   []string{"(*listener).add", "(*listener).pop", "chan receive"},
		maxwait: true,
		run: func(t *testing.T) {
			p := &listener{pending: 1, stop: make(chan struct{})}
			p.changed.L = &p.mu
			go p.pop()
			await(t, &p.mu, "pop", func() bool { return strings.Contains(Describe(&p.mu), "write-locked") })
			p.add()
			close(p.stop)
		},
	},
	{
		name:  "kubernetes30872",
		title: debugCircle,
		shows: []string{"(*informer).synced", "(*fifo).synced", "(*fifo).pop", "(*informer).addCluster"},
		run: func(*testing.T) {
			f := &informer{}
			f.synced()
			f.queue.pop(f.addCluster)
		},
	},
	{
		name:    "kubernetes58107",
		title:   "rwsem: a call has waited for RWMutex for more than 100ms",
		shows:   []string{"(*quota).resync", "(*quota).work", "sync.(*Cond).Wait"},
		maxwait: true,
		run: func(t *testing.T) {
			q := &quota{}
			empty, full := sync.NewCond(new(sync.Mutex)), sync.NewCond(new(sync.Mutex))
			go q.work(empty)
			await(t, &q.workers, "a worker", func() bool { return strings.Contains(Describe(&q.workers), "read-locked") })
			go q.resync()
			awaitQueued(t, &q.workers, 0, 1)
			q.work(full)
		},
	},
	{
		name:  "kubernetes62464",
		title: debugRecursive,
		shows: []string{"(*cpuState).setOrDefault", "(*cpuState).set", "(*cpuState).replace"},
		run: func(t *testing.T) {
			s := &cpuState{}
			s.setOrDefault(func() {
				go s.replace()
				awaitQueued(t, &s.mu, 0, 1)
			})
		},
	},
	{
		name:  "syncthing4829",
		title: "rwsem: RLock of RWMutex that this goroutine has locked for writing",
		shows: []string{"(*mapping).clear", "(*mapping).notify"},
		run: func(*testing.T) {
			s := &mappings{all: []*mapping{{addresses: 1}}}
			s.removeAll()
		},
	},
}

const gokerEnv = "RWSEM_TEST_GOKER"

func TestGoker(t *testing.T) {
	if name := os.Getenv(gokerEnv); name != "" {
		for _, g := range gokers {
			if g.name == name {
				g.run(t)
			}
		}
		t.Fatal("it came to its end")
	}
	for _, g := range gokers {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			setting := "maxwait=0"
			if g.maxwait {
				setting = "maxwait=100ms"
			}
			report := debugChild(t, "TestGoker", gokerEnv+"="+g.name, "RWSEMDEBUG="+setting)
			assert.Equal(t, g.title, strings.SplitN(report, "\n", 2)[0], report)
			for _, f := range g.shows {
				assert.Contains(t, report, f)
			}
		})
	}
}

// cockroach16167: who executes a statement holds the lock through a Locker, and
// far below takes it again.
type sqlExecutor struct {
	config  RWMutex
	changed *sync.Cond
}

func (e *sqlExecutor) statement(between func()) {
	e.changed.L.Lock()
	defer e.changed.L.Unlock()
	between()
	e.cachedDatabase()
}

func (e *sqlExecutor) cachedDatabase() {
	e.config.RLock()
	e.config.RUnlock()
}

func (e *sqlExecutor) newConfig() {
	e.config.Lock()
	e.config.Unlock()
}

// cockroach3710: a scan under the store's lock asks each replica, which asks the
// store.
type raftStore struct {
	mu    RWMutex
	queue RWMutex
}

func (s *raftStore) scan(between func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	between()
	s.queue.Lock()
	defer s.queue.Unlock()
	s.status()
}

func (s *raftStore) status() {
	s.mu.RLock()
	s.mu.RUnlock()
}

func (s *raftStore) process() {
	s.mu.Lock()
	s.mu.Unlock()
}

// cockroach6181: what is printed under the lock takes it in its String.
type rangeCache struct{ mu RWMutex }

func (c *rangeCache) lookup(between func()) {
	c.mu.RLock()
	between()
	_ = c.String()
	c.mu.RUnlock()
	c.mu.Lock()
	c.mu.Unlock()
}

func (c *rangeCache) String() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return "ranges"
}

// etcd10492: a function that was registered runs under the lock that it takes.
type leases struct {
	mu      RWMutex
	onRenew func()
}

func (l *leases) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onRenew()
}

func (l *leases) checkpoint() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// etcd5509: a way out of a read section without RUnlock.
type rpcClient struct {
	mu     RWMutex
	cancel func()
}

func (c *rpcClient) acquire() bool {
	c.mu.RLock()
	if c.cancel == nil {
		return false
	}
	c.mu.RUnlock()
	return true
}

func (c *rpcClient) stop(between func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	c.cancel = nil
	c.mu.Unlock()
	between()
	c.mu.Lock()
}

// etcd6708: a client that is written to asks itself for the leader.
type memberClient struct{ mu RWMutex }

func (c *memberClient) sync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.do()
}

func (c *memberClient) do() {
	c.mu.RLock()
	c.mu.RUnlock()
}

// etcd7492: whoever adds sends under the lock to a keeper that needs it to expire
// what was added.
type tokens struct {
	mu    RWMutex
	added chan struct{}
	tick  chan struct{}
}

func (k *tokens) keep() {
	<-k.added
	for {
		<-k.tick
		k.expire()
	}
}

func (k *tokens) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
}

func (k *tokens) assign(n int) {
	for range n {
		k.mu.Lock()
		k.added <- struct{}{}
		k.mu.Unlock()
	}
}

// hugo3251: a lock for each URL, kept in a map with its own lock, is taken under
// that one and given back with it taken second.
type urlLocks struct {
	mu RWMutex
	of map[string]*RWMutex
}

func (l *urlLocks) lock(url string) {
	l.mu.Lock()
	if l.of[url] == nil {
		l.of[url] = new(RWMutex)
	}
	l.of[url].Lock()
	l.mu.Unlock()
}

func (l *urlLocks) unlock(url string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.of[url].Unlock()
}

// kubernetes10182: a send under the lock to one that needs the lock before it
// receives again.
type podStatuses struct {
	mu      RWMutex
	changed chan bool
}

func (s *podStatuses) set() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed <- true
}

func (s *podStatuses) syncOne(between func()) {
	<-s.changed
	between()
	s.remove()
}

func (s *podStatuses) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// kubernetes13135: filling takes the cacher's lock, then the cache's; an event
// takes them the other way round.
type cacher struct {
	mu    RWMutex
	cache watchCache
}

func (c *cacher) fill() {
	c.mu.Lock()
	c.cache.replace()
}

func (c *cacher) event() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

type watchCache struct {
	RWMutex
	onReplace, onEvent func()
}

func (w *watchCache) replace() {
	w.Lock()
	defer w.Unlock()
	w.onReplace()
}

func (w *watchCache) add() {
	w.Lock()
	defer w.Unlock()
	w.onEvent()
}

// kubernetes26980: a loop that means to wait on a condition waits for a channel
// with the lock held.
type listener struct {
	mu      RWMutex
	changed sync.Cond
	pending int
	stop    chan struct{}
}

func (p *listener) pop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.pending == 0 {
		p.changed.Wait()
	}
	<-p.stop
}

func (p *listener) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending++
	p.changed.Broadcast()
}

// kubernetes30872: the informer asks its queue, and the queue tells the informer.
type informer struct {
	mu    RWMutex
	queue fifo
}

func (f *informer) synced() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue.synced()
}

func (f *informer) addCluster() {
	f.mu.Lock()
	defer f.mu.Unlock()
}

type fifo struct{ mu RWMutex }

func (q *fifo) synced() {
	q.mu.Lock()
	defer q.mu.Unlock()
}

func (q *fifo) pop(process func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	process()
}

// kubernetes58107: a worker holds the lock for reading while it waits for work; a
// writer that waits for it keeps the other worker out, which has some.
type quota struct{ workers RWMutex }

func (q *quota) work(queue *sync.Cond) {
	q.workers.RLock()
	defer q.workers.RUnlock()
	queue.L.Lock()
	defer queue.L.Unlock()
	queue.Wait()
}

func (q *quota) resync() {
	q.workers.Lock()
	q.workers.Unlock()
}

// kubernetes62464: a read that falls back on another of the same state.
type cpuState struct{ mu RWMutex }

func (s *cpuState) setOrDefault(between func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	between()
	s.set()
}

func (s *cpuState) set() {
	s.mu.RLock()
	defer s.mu.RUnlock()
}

func (s *cpuState) replace() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// syncthing4829: a mapping that is cleared under its lock tells who listens,
// under its lock.
type mappings struct {
	mu  RWMutex
	all []*mapping
}

func (s *mappings) removeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		m.clear()
	}
}

type mapping struct {
	mu        RWMutex
	addresses int
}

func (m *mapping) clear() {
	m.mu.Lock()
	m.addresses = 0
	m.notify()
	m.mu.Unlock()
}

func (m *mapping) notify() {
	m.mu.RLock()
	m.mu.RUnlock()
}
