// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// process is a running binary of which standard error is a log.
type process struct {
	cmd     *exec.Cmd
	journal *journal
	// done is closed when the process has ended; code is set before.
	done     chan struct{}
	code     int
	wantCode int
	mu       sync.Mutex
}

// command prepares the binary with an environment that has none of the
// sidecar's own variables, in its own directory.
func command(tb testing.TB, binary string, args []string) *exec.Cmd {
	tb.Helper()
	cmd := exec.Command(binary, args...) //nolint:gosec // built by this test run
	cmd.Dir = tb.TempDir()
	if !slices.Contains(args, "--config") { // which a variable would override
		// Beside dozens of others on a busy machine, a sidecar may need more than the ten seconds that calls wait for its first catalog.
		cmd.Env = []string{"OUTRIGGER_CATALOG_WAIT=5m"}
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "OUTRIGGER_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// launch starts cmd and arranges for its end. Pipes to the process must have
// been made before.
func launch(tb testing.TB, cmd *exec.Cmd) *process {
	tb.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{cmd: cmd, journal: newJournal(), done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	var logged sync.WaitGroup
	logged.Go(func() { p.journal.follow(stderr) })
	go func() {
		defer close(p.done)
		logged.Wait() // Wait closes the pipe, so it comes last
		p.code = exitCode(cmd.Wait())
	}()
	tb.Cleanup(func() { p.end(tb) })
	return p
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// Signal sends a signal to the process, by its id.
func (p *process) Signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		tb.Fatalf("signal %v: %v", sig, err)
	}
}

// Done is closed when the process has ended.
func (p *process) Done() <-chan struct{} { return p.done }

// ExpectExit says with which code the process is to end; the default is 0.
func (p *process) ExpectExit(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wantCode = code
}

// Wait waits for the end of the process and returns its exit code.
func (p *process) Wait(tb testing.TB) int {
	tb.Helper()
	limit := testkit.Limit()
	select {
	case <-p.done:
	case <-time.After(limit):
		tb.Fatalf("the process goes on after %s:\n%s", limit, tail(p.journal.text()))
	}
	return p.code
}

// Log waits for an entry that match accepts.
func (p *process) Log(tb testing.TB, what string, match func(Entry) bool) Entry {
	tb.Helper()
	limit := testkit.Limit()
	over := time.After(limit)
	for {
		entry, ok, changed, ended := p.journal.find(match)
		if ok {
			return entry
		}
		if ended {
			tb.Fatalf("the process ended before it logged %s:\n%s", what, tail(p.journal.text()))
		}
		select {
		case <-changed:
		case <-over:
			tb.Fatalf("%s is not in the log after %s:\n%s", what, limit, tail(p.journal.text()))
		}
	}
}

// Text returns everything that was logged so far.
func (p *process) Text() string { return p.journal.text() }

// PID returns the process's id.
func (p *process) PID() int { return p.cmd.Process.Pid }

// end asks the process to end, waits for it, and looks at how it went.
func (p *process) end(tb testing.TB) {
	tb.Helper()
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	limit := testkit.Limit()
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.done
		tb.Errorf("the process had to be killed %s after SIGTERM:\n%s", limit, tail(p.journal.text()))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := p.journal.text(); strings.Contains(text, "DATA RACE") {
		tb.Errorf("the process reports a data race:\n%s", text)
	}
	if p.code != p.wantCode {
		tb.Errorf("the process ended with code %d, want %d:\n%s", p.code, p.wantCode, tail(p.journal.text()))
	}
}

// tail keeps what a person reads of a long log.
func tail(text string) string {
	const most = 4000
	if len(text) > most {
		return "..." + text[len(text)-most:]
	}
	return text
}
