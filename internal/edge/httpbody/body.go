// SPDX-License-Identifier: Apache-2.0

// Package httpbody reads the JSON body of an HTTP request with a size limit and
// writes JSON-RPC replies. Both JSON-RPC edges use it, so that the same bad
// request gets the same response on both. Its functions are safe for concurrent
// use.
package httpbody

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// Check refuses a request whose head shows that it is not a message: methods other
// than POST, content types other than application/json, and more than limit bytes.
// A handler that has to check more of the head does so between Check and [Read],
// because an unwanted body may never arrive.
func Check(w http.ResponseWriter, r *http.Request, limit int) *errmap.Error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(errmap.MethodNotAllowed, "method", "use POST, not "+r.Method)
	}
	if err := checkType(r.Header); err != nil {
		return err
	}
	if r.ContentLength > int64(limit) {
		return tooLarge(limit)
	}
	return nil
}

// Read returns the body of a request. It refuses what [Check] refuses, unknown
// encodings, and more than limit bytes after decompression. Its memory is bounded.
func Read(w http.ResponseWriter, r *http.Request, limit int) ([]byte, *errmap.Error) {
	if err := Check(w, r, limit); err != nil {
		return nil, err
	}
	body := io.Reader(r.Body)
	size := r.ContentLength
	switch strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")) {
	case "", "identity":
	case "gzip":
		// The compressed bytes are bounded too: there is a form of gzip that
		// unpacks to nothing, and goes on for ever.
		unzip, err := gzip.NewReader(&boundedReader{from: r.Body, left: int64(limit)})
		if err != nil {
			return nil, readError(err, limit)
		}
		body, size = unzip, 0
	default:
		return nil, refuse(errmap.UnsupportedMediaType, "encoding", "Content-Encoding is not supported; send plain JSON or gzip")
	}
	return readAll(body, size, limit)
}

// readAll reads at most limit bytes.
func readAll(body io.Reader, size int64, limit int) ([]byte, *errmap.Error) {
	// The announced size is a hint only: a caller that announces much and
	// sends little must not cost memory.
	const unannounced, mostAhead = 512, 64 << 10
	ahead := int64(unannounced)
	if size > 0 {
		ahead = min(size+1, mostAhead)
	}
	buf := make([]byte, 0, ahead)
	for {
		if len(buf) == cap(buf) {
			// BufferPool for all that was announced, but no more than a few times what has
			// come.
			ahead = min(max(size+1, int64(len(buf))*2), int64(len(buf))*8)
			buf = append(make([]byte, 0, ahead), buf...)
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return nil, tooLarge(limit)
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, readError(err, limit)
		}
	}
}

// errTooMany is what a boundedReader ends with where there is more.
var errTooMany = errors.New("the compressed body is over the limit")

// boundedReader reads at most left bytes and then fails, where io.LimitReader
// would let a body that is too long look like one that was cut short.
type boundedReader struct {
	from io.Reader
	left int64
}

// Read implements io.Reader. It requests one byte more than the bound, because
// only that distinguishes a body of exactly that size from a longer one.
func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, errTooMany
	}
	return n, err
}

// readError says why a body could not be read to its end.
func readError(err error, limit int) *errmap.Error {
	var reason string
	var refused *errmap.Error
	switch {
	case errors.As(err, &refused): // the middleware before the handler reads no further
		return refused
	case errors.Is(err, errTooMany):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = "the body did not arrive in time"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		reason = "the body is not gzip, as Content-Encoding says"
	default:
		reason = "the body could not be read completely"
	}
	return errmap.Wrap(errmap.ParseError, err, errmap.WithViolations(errmap.Violation{Keyword: "body", Message: reason}))
}

func checkType(h http.Header) *errmap.Error {
	value := h.Get("Content-Type")
	if value == "application/json" {
		return nil
	}
	if value == "" {
		return refuse(errmap.UnsupportedMediaType, "content-type", "Content-Type is missing; send application/json")
	}
	kind, params, err := mime.ParseMediaType(value)
	if err != nil || kind != "application/json" {
		return refuse(errmap.UnsupportedMediaType, "content-type", "Content-Type is not application/json")
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8": // the last is no registered name, and many send it
	default:
		return refuse(errmap.UnsupportedMediaType, "content-type", "JSON is UTF-8 (RFC 8259, section 8.1); another charset is not supported")
	}
	return nil
}

