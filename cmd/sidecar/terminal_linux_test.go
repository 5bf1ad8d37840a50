// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// openTerminal returns both ends of a pseudo-terminal: what a person sees, and
// what the process writes to.
func openTerminal(t *testing.T) (person, process *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	process, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return person, process
}

// screen is what a person has seen so far.
type screen struct {
	lines chan string
	seen  strings.Builder
}

func watch(person *os.File) *screen {
	s := &screen{lines: make(chan string, 1000)}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(person); scan.Scan(); {
			s.lines <- strings.TrimRight(scan.Text(), "\r")
		}
	}()
	return s
}

// until reads on to a line that holds a text.
func (s *screen) until(t *testing.T, text string) {
	t.Helper()
	testkit.Find(t, "the screen shows "+text, s.lines, func(line string) bool {
		s.seen.WriteString(line + "\n")
		return strings.Contains(line, text)
	})
}

// TestServeTalksToAPerson: at a terminal, serve prints addresses to paste, the number of tools and one next step, and
// Ctrl-C is one line.
func TestServeTalksToAPerson(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		environ []string
		colour  bool
	}{"colour": {nil, true}, "NO_COLOR": {[]string{"NO_COLOR=1"}, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			person, process := openTerminal(t)
			s := watch(person)
			ctx, ctrlC := context.WithCancel(t.Context())
			defer ctrlC()
			ended := make(chan int, 1)
			var stdout bytes.Buffer
			go func() {
				ended <- run(ctx, []string{"serve", "--demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--record-dir", "off"},
					strings.NewReader(""), &stdout, process, tt.environ)
			}()
			s.until(t, "Next: ")
			before := s.seen.Len()
			ctrlC()
			s.until(t, "Stopped: ")
			if code := <-ended; code != exitOK || stdout.Len() > 0 {
				t.Errorf("exit code %d, standard output %q", code, stdout.String())
			}
			seen := s.seen.String()
			for _, want := range []string{
				`Outrigger is ready.*: 18 tools of the example service`,
				`  MCP +.*http://127.0.0.1:[0-9]+/mcp`, `  JSON-RPC +http://127.0.0.1:[0-9]+/rpc`, `  Console +.*http://127.0.0.1:[0-9]+/console`, `  Admin +http://127.0.0.1:[0-9]+/readyz`,
				"Next: connect an agent, such as `claude mcp add --transport http outrigger http://127.0.0.1:[0-9]+/mcp`",
			} {
				if !regexp.MustCompile(want).MatchString(seen) {
					t.Errorf("no %s on the screen:\n%s", want, seen)
				}
			}
			if got := strings.TrimSpace(seen[before:]); got != "Stopped: all calls answered." {
				t.Errorf("Ctrl-C printed\n%s", got)
			}
			if strings.Contains(seen, "\x1b[") != tt.colour {
				t.Errorf("colour is not %t:\n%q", tt.colour, seen)
			}
			if long := regexp.MustCompile(`[0-9a-f]{64}|T[0-9:.]+Z`).FindString(seen); long != "" {
				t.Errorf("%s is for machines:\n%s", long, seen)
			}
		})
	}
}

// TestTheConsoleLog: a line for a person has milliseconds and, at a terminal, colour.
func TestTheConsoleLog(t *testing.T) {
	t.Parallel()
	person, process := openTerminal(t)
	s := watch(person)
	code := run(t.Context(), []string{"stdio", "--demo", "--record-dir", "off"}, strings.NewReader(""), &bytes.Buffer{}, process, nil)
	s.until(t, "stopped")
	if line := regexp.MustCompile(`(?m)^[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}  \x1b\[34mINFO\x1b\[0m  draining  \{`); code != exitOK || !line.MatchString(s.seen.String()) {
		t.Errorf("exit code %d, and\n%q", code, s.seen.String())
	}
}

// TestCallsFitTheirLine: at a terminal, a call is one line of at most 120 columns, and a refused call looks like a warning.
func TestCallsFitTheirLine(t *testing.T) {
	t.Parallel()
	person, process := openTerminal(t)
	s := watch(person)
	var in strings.Builder
	for i, arguments := range []string{
		`{"name":"lab.echo","arguments":{"nonce":"hello"}}`,
		`{"name":"lab.echo","arguments":{"nonse":"hello"}}`,
		`{"name":"` + strings.Repeat("no_such_tool_", 9) + `","arguments":{}}`,
	} {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":%s}`+"\n", i, arguments)
	}
	code := run(t.Context(), []string{"stdio", "--demo", "--record-dir", "off"}, strings.NewReader(in.String()), &bytes.Buffer{}, process, nil)
	s.until(t, "stopped")
	seen := s.seen.String()
	for _, want := range []string{
		`\x1b\[34mINFO\x1b\[0m  call  lab\.echo  ok  [0-9.]+ ms  stdio`,
		`\x1b\[33mWARN\x1b\[0m  call  lab\.echo  INVALID_TOOL_INPUT  [0-9.]+ ms  stdio`,
		`\x1b\[33mWARN\x1b\[0m  call  (no_such_tool_){3}…  TOOL_NOT_FOUND  [0-9.]+ ms  stdio`,
	} {
		if !regexp.MustCompile(want).MatchString(seen) {
			t.Errorf("exit code %d, no line %s in\n%s", code, want, seen)
		}
	}
	colours := regexp.MustCompile("\x1b\\[[0-9]*m")
	for line := range strings.Lines(seen) {
		if line = colours.ReplaceAllString(strings.TrimRight(line, "\n"), ""); strings.Contains(line, "  call  ") && utf8.RuneCountInString(line) > 120 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}

// TestABackendThatIsAwayAtATerminal: a person reads which backend, why, what to do, and that the sidecar tries again.
func TestABackendThatIsAwayAtATerminal(t *testing.T) {
	t.Parallel()
	person, process := openTerminal(t)
	s := watch(person)
	ctx, ctrlC := context.WithCancel(t.Context())
	defer ctrlC()
	ended := make(chan int, 1)
	target := "grpc://" + testkit.Dead(t)
	go func() {
		ended <- run(ctx, []string{"serve", "--backend", target, "--listen", "127.0.0.1:0", "--admin", "off", "--record-dir", "off"},
			strings.NewReader(""), &bytes.Buffer{}, process, nil)
	}()
	s.until(t, "The sidecar tries again by itself.")
	ctrlC()
	s.until(t, "Stopped: ")
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	want := "Backend unreachable (" + target + "): nothing listens on this address.\n  Fix: start the backend, or correct --backend.\n"
	if seen := s.seen.String(); !strings.Contains(seen, want) || strings.Contains(seen, "\"cause\"") {
		t.Errorf("want %s on the screen, and not as JSON:\n%s", want, seen)
	}
}

// TestToolsWrapAtWords: at a terminal, the list has at most 80 columns, and no word is cut.
func TestToolsWrapAtWords(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"tools", "--demo"}, {"tools", "fleet.plan_route", "--demo"}} {
		person, process := openTerminal(t)
		s := watch(person)
		if code := run(t.Context(), args, strings.NewReader(""), process, process, nil); code != exitOK {
			t.Fatalf("%v: exit code %d", args, code)
		}
		end := "18 tools"
		if len(args) == 3 {
			end = "input schema"
		}
		s.until(t, end)
		for line := range strings.Lines(s.seen.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%v: %d columns: %s", args, n, line)
			}
		}
	}
}
