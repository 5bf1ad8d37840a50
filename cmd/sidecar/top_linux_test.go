// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// glass is all that a terminal got, as bytes.
type glass struct {
	person, process *os.File
	before          unix.Termios

	mu   sync.Mutex
	seen bytes.Buffer
}

func openGlass(t *testing.T, columns, lines uint16) *glass {
	t.Helper()
	person, process := openTerminal(t)
	g := &glass{person: person, process: process, before: *modeOf(t, process)}
	g.resize(t, columns, lines)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			if err != nil {
				return
			}
			g.mu.Lock()
			g.seen.Write(buf[:n])
			g.mu.Unlock()
		}
	}()
	return g
}

func modeOf(t *testing.T, f *os.File) *unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

func (g *glass) resize(t *testing.T, columns, lines uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(g.person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}); err != nil {
		t.Fatal(err)
	}
}

// String is what came since the last press.
func (g *glass) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen.String()
}

func (g *glass) press(t *testing.T, keys string) {
	t.Helper()
	g.mu.Lock()
	g.seen.Reset()
	g.mu.Unlock()
	if _, err := g.person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// restored wants the terminal as it was.
func (g *glass) restored(t *testing.T) {
	t.Helper()
	testkit.Says(t, g, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	if now := *modeOf(t, g.process); now != g.before {
		t.Errorf("the terminal's mode is %+v, was %+v", now, g.before)
	}
}

// top runs the command in the terminal.
func (g *glass) top(ctx context.Context, environ []string, args ...string) (ended chan int, stderr *bytes.Buffer) {
	ended, stderr = make(chan int, 1), &bytes.Buffer{}
	go func() {
		ended <- run(ctx, append([]string{"top", "--interval", "250ms"}, args...), g.process, g.process, stderr, environ)
	}()
	return ended, stderr
}

// TestTopAtATerminal: keys change what is shown, hostile names do nothing, and q, Ctrl-C and a signal leave the terminal as it was.
func TestTopAtATerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		environ []string
		colour  bool
		end     func(g *glass, signal func())
	}{
		"q":      {nil, true, func(g *glass, _ func()) { g.press(t, "q") }},
		"Ctrl-C": {[]string{"NO_COLOR=1"}, false, func(g *glass, _ func()) { g.press(t, "/\x03") }},
		"signal": {nil, true, func(_ *glass, signal func()) { signal() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := (&operated{}).serve(t)
			g := openGlass(t, 100, 30)
			ctx, signal := context.WithCancel(t.Context())
			defer signal()
			ended, stderr := g.top(ctx, tt.environ, "--admin", address)
			testkit.Says(t, g, "calls 1200/s")
			testkit.Says(t, g, "fleet.plan_route")
			seen := g.String()
			if strings.Contains(seen, "\x07") || strings.Contains(seen, "\x1b[2J") || strings.Contains(seen, "\u202e") {
				t.Errorf("a name changes the terminal: %q", seen)
			}
			if strings.Contains(seen, "\x1b[31m") != tt.colour {
				t.Errorf("colour is not %t: %q", tt.colour, seen)
			}
			g.press(t, "?")
			testkit.Says(t, g, "Any key goes back.")
			g.press(t, "xs/echo")
			testkit.Says(t, g, "Filter: echo_")
			g.press(t, "\rp")
			testkit.Says(t, g, "PAUSED  q quit  p pause  s sort: errors/s")
			tt.end(g, signal)
			if code := testkit.Receive(t, "the end", ended); code != exitOK || stderr.Len() > 0 {
				t.Errorf("exit code %d, %s", code, stderr)
			}
			g.restored(t)
		})
	}
}

// TestTopWhileTheSidecarIsAway: the view stays, says so, and goes on with another process at the address.
func TestTopWhileTheSidecarIsAway(t *testing.T) {
	t.Parallel()
	first := &operated{gone: make(chan struct{})}
	address, server := first.serve(t)
	g := openGlass(t, 100, 30)
	ended, _ := g.top(t.Context(), nil, "--admin", address)
	testkit.Says(t, g, "  100 tools")
	first.gone <- struct{}{}
	testkit.Says(t, g, "The sidecar is away; trying again. ")
	testkit.Says(t, g, "  200 tools") // it was only the stream
	g.press(t, "")
	server.CloseClientConnections()
	server.Close()
	testkit.Says(t, g, "The sidecar is away; trying again. nothing listens there")
	again := httptest.NewUnstartedServer(server.Config.Handler)
	again.Listener = testkit.Listen(t, address)
	again.Start()
	t.Cleanup(again.Close)
	testkit.Says(t, g, "  300 tools")
	g.press(t, "q")
	if code := testkit.Receive(t, "the end", ended); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	g.restored(t)
}

