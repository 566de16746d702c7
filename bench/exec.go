package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// withLimit is a context whose end says how long was too long.
func withLimit(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, limit, fmt.Errorf("not over after %v", limit))
}

// capture runs a command made for ctx, which kills it at its end. The error has
// what the command wrote to its standard error.
func capture(ctx context.Context, cmd *exec.Cmd) (stdout, stderr []byte, err error) {
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	// A killed command may leave behind somebody who keeps its output open.
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return o.Bytes(), e.Bytes(), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &e)
	}
	return o.Bytes(), e.Bytes(), nil
}
