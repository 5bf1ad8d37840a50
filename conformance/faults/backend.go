// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Backend is a backend that is its own process, so that it can be stopped
// and killed: the test binary, started once more. Its methods fail the test
// where they cannot do what they say. They are not for concurrent use.
type Backend struct {
	tb    testing.TB
	stack Stack
	// addr is where it listens, the same after each start.
	addr, journal string

	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// StartBackend starts a backend on a free port of loopback. It ends with the
// test.
func StartBackend(tb testing.TB, stack Stack) *Backend {
	tb.Helper()
	b := &Backend{tb: tb, stack: stack, addr: testkit.Reserved(tb), journal: filepath.Join(tb.TempDir(), "journal")}
	b.Start()
	tb.Cleanup(b.Kill)
	return b
}

// Addr is its host:port.
func (b *Backend) Addr() string { return b.addr }

// Executions returns everything that any process of this backend began to run.
func (b *Backend) Executions() []Execution {
	b.tb.Helper()
	all, err := ReadJournal(b.journal)
	if err != nil {
		b.tb.Fatal(err)
	}
	return all
}

// Start starts the process and waits until it listens.
func (b *Backend) Start() {
	b.tb.Helper()
	self, err := os.Executable()
	if err != nil {
		b.tb.Fatal(err)
	}
	cmd := exec.Command(self) //nolint:gosec // this very binary
	cmd.Env = append(os.Environ(), envAddr+"="+b.addr, envJournal+"="+b.journal, envServer+"="+string(b.stack))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.tb.Fatal(err)
	}
	first, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		first <- strings.TrimSpace(line)
		_ = cmd.Wait()
	}()
	b.mu.Lock()
	b.cmd, b.stdin, b.ended = cmd, stdin, ended
	b.mu.Unlock()
	select {
	case line := <-first:
		if line == "" {
			b.tb.Fatal("the backend ended before it listened")
		}
		if line != b.addr {
			b.tb.Fatalf("the backend listens at %s, want %s", line, b.addr)
		}
	case <-time.After(testkit.Limit()):
		b.tb.Fatal("the backend does not listen")
	}
}

// Signal sends a signal to the process, by its id.
func (b *Backend) Signal(sig syscall.Signal) {
	b.tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.cmd.Process.Signal(sig); err != nil {
		b.tb.Fatalf("the backend, signal %v: %v", sig, err)
	}
}

// Freeze stops the process as SIGSTOP does, and returns when it has stopped: until then, its threads
// go on beside busy cores, and may answer a call.
func (b *Backend) Freeze() {
	b.tb.Helper()
	b.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(b.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == nil && status.Stopped() {
			return
		}
		if !errors.Is(err, syscall.EINTR) {
			b.tb.Fatalf("the backend does not stand: status %#x, %v", status, err)
		}
	}
}

// Thaw lets a frozen process go on.
func (b *Backend) Thaw() {
	b.tb.Helper()
	b.Signal(syscall.SIGCONT)
}

// Hold lets no call end before Release: calls that take longer to make than they last are
// then in the backend together all the same.
func (b *Backend) Hold() {
	b.tb.Helper()
	if err := os.WriteFile(heldFile(b.journal), nil, 0o600); err != nil {
		b.tb.Fatal(err)
	}
}

// Release lets calls end again.
func (b *Backend) Release() {
	b.tb.Helper()
	if err := os.Remove(heldFile(b.journal)); err != nil {
		b.tb.Fatal(err)
	}
}

// Kill ends the process as kill -9 does and waits until it is gone. A process
// that is gone already is no fault.
func (b *Backend) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.cmd.Process.Kill()
	<-b.ended
	_ = b.stdin.Close()
}

// End asks the process to answer what is in flight and to end, and waits.
func (b *Backend) End() {
	b.tb.Helper()
	b.Signal(syscall.SIGTERM)
	testkit.Receive(b.tb, "the end of the backend after SIGTERM", b.ended)
}