// TestTopBeforeTheScreen: where there is nothing to see, the reason stays on the screen that was there.
func TestTopBeforeTheScreen(t *testing.T) {
	t.Parallel()
	g := openGlass(t, 80, 24)
	ended, stderr := g.top(t.Context(), nil, "--admin", testkit.Dead(t))
	if code := testkit.Receive(t, "the end", ended); code != exitRefused || !strings.Contains(stderr.String(), "nothing listens there") || g.String() != "" {
		t.Errorf("exit code %d, %s, %q", code, stderr, g)
	}
	if now := *modeOf(t, g.process); now != g.before {
		t.Error("the terminal's mode is another")
	}
	address, _ := (&operated{}).serve(t)
	ended, _ = g.top(t.Context(), []string{"TERM=dumb"}, "--admin", address)
	if code := testkit.Receive(t, "the end", ended); code != exitOK || strings.Contains(g.String(), "\x1b") {
		t.Errorf("TERM=dumb: exit code %d, %q", code, g)
	}
	testkit.Says(t, g, "calls 1200/s")
}

// TestTopRestoresTheTerminal however what draws ends, and the fault of what reads is an error.
func TestTopRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	g := openGlass(t, 80, 24)
	s := &topScreen{in: g.process, out: g.process}
	func() {
		defer func() {
			if fault := recover(); fault != "a fault" {
				t.Errorf("recovered %v", fault)
			}
		}()
		_ = s.whileRaw(func() error {
			if now := *modeOf(t, g.process); now.Lflag&unix.ECHO != 0 {
				t.Error("keys are seen")
			}
			panic("a fault")
		})
	}()
	g.restored(t)
	events := make(chan topEvent, 1)
	(&topWatch{}).follow(t.Context(), events) // without a client
	if e := <-events; !e.isFatal || e.err == nil {
		t.Errorf("%+v", e)
	}
}

// TestTopOfAProcess: the real binary follows the size of its terminal, and a signal restores it.
func TestTopOfAProcess(t *testing.T) {
	t.Parallel()
	address, _ := (&operated{mute: true}).serve(t) // so that nothing else has it draw
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := openGlass(t, 80, 24)
	cmd := exec.CommandContext(t.Context(), exe, "top", "--admin", address, "--interval", "1m")
	cmd.Args[0] = "sidecar"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = g.process, g.process, g.process
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Says(t, g, "q quit")
	g.press(t, "")
	g.resize(t, 130, 40)
	testkit.Says(t, g, "AGE  CALLER")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		t.Errorf("it ended with %v", err)
	}
	g.restored(t)
}

// TestTopOfASidecar shows the calls of a real one.
func TestTopOfASidecar(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	admin := strings.TrimPrefix(p.admin, "http://")
	g := openGlass(t, 120, 30)
	ended, stderr := g.top(t.Context(), nil, "--admin", admin)
	testkit.Says(t, g, "  ready  untrusted  18 tools  1 watcher")
	helpOf(t, "call", "lab.echo", `{"nonce":"hello"}`, "--server", p.main)
	testkit.Try(t, "the call and its rate are shown", func() error { // the rate for some seconds
		seen := g.String()
		for _, want := range []string{`lab\.echo  .*ms  OK`, `lab\.echo +0\.[1-9] +0  .*ms`, `calls 0\.[1-9]`} {
			if !regexp.MustCompile(want).MatchString(seen) {
				return fmt.Errorf("no %s: %s", want, seen)
			}
		}
		return nil
	})
	p.stop()
	testkit.Says(t, g, "The sidecar is away; trying again. ")
	g.press(t, "q")
	if code := testkit.Receive(t, "the end", ended); code != exitOK {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	g.restored(t)
}
