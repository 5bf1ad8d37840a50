// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	mcpsession "github.com/outrigger-mcp/outrigger/bridge/session"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// session is the state of one conversation.
type session struct {
	bridge *bridge.Bridge
	opts   Options
	limits jsonrpc.Limits
	origin correlate.Origin
	// run is the context of every request; cancel ends what outlives the
	// grace period.
	run    context.Context
	cancel context.CancelCauseFunc
	// legacy is set by the first initialize, closing when no new requests are
	// taken; only the reading loop touches them.
	legacy, closing bool
	slots           chan struct{}
	running         sync.WaitGroup
	inputEnded      atomic.Bool
	// stop ends the reader of lines; ending is closed when the loop has read its
	// last line.
	stop, ending chan struct{}

	// opened is the legacy session, once there is one; only the reading loop
	// touches it.
	opened *mcpsession.Session

	out *output
	// broken is closed when the output has failed.
	broken chan struct{}
}

func newSession(b *bridge.Bridge, out io.Writer, o Options) *session {
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = DefaultMaxBatch
	}
	s := &session{
		bridge: b, opts: o, limits: o.Limits.WithDefaults(),
		origin: b.Flights().NewOrigin(), slots: make(chan struct{}, o.MaxConcurrent),
		stop: make(chan struct{}), ending: make(chan struct{}), broken: make(chan struct{}),
	}
	s.run, s.cancel = context.WithCancelCause(context.Background())
	s.out = newOutput(out, func(err error) {
		close(s.broken)
		s.cancel(err)
	})
	return s
}

// converse takes lines until there is no reason to go on, and then until what
// is in flight has been answered.
func (s *session) converse(ctx context.Context, lines <-chan line) error {
	err := s.loop(ctx.Done(), lines)
	close(s.ending)
	s.closing = true
	// Streams of changes have no end of their own, and the conversation has one.
	s.bridge.Feed().Close()
	if s.inputEnded.Load() {
		s.forget() // nobody is left to answer the sidecar's own questions
	}
	answered := make(chan struct{})
	go func() {
		s.running.Wait()
		close(answered)
	}()
	if err == nil && !s.inputEnded.Load() {
		err = s.loop(answered, lines)
	}
	s.forget()
	<-answered
	return errors.Join(err, s.writeError())
}

// loop takes lines in their order until done, the end of input, or a peer that
// is gone.
func (s *session) loop(done <-chan struct{}, lines <-chan line) error {
	for {
		select {
		case <-done:
			return nil
		case <-s.broken:
			return nil
		case l := <-lines:
			if l.err != nil {
				s.inputEnded.Store(true)
				if errors.Is(l.err, io.EOF) || peerGone(l.err) {
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
	in := s.inbound(s.fallback())
	if l.tooLong {
		s.write(s.bridge.Refuse(in, errmap.New(errmap.PayloadTooLarge, errmap.Over(errmap.LimitMessageBytes), errmap.WithViolations(errmap.Violation{
			Keyword: "size", Message: fmt.Sprintf("the line is larger than %d bytes; --max-message-bytes sets the limit", s.limits.MaxBytes),
		}))))
		return
	}
	if len(bytes.TrimLeft(l.text, " \t\r")) == 0 {
		return // blank lines are tolerated
	}
	if s.isBatch(l.text) {
		s.takeBatch(l.text)
		return
	}
	envelope := jsonrpc.Read(l.text, s.limits)
	dialect, err := s.dialect(&envelope)
	in.Dialect = dialect
	msg := envelope.As(s.profile(dialect))
	in.Message = &msg
	if dialect == bridge.DialectLegacy {
		in.Session = s.opened
		if s.answered(&msg) {
			return
		}
	}
	if msg.Kind != jsonrpc.KindRequest || msg.Fault != nil {
		s.write(s.bridge.HandleMessage(s.run, in))
		return
	}
	if err == nil {
		if opensLegacy(dialect, &msg) {
			s.legacy = true
			in.Opened = s.open
		}
		err = s.admit()
	}
	if err != nil {
		s.write(s.bridge.Refuse(in, err))
		return
	}
	in.Send = s.send
	run := s.bridge.BeginMessage(s.run, in)
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.write(*run())
	})
}

// inbound is a message before it is known.
func (s *session) inbound(d bridge.Dialect) *bridge.Inbound {
	return &bridge.Inbound{Dialect: d, Origin: s.origin, Caller: bridge.CallerStdio, Transport: "stdio", Route: "stdio"}
}

// admit takes a slot for one request, or says why there is none.
func (s *session) admit() *errmap.Error {
	if s.closing {
		return busy("the sidecar is shutting down")
	}
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
		return busy("too many requests are in flight (--max-pipelined)", errmap.Over(errmap.LimitPipelined))
	}
}

func busy(reason string, more ...errmap.Option) *errmap.Error {
	return errmap.New(errmap.Unavailable, append(more, errmap.RetryAfter(time.Second), errmap.Message("Tool service unavailable: "+reason))...)
}

// write sends one reply as one line.
func (s *session) write(reply bridge.Reply) {
	if !reply.IsEmpty() {
		head, shared, tail := reply.Parts()
		_ = s.out.line(head, shared, append(tail, '\n')) // a peer that is gone has ended the session
	}
	if reply.Then != nil {
		_ = s.send(reply.Then)
	}
}

// send writes one message as one line. After the first failure nothing more is
// written: the peer is gone.
func (s *session) send(message []byte) error { return s.out.line(append(message, '\n')) }

// writeError is what ended the output, once it has ended. A peer that closes its
// end has ended the conversation, which is no error.
func (s *session) writeError() error {
	err := s.out.settle()
	if peerGone(err) {
		return nil
	}
	return err
}

func peerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed)
}
