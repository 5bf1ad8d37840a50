// SPDX-License-Identifier: Apache-2.0

// Package process starts programs and ends them.
//
// A process that was started is ended by its owner, first with SIGTERM and then
// by force. Everything is safe for concurrent use.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// grace is how long a process may take to end after SIGTERM.
	grace = 10 * time.Second
	// maxOutput bounds what is kept of a process' output: its end.
	maxOutput = 64 << 10
)

// Process is a running program.
type Process struct {
	name string
	cmd  *exec.Cmd
	out  *tail
	done chan struct{}
	err  error // how it ended; read it after done
}

// Start starts a program in the folder dir, with variables beside those of this process.
func Start(path, dir string, env []string, args ...string) (*Process, error) {
	p := &Process{name: filepath.Base(path), cmd: exec.Command(path, args...), out: &tail{}, done: make(chan struct{})} //nolint:gosec // the programs that the rig is for
	p.cmd.Dir = dir
	p.cmd.Env = append(p.cmd.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Output returns the end of what the process wrote so far.
func (p *Process) Output() string { return p.out.String() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the process. It returns an error if the process did not end well.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within %s: %s", p.name, grace, p.Output())
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM { // on Unix
		return nil
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.err, p.Output())
	}
	return nil
}

// Await asks ready until it is, the process ends, or the context does.
func (p *Process) Await(ctx context.Context, ready func(context.Context) bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w: %s", p.name, errors.Join(p.err), p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.name, ctx.Err(), p.Output())
		case <-tick.C:
		}
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - maxOutput; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