func tooLarge(limit int) *errmap.Error {
	err := refuse(errmap.PayloadTooLarge, "size", "the body is larger than "+strconv.Itoa(limit)+" bytes; --max-message-bytes sets the limit")
	err.Limit = errmap.LimitMessageBytes
	return err
}

func refuse(code errmap.Code, keyword, message string) *errmap.Error {
	return errmap.New(code, errmap.WithViolations(errmap.Violation{Keyword: keyword, Message: message}))
}

// Attribute counts a reply that has to wait for its reader for the tool whose result it is.
// Small replies do not wait.
func Attribute(w http.ResponseWriter, reply *dialect.Reply) {
	if reply.Len() > peer.LeastCounted {
		peer.WriterOf(w).SetTool(reply.ToolName())
	}
}

// Write sends a reply. A reply without a body is sent as its bare status.
func Write(w http.ResponseWriter, reply dialect.Reply) {
	h := w.Header()
	for name, values := range reply.Header {
		h[name] = append(h[name], values...)
	}
	if reply.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(reply.RetryAfter))
	}
	if reply.Challenge != "" {
		h.Set("WWW-Authenticate", reply.Challenge)
	}
	if reply.IsEmpty() {
		w.WriteHeader(reply.Status)
		return
	}
	values := [...]string{"application/json", strconv.Itoa(reply.Len()), "nosniff"}
	h["Content-Type"] = values[0:1:1]
	h["Content-Length"] = values[1:2:2]
	h["X-Content-Type-Options"] = values[2:3:3]
	w.WriteHeader(reply.Status)
	Attribute(w, &reply)
	// A caller that has gone away is not an error here: its request has ended.
	_, _ = reply.WriteTo(w)
}

// RunBatch runs what [bridge.Bridge.BeginMessage] began, concurrently, and
// returns the replies in order.
func RunBatch(runs []func() *dialect.Reply) []*dialect.Reply {
	replies := make([]*dialect.Reply, len(runs))
	var running sync.WaitGroup
	for i, run := range runs {
		running.Go(func() { replies[i] = run() })
	}
	running.Wait()
	return replies
}

// WriteReplies writes the replies to a batch: 200 with an array of the existing
// ones, or 202 if there are none.
func WriteReplies(w http.ResponseWriter, replies []*dialect.Reply) {
	out := []byte{'['}
	for _, reply := range replies {
		if reply.IsEmpty() || reply.IsUnasked {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = reply.AppendTo(out)
	}
	if len(out) == 1 {
		Write(w, dialect.Reply{Status: http.StatusAccepted})
		return
	}
	Write(w, dialect.NewReply(append(out, ']')))
}

// BatchError converts an error of a whole batch into its canonical form.
func BatchError(err error, most int) *errmap.Error {
	var fault *jsonrpc.Fault
	switch {
	case errors.As(err, &fault):
		return dialect.FaultError(fault)
	case errors.Is(err, jsonrpc.ErrBatchTooLarge):
		return errmap.New(errmap.PayloadTooLarge, errmap.Over(errmap.LimitBatchEntries), errmap.WithViolations(errmap.Violation{
			Keyword: "maxItems", Message: "the batch has more than " + strconv.Itoa(most) + " entries; send it in parts",
		}))
	}
	return errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
		Keyword: "minItems", Message: "the batch is empty; an array must contain at least one message",
	}))
}

const (
	// lingerTime is how long the server goes on reading a body after it has
	// answered without it. A client that is still sending would otherwise meet a
	// reset connection before it reads the answer. net/http adds half a second
	// where more than 256 KiB are left, so the connection ends within a second.
	lingerTime = 400 * time.Millisecond
	// smallBody is the largest body that is looked for among what has arrived
	// already, to keep the connection.
	smallBody = 64 << 10
	// lastByteTime is how long the last byte of such a body may take. All of them have
	// most likely come in one segment.
	lastByteTime = 20 * time.Millisecond
)

