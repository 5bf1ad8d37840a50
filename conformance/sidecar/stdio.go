// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Stdio is a running `sidecar stdio` and the two pipes to it.
type Stdio struct {
	*process
	writing sync.Mutex
	in      io.WriteCloser
	// lines receives what the process writes to its standard output and is
	// closed at its end.
	lines chan []byte
}

// Pipe starts `sidecar stdio`. The process must end with 0 when the test does.
func Pipe(tb testing.TB, binary string, args ...string) *Stdio {
	tb.Helper()
	cmd := StdioCommand(tb, binary, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	// A pipe of our own, because exec's is closed by Wait, which may come
	// before the last line is read.
	outRead, outWrite := io.Pipe()
	cmd.Stdout = outWrite
	s := &Stdio{in: in, lines: make(chan []byte, 4096)}
	var reading sync.WaitGroup
	reading.Go(func() { s.read(outRead) })
	s.process = launch(tb, cmd)
	reading.Go(func() {
		<-s.done
		_ = outWrite.Close()
	})
	tb.Cleanup(func() {
		s.CloseInput()
		s.end(tb)
		reading.Wait()
	})
	return s
}

// read splits the output into lines. What is left over is dropped without a
// reader: the channel is large, and a test that stops reading has failed.
func (s *Stdio) read(r io.Reader) {
	defer close(s.lines)
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			s.lines <- line
		}
		if err != nil {
			return
		}
	}
}

// Send writes one line; the line end is added. It is safe for concurrent use.
func (s *Stdio) Send(line string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := io.WriteString(s.in, line+"\n")
	return err
}

// MustSend is Send for tests.
func (s *Stdio) MustSend(tb testing.TB, line string) {
	tb.Helper()
	if err := s.Send(line); err != nil {
		tb.Fatalf("write to the sidecar: %v\n%s", err, tail(s.Text()))
	}
}

// ErrSilent tells that no line came in time.
var ErrSilent = errors.New("no line came")

// Lines returns the lines of standard output as they come, each with its end.
// The channel is closed when the process has ended.
func (s *Stdio) Lines() <-chan []byte { return s.lines }

// Next returns the next line of output without its end.
func (s *Stdio) Next(tb testing.TB) string {
	tb.Helper()
	line, err := s.NextWithin(testkit.Limit())
	if err != nil {
		tb.Fatalf("read from the sidecar: %v\n%s", err, tail(s.Text()))
	}
	return line
}

// NextWithin returns the next line, ErrSilent when none comes in time, and
// io.EOF at the end.
func (s *Stdio) NextWithin(d time.Duration) (string, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case line, ok := <-s.lines:
		if !ok {
			return "", io.EOF
		}
		return string(line[:len(line)-1]), nil
	case <-timer.C:
		return "", ErrSilent
	}
}

// Deaf starts `sidecar stdio` for a peer that has closed its end of standard
// output already.
func Deaf(tb testing.TB, binary string, args ...string) *Stdio {
	tb.Helper()
	cmd := StdioCommand(tb, binary, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	_ = read.Close()
	cmd.Stdout = write
	s := &Stdio{process: launch(tb, cmd), in: in, lines: make(chan []byte)}
	_ = write.Close() // the process has its own
	tb.Cleanup(s.CloseInput)
	return s
}

// CloseInput ends the input. Closing twice is harmless.
func (s *Stdio) CloseInput() { _ = s.in.Close() }

// StdioCommand prepares `sidecar stdio` for a client that starts it itself.
func StdioCommand(tb testing.TB, binary string, args ...string) *exec.Cmd {
	tb.Helper()
	return command(tb, binary, append([]string{"stdio", "--log-format", "json"}, args...))
}
