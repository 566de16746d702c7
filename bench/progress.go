package main

import (
	"fmt"
	"io"
	"time"
)

// progress tells how far a run has come.
type progress struct {
	w             io.Writer
	began         time.Time
	planned, done time.Duration
}

// newProgress says how long the run is expected to take.
func newProgress(w io.Writer, planned time.Duration) *progress {
	fmt.Fprintf(w, "about %v in all\n", planned.Round(time.Second))
	return &progress{w: w, began: time.Now(), planned: planned}
}

// step announces work planned to take the given time and returns what to call
// when it is over.
func (p *progress) step(what string, i, n int, planned time.Duration) (finished func()) {
	fmt.Fprintf(p.w, "%s: %d of %d, about %v left\n", what, i+1, n, p.left().Round(time.Second))
	return func() { p.done += planned }
}

// skip takes off the plan what will not be done.
func (p *progress) skip(planned time.Duration) { p.planned -= planned }

// left scales what is still planned by how the plan has held so far.
func (p *progress) left() time.Duration {
	pace := 1.0
	if p.done > 0 {
		pace = float64(time.Since(p.began)) / float64(p.done)
	}
	return time.Duration(pace * float64(p.planned-p.done))
}