// past is a deadline that fails every read that would have to wait.
var past = time.Unix(1, 0)

// held is an HTTP/1 request whose body has not been read to its end: the writer
// of its answer and its body in one. net/http reads up to 256 KiB of an unread
// body before it sends an answer, and again afterwards, both without a deadline.
// A client that announces a body and sends none would hold its connection for
// ever. So an answer that comes before the end of the body says
// "Connection: close", for which net/http sends it at once, and what follows has
// a deadline.
type held struct {
	http.ResponseWriter

	r     *http.Request
	body  io.ReadCloser
	late  func()
	dates *dates
	// told is set once late was called or must not be. done is set once the body
	// has been read to its end, over once the handler has returned.
	told, done, over atomic.Bool
	// stopped is set once the handler ended its own read.
	stopped atomic.Bool
	// reading is held while the body is read: another goroutine than the handler's
	// may do so.
	reading sync.Mutex
	decided bool
}

// hold serves an HTTP/1 request that has a body.
func (h *timely) hold(w http.ResponseWriter, r *http.Request) {
	b := &held{ResponseWriter: w, r: r, body: r.Body, late: h.late, dates: &h.dates}
	var until time.Time
	if !h.stream(r) {
		until = time.Now().Add(h.timeout)
	}
	if b.deadline(until) != nil {
		// A transport without deadlines has no slow peers either.
		h.next.ServeHTTP(w, r)
		return
	}
	r.Body = b
	defer b.release()
	h.next.ServeHTTP(b, r)
}

// release leaves the connection to net/http.
func (b *held) release() {
	b.r.Body = b.body // net/http looks at its type
	if b.done.Load() {
		return
	}
	b.decide(http.StatusOK)
	b.stopReading()
	if !b.done.Load() {
		_ = b.deadline(time.Now().Add(lingerTime))
	}
}

// stopReading ends a read of another goroutine and waits for it. net/http would
// end it as well, and lift the deadline of the connection afterwards: what it
// then reads of the body would wait for ever.
func (b *held) stopReading() {
	b.told.Store(true)
	b.over.Store(true)
	_ = b.deadline(past)
	b.reading.Lock()
	defer b.reading.Unlock()
}

// deadline is set by the writer itself or one that it wraps.
func (b *held) deadline(t time.Time) error {
	return http.NewResponseController(b.ResponseWriter).SetReadDeadline(t)
}

// SetReadDeadline implements the read deadline of [http.ResponseController]. It does
// nothing once the body has been read to its end: net/http goes on reading, to notice
// when the peer goes away, and takes a deadline there for that. It would end the context
// of the connection, and with it all further requests.
func (b *held) SetReadDeadline(t time.Time) error {
	if b.done.Load() {
		return nil
	}
	b.stopped.Store(true)
	return b.deadline(t)
}

// decide says before the first byte of the answer whether the connection goes on.
func (b *held) decide(status int) {
	if b.decided {
		return
	}
	b.decided = true
	if !peer.IsLeaving(b.r.Context()) && !b.stopped.Load() && (b.done.Load() || status >= http.StatusBadRequest && b.arrived()) {
		return
	}
	b.Header().Set("Connection", "close")
}

// arrived reads a small body that a refusal did not wait for, if all of it came
// together with the request's headers. A client that was refused keeps its
// connection then. Asking a client that waits for "100 Continue" would be wrong:
// reading invites it to send.
func (b *held) arrived() bool {
	if b.r.ContentLength < 0 || b.r.ContentLength > smallBody || b.r.Header.Get("Expect") != "" {
		return false
	}
	b.told.Store(true)
	if b.deadline(past) != nil {
		return false
	}
	if _, err := io.CopyN(io.Discard, b, b.r.ContentLength-1); err != nil {
		return false
	}
	// The deadline must not be over when the body ends; see SetReadDeadline.
	_ = b.deadline(time.Now().Add(lastByteTime))
	_, err := io.Copy(io.Discard, b)
	return err == nil && b.done.Load()
}

// Read implements [io.Reader]. At the end of the body, it clears the deadline.
// Otherwise the deadline would end a call that is still running, because the
// server keeps reading to detect when the peer disconnects.
func (b *held) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if !b.done.Swap(true) {
			_ = b.deadline(time.Time{})
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		if !b.told.Swap(true) && b.late != nil {
			b.late()
		}
	}
	return n, err
}

