// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// errEnding ends the streams of a service that is closed.
var errEnding = errors.New("connectapi: the service is closed")

// lasting is one stream that goes on until the caller, a bound or the service
// ends it.
type lasting struct {
	service *Service
	ctx     context.Context
	cancel  context.CancelCauseFunc
	forget  func() bool
	unwatch func()
	reader  *reader
	// release gives back its place among all streams.
	release func()
}

// last admits one more such stream, which ends with the service; it must be
// closed.
func (s *Service) last(ctx context.Context, peer, what string) (*lasting, *errmap.Error) {
	return s.lastUntil(ctx, peer, what, func(l *lasting) { l.cancel(errEnding) })
}

// lastUntil is last for a stream that has its own way to end with the service.
func (s *Service) lastUntil(ctx context.Context, peer, what string, end func(*lasting)) (*lasting, *errmap.Error) {
	if s.bridge.Flights().Draining() || s.life.Err() != nil {
		return nil, shuttingDown()
	}
	if s.lasting.Add(1) > int64(s.opts.MaxStreams) {
		s.lasting.Add(-1)
		s.crowded.Add(1)
		return nil, errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: too many streams are open"))
	}
	release, failed := s.bridge.OpenStream(bridge.CallerOf(ctx, peer), what, "")
	if failed != nil {
		s.lasting.Add(-1)
		return nil, failed
	}
	l := &lasting{service: s, release: release}
	l.reader = servedOf(ctx).reader
	ctx, l.unwatch = bridge.UntilRevoked(ctx)
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.forget = context.AfterFunc(s.life, func() { end(l) })
	servedOf(ctx).span.opened()
	return l, nil
}

// Streams returns the number of open long-lived streams, and the number refused
// because of the limit.
func (s *Service) Streams() (open int, refused uint64) {
	return int(s.lasting.Load()), s.crowded.Load()
}

// close gives the place back. The reader has a bounded time for what is still
// to be written, which is the reason of the end.
func (l *lasting) close() {
	l.forget()
	l.unwatch()
	l.cancel(nil)
	l.reader.waitFor()
	l.service.lasting.Add(-1)
	l.release()
}

// send writes one message, or, where it is nil, the headers alone. A reader that
// does not take it in time loses its stream.
func send[T any](l *lasting, stream *connect.ServerStream[T], message *T) error {
	if err := write(l.reader, stream, message); err != nil {
		return l.ended(err)
	}
	return nil
}

// write writes one message, for which its reader has a bounded time.
func write[T any](r *reader, stream *connect.ServerStream[T], message *T) error {
	r.waitFor()
	defer r.took()
	return stream.Send(message)
}

// ended is what the caller of a stream gets at its end.
func (l *lasting) ended(why error) error {
	// Writing to a stream that is over fails for the reason of its end.
	if cause := context.Cause(l.ctx); cause != nil {
		why = errors.Join(why, cause)
	}
	var slow *notify.SlowError
	var shown *errmap.Error
	switch {
	case errors.Is(why, identity.ErrRevoked) && errors.As(why, &shown):
	case errors.As(why, &slow):
		shown = errmap.Wrap(errmap.ResourceExhausted, why, errmap.Retryable(true), errmap.Messagef(
			"Subscription dropped: the reader fell behind and missed %d events", slow.Missed))
	case errors.Is(why, errEnding), errors.Is(why, notify.ErrClosed):
		shown = shuttingDown()
	case errors.Is(why, notify.ErrFull):
		l.service.bridge.Stats().Over(errmap.LimitStreams)
		shown = errmap.Wrap(errmap.Unavailable, why, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: too many subscribers"))
	case errors.Is(why, notify.ErrUnavailable):
		shown = busUnavailable(why)
	case errors.Is(why, context.DeadlineExceeded):
		shown = errmap.Wrap(errmap.Timeout, why, errmap.Message("The stream's deadline has passed"))
	default:
		// Nothing else ends a stream but its reader.
		shown = errmap.Wrap(errmap.Cancelled, why)
	}
	return errmap.ToConnect(shown, errmap.About{Idempotent: true})
}

func shuttingDown() *errmap.Error {
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
		errmap.Message("Tool service unavailable: the sidecar is shutting down; try another replica"))
}

// Close ends the long-lived streams. Their callers get UNAVAILABLE after everything
// that was already queued for them. New streams are refused. It does not wait, and
// may be called again.
func (s *Service) Close() { s.end() }

// reader watches over one response whose reader might stop reading without going
// away: flow control would then hold its handler for ever.
type reader struct {
	control *http.ResponseController
	// answer counts what waits; where there is one, it also ends what does not move.
	answer       *peer.Writer
	writeTimeout time.Duration
	timer        *time.Timer

	mu  sync.Mutex
	due time.Time // zero where nothing is being written
	// gone: the handler has returned, and the response with it.
	gone bool
}

// newReader watches over the response of a stream.
func (s *Service) newReader(w http.ResponseWriter, r *http.Request, of *served) *reader {
	rd := &reader{control: http.NewResponseController(w), answer: of.answer, writeTimeout: s.opts.WriteTimeout}
	if rd.answer == nil {
		rd.timer = time.AfterFunc(rd.writeTimeout, rd.giveUp)
		rd.timer.Stop()
	}
	if of.procedure != "" && r.ProtoMajor == 1 {
		// A backend may answer before the caller's last message, and net/http would
		// take the rest of the request from its reader. Where it cannot be told, the
		// stream ends there.
		_ = rd.control.EnableFullDuplex()
	}
	return rd
}

// isStream holds for the paths of the tool API's streams.
func isStream(path string) bool {
	switch path {
	case outriggerv1connect.ToolServiceSubscribeProcedure, outriggerv1connect.ToolServiceWatchToolsProcedure,
		outriggerv1connect.ToolServiceCallToolStreamProcedure, outriggerv1connect.ToolServiceExchangeProcedure:
		return true
	}
	return false
}

// hold counts a message that waits to be written, of which there may be many.
func (r *reader) hold(tool string, bytes int) (release func()) {
	if r == nil {
		return func() {}
	}
	return r.answer.Hold(tool, bytes)
}

// waitFor says that something is about to be written.
func (r *reader) waitFor() {
	if r == nil || r.answer != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Now().Add(r.writeTimeout)
	r.timer.Reset(r.writeTimeout)
}

// took says that it has been written. When it returns, the response is not
// touched from elsewhere.
func (r *reader) took() {
	if r == nil || r.answer != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Time{}
	r.timer.Stop()
}

// leave is took for the last time.
func (r *reader) leave() {
	r.took()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
}

// stopReading ends the wait for the caller's next message.
func (r *reader) stopReading() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone {
		// A transport without deadlines ends with its connection.
		_ = r.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// giveUp breaks off a write that is overdue. A timer that was set again while
// it fired finds that nothing is.
func (r *reader) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due.IsZero() || time.Now().Before(r.due) {
		return
	}
	// A deadline in the past fails what is blocked now. A transport without
	// deadlines does not block.
	_ = r.control.SetWriteDeadline(time.Unix(1, 0))
}

// busUnavailable says that the bus of the replicas did not answer.
func busUnavailable(err error) *errmap.Error {
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(time.Second),
		errmap.Message("Tool service unavailable: the event bus of the replicas does not reply; try again later"))
}
