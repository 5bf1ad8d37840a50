// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// TestAProcessThatHangsEndsWithStacks replaces a key file by a FIFO while the sidecar runs: the reload reads from a writer that
// never writes, and nothing can end that. (At the start, files that are not regular are refused.)
func TestAProcessThatHangsEndsWithStacks(t *testing.T) {
	t.Parallel()
	const short, most = time.Second, 6 * time.Second
	for name, start := range map[string]func(t *testing.T, args []string) hanging{
		"serve": func(t *testing.T, args []string) hanging { t.Helper(); return sidecar.Serve(t, binary, args...) },
		"stdio": func(t *testing.T, args []string) hanging {
			t.Helper()
			p := sidecar.Pipe(t, binary, append(args, "--listen", "127.0.0.1:0", "--log-format", "json")...)
			p.Log(t, "it listens", func(e sidecar.Entry) bool { return e.Message == "listening" })
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := filepath.Join(t.TempDir(), "state.key")
			if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, []string{"--backend", "http://127.0.0.1:1", "--state-key", key, "--reload-interval", "50ms", "--grace", short.String()})
			if err := syscall.Mkfifo(key+".new", 0o600); err != nil {
				t.Skip(err)
			}
			if err := os.Rename(key+".new", key); err != nil {
				t.Fatal(err)
			}
			writer := awaitReader(t, key)
			defer func() { _ = writer.Close() }()
			p.ExpectExit(1)
			told := time.Now()
			p.Signal(t, syscall.SIGTERM)
			if code := p.Wait(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if took := time.Since(told); took > most+time.Second {
				t.Errorf("the end took %v, want %v at most", took, most)
			}
			if text := p.Text(); !strings.Contains(text, "the process did not exit") || !strings.Contains(text, "goroutine profile") || !strings.Contains(text, "LoadKeys") {
				t.Errorf("no stacks in the log: %.2000s", text)
			}
			if n := len(p.Text()); n > 128<<10 {
				t.Errorf("%d bytes of log", n)
			}
		})
	}
}

// awaitReader opens a FIFO for writing once something reads it.
func awaitReader(t *testing.T, fifo string) *os.File {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			return f
		}
		if !errors.Is(err, syscall.ENXIO) || time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// hanging is a process that does not end by itself.
type hanging interface {
	ExpectExit(code int)
	Signal(tb testing.TB, sig syscall.Signal)
	Wait(tb testing.TB) int
	Text() string
}
