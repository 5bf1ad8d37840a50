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
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	mcpsession "github.com/outrigger-mcp/outrigger/internal/session"
)

// session is the state of one conversation.
type session struct {
	rpc    *dialect.Handler
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
	queue           *queue
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

func newSession(rpc *dialect.Handler, out io.Writer, o Options) *session {
	defaults.Fill(&o.Grace, defaults.DrainGrace)
	defaults.Fill(&o.MaxConcurrent, defaults.MaxPipelinedRequests)
	defaults.Fill(&o.MaxQueueBytes, defaults.MaxStdioQueueBytes)
	defaults.Fill(&o.MaxBatch, defaults.MaxBatchEntries)
	s := &session{
		rpc: rpc, opts: o, limits: o.Limits.WithDefaults(),
		origin: rpc.Flights().NewOrigin(), queue: newQueue(o.MaxConcurrent, o.MaxQueueBytes, o.QueueBytes),
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
// was read has been answered.
func (s *session) converse(ctx context.Context, lines <-chan line) error {
	s.running.Go(s.dispatch)
	err := s.loop(ctx.Done(), lines)
	close(s.ending)
	s.closing = true
	if s.inputEnded.Load() {
		s.rpc.EndItems(s.origin)
	}
	s.queue.close()
	if s.inputEnded.Load() {
		// Every request that was read runs, and needs its session for that.
		select {
		case <-s.queue.empty:
		case <-ctx.Done():
		case <-s.run.Done():
		}
		s.forget() // the client can no longer answer the sidecar's own questions
	}
	// Streams of changes have no end of their own, and the conversation has one.
	s.rpc.Offers().Feed().Close()
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

// dispatch runs the queued requests, each on its own goroutine once there is
// a place for it.
func (s *session) dispatch() {
	for r := s.queue.next(); r != nil; r = s.queue.next() {
		s.running.Go(func() {
			defer r.leave()
			r.finish()
		})
	}
}

// loop takes lines in their order until done, the end of input, or a peer that
// is gone. It reads no further while the queue is full: the pipe fills up then,
// and the peer waits.
func (s *session) loop(done <-chan struct{}, lines <-chan line) error {
	for {
		next := lines
		if s.queue.pause(s.rpc.Flights().Crowded()) {
			next = nil
		}
		select {
		case <-done:
			return nil
		case <-s.broken:
			return nil
		case <-s.queue.room:
		case l := <-next:
			if l.err != nil {
				s.inputEnded.Store(true)
				if errors.Is(l.err, io.EOF) || peerGone(l.err) {
					return nil
				}
				return fmt.Errorf("read standard input: %w", l.err)
			}
			s.register(l)
		}
	}
}

// register registers one message in reading order. A request goes into the queue;
// everything else, and a ping, is answered at once, because a call that runs may
// wait for it.
func (s *session) register(l line) {
	in := s.inbound(s.fallback())
	in.Start = l.at
	if l.tooLong {
		s.write(s.rpc.Refuse(in, errmap.New(errmap.PayloadTooLarge, errmap.Over(errmap.LimitMessageBytes), errmap.WithViolations(errmap.Violation{
			Keyword: "size", Message: fmt.Sprintf("the line exceeds %d bytes; --max-message-bytes sets the limit", s.limits.MaxBytes),
		}))))
		return
	}
	if len(bytes.TrimLeft(l.text, " \t\r")) == 0 {
		return // blank lines are tolerated
	}
	if s.isBatch(l.text) {
		s.takeBatch(l)
		return
	}
	envelope := jsonrpc.Read(l.text, s.limits)
	spoken, err := s.dialect(&envelope)
	in.Dialect = spoken
	msg := envelope.As(s.profile(spoken))
	in.Message = &msg
	if spoken == dialect.Legacy {
		in.Session = s.opened
		if s.answered(&msg) {
			return
		}
	}
	if opensLegacy(spoken, &msg) && err == nil {
		s.legacy = true
		in.Opened = s.open
	}
	in.Send = s.send
	s.answerOrQueue(&arrival{
		in: in, size: len(l.text), failed: err, atOnce: msg.Method == methodPing,
		deliver: func(reply *dialect.Reply) { s.write(*reply) },
	})
}

// arrival is a message that has come.
type arrival struct {
	in   *dialect.Inbound
	size int
	// failed is why it cannot be a request.
	failed *errmap.Error
	// atOnce lets a request run before those that wait.
	atOnce bool
	// deliver takes the one reply, which may be empty.
	deliver func(*dialect.Reply)
}

// answerOrQueue answers a message, or puts the request into the queue.
func (s *session) answerOrQueue(a *arrival) {
	msg := a.in.Message
	isRequest := msg.Kind == jsonrpc.KindRequest && msg.Fault == nil
	if isRequest && a.failed == nil && s.closing {
		// In the words of the bridge, which may have heard of the drain first.
		a.failed = errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: the sidecar is shutting down; try another replica"))
	}
	switch {
	case !isRequest:
		reply := s.rpc.HandleMessage(s.run, a.in)
		s.withdraw(msg)
		if reply.IsUnasked {
			reply = dialect.Reply{}
		}
		a.deliver(&reply)
	case a.failed != nil:
		reply := s.rpc.Refuse(a.in, a.failed)
		a.deliver(&reply)
	default:
		s.enqueue(a)
	}
}

// enqueue registers a request, which holds its id from now on, and lets it wait
// for a place. What is refused, and what cannot wait, has its reply at once.
func (s *session) enqueue(a *arrival) {
	r := &queued{size: a.size, deliver: a.deliver}
	a.in.Paced = true
	a.in.Yield = func() { r.leave() }
	var reply *dialect.Reply
	if reply, r.run = s.rpc.TakeMessage(s.run, a.in); reply == nil && a.atOnce {
		reply = r.run()
	}
	if reply != nil {
		a.deliver(reply)
		return
	}
	if a.in.Message.Method != methodInitialize { // which cannot be cancelled
		r.id = a.in.Message.ID
	}
	s.queue.add(r)
}

// withdraw takes the request that a notification has cancelled out of the queue.
// It ends at once, because its context has.
func (s *session) withdraw(msg *jsonrpc.Message) {
	id, ok := dialect.CancelledID(msg)
	if !ok {
		return
	}
	if r := s.queue.remove(id); r != nil {
		r.finish()
	}
}

// inbound is a message before it is known.
func (s *session) inbound(d dialect.Dialect) *dialect.Inbound {
	in := &dialect.Inbound{Dialect: d, Origin: s.origin, Caller: bridge.CallerStdio, Peer: bridge.CallerStdio, Transport: "stdio", Route: "stdio", Follows: true}
	in.Known(s.run)
	return in
}

// now is the time for the spans of messages; zero without tracing.
func (s *session) now() time.Time {
	if !s.rpc.Tracer().IsOn() {
		return time.Time{}
	}
	return time.Now()
}

// write sends one reply as one line.
func (s *session) write(reply dialect.Reply) {
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
	err := s.out.awaitWritten()
	if peerGone(err) {
		return nil
	}
	return err
}

func peerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed)
}
