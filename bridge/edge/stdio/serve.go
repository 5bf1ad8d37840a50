// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// Defaults of Options.
const (
	// DefaultGrace is how long calls in flight may go on after the input has
	// ended: the default timeout of one call.
	DefaultGrace = 30 * time.Second
	// DefaultMaxConcurrent is how many requests of the one peer run at a time.
	DefaultMaxConcurrent = 1024
)

// Options configure Serve. Zero fields take their defaults.
type Options struct {
	Mode   Mode
	Limits jsonrpc.Limits
	// AnyID admits integers as ids in the canonical dialect.
	AnyID bool
	// Grace bounds how long calls in flight may go on at the end.
	Grace time.Duration
	// MaxConcurrent bounds the requests that run at a time; what comes on top
	// is answered UNAVAILABLE, because a reader that waits could not see a
	// cancellation.
	MaxConcurrent int
}

// Serve answers lines from in on out until the input ends or ctx does. Then
// what is in flight is answered within the grace period, and what is not is
// cancelled. It returns nil at the end of input and at the end of ctx, and the
// error of a failed read or write otherwise. Where in is an io.Closer, Serve
// closes it when ctx ends, so that a pending read returns.
func Serve(ctx context.Context, b *bridge.Bridge, in io.Reader, out io.Writer, o Options) error {
	s := newSession(b, out, o)
	lines := make(chan line)
	stop := make(chan struct{})
	go readLines(in, s.limits.MaxBytes, lines, stop)
	defer close(stop)

	err := s.loop(ctx, lines)
	if ctx.Err() != nil {
		if c, ok := in.(io.Closer); ok {
			_ = c.Close()
		}
	}
	s.finish()
	return errors.Join(err, s.writeError())
}

// session is the state of one conversation.
type session struct {
	bridge *bridge.Bridge
	opts   Options
	limits jsonrpc.Limits
	origin correlate.Origin
	// run is the context of every request; cancel ends what outlives the
	// grace period.
	run    context.Context
	cancel context.CancelFunc
	// legacy is set by the first initialize; only the reading loop touches it.
	legacy  bool
	slots   chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	out      io.Writer
	broken   error
	brokenCh chan struct{}
}

func newSession(b *bridge.Bridge, out io.Writer, o Options) *session {
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	s := &session{
		bridge: b, opts: o, limits: o.Limits.WithDefaults(), out: out,
		origin: b.Flights().NewOrigin(), slots: make(chan struct{}, o.MaxConcurrent),
		brokenCh: make(chan struct{}),
	}
	s.run, s.cancel = context.WithCancel(context.Background())
	return s
}

// loop takes lines in their order until there is no reason to read on.
func (s *session) loop(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.brokenCh:
			return nil
		case l := <-lines:
			if l.err != nil {
				if errors.Is(l.err, io.EOF) {
					return nil
				}
				return fmt.Errorf("read standard input: %w", l.err)
			}
			s.take(l)
		}
	}
}

// take registers one message in reading order and answers it on a goroutine of
// its own. What needs no run (a fault, a notification) is answered at once.
func (s *session) take(l line) {
	in := &bridge.Inbound{Dialect: s.fallback(), Origin: s.origin, Transport: "stdio", Route: "stdio"}
	if l.tooLong {
		s.write(s.bridge.Refuse(in, errmap.New(errmap.PayloadTooLarge, errmap.WithViolations(errmap.Violation{
			Keyword: "size", Message: fmt.Sprintf("the line is larger than %d bytes; --max-message-bytes sets the limit", s.limits.MaxBytes),
		}))))
		return
	}
	if len(l.text) == 0 {
		return // blank lines are tolerated
	}
	envelope := jsonrpc.Read(l.text, s.limits)
	dialect, err := s.dialect(&envelope)
	in.Dialect = dialect
	msg := envelope.As(s.profile(dialect))
	in.Message = &msg
	if err != nil && msg.Fault == nil && msg.Kind == jsonrpc.KindRequest {
		s.write(s.bridge.Refuse(in, err))
		return
	}
	if msg.Kind != jsonrpc.KindRequest || msg.Fault != nil {
		s.write(s.bridge.HandleMessage(s.run, in))
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.write(s.bridge.Refuse(in, errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second))))
		return
	}
	run := s.bridge.BeginMessage(s.run, in)
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.write(run())
	})
}

// finish waits for what is in flight, for the grace period at most, and then
// cancels it.
func (s *session) finish() {
	timer := time.AfterFunc(s.opts.Grace, s.cancel)
	s.running.Wait()
	timer.Stop()
	s.cancel()
}

// write sends one reply as one line. After the first failure nothing more is
// written: the peer is gone.
func (s *session) write(reply bridge.Reply) {
	if reply.Body == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return
	}
	if _, err := s.out.Write(append(reply.Body, '\n')); err != nil {
		s.broken = fmt.Errorf("write standard output: %w", err)
		close(s.brokenCh)
		s.cancel()
	}
}

func (s *session) writeError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}
