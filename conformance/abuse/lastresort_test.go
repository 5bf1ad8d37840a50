// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// TestAProcessThatHangsEndsWithStacks has the sidecar read its descriptors from a
// FIFO without a writer: opening it blocks, and nothing can end that.
func TestAProcessThatHangsEndsWithStacks(t *testing.T) {
	t.Parallel()
	const short, most = time.Second, 6 * time.Second
	fifo := filepath.Join(t.TempDir(), "descriptors")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	args := []string{"--backend", "http://127.0.0.1:1", "--descriptors", fifo, "--grace", short.String()}
	for name, start := range map[string]func(*testing.T) hanging{
		"serve": func(t *testing.T) hanging { t.Helper(); return sidecar.Serve(t, binary, args...) },
		"stdio": func(t *testing.T) hanging {
			t.Helper()
			p := sidecar.Pipe(t, binary, append(args, "--listen", "127.0.0.1:0", "--log-format", "json")...)
			p.Log(t, "it listens", func(e sidecar.Entry) bool { return e.Message == "listening" })
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			p.ExpectExit(1)
			told := time.Now()
			p.Signal(t, syscall.SIGTERM)
			if code := p.Wait(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if took := time.Since(told); took > most+time.Second {
				t.Errorf("the end took %v, want %v at most", took, most)
			}
			if text := p.Text(); !strings.Contains(text, "the process did not exit") || !strings.Contains(text, "goroutine profile") || !strings.Contains(text, "catalog") {
				t.Errorf("no stacks in the log: %.2000s", text)
			}
			if n := len(p.Text()); n > 128<<10 {
				t.Errorf("%d bytes of log", n)
			}
		})
	}
}

// hanging is a process that does not end by itself.
type hanging interface {
	ExpectExit(code int)
	Signal(tb testing.TB, sig syscall.Signal)
	Wait(tb testing.TB) int
	Text() string
}
