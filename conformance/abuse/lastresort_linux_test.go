// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAProcessThatHangsEndsWithStacks replaces a key file by one that the test holds a lease on (fcntl_locking(2)): the open of
// the reload waits until the lease ends or 45 s have passed, and nothing in the process can end that.
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
			held := leased(t, key+".new")
			if err := os.Rename(key+".new", key); err != nil {
				t.Fatal(err)
			}
			awaitOpen(t, held)
			p.ExpectExit(1)
			told := time.Now()
			p.Signal(t, syscall.SIGTERM)
			if code := p.Wait(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if took := time.Since(told); took > most+testkit.Limit() {
				t.Errorf("the end took %v, want %v at most", took, most)
			}
			if text := p.Text(); !strings.Contains(text, "the process did not exit") || !strings.Contains(text, "goroutine profile") || !strings.Contains(text, "internal/reload.hash") {
				t.Errorf("no stacks in the log: %.2000s", text)
			}
			if n := len(p.Text()); n > 128<<10 {
				t.Errorf("%d bytes of log", n)
			}
		})
	}
}

// leased writes a file and takes a lease on it, for the time of the test.
func leased(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	return f
}

// awaitOpen returns once something waits to open the file.
func awaitOpen(t *testing.T, f *os.File) {
	t.Helper()
	testkit.Until(t, "the process reads the file again", func() bool {
		// While an open waits, the lease is the one that has to be given back.
		lease, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
		if err != nil {
			t.Fatal(err)
		}
		return lease != unix.F_WRLCK
	})
}

// hanging is a process that does not end by itself.
type hanging interface {
	ExpectExit(code int)
	Signal(tb testing.TB, sig syscall.Signal)
	Wait(tb testing.TB) int
	Text() string
}
