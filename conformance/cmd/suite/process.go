// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the wait for a server to be ready. It takes a
	// fraction of a second on an idle machine.
	startTimeout = 60 * time.Second
	// endTimeout is how long a process may take to end after SIGTERM. The
	// sidecar's grace period for calls in flight fits into it.
	endTimeout = 40 * time.Second
	// tailBytes is how much of a log is shown where its process broke.
	tailBytes = 4000
)

// process is a server that this command started, and ends.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // the file with all its output
	// done is closed when the process has ended; err is set before.
	done chan struct{}
	err  error
}

// launch starts a server. All its output goes to a file in dir, and each line
// to watch, which must not wait.
func launch(dir, name string, watch func(line string), argv ...string) (*process, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	// The server outlives this function and ends with end, not with a context.
	p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec // the command line is this command's flags
	p.cmd.Env = ownEnvironment()
	read, write := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = write, write // equal writers get one copier, so lines stay whole
	if err := p.cmd.Start(); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewReader(read)
		for {
			line, err := lines.ReadString('\n')
			_, _ = file.WriteString(line)
			watch(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return
			}
		}
	})
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
		_ = write.Close()
		reading.Wait()
		_ = file.Close()
	}()
	return p, nil
}

// ownEnvironment is this command's, without settings of the sidecar.
func ownEnvironment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "OUTRIGGER_") {
			out = append(out, v)
		}
	}
	return out
}

// await waits for a value that watch found.
func await[T any](ctx context.Context, p *process, what string, found <-chan T) (T, error) {
	var none T
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case v := <-found:
		return v, nil
	case <-p.done:
		select {
		case v := <-found: // its last words
			return v, nil
		default:
		}
		return none, fmt.Errorf("%s ended before it was %s: %w\n%s", p.name, what, cause(p.err), p.tail())
	case <-timer.C:
		return none, fmt.Errorf("%s is not %s after %s\n%s", p.name, what, startTimeout, p.tail())
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// cause is why a process ended, in words where it ended well.
func cause(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// end asks the process to end, by its id, waits, and reports how it went.
func (p *process) end() error {
	select {
	case <-p.done:
		return nil // it has been reported
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(endTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s had to be killed %s after SIGTERM\n%s", p.name, endTimeout, p.tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s did not end well: %w\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// tail is the end of the log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > tailBytes {
		text = text[len(text)-tailBytes:]
	}
	return p.log + ":\n" + string(text)
}