// Close implements [io.Closer] and does nothing. net/http closes the body when the
// handler has returned. A handler that closes it early would block on data that
// may never arrive.
func (b *held) Close() error { return nil }

// WriteHeader implements [http.ResponseWriter].
func (b *held) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		b.decide(status)
		b.dates.set(b.Header(), time.Now())
	}
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *held) Write(p []byte) (int, error) {
	b.decide(http.StatusOK)
	return b.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher], which streams need.
func (b *held) Flush() { _ = b.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (b *held) FlushError() error {
	b.decide(http.StatusOK)
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] find the server's own writer.
func (b *held) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// Timeout returns a handler that bounds how long the body of a request can hold
// its connection. Make it the outermost handler of a listener, so that it also
// covers requests that inner handlers refuse.
//
// A request has d to send its body. Then reading fails, and the inner handler
// responds as it does to a broken body. Requests for which stream returns true have
// no such limit, because their bodies last as long as the stream. late, which may
// be nil, is called once for each body that timed out. A server-wide write timeout
// would also cut streams, and end calls that only take long to answer.
//
// If a handler responds without having read the body, HTTP/1 usually closes the
// connection; see [held]. On HTTP/2 the server sends the response and, if the body has
// not ended 400 ms later, RST_STREAM(NO_ERROR). The connection continues to serve its
// other streams.
func Timeout(next http.Handler, d time.Duration, stream func(*http.Request) bool, late func()) http.Handler {
	return &timely{next: next, timeout: d, stream: stream, late: late}
}

// timely is a handler whose requests have a time for their bodies. Its frame is
// small, because a stream waits on top of it for hours.
type timely struct {
	next    http.Handler
	timeout time.Duration
	stream  func(*http.Request) bool
	late    func()
	dates   dates
}

// ServeHTTP implements [http.Handler].
func (h *timely) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		// net/http ignores Transfer-Encoding on HTTP/1.0 and would read the chunks
		// as the next request: RFC 9112, section 6.1, wants the connection closed.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		h.next.ServeHTTP(w, r)
	case r.ProtoMajor == 1:
		h.hold(w, r)
	default:
		h.limit(w, r)
		h.next.ServeHTTP(w, r)
	}
}

// limit sets the time for the body of an HTTP/2 request.
func (h *timely) limit(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if h.stream(r) {
		_ = control.SetReadDeadline(time.Time{}) // the server's own ReadTimeout
		return
	}
	// A transport without deadlines has no slow peers either.
	if err := control.SetReadDeadline(time.Now().Add(h.timeout)); err == nil {
		r.Body = &deadlineBody{ReadCloser: r.Body, control: control, late: h.late}
	}
}

// deadlineBody lifts the deadline once the body has been read to its end. Left
// in place it would end a call that is still running, because the server keeps
// reading to notice when the peer goes away. After any other error it stays: the
// server then reads what is left of the body, and must not wait for it.
type deadlineBody struct {
	io.ReadCloser
	control *http.ResponseController
	lifted  bool
	late    func() // nil once it was told
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.lifted {
		b.lifted = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if err != nil && b.late != nil && !b.lifted && errors.Is(err, os.ErrDeadlineExceeded) {
		b.late()
		b.late = nil
	}
	return n, err
}

// dates is the Date header of responses. net/http formats the time anew for each one, which takes longer than to look
// at a small message. The text changes once in a second. The zero value is ready for use, by many goroutines at once.
type dates struct{ last atomic.Pointer[date] }

// date is the header of one second.
type date struct {
	second int64
	values []string
}

// set sets the header, unless the handler has done so. The values are shared, and must not be written.
func (d *dates) set(h http.Header, now time.Time) {
	if _, ok := h["Date"]; ok {
		return
	}
	last := d.last.Load()
	if last == nil || last.second != now.Unix() {
		last = &date{second: now.Unix(), values: []string{now.UTC().Format(http.TimeFormat)}}
		d.last.Store(last)
	}
	h["Date"] = last.values[:1:1]
}
