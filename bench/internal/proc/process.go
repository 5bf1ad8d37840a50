// SPDX-License-Identifier: Apache-2.0

// Package proc starts the processes that are measured, ends them, and reads what the kernel counted for them. It needs
// Linux: CPU clocks of other processes, /proc and parent-death signals. A Process is safe for concurrent use.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a process may take to end by itself after SIGTERM. The sidecar answers calls in flight first; here
// there are none, so that this is ample.
const grace = 10 * time.Second

// Spec says what to start.
type Spec struct {
	// Path is the executable, Args its arguments without the name.
	Path string
	Args []string
	// Dir is the working directory.
	Dir string
	// Env is the environment; nil is that of this process.
	Env []string
	// OnStdout and OnStderr, where set, get each line as it comes, without its end. The bytes are valid during the call.
	OnStdout, OnStderr func(line []byte)
}

// Process is a running child. Its owner calls Stop.
type Process struct {
	cmd     *exec.Cmd
	started time.Time
	cancel  context.CancelFunc
	stderr  *lines
	done    chan struct{}
	err     error // written before done is closed
}

// Start starts a process. It gets SIGTERM when ctx ends, and SIGKILL where that does not end it or where this process
// dies, so that nothing is left behind however a run ends.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{cancel: cancel, stderr: newLines(spec.OnStderr), done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, spec.Path, spec.Args...) //nolint:gosec // what is measured is named by who runs the benchmark
	p.cmd.Dir, p.cmd.Env = spec.Dir, spec.Env
	p.cmd.Stderr = p.stderr
	p.cmd.Stdout = io.Discard
	if spec.OnStdout != nil {
		p.cmd.Stdout = newLines(spec.OnStdout)
	}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = grace
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		cancel()
		<-p.done
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	return p, nil
}

// run owns the child from its start to its end, on one thread: the kernel sends the parent-death signal when the
// *thread* that forked ends (prctl(2), PR_SET_PDEATHSIG).
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	p.started = time.Now()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Renice lowers the scheduling priority of all threads of the process; those that it makes later inherit it.
func (p *Process) Renice(niceness int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID()))
	if err != nil {
		return fmt.Errorf("renice: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return fmt.Errorf("renice: %w", err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, niceness); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("renice: %w", err)
		}
	}
	return nil
}

// Started is the moment just before fork and exec.
func (p *Process) Started() time.Time { return p.started }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the process and waits for it. A process that ends by itself on SIGTERM, with status 0 or by that signal, is
// no error; one that had to be killed or that failed is. Stopping twice is harmless.
func (p *Process) Stop() error {
	p.cancel()
	<-p.done
	var exit *exec.ExitError
	if p.err == nil || errors.Is(p.err, context.Canceled) {
		return nil
	}
	if errors.As(p.err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
			return nil
		}
	}
	return p.Failure("end")
}

// Failure describes a process that did not do what it should, with the last lines that it wrote to standard error.
func (p *Process) Failure(step string) error {
	why := errors.New("still running")
	select {
	case <-p.done:
		why = p.err
		if why == nil {
			why = os.ErrProcessDone
		}
	default:
	}
	return fmt.Errorf("%s: %s: %w\n%s", p.cmd.Path, step, why, p.stderr.tail())
}
