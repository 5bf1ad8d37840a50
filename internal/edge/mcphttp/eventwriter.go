// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// retryAfter is how long a client waits before it comes back to a stream that
// was closed while nothing happened: it costs a connection, and the result may
// be there any moment.
const retryAfter = 500 * time.Millisecond

// eventWriter writes the events of a stream that can be resumed, each write
// within a bounded time.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	opts    Options
	// resumes: the client knows events that only carry an id.
	resumes bool
	// alive fires when nothing was written for a while.
	alive *time.Timer
	buf   []byte
}

func newEventWriter(w http.ResponseWriter, o Options, resumes bool) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), opts: o, resumes: resumes, alive: time.NewTimer(o.KeepAlive)}
}

// begin sends the headers, so that a client knows at once that there is a
// stream.
func (o *eventWriter) begin() error {
	setEventHeaders(o.w.Header())
	o.w.WriteHeader(http.StatusOK)
	return o.write(nil)
}

// close leaves what the server itself has to write at the end of the body a
// bounded time, too.
func (o *eventWriter) close() {
	o.alive.Stop()
	_ = o.control.SetWriteDeadline(time.Now().Add(o.opts.WriteTimeout))
}

// drain writes what there is to read. Its error is the end: the stream's, or the
// connection's.
func (o *eventWriter) drain(reader *session.Reader) error {
	for {
		event, ok, err := reader.Poll()
		switch {
		case errors.Is(err, session.ErrPaused):
			return errors.Join(err, o.retry(retryAfter))
		case err != nil || !ok:
			return err
		case len(event.Message) == 0 && (!o.resumes || event.ID == ""):
			continue
		}
		if err := o.event(event); err != nil {
			reader.Return()
			return err
		}
	}
}

// event writes one event: the JSON stays on one line, whatever a reader takes for the end of
// one.
func (o *eventWriter) event(e session.Event) error {
	o.buf = o.buf[:0]
	if e.ID != "" {
		o.buf = append(append(append(o.buf, "id: "...), e.ID...), '\n')
	}
	if len(e.Message) > 0 {
		o.buf = append(o.buf, "event: message\n"...)
	}
	o.buf = append(o.buf, "data: "...)
	o.buf = append(o.buf, e.Message...)
	o.buf = append(o.buf, "\n\n"...)
	return o.write(jsontext.WithoutLineEnds(o.buf))
}

// retry says when to come back (WHATWG HTML, server-sent events).
func (o *eventWriter) retry(after time.Duration) error {
	text := strconv.AppendInt([]byte("retry: "), after.Milliseconds(), 10)
	return o.write(append(text, "\n\n"...))
}

// comment keeps proxies from taking a quiet stream for a dead one.
func (o *eventWriter) comment() error { return o.write([]byte(":\n\n")) }

// write writes and flushes within the reader's time. There is no deadline while
// nothing is written: HTTP/2 would end a stream for it.
func (o *eventWriter) write(text []byte) error {
	o.alive.Reset(o.opts.KeepAlive)
	// A transport without deadlines does not block.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.opts.WriteTimeout))
	_, err := o.w.Write(text)
	if err == nil {
		err = o.control.Flush()
	}
	if cap(o.buf) > maxKept {
		o.buf = nil
	}
	if err != nil {
		return err
	}
	_ = o.control.SetWriteDeadline(time.Time{})
	return nil
}
