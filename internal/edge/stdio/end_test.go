// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestAtTheEndOfInputWhatIsInFlightIsAnswered(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := newHeld()
		p := talk(t.Context(), t, sidecar(live, backend.call), stdio.Options{Grace: 10 * time.Second})
		p.send(call(`"1"`, `{}`))
		<-backend.entered
		time.AfterFunc(9*time.Second, func() { close(backend.release) })
		start := time.Now()
		rest := p.end()
		if len(rest) != 1 || decode(t, rest[0]).code() != "" || time.Since(start) != 9*time.Second {
			t.Errorf("got %q after %v", rest, time.Since(start))
		}
	})
}

// A connected peer is answered exactly once, also at the end: what does not end
// in time learns it.
func TestAfterTheGraceTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for name, line := range map[string]string{
		"canonical": call(`"1"`, `{}`),
		"modern":    strings.Replace(call(`"1"`, `{}`), `"params":{`, `"params":{`+meta+`,`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				backend := newHeld()
				p := talk(t.Context(), t, sidecar(live, backend.call), stdio.Options{Grace: 10 * time.Second})
				p.send(line)
				<-backend.entered
				start := time.Now()
				rest := p.end()
				if len(rest) != 1 || time.Since(start) != 10*time.Second {
					t.Fatalf("got %q after %v", rest, time.Since(start))
				}
				if got := decode(t, rest[0]); got.code() != errmap.Unavailable || !strings.Contains(got.raw, "outcome is unknown") {
					t.Errorf("got %s", got.raw)
				}
			})
		})
	}
}

// A signal ends a conversation like this: calls are finished, cancellations
// still count, and new requests are refused.
func TestTheEndOfTheContextDrains(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := newHeld()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		p := talk(ctx, t, sidecar(live, backend.call), stdio.Options{})
		p.send(call(`"1"`, `{}`), call(`"2"`, `{}`))
		<-backend.entered
		<-backend.entered
		stop()
		synctest.Wait()
		p.send(call(`"3"`, `{}`))
		if got := p.reply(); got.code() != errmap.Unavailable || string(got.ID) != `"3"` {
			t.Errorf("got %s", got.raw)
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}`, `{`)
		if got := p.reply(); got.code() != errmap.ParseError {
			t.Errorf("got %s", got.raw)
		}
		close(backend.release)
		if got := p.reply(); got.code() != "" || string(got.ID) != `"1"` {
			t.Errorf("got %s", got.raw)
		}
		if err := <-p.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := p.in.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the input is still open: %v", err)
		}
	})
}

func TestAPeerThatClosesItsEndEndsTheConversation(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := newHeld()
		b := sidecar(live, backend.call)
		p := talk(t.Context(), t, b, stdio.Options{})
		p.send(call(`"1"`, `{}`), call(`"2"`, `{}`))
		<-backend.entered
		<-backend.entered
		if err := p.out.Close(); err != nil {
			t.Fatal(err)
		}
		p.send(ping(`"3"`)) // its answer finds the pipe closed
		if err := <-p.ended; err != nil {
			t.Errorf("Serve: %v, want a clean end", err)
		}
		if n := b.Flights().InFlight(); n != 0 {
			t.Errorf("%d calls are still in flight", n)
		}
	})
}

// failing is an output that fails with an error.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestErrorsOfThePipes(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	disk := errors.New("disk full")
	for _, tc := range []struct {
		name string
		in   io.Reader
		out  io.Writer
		want error
	}{
		{"end of input", strings.NewReader(""), io.Discard, nil},
		{"a broken pipe", strings.NewReader(ping(`"1"`)), failing{&os.PathError{Op: "write", Err: syscall.EPIPE}}, nil},
		{"a closed file", strings.NewReader(ping(`"1"`)), failing{os.ErrClosed}, nil},
		{"another write error", strings.NewReader(ping(`"1"`)), failing{disk}, disk},
		{"a read error", io.MultiReader(strings.NewReader(ping(`"1"`)), broken{disk}), io.Discard, disk},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := stdio.Serve(t.Context(), sidecar(live, mcptest.Echo), tc.in, tc.out, stdio.Options{})
			if !errors.Is(err, tc.want) || (tc.want == nil && err != nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// stuck is an unread output.
type stuck struct{ release chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.release
	return len(p), nil
}

func TestAnOutputThatNobodyReadsDoesNotKeepTheProcess(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, tc := range []struct {
		name, line string
		end        func(peer io.Closer, cancel func())
	}{
		{"a call is stuck at the end of input", call(`"1"`, `{}`), func(peer io.Closer, _ func()) { _ = peer.Close() }},
		{"a call is stuck at the end of the context", call(`"1"`, `{}`), func(_ io.Closer, cancel func()) { cancel() }},
		{"the reading loop is stuck at the end of the context", `{`, func(_ io.Closer, cancel func()) { cancel() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out := stuck{make(chan struct{})}
				in, peer := io.Pipe()
				ended := make(chan error, 1)
				go func() {
					ended <- stdio.Serve(ctx, sidecar(live, mcptest.Echo), in, out, stdio.Options{Grace: 5 * time.Second})
				}()
				if _, err := io.WriteString(peer, tc.line+"\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				start := time.Now()
				tc.end(peer, cancel)
				if err := <-ended; !errors.Is(err, stdio.ErrStuck) || time.Since(start) != 6*time.Second {
					t.Errorf("got %v after %v", err, time.Since(start))
				}
				close(out.release)
				synctest.Wait()
			})
		})
	}
}
