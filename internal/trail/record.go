// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Run is the record of one run of the process. Make one with [OpenRecord]. A nil Run records
// nothing.
type Run struct {
	opts  RecordOptions
	names redact.Names
	// metadata ends every line.
	metadata []byte
	buffers  sync.Pool // of *buffer

	mu      sync.Mutex
	space   sync.Cond // signalled where a deterministic End may go on
	clock   clock
	lastSeq uint64
	reorder reorderBuffer
	stats   RecordStats
	closed  bool

	// wake tells the writer that there is something to write, full that it
	// should not wait for more, stop that it should end. done is closed when it
	// has, and closeErr is what it leaves behind.
	wake, full, stop, done chan struct{}
	closeErr               error
	folder                 *folder
	// documents are the lines of calls.jsonl, where payloads are recorded; it is the run
	// itself in the run of those lines.
	documents *Run
}

// RecordStats are counts since Open, for metrics.
type RecordStats struct {
	// Written counts lines that were written to the file, as far as the operating system
	// reports.
	Written uint64
	// Dropped counts lost lines: the queue was full, or the disk failed until Close. Dropped,
	// Errors and Failing include the documents of calls, the other numbers do not.
	Dropped uint64
	// Late counts lines written after lines of later envelopes.
	Late uint64
	// Unfinished counts lines that were written at Close without an outcome.
	Unfinished uint64
	// Errors counts failed operations on files and directories.
	Errors uint64
	// Rotations counts files that were started because one was full.
	Rotations uint64
	// OpenRecord is the number of entries without an outcome, Held the number of lines that
	// wait for an earlier line, and Queued the number of lines that wait for the disk.
	Open, Held, Queued int
	// Failing is true from a failed write until the next one that succeeds.
	Failing bool
}

// OpenRecord starts a run. It makes the run directory and its file, points .latest at it,
// removes the oldest files above the limit, and starts the writer goroutine, which Close
// waits for. An error means that the directory cannot be written; the caller continues
// without records.
func OpenRecord(o RecordOptions) (*Run, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	where, err := newFolder(&opts)
	if err != nil {
		return nil, err
	}
	r, w := newRun(&opts, where)
	if _, err := w.log.ensure(); err != nil {
		return nil, err
	}
	w.report("link to the newest run", where.link())
	w.report("remove old files", where.prune(opts.MaxFiles))
	calls := where.with(callsStem)
	if !opts.Payloads {
		w.report("remove old files", calls.prune(opts.MaxFiles))
	} else if r.documents, err = openDocuments(&opts, calls); err != nil {
		w.log.close()
		return nil, err
	}
	go w.loop()
	return r, nil
}

// openDocuments starts the run of the lines of calls.jsonl.
func openDocuments(opts *RecordOptions, where *folder) (*Run, error) {
	r, w := newRun(opts, where)
	r.documents = r
	if _, err := w.log.ensure(); err != nil {
		return nil, err
	}
	w.report("remove old files", where.prune(opts.MaxFiles))
	go w.loop()
	return r, nil
}

