// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Run is the record of one run of the process. Make one with [Open]. A nil Run records
// nothing.
type Run struct {
	opts  Options
	names redact.Names
	// metadata ends every line.
	metadata []byte
	buffers  sync.Pool // of *buffer

	mu      sync.Mutex
	space   sync.Cond // signalled where a deterministic End may go on
	clock   clock
	lastSeq uint64
	reorder reorderBuffer
	stats   Stats
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

// Stats are counts since Open, for metrics.
type Stats struct {
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
	// Open is the number of entries without an outcome, Held the number of lines that
	// wait for an earlier line, and Queued the number of lines that wait for the disk.
	Open, Held, Queued int
	// Failing is true from a failed write until the next one that succeeds.
	Failing bool
}

// Open starts a run. It makes the run directory and its file, points .latest at it,
// removes the oldest files above the limit, and starts the writer goroutine, which Close
// waits for. An error means that the directory cannot be written; the caller continues
// without records.
func Open(o Options) (*Run, error) {
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
func openDocuments(opts *Options, where *folder) (*Run, error) {
	r, w := newRun(opts, where)
	r.documents = r
	if _, err := w.log.ensure(); err != nil {
		return nil, err
	}
	w.report("remove old files", where.prune(opts.MaxFiles))
	go w.loop()
	return r, nil
}

func newRun(opts *Options, where *folder) (*Run, *writer) {
	r := &Run{
		opts: *opts, names: redact.NewNames(opts.Redact), folder: where,
		metadata: appendMetadata(nil, opts.Deterministic),
		wake:     make(chan struct{}, 1), full: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	r.space.L = &r.mu
	return r, &writer{run: r, log: &logFile{folder: where, open: opts.open}}
}

// Folder returns the run directory, or "" for nil.
func (r *Run) Folder() string {
	if r == nil {
		return ""
	}
	return r.folder.path()
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
		w.end(e, false)
		r.recycle(e.buf)
	} else {
		w.end(e, true)
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

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns the current counts, or zero counts for nil.
func (r *Run) Stats() Stats {
	if r == nil {
		return Stats{}
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
