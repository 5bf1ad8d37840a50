// SPDX-License-Identifier: Apache-2.0

package proc_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a shell script and waits until it says "here".
func start(t *testing.T, script string) *proc.Process {
	t.Helper()
	here := make(chan struct{})
	p, err := proc.Start(t.Context(), proc.Spec{Path: "/bin/sh", Args: []string{"-c", script}, OnStdout: func(line []byte) {
		if string(line) == "here" {
			close(here)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	select {
	case <-here:
	case <-p.Done():
		t.Fatal(p.Failure("say here"))
	}
	return p
}

func TestCPUIsWhatProcShows(t *testing.T) {
	t.Parallel()
	p := start(t, `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo here; exec sleep 60`)
	got, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	// Fields 14 and 15 of proc(5); the name, field 2, ends with the last bracket.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	want := time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
	if diff := (got - want).Abs(); got < 20*time.Millisecond || diff > 30*time.Millisecond {
		t.Errorf("clock says %v, /proc says %v", got, want)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	p := start(t, `echo here; exec sleep 60`)
	var m proc.Memory
	for until := time.Now().Add(5 * time.Second); m.RSS < 100<<10 && time.Now().Before(until); { // right after exec it is a page
		var err error
		if m, err = p.Memory(); err != nil {
			t.Fatal(err)
		}
	}
	if m.RSS < 100<<10 || m.RSS > 100<<20 || m.Peak < m.RSS || m.Anon > m.RSS {
		t.Errorf("implausible for sleep: %+v", m)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, `echo here; exec sleep 60`)
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(p.PID(), 0); err == nil {
		t.Error("it is still there")
	}
	if _, err := p.CPU(); err == nil {
		t.Error("an ended process has a clock")
	}
	if _, err := p.Memory(); err == nil {
		t.Error("an ended process has memory")
	}
}

func TestTheContextEndsIt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := proc.Start(ctx, proc.Spec{Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-p.Done()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestFailuresShowTheLastWords(t *testing.T) {
	t.Parallel()
	if _, err := proc.Start(t.Context(), proc.Spec{Path: "/nonexistent"}); err == nil {
		t.Error("started nothing")
	}
	p, err := proc.Start(t.Context(), proc.Spec{Path: "/bin/sh", Args: []string{"-c", "seq 100 >&2; printf 'no newline' >&2; exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	err = p.Stop()
	if err == nil {
		t.Fatal("status 3 is no failure")
	}
	text := err.Error()
	if !strings.Contains(text, "exit status 3") || !strings.HasSuffix(text, "100\nno newline") || strings.Contains(text, "\n80\n") {
		t.Errorf("got %s", text)
	}
}
