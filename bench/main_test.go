// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bench/internal/e2e"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// roleBench makes the test binary the benchmark itself, so that a test can interrupt it.
const roleBench = "bench"

// TestMain lets the test binary play the roles that the benchmark starts itself in.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleBench:
			os.Exit(run(os.Args[2:], os.Stdout, os.Stderr))
		case peer.RoleBackend, peer.RoleProxy, peer.RoleSubject, peer.RoleFloor, peer.RoleRefusal, peer.RoleGRPCProxy, peer.RoleStreamProxy, peer.RoleFleet:
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		}
	}
	goleak.VerifyTestMain(m)
}

// tiny is a run that shows that everything works and measures nothing.
func tiny(binary string, more ...string) []string {
	return append([]string{
		"-sidecar", binary, "-contract=false", "-starts", "1", "-idle", "10ms", "-rounds", "2", "-warmup", "5ms", "-window", "40ms", "-callers", "1,8",
	}, more...)
}

// TestTheHarness runs the benchmark against the real sidecar, so that it is known to work on the day on which somebody
// wants figures.
func TestTheHarness(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the benchmark's run against the real sidecar is left out")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := sidecar.Root(here)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := sidecar.Build(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	t.Run("under load", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"load", "-sidecar", binary, "-quick"}, &stdout, &stderr); code != 0 {
			t.Fatalf("status %d\n%s", code, &stderr)
		}
		for _, subject := range []string{"sidecar", "proxy"} {
			if rows := strings.Count(stdout.String(), "\n| `"+subject+"` | "); rows < 4 {
				t.Errorf("%s has %d rows, want one for each load", subject, rows)
			}
		}
	})
	t.Run("figures of every path", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		if code := run(tiny(binary), &stdout, &stderr); code != 0 {
			t.Fatalf("status %d\n%s", code, &stderr)
		}
		for _, p := range path.All() {
			if rows := strings.Count(stdout.String(), "\n| `"+p.Name+"` | "); rows != 2 {
				t.Errorf("%s has %d rows, want one for each number of callers", p.Name, rows)
			}
		}
		if strings.Contains(stdout.String(), "NaN") || strings.Contains(stdout.String(), "not seen") {
			t.Errorf("figures are missing:\n%s", &stdout)
		}
	})
	for _, size := range []string{"medium", "large"} {
		t.Run(size, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(tiny(binary, "-size", size, "-rounds", "1"), &stdout, &stderr); code != 0 {
				t.Fatalf("status %d\n%s", code, &stderr)
			}
		})
	}
	t.Run("floors", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		args := []string{"e2e", "-quick", "-sidecar", binary, "-subjects", peer.FloorClient + "," + peer.FloorBoth, "-sizes", "small", "-crowd", "0", "-digits=false"}
		if code := run(args, &stdout, &stderr); code != 0 {
			t.Fatalf("status %d\n%s", code, &stderr)
		}
		for _, name := range []string{peer.FloorClient, peer.FloorBoth} {
			if !strings.Contains(stdout.String(), "\n| `"+name+"` | ") {
				t.Errorf("%s lacks its row:\n%s", name, &stdout)
			}
		}
	})
	t.Run("end to end", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"e2e", "-quick", "-sidecar", binary}, &stdout, &stderr); code != 0 {
			t.Fatalf("status %d\n%s", code, &stderr)
		}
		for _, name := range e2e.Usual() {
			if want := len(e2e.SizeNames()); name != "other" && strings.Count(stdout.String(), "\n| `"+name+"` | ") < want {
				t.Errorf("%s lacks rows:\n%s", name, &stdout)
			}
		}
		// What is compared has to be what it says: the sidecar keeps every digit, and a server that goes through maps does not.
		for _, row := range []string{"| `sidecar` | exact | exact | exact |", "| `gosdk-legacy` | 9007199254740992 | 9007199254740992 |"} {
			if !strings.Contains(stdout.String(), row) {
				t.Errorf("no row %s:\n%s", row, &stdout)
			}
		}
		if strings.Contains(stdout.String(), "NaN") || strings.Contains(stdout.String(), "not seen") {
			t.Errorf("figures are missing:\n%s", &stdout)
		}
	})
	for command, rows := range map[string][]string{
		"backends": {"4 of 8 backends are odd", "\n| a call, p50 µs | ", "\n| memory in use, MB | ", "\n| tools of the backends that are called | 5.00 | 20.0 | 4.00 | 20.0 | 1.00 | "},
		"latency":  {"\n| `direct` | ", "\n| `mcp` | ", "\n| `proxy` | ", "\n| memory (VmRSS), idle"},
		"streams":  {"\n| client | 200 | ", "\n| server | 16384 | ", "\n| bidi | 200 | ", "\n| ping-pong | 16384 | ", "open streams at rest: "},
		"soak":     {"\n| before, idle | ", "\n| errors and wrong answers | none | none of ", "\n| idle again | "},
	} {
		t.Run(command, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run([]string{command, "-quick", "-sidecar", binary}, &stdout, &stderr); code != 0 {
				t.Fatalf("status %d\n%s", code, &stderr)
			}
			for _, row := range rows {
				if !strings.Contains(stdout.String(), row) {
					t.Errorf("no row %q:\n%s", row, &stdout)
				}
			}
			if strings.Contains(stdout.String(), "NaN") {
				t.Errorf("figures are missing:\n%s", &stdout)
			}
		})
	}
	t.Run("an interrupt leaves nothing behind", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(sig.String(), func(t *testing.T) { interrupt(t, binary, sig) })
		}
	})
}