func newRun(opts *RecordOptions, where *folder) (*Run, *writer) {
	r := &Run{
		opts: *opts, names: redact.NewNames(opts.Redact), folder: where,
		metadata: appendMetadata(nil, opts.Deterministic),
		wake:     make(chan struct{}, 1), full: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	r.space.L = &r.mu
	return r, &writer{run: r, log: &disk{
		place: where, open: opts.open, what: "run records: ", max: opts.MaxFileBytes, limit: opts.MaxFileBytes, continues: true,
	}}
}

// Folder returns the run directory, or "" for nil.
func (r *Run) Folder() string {
	if r == nil {
		return ""
	}
	return r.folder.path()
}

// toolsFile is what a run has of the tools of a native backend, which descriptors do not have.
const toolsFile = "tools.json"

// KeepTools writes what a native backend offers beside the lines, in place of what it offered before. It does nothing where payloads are
// not recorded: a replay needs both.
func (r *Run) KeepTools(text []byte) error {
	if r == nil || !r.opts.Payloads {
		return nil
	}
	path := filepath.Join(r.folder.path(), toolsFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// MaxPayloadBytes bounds each of params and result of a line; it is 0 for nil.
func (r *Run) MaxPayloadBytes() int {
	if r == nil {
		return 0
	}
	return r.opts.MaxPayloadBytes
}

// Begin records the arrival of an envelope. The order of calls is the order of lines. It
// returns nil if nothing is recorded; End accepts nil. Every entry must be ended, on any
// goroutine.
func (r *Run) Begin(a Arrival) *Entry {
	if r == nil {
		return nil
	}
	buf := r.buffer()
	var traceAt int
	buf.line, traceAt = appendHead(buf.line, &a)
	if r.opts.Payloads {
		buf.paramsSize = len(a.Params)
		if len(a.Params) <= r.opts.MaxPayloadBytes {
			buf.params = append(buf.params, a.Params...)
		}
	}
	if traceAt > 0 && !r.opts.Deterministic {
		putTraceID(buf.line[traceAt:], 0)
	}
	return r.join(&Entry{run: r, buf: buf, caller: a.Caller}, traceAt)
}

func (r *Run) buffer() *buffer {
	if buf, ok := r.buffers.Get().(*buffer); ok {
		return buf
	}
	return &buffer{line: make([]byte, 0, 256), tail: make([]byte, 0, 192)}
}

// join puts an entry behind those that came before it, and the time and the trace id, if
// one is to be made, into its line. It returns nil if there are too many.
func (r *Run) join(e *Entry, traceAt int) *Entry {
	buf := e.buf
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.reorder.open >= r.opts.MaxOpen {
		r.stats.Dropped++
		r.recycle(buf)
		return nil
	}
	// The clock is read here, so that times stand in the order of lines.
	e.start = r.opts.Now()
	r.clock.put(buf.line[len(timestampOpen):len(timestampOpen)+timestampBytes], e.start)
	r.lastSeq++
	e.seq = r.lastSeq
	if traceAt > 0 && r.opts.Deterministic {
		putTraceID(buf.line[traceAt:], e.seq)
	}
	r.reorder.join(e)
	return e
}

// unfinishedTail is the tail of a line whose outcome is not known.
func (r *Run) unfinishedTail(e *Entry) []byte {
	if r.documents == r {
		return []byte(unfinishedDocument)
	}
	tail := appendWho([]byte(`,"status":null,"durationMs":null,"error":null`), "", e.caller)
	if r.opts.Payloads {
		tail = append(tail, `,"params":null,"result":null`...)
	}
	return append(tail, r.metadata...)
}

// wakeBytes is how much may gather before the writer does not wait for more: it
// writes that much at once.
const wakeBytes = chunkBytes

// finish puts an ended entry in its place.
func (r *Run) finish(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.reorder
	if r.opts.Deterministic {
		for r.isFull(e) && w.queued > 0 && !r.stats.Failing && !r.closed {
			signal(r.wake)
			signal(r.full)
			r.space.Wait()
		}
	}
	if e.place == placeGone { // Close was faster
		return
	}
	idle, free := w.ready == nil, w.held == 0
	if e.place == placeLate {
		r.stats.Late++
	}
	if r.isFull(e) {
		r.stats.Dropped++
		w.endEntry(e, false)
		r.recycle(e.buf)
	} else {
		w.endEntry(e, true)
	}
	for w.held > r.opts.MaxPending || w.heldBytes > r.opts.MaxPendingBytes/2 {
		w.skip()
	}
	if free && w.held > 0 { // the writer watches how long
		signal(r.wake)
	}
	if w.ready == nil {
		return
	}
	if idle {
		signal(r.wake)
	}
	if w.queuedBytes >= wakeBytes {
		signal(r.full)
	}
}

// overdue stops waiting for entries that have held back others for too long. It
// returns when to look again, 0 where nothing is held back.
func (r *Run) overdue() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Deterministic {
		return 0
	}
	now := r.opts.Now()
	for r.reorder.held > 0 { // so the first entry is open
		left := r.opts.MaxHold - now.Sub(r.reorder.first.start)
		if left > 0 {
			return left
		}
		r.reorder.skip()
	}
	return 0
}

// isFull reports whether one more line is too much. One line alone never is.
func (r *Run) isFull(e *Entry) bool {
	w := &r.reorder
	lines := w.held + w.queued
	return lines >= 2*r.opts.MaxPending || lines > 0 && w.heldBytes+w.queuedBytes+e.size() > r.opts.MaxPendingBytes
}

func (r *Run) recycle(b *buffer) {
	if !b.isLarge() {
		b.reset()
		r.buffers.Put(b)
	}
}

// Stats returns the current counts, or zero counts for nil.
func (r *Run) Stats() RecordStats {
	if r == nil {
		return RecordStats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Open, s.Held, s.Queued = r.reorder.open, r.reorder.held, r.reorder.queued
	if r.documents != nil && r.documents != r {
		d := r.documents.Stats()
		s.Dropped, s.Errors, s.Failing = s.Dropped+d.Dropped, s.Errors+d.Errors, s.Failing || d.Failing
	}
	return s
}

// Close ends the run. It writes the remaining lines, including entries without an
// outcome, syncs the file and waits for the writer. An error means that lines are
// missing or may not have reached the disk. Later calls return the same error.
func (r *Run) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		unfinished, late := r.reorder.closeAll()
		r.stats.Unfinished += uint64(unfinished)
		r.stats.Late += uint64(late)
		close(r.stop)
		r.space.Broadcast()
	}
	r.mu.Unlock()
	<-r.done
	if r.documents != nil && r.documents != r {
		return errors.Join(r.closeErr, r.documents.Close())
	}
	return r.closeErr
}

// Arrival is the information about an envelope at its arrival. Begin does not keep its
// bytes: they may be reused after it has returned.
type Arrival struct {
	// RequestID is the JSON-RPC id as received. If empty or absent, the record has null.
	RequestID json.RawMessage
	// TraceID is 32 hex digits in lower case (see [TraceID]). Any other value means that
	// the caller sent none, and the run generates one.
	TraceID string
	// Transport is http or stdio, Route its route, and Method the method of the envelope.
	// If empty, the record has null.
	Transport, Route, Method string
	// Caller is the caller as logs name it. If empty, the record has null.
	Caller string
	// Params is used only if payloads are recorded.
	Params []byte
}

// Outcome is the outcome of an envelope.
type Outcome struct {
	OK bool
	// Error is the canonical data object. HTTPStatus and Code are the numbers sent with
	// it. They are recorded if OK is false.
	Error            json.RawMessage
	HTTPStatus, Code int
	// Tool is the canonical name of the tool. If empty, the record has null.
	Tool string
	// Result is used only if payloads are recorded. So is Params, which replaces that of the
	// arrival if it is not nil.
	Result, Params []byte
	// Redact are more names whose values are secret in the params and result of this
	// envelope: the fields that the tool's own messages mark as secret.
	Redact []redact.Names
}

// place is how far an entry is on its way to the file.
type place uint8

const (
	placeOpen place = iota // in the reorder buffer, not ended
	placeLate              // not ended, and no longer waited for
	placeHeld              // ended, behind an open one
	placeGone              // handed to the writer, or dropped
)

// Entry is one envelope between its arrival and its outcome. A nil Entry is not
// recorded.
type Entry struct {
	run    *Run
	seq    uint64
	caller string
	start  time.Time
	ended  atomic.Bool

	// All below is guarded by run.mu, save that the tail belongs to End and the
	// line to the writer once the entry is placeGone.
	prev, next *Entry
	place      place
	unfinished bool
	buf        *buffer
}

// buffer holds the bytes of one entry: what was known first, what became of it,
// and the params until it is known how to redact them.
type buffer struct {
	line, tail []byte
	params     []byte
	paramsSize int
}

// maxPooled is the capacity of a buffer above which it is left to the garbage
// collector, so that a few large payloads do not stay for good.
const maxPooled = 16 << 10

func (b *buffer) reset() {
	b.line, b.tail, b.params, b.paramsSize = b.line[:0], b.tail[:0], b.params[:0], 0
}

func (b *buffer) isLarge() bool {
	return cap(b.line) > maxPooled || cap(b.tail) > maxPooled || cap(b.params) > maxPooled
}

func (e *Entry) size() int {
	if e.unfinished {
		return len(e.buf.line) + len(e.run.unfinishedTail(e))
	}
	return len(e.buf.line) + len(e.buf.tail)
}

// End completes the entry's line. Only the first call counts, and a call after Close has
// no effect. End does not wait for the disk, except in a deterministic run. It does not
// keep the outcome's bytes.
func (e *Entry) End(o Outcome) {
	if e == nil || e.ended.Swap(true) {
		return
	}
	r := e.run
	tail := appendTail(e.buf.tail, &o, r.took(e))
	tail = appendWho(tail, o.Tool, e.caller)
	if r.opts.Payloads {
		tail = r.appendPayloads(tail, e.buf, &o)
	}
	e.buf.tail = jsontext.Visible(append(tail, r.metadata...), 0)
	r.finish(e)
}

// took is the time since an entry came; zero where a run is to be the same as others.
func (r *Run) took(e *Entry) time.Duration {
	if r.opts.Deterministic {
		return 0
	}
	return r.opts.Now().Sub(e.start)
}

func (r *Run) appendPayloads(dst []byte, b *buffer, o *Outcome) []byte {
	red := redact.Redactor{Base: r.names, Extra: o.Redact}
	limit := r.opts.MaxPayloadBytes
	params, size := b.params, b.paramsSize
	if o.Params != nil {
		params, size = o.Params, len(o.Params)
	}
	dst = append(dst, `,"params":`...)
	dst = red.AppendPayload(dst, params, size, limit)
	dst = append(dst, `,"result":`...)
	return red.AppendPayload(dst, o.Result, len(o.Result), limit)
}

// Defaults of Options.
const (
	// defaultMaxPending is the number of calls in the in-flight table.
	defaultMaxPending = defaults.MaxInFlight
	// defaultMaxPendingDocumentBytes is twice defaultMaxPending lines of the usual 500 bytes, with room for payloads.
	defaultMaxPendingDocumentBytes = 32 << 20
	// defaultMaxHold is twice the default timeout of a call, so that ordinary calls are always in order.
	defaultMaxHold = 2 * defaults.Timeout
	// defaultMaxOpen is four full in-flight tables. It only guards against an owner that does not end its entries.
	defaultMaxOpen = 4 * defaults.MaxInFlight
	// defaultMaxPayloadBytes is a long page of JSON. It shows what was requested, and a thousand of them fit in memory.
	defaultMaxPayloadBytes = 16 << 10
	// defaultFlushRecordEvery is the contract's maximum age of an unwritten line.
	defaultFlushRecordEvery = 250 * time.Millisecond
)

// RecordOptions configure a run. Zero fields take the defaults of this package.
type RecordOptions struct {
	// Dir is the directory of the records of all runs. It is required.
	Dir string
	// Deterministic fixes the clock, durations, generated trace ids and the name of the
	// run directory, so that the same input gives the same bytes. It removes the files of
	// an earlier deterministic run in that directory. Such a run waits for a slow disk
	// instead of dropping lines.
	Deterministic bool
	// Payloads records params and results, redacted.
	Payloads bool
	// Redact are the names of members whose values are never recorded. Each is a whole
	// name and covers all spellings: api_key also means apiKey and API-Key. Nil means
	// redact.DefaultNames.
	Redact []string
	// MaxFileBytes is the size at which a run continues in a new file. MaxFiles bounds
	// the files of all runs together; the oldest are removed first.
	MaxFileBytes int64
	MaxFiles     int
	// MaxPending bounds the lines that are held back to keep the order, and, separately,
	// the lines in the disk queue.
	MaxPending int
	// MaxPendingBytes bounds the bytes of both. Lines held back may use half of it.
	MaxPendingBytes int
	// MaxHold bounds how long one entry may hold back others. It does not apply to a
	// deterministic run.
	MaxHold time.Duration
	// MaxOpen bounds the entries that have begun and not ended.
	MaxOpen int
	// MaxPayloadBytes bounds each of params and result of a line. A larger one is left
	// out, with a note of its size.
	MaxPayloadBytes int
	// FlushEvery is the longest time that a finished line waits for others before it is
	// written.
	FlushEvery time.Duration
	// Now is the clock. Nil means the system clock. Deterministic overrides it.
	Now func() time.Time
	// Log receives errors, once per episode. Nil discards them.
	Log *zap.Logger

	// open opens an event file for appending; nil is the operating system's.
	open func(path string) (file, error)
}

func (o RecordOptions) withDefaults() (RecordOptions, error) {
	if o.Dir == "" {
		return o, errors.New("run records: no directory is set")
	}
	if o.Redact == nil {
		o.Redact = redact.DefaultNames()
	}
	defaults.Fill(&o.MaxFileBytes, defaults.RecordMaxFileBytes)
	defaults.Fill(&o.MaxFiles, defaults.RecordMaxFiles)
	defaults.Fill(&o.MaxPending, defaultMaxPending)
	defaults.Fill(&o.MaxPendingBytes, defaultMaxPendingDocumentBytes)
	defaults.Fill(&o.MaxHold, defaultMaxHold)
	defaults.Fill(&o.MaxOpen, defaultMaxOpen)
	defaults.Fill(&o.MaxPayloadBytes, defaultMaxPayloadBytes)
	defaults.Fill(&o.FlushEvery, defaultFlushRecordEvery)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Deterministic {
		o.Now = func() time.Time { return deterministicStart }
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.open == nil {
		o.open = openFile
	}
	return o, nil
}

// deterministicStart is the only time that a deterministic run knows.
var deterministicStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

const (
	traceIDBytes = 32
	noTraceID    = "00000000000000000000000000000000"
)

// TraceID returns the trace id in a traceparent header (W3C Trace Context, section 3.2),
// or "" if there is none. A later version may have more fields after those that this
// function reads.
func TraceID(traceparent string) string {
	const (
		idAt     = len("00-")
		parentAt = idAt + traceIDBytes + 1
		flagsAt  = parentAt + 16 + 1
		size     = flagsAt + 2
	)
	if len(traceparent) < size || traceparent[2] != '-' || traceparent[parentAt-1] != '-' || traceparent[flagsAt-1] != '-' {
		return ""
	}
	version := traceparent[:2]
	if !isLowerHex(version) || version == "ff" || len(traceparent) > size && (version == "00" || traceparent[size] != '-') {
		return ""
	}
	parent := traceparent[parentAt : flagsAt-1]
	if !isLowerHex(parent) || parent == noTraceID[:16] || !isLowerHex(traceparent[flagsAt:size]) {
		return ""
	}
	if id := traceparent[idAt : parentAt-1]; isTraceID(id) {
		return id
	}
	return ""
}

func isTraceID(s string) bool { return len(s) == traceIDBytes && isLowerHex(s) && s != noTraceID }

func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// putTraceID writes a trace id of 32 characters into dst: the n-th of a fixed
// sequence, or, for n 0, a random one. It need not be hard to guess.
func putTraceID(dst []byte, n uint64) {
	var raw [traceIDBytes / 2]byte
	if n == 0 {
		binary.BigEndian.PutUint64(raw[:8], rand.Uint64()) //nolint:gosec // an id, no secret
		n = max(rand.Uint64(), 1)                          //nolint:gosec // the same
	}
	binary.BigEndian.PutUint64(raw[8:], n)
	hex.Encode(dst, raw[:])
}

const (
	// maxTextBytes bounds transport, route and method. No method of a dialect
	// has a tenth of it; what is longer was sent to be a nuisance.
	maxTextBytes = 512
	// maxIDBytes bounds an id, quotes included: four times the envelope's own
	// default. An id is recorded whole or not at all.
	maxIDBytes = 4096
)

// appendText appends s as a JSON string, cut at maxTextBytes, or null for "".
func appendText(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsontext.Visible(jsontext.AppendString(dst, clipped(s, maxTextBytes)), len(dst))
}

// clipped cuts a text to so many bytes, less the character that they may end in the middle of.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s[:max(len(s)-1, 0)] + "…"
}

// isPlain reports whether s is ASCII that JSON writes as it is.
func isPlain(s []byte) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7F || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendID appends a JSON-RPC id as it came, but for characters that cannot be seen, which
// are escaped, or null for what is no string and no number: a line must be JSON whatever
// was sent.
func appendID(dst, id []byte) []byte {
	if !isID(id) {
		return append(dst, "null"...)
	}
	return jsontext.Visible(append(dst, id...), len(dst))
}

func isID(id []byte) bool {
	if len(id) == 0 || len(id) > maxIDBytes {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		return len(id) >= 2 && id[len(id)-1] == '"' && isPlain(id[1:len(id)-1]) || isValue(id)
	case c == '-' || c >= '0' && c <= '9':
		return isCounter(id) || isValue(id)
	}
	return false
}

// isValue reports whether raw is one JSON value with nothing around it.
func isValue(raw []byte) bool {
	last := raw[len(raw)-1]
	return last > ' ' && isJSON(raw)
}

// maxDepth bounds the recursion over what is recorded. The edges stop far below it.
const maxDepth = 10_000

// isJSON reports whether raw is one strict JSON value.
func isJSON(raw []byte) bool { return jsontext.Check(raw, maxDepth) == nil }

// isCounter reports whether raw is a number as most ids are: digits that do not
// begin with zero.
func isCounter(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return raw[0] != '0'
}

// RedactNames adds the configured names to the usual ones.
func RedactNames(c *configv1.Record) []string {
	return append(redact.DefaultNames(), c.GetRedact()...)
}
