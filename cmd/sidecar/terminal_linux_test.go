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
	"time"

	"golang.org/x/sys/unix"
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
	late := time.After(time.Minute)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("no %q on the screen:\n%s", text, s.seen.String())
			}
			s.seen.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			t.Fatalf("no %q on the screen in time:\n%s", text, s.seen.String())
		}
	}
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
				`  MCP +.*http://127.0.0.1:[0-9]+/mcp`, `  JSON-RPC +http://127.0.0.1:[0-9]+/rpc`, `  Admin +http://127.0.0.1:[0-9]+/readyz`,
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
