// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopTimeout is how long a daemon gets to end after SIGTERM.
const stopTimeout = 10 * time.Second

// daemon is one process of the node, with its output in a file.
type daemon struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func startDaemon(logs, name, program string, args ...string) (*daemon, error) {
	d := &daemon{name: name, log: filepath.Join(logs, name+".log"), done: make(chan struct{})}
	out, err := os.Create(d.log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d.cmd = exec.Command(program, args...) //nolint:gosec // the node's own programs
	d.cmd.Stdout, d.cmd.Stderr = out, out
	// Beyond the terminal's reach: an interrupt ends the node, and the node its daemons.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = d.cmd.Start()
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait() // how it ended is in its log
	}()
	return d, nil
}

// stop ends the process by its id, and waits for it.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(stopTimeout):
		_ = d.cmd.Process.Kill()
		<-d.done
	}
}

// await polls until check succeeds. It ends early when the process has ended, and
// shows the end of its log.
func (d *daemon) await(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.done:
			return fmt.Errorf("%s has ended: %s", d.name, d.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not there after %s: %w: %s", d.name, limit, err, d.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (d *daemon) tail() string {
	const most = 3000
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}
