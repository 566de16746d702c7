package proof

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rwsem/rwsem"
)

var (
	linearTime = flag.Duration("proof.time", 4*time.Second, "for how long TestLinearizable runs in all")
	linearSeed = flag.Uint64("proof.seed", 0, "seed of the one program that TestLinearizable runs over and over (default: many)")
)

// checkLimit is how long porcupine may take over a history; it takes some
// milliseconds.
const checkLimit = 20 * time.Second

// judge checks a history. What the checker cannot decide in its time fails too.
func judge(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model, history, checkLimit)
}

// draw writes the history as a page that a browser shows, and returns its name.
func draw(history []porcupine.Operation) (name string, err error) {
	_, info := porcupine.CheckOperationsVerbose(model, history, checkLimit)
	file, err := os.CreateTemp("", "rwsem-history-*.html")
	if err != nil {
		return "", err
	}
	defer file.Close()
	return file.Name(), porcupine.Visualize(model, info, file)
}

// seen counts what histories had in them.
type seen struct {
	mu                    sync.Mutex
	histories, operations int
	taken, failed         [numCalls]int
	exactVain             int // tries that failed with nobody beside them that may have kept them out
	longest               int // operations in one history
}

func (s *seen) add(history []porcupine.Operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.histories++
	s.operations += len(history)
	s.longest = max(s.longest, len(history))
	for _, op := range history {
		c, a := op.Input.(input).call, op.Output.(answer)
		if a.failed {
			s.failed[c]++
			if calls[c].patience == tries && !a.beside {
				s.exactVain++
			}
		} else {
			s.taken[c]++
		}
	}
}

func (s *seen) String() string {
	return fmt.Sprintf("%d histories, %d calls, up to %d in one; %d tries in vain with nobody beside them that may have kept them out",
		s.histories, s.operations, s.longest, s.exactVain)
}

// check has the lock go through a program, and describes what is wrong with what
// was seen.
func (s *seen) check(p *program) (wrong string) {
	history, err := p.run(new(rwsem.RWMutex))
	if err != nil {
		return err.Error()
	}
	s.add(history)
	res := judge(history)
	if res == porcupine.Ok {
		return ""
	}
	page, err := draw(history)
	if err != nil {
		page = err.Error()
	}
	return fmt.Sprintf(`%s, drawn in %s
%v
To run the program again, which may go another way:
	go test ./proof -run TestLinearizable -proof.seed=%d -proof.time=1m`, res, page, p, p.seed)
}

func TestLinearizable(t *testing.T) {
	require.Positive(t, *linearTime, "-proof.time")
	var all seen
	wrong := make(chan string, 1) // the first
	for _, procs := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("procs=%d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			end := time.Now().Add(*linearTime / 3)
			var running sync.WaitGroup
			for range 4 { // programs at a time: they sleep a lot
				running.Go(func() {
					for time.Now().Before(end) && len(wrong) == 0 {
						seed := *linearSeed
						if seed == 0 {
							seed = rand.Uint64()
						}
						if w := all.check(newProgram(seed)); w != "" {
							select {
							case wrong <- w:
							default:
							}
						}
					}
				})
			}
			running.Wait()
		})
	}
	select {
	case w := <-wrong:
		t.Fatal(w)
	default:
	}
	t.Log(&all)
	if *linearSeed != 0 {
		return
	}
	for c := range numCalls {
		assert.NotZero(t, all.taken[c], calls[c].name)
		switch calls[c].patience {
		case tries, hasTime, hasCtx:
			assert.NotZero(t, all.failed[c], "%s in vain", calls[c].name)
		}
	}
	assert.NotZero(t, all.exactVain)
}