// interrupt starts a long run, sends a signal in the middle of a round, and looks for what is left.
func interrupt(t *testing.T, binary string, sig syscall.Signal) {
	tmp := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{roleBench}, tiny(binary, "-rounds", "1000")...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	rounds := &signalOn{text: "round 1 of", found: make(chan struct{})}
	cmd.Stderr = rounds
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-rounds.found:
	case <-ctx.Done():
		t.Fatal("no round began")
	}
	if got := processes(t, tmp); len(got) != 4 {
		t.Errorf("%d processes, want this one, the sidecar, the proxy and the backend: %q", len(got), got)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted run is a success")
	}
	if took := time.Since(start); took > testkit.Limit() {
		t.Errorf("it took %v to end", took)
	}
	testkit.Try(t, "no process is left behind", func() error { // the kernel has sent SIGKILL; dying takes a moment
		if got := processes(t, tmp); len(got) > 0 {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	if left, err := os.ReadDir(tmp); err != nil || (len(left) > 0 && sig != syscall.SIGKILL) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// processes are the command lines of all processes that inherited that temporary directory.
func processes(t *testing.T, tmp string) []string {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range environs {
		environ, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), "TMPDIR="+tmp) {
			continue // it ended meanwhile, or it is another's
		}
		if line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")); err == nil && len(line) > 0 {
			out = append(out, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// signalOn closes a channel when a text was written.
type signalOn struct {
	text    string
	seen    []byte
	found   chan struct{}
	isFound bool
}

func (s *signalOn) Write(p []byte) (int, error) {
	s.seen = append(s.seen, p...)
	if !s.isFound && bytes.Contains(s.seen, []byte(s.text)) {
		s.isFound = true
		close(s.found)
	}
	return len(p), nil
}

func TestCommandLinesThatSayNothingSensible(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-no-such-flag"}, {"word"}, {"-callers", "0"}, {"-callers", "1,x"}, {"-callers", "5000"}, {"-paths", "mcp,nowhere"},
		{"-size", "huge"}, {"-starts", "0"}, {"-rounds", "-1"}, {"-window", "0s"}, {"-idle", "-1s"},
		{"e2e", "-no-such-flag"}, {"e2e", "word"}, {"e2e", "-subjects", "unknown"}, {"e2e", "-subjects", "other"}, {"e2e", "-sizes", "huge"},
		{"latency", "word"}, {"latency", "-rate", "0"}, {"latency", "-rate", "NaN"}, {"latency", "-rounds", "0"}, {"latency", "-crowd", "0"}, {"latency", "-window", "0s"},
		{"soak", "word"}, {"soak", "-duration", "0s"}, {"soak", "-duration", "3h"}, {"soak", "-every", "1ms"}, {"soak", "-every", "1h"}, {"soak", "-share", "0"},
		{"soak", "-share", "NaN"}, {"backends", "word"}, {"backends", "-backends", "4"}, {"backends", "-backends", "101"}, {"backends", "-callers", "0"}, {"backends", "-rounds", "0"}, {"backends", "-hanging", "-1"},
		{"soak", "-callers", "0"}, {"soak", "-capacity", "0s"},
		{"e2e", "-callers", "0"}, {"e2e", "-crowd", "5000"}, {"e2e", "-rounds", "-1"}, {"e2e", "-window", "0s"}, {"e2e", "-longest", "1ms"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := run(args, &stdout, &stderr); code != 2 || stderr.Len() == 0 || stdout.Len() > 0 {
				t.Errorf("status %d, stdout %q, stderr %q", code, &stdout, &stderr)
			}
		})
	}
}

func TestQuickYieldsToWhatIsGiven(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	o, err := parseOptions([]string{"-quick", "-rounds", "7", "-callers", "50,1,50", "-paths", "rpc,direct"}, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 7 || o.window != 200*time.Millisecond || o.starts != 5 {
		t.Errorf("got %+v", o)
	}
	if !slices.Equal(o.callers, []int{1, 50}) || !slices.Equal(pathNames(o.paths), []string{"direct", "rpc"}) {
		t.Errorf("callers %v, paths %v", o.callers, pathNames(o.paths))
	}
}

// The default run keeps to four minutes, -quick to one, a warm build included; 22 s of either are spent idle, because that
// is what is measured.
func TestRunsAreShort(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		most time.Duration
	}{{nil, 230 * time.Second}, {[]string{"-quick"}, 54 * time.Second}} {
		var stderr bytes.Buffer
		o, err := parseOptions(test.args, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.planned(); got > test.most {
			t.Errorf("%v: %v planned", test.args, got)
		}
	}
	// The others keep to what the document says of them; of the end-to-end benchmark this is the worst case, in which every
	// window grows as far as it may.
	var stderr bytes.Buffer
	latency, err := parseLatency(nil, &stderr)
	if err != nil || latency.planned() > 150*time.Second {
		t.Errorf("latency: %v planned, %v", latency.planned(), err)
	}
	soak, err := parseSoak(nil, &stderr)
	if err != nil || soak.planned() > 11*time.Minute {
		t.Errorf("soak: %v planned, %v", soak.planned(), err)
	}
	e2e, err := parseE2E(nil, &stderr)
	if err != nil || e2e.planned() > 30*time.Minute {
		t.Errorf("e2e: %v at most, %v", e2e.planned(), err)
	}
}
