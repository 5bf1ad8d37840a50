// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// chunkBytes is what is written at once: a hundred lines or so.
	chunkBytes = 64 << 10
	// recordMaxBackoff bounds the pause between attempts while the disk fails: soon
	// enough for somebody who has just made room.
	recordMaxBackoff = 5 * time.Second
)

// writer moves ready lines to the file. It runs on the one goroutine that Close
// waits for; nothing else touches its fields.
type writer struct {
	run *Run
	log *disk

	batch *Entry // taken from the reorder buffer, linked by next
	// chunk holds whole lines on their way to the file; those up to sent are in
	// it, those up to settled have been counted.
	chunk         []byte
	sent, settled int

	toldLate, toldDropped bool
}

// loop writes until stop. A line that gets ready is written after four fifths
// of FlushEvery, so that it has the rest for getting there.
func (w *writer) loop() {
	defer close(w.run.done)
	gather := max(w.run.opts.FlushEvery/5*4, time.Nanosecond)
	backoff := w.run.opts.FlushEvery
	timer, hold := time.NewTimer(gather), time.NewTimer(0)
	defer timer.Stop()
	defer hold.Stop()
	for {
		select {
		case <-w.run.wake:
		case <-hold.C:
		case <-w.run.stop:
			w.lastAttempt()
			return
		}
		timer.Reset(gather)
		select {
		case <-timer.C:
		case <-w.run.full:
		case <-w.run.stop:
			w.lastAttempt()
			return
		}
		if left := w.run.overdue(); left > 0 {
			hold.Reset(left)
		}
		for pause := backoff; w.drain() != nil; pause = min(2*pause, recordMaxBackoff) {
			w.tell()
			timer.Reset(pause)
			select {
			case <-timer.C:
			case <-w.run.stop:
				w.lastAttempt()
				return
			}
		}
		w.tell()
	}
}

// lastAttempt is the last attempt. What cannot be written now is lost.
func (w *writer) lastAttempt() {
	err := w.drain()
	switch {
	case err != nil:
		w.discard()
	case w.log.f != nil:
		if err = w.log.sync(); err != nil {
			w.failed("sync the file", err)
		}
	}
	w.log.close()
	if err != nil {
		w.run.closeErr = fmt.Errorf("run records: the record in %s is not complete: %w", w.run.folder.path(), err)
	}
	s := w.run.Stats()
	if s.Dropped > 0 || s.Late > 0 {
		w.run.opts.Log.Warn("run record incomplete or out of order", zap.String(logkey.FileDirectory, w.run.folder.path()),
			zap.Uint64("written", s.Written), zap.Uint64("dropped", s.Dropped), zap.Uint64("late", s.Late))
	}
}

// drain writes all that is ready. After an error the rest waits for the next
// attempt, in its order.
func (w *writer) drain() error {
	for {
		if len(w.chunk) == 0 && !w.refill() {
			return nil
		}
		if err := w.reopen(); err != nil {
			return err
		}
		if len(w.chunk) == 0 {
			w.fill()
		}
		if len(w.chunk) == 0 { // no new file could be had; reopen tells why
			continue
		}
		n, err := w.log.write(w.chunk[w.sent:])
		w.sent += n
		w.countWritten()
		if err != nil {
			w.failed("write", err)
			return err
		}
		w.chunk, w.sent, w.settled = w.chunk[:0], 0, 0
		if cap(w.chunk) > 4*chunkBytes { // one large line, and no reason to keep the room
			w.chunk = nil
		}
	}
}

// reopen makes sure that the file is there. A line of which another file holds
// the first piece is begun again in this one.
func (w *writer) reopen() error {
	replaced, err := w.log.ensure()
	if err != nil {
		w.failed("open the file", err)
		return err
	}
	if replaced {
		w.sent = bytes.LastIndexByte(w.chunk[:w.sent], '\n') + 1
	}
	return nil
}

// refill reports whether there is a line in the batch, and fetches a batch
// where there is none.
func (w *writer) refill() bool {
	if w.batch == nil {
		w.run.mu.Lock()
		w.batch = w.run.reorder.drain()
		w.run.mu.Unlock()
	}
	return w.batch != nil
}

// fill moves lines from the batch to the chunk, as many as fit into it and into
// the file. Which file a line is in depends on the lines alone, not on when
// they came.
func (w *writer) fill() {
	for e := w.batch; e != nil && len(w.chunk) < chunkBytes; e = w.batch {
		if w.log.isFull(len(w.chunk), e.size()) && (len(w.chunk) > 0 || !w.rotate()) {
			return
		}
		w.batch, e.next = e.next, nil
		w.chunk = append(w.chunk, e.buf.line...)
		if e.unfinished { // its End may still be at work on the tail
			w.chunk = append(w.chunk, w.run.unfinishedTail(e)...)
			continue
		}
		w.chunk = append(w.chunk, e.buf.tail...)
		w.run.recycle(e.buf)
		e.buf = nil
	}
}

// countWritten counts the lines that have got into the file.
func (w *writer) countWritten() {
	end := bytes.LastIndexByte(w.chunk[:w.sent], '\n') + 1
	if end <= w.settled {
		return
	}
	lines := bytes.Count(w.chunk[w.settled:end], []byte{'\n'})
	var again bool
	w.free(lines, end-w.settled, func(s *RecordStats) {
		s.Written += uint64(lines)
		again, s.Failing = s.Failing, false
	})
	w.settled = end
	if again {
		w.run.opts.Log.Info("run record writable again", zap.String(logkey.FileDirectory, w.run.folder.path()))
	}
}

// free takes lines out of the queue, and counts them as what they are.
func (w *writer) free(lines, size int, count func(*RecordStats)) {
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reorder.queued -= lines
	r.reorder.queuedBytes -= size
	count(&r.stats)
	r.space.Broadcast()
}

// discard drops what could not be written at the end.
func (w *writer) discard() {
	lines, size := bytes.Count(w.chunk[w.settled:], []byte{'\n'}), len(w.chunk)-w.settled
	for w.refill() {
		for e := w.batch; e != nil; e = e.next {
			lines++
			size += e.size()
		}
		w.batch = nil
	}
	w.free(lines, size, func(s *RecordStats) { s.Dropped += uint64(lines) })
}

// failed counts an error and tells of the first one of an episode.
func (w *writer) failed(step string, err error) {
	w.run.mu.Lock()
	w.run.stats.Errors++
	known := w.run.stats.Failing
	w.run.stats.Failing = true
	w.run.space.Broadcast()
	w.run.mu.Unlock()
	if !known {
		w.run.opts.Log.Warn("run record write failed; lines are queued, and dropped when the queue is full",
			zap.String(logkey.FileDirectory, w.run.folder.path()), zap.String("step", step), logkey.Error(err))
	}
}

// report counts and tells what does not keep lines from being written.
func (w *writer) report(step string, err error) {
	if err == nil {
		return
	}
	w.run.mu.Lock()
	w.run.stats.Errors++
	w.run.mu.Unlock()
	w.run.opts.Log.Warn("run record cleanup failed", zap.String(logkey.FileDirectory, w.run.folder.path()),
		zap.String("step", step), logkey.Error(err))
}

// tell logs once what a caller of End could not.
func (w *writer) tell() {
	s := w.run.Stats()
	if s.Late > 0 && !w.toldLate {
		w.toldLate = true
		w.run.opts.Log.Warn("run record: reorder buffer full; the line of a long call will be late",
			zap.Int("max_pending", w.run.opts.MaxPending))
	}
	if s.Dropped > 0 && !w.toldDropped {
		w.toldDropped = true
		w.run.opts.Log.Warn("run record: write queue full; dropping lines",
			zap.Int("max_pending", w.run.opts.MaxPending), zap.Int("max_pending_bytes", w.run.opts.MaxPendingBytes))
	}
}

// rotate goes on in a new file. It reports whether there is a file to write to;
// where the old one could not be set aside it is that one, for as long again.
func (w *writer) rotate() bool {
	err := w.log.rotate()
	if err == nil {
		w.free(0, 0, func(s *RecordStats) { s.Rotations++ })
		w.report("remove old files", w.run.folder.prune(w.run.opts.MaxFiles))
		return true
	}
	w.report("begin a new file", err)
	return w.log.f != nil
}

const (
	eventsStem = "events" // of the names of files
	callsStem  = "calls"
	latestName = ".latest"
	// folderLayout sorts as text by time; milliseconds keep apart what a
	// restart loop makes.
	folderLayout = "20060102T150405.000Z"

	// folderMode: a record tells who called what, so it is for its owner only.
	folderMode = 0o700

	// maxNameTries is for two runs that begin in the same millisecond and draw
	// the same of 2^32 ids.
	maxNameTries = 8
)

var (
	runName     = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8}$`)
	rotatedName = regexp.MustCompile(`^(events|calls)\.([1-9][0-9]{0,17})\.jsonl$`)
)

// folder is where a run leaves its files of one kind.
type folder struct {
	base string // of all runs
	name string
	stem string // of the files: eventsStem or callsStem
	// rotated is the number of the last file that was set aside.
	rotated int
}

// newFolder makes the folder of a run. An error says which step failed.
func newFolder(o *RecordOptions) (*folder, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("run records: directory %q: %w", o.Dir, err)
	}
	f := &folder{base: filepath.Join(dir, "mcp_server", "envelope_validation"), stem: eventsStem}
	if err := os.MkdirAll(f.base, folderMode); err != nil {
		return nil, fmt.Errorf("run records: create the directory of all runs: %w", err)
	}
	if o.Deterministic {
		return f, f.reuse(runFolderName(deterministicStart, 0))
	}
	for range maxNameTries {
		f.name = runFolderName(o.Now(), rand.Uint32()) //nolint:gosec // a name, no secret
		if err = os.Mkdir(f.path(), folderMode); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("run records: create the directory of the run: %w", err)
	}
	return f, nil
}

func runFolderName(start time.Time, id uint32) string {
	return start.UTC().Format(folderLayout) + fmt.Sprintf("-%08x", id)
}

// reuse takes a folder that may be there already, and empties it of records.
func (f *folder) reuse(name string) error {
	f.name = name
	if err := os.MkdirAll(f.path(), folderMode); err != nil {
		return fmt.Errorf("run records: create the directory of the run: %w", err)
	}
	for _, kind := range []*folder{f.with(eventsStem), f.with(callsStem)} {
		files, err := kind.files()
		if err != nil {
			return fmt.Errorf("run records: read the directory of the run: %w", err)
		}
		for _, old := range files {
			if err := os.Remove(old.path); err != nil {
				return fmt.Errorf("run records: remove an earlier run: %w", err)
			}
		}
	}
	return nil
}

// with is the same folder, for files of another kind.
func (f *folder) with(stem string) *folder {
	return &folder{base: f.base, name: f.name, stem: stem}
}

func (f *folder) path() string    { return filepath.Join(f.base, f.name) }
func (f *folder) current() string { return filepath.Join(f.base, f.name, f.stem+".jsonl") }

// restore makes the folder again if somebody removed it, and .latest with it.
func (f *folder) restore() error {
	if _, err := os.Stat(f.path()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(f.path(), folderMode); err != nil {
		return fmt.Errorf("recreate the directory of the run: %w", err)
	}
	if _, err := os.Stat(filepath.Join(f.base, latestName)); errors.Is(err, fs.ErrNotExist) {
		_ = f.link() // lines can be written without it
	}
	return nil
}

// link points .latest at the run: a link under its own name is renamed, so
// that a reader finds the old one or the new one and never none.
func (f *folder) link() error {
	own := filepath.Join(f.base, latestName+"."+f.name)
	if err := removed(own); err != nil {
		return err
	}
	if err := os.Symlink(f.name, own); err != nil {
		return err
	}
	if err := os.Rename(own, filepath.Join(f.base, latestName)); err != nil {
		return errors.Join(err, os.Remove(own))
	}
	return nil
}

// setAside sets the current file aside under the next number.
func (f *folder) setAside() error {
	next := filepath.Join(f.path(), f.stem+"."+strconv.Itoa(f.rotated+1)+".jsonl")
	if err := os.Rename(f.current(), next); err != nil {
		return err
	}
	f.rotated++
	return nil
}

// prune removes the oldest files of its kind of all runs until no more than most are
// left, and folders that are empty then. The run's own current file stays, and what
// this package did not make is not touched.
func (f *folder) prune(most int) error {
	entries, err := os.ReadDir(f.base) // sorted by name, so by time
	if err != nil {
		return err
	}
	var files []runFile
	var failed []error
	for _, e := range entries {
		if !e.IsDir() || !runName.MatchString(e.Name()) {
			continue
		}
		run := folder{base: f.base, name: e.Name(), stem: f.stem}
		list, err := run.files()
		if err != nil {
			failed = append(failed, err)
		}
		files = append(files, list...)
	}
	files = slices.DeleteFunc(files, func(old runFile) bool { return old.path == f.current() })
	for _, old := range files[:max(len(files)-(most-1), 0)] {
		failed = append(failed, removed(old.path))
		if dir := filepath.Dir(old.path); dir != f.path() {
			_ = os.Remove(dir) // refused while there is anything in it
		}
	}
	return errors.Join(failed...)
}

// runFile is one file of a run; number is 0 for the current one.
type runFile struct {
	path   string
	number int
}

// files returns the files of its kind of the run, the oldest first. A folder that
// is gone has none.
func (f *folder) files() ([]runFile, error) {
	entries, err := os.ReadDir(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []runFile
	for _, e := range entries {
		path := filepath.Join(f.path(), e.Name())
		switch m := rotatedName.FindStringSubmatch(e.Name()); {
		case e.IsDir():
		case path == f.current():
			files = append(files, runFile{path: path})
		case m != nil && m[1] == f.stem:
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, err
			}
			files = append(files, runFile{path: path, number: n})
		}
	}
	slices.SortFunc(files, func(a, b runFile) int {
		if (a.number == 0) != (b.number == 0) {
			return cmp.Compare(b.number, a.number)
		}
		return cmp.Compare(a.number, b.number)
	})
	return files, nil
}

// schemaVersion is the version of the line format (metadata.schemaVersion). Its schema
// is testdata/schemas/record/event.schema.json.
const schemaVersion = "1.1.0"

const (
	timestampOpen = `{"timestamp":"`
	// secondLayout and six digits of microseconds make a timestamp of fixed
	// width, so that lines compare as text.
	secondLayout   = "2006-01-02T15:04:05"
	timestampBytes = len("2006-01-02T15:04:05.000000Z")
	noTimestamp    = "0000-00-00T00:00:00.000000Z"

	// maxErrorBytes is above the most that the canonical table lets through:
	// a hundred violations of 3 KiB, and details.
	maxErrorBytes = 512 << 10
)

// appendHead appends what is known of an envelope when it arrives. The time and,
// where the caller sent none, the trace id are left as zeros to be put in place
// later; traceAt is where, or 0.
func appendHead(dst []byte, a *Arrival) (head []byte, traceAt int) {
	dst = append(dst, timestampOpen+noTimestamp+`","requestId":`...)
	dst = appendID(dst, a.RequestID)
	dst = append(dst, `,"traceId":"`...)
	if isTraceID(a.TraceID) {
		dst = append(dst, a.TraceID...)
	} else {
		traceAt = len(dst)
		dst = append(dst, noTraceID...)
	}
	dst = append(dst, `","transport":`...)
	dst = appendText(dst, a.Transport)
	dst = append(dst, `,"route":`...)
	dst = appendText(dst, a.Route)
	dst = append(dst, `,"method":`...)
	return appendText(dst, a.Method), traceAt
}

// appendTail appends the outcome, without payloads and metadata.
func appendTail(dst []byte, o *Outcome, took time.Duration) []byte {
	status := `,"status":"error","durationMs":`
	if o.OK {
		status = `,"status":"ok","durationMs":`
	}
	dst = append(dst, status...)
	dst = appendMillis(dst, took)
	dst = append(dst, `,"error":`...)
	if o.OK {
		return append(dst, "null"...)
	}
	return appendError(dst, o)
}

// appendWho appends the tool and the caller.
func appendWho(dst []byte, tool, caller string) []byte {
	dst = appendText(append(dst, `,"tool":`...), tool)
	return appendText(append(dst, `,"caller":`...), caller)
}

// appendError appends the canonical data object with two members more. What is
// no JSON object is null.
func appendError(dst []byte, o *Outcome) []byte {
	data := bytes.TrimSpace(o.Error)
	if len(data) < 2 || len(data) > maxErrorBytes || data[0] != '{' || !isJSON(data) {
		return append(dst, "null"...)
	}
	// A raw line break can only stand between tokens.
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		var compact bytes.Buffer
		if json.Compact(&compact, data) != nil {
			return append(dst, "null"...)
		}
		data = compact.Bytes()
	}
	open := bytes.TrimRight(data[:len(data)-1], " \t")
	dst = append(dst, open...)
	if len(open) > 1 {
		dst = append(dst, ',')
	}
	dst = append(dst, `"httpStatus":`...)
	dst = appendNumber(dst, o.HTTPStatus)
	dst = append(dst, `,"jsonrpcCode":`...)
	dst = appendNumber(dst, o.Code)
	return append(dst, '}')
}

// appendNumber appends a status or code; neither is ever 0, so 0 is unknown.
func appendNumber(dst []byte, n int) []byte {
	if n == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendMetadata appends what ends every line of a run, line feed included.
func appendMetadata(dst []byte, deterministic bool) []byte {
	dst = append(dst, `,"metadata":{"schemaVersion":"`+schemaVersion+`","deterministic":`...)
	dst = strconv.AppendBool(dst, deterministic)
	return append(dst, "}}\n"...)
}

// clock formats timestamps; it remembers the last second that it formatted. It is not safe for
// concurrent use.
type clock struct {
	second int64
	text   [len(secondLayout)]byte
	known  bool
}

// put writes now into dst, which has timestampBytes bytes.
func (c *clock) put(dst []byte, now time.Time) {
	if s := now.Unix(); s != c.second || !c.known {
		utc := now.UTC()
		if y := utc.Year(); y < 0 || y > 9999 { // RFC 3339 has four digits
			utc = time.Unix(0, 0).UTC()
		}
		utc.AppendFormat(c.text[:0], secondLayout)
		c.second, c.known = s, true
	}
	at := copy(dst, c.text[:])
	dst[at] = '.'
	us := now.Nanosecond() / 1000
	for i := at + 6; i > at; i-- {
		dst[i] = byte('0' + us%10)
		us /= 10
	}
	dst[at+7] = 'Z'
}

// reorderBuffer brings lines into arrival order. Entries join at the end as they
// arrive; an ended one leaves when none before it is open, into ready, from
// where the writer takes all there is. It is guarded by Run.mu.
type reorderBuffer struct {
	first, last *Entry
	// late are the open entries that are no longer waited for.
	late map[*Entry]struct{}
	open int // entries not ended, late ones too

	held, heldBytes int // ended, and behind an open one

	ready       *Entry // linked by next
	readyLast   *Entry
	queued      int // lines of ready and of what the writer has taken
	queuedBytes int
}

func (w *reorderBuffer) join(e *Entry) {
	e.prev = w.last
	if w.last == nil {
		w.first = e
	} else {
		w.last.next = e
	}
	w.last = e
	w.open++
}

func (w *reorderBuffer) unlink(e *Entry) {
	if e.prev == nil {
		w.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		w.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// endEntry takes an open entry that has ended out of the count, and out of where
// it would stand in the way if it is not kept.
func (w *reorderBuffer) endEntry(e *Entry, keep bool) {
	w.open--
	switch {
	case e.place == placeLate:
		delete(w.late, e)
		e.place = placeGone
		if keep {
			w.push(e)
		}
	case !keep:
		w.unlink(e)
		e.place = placeGone
		w.advance()
	default:
		e.place = placeHeld
		w.held++
		w.heldBytes += e.size()
		w.advance()
	}
}

// advance hands over the ended entries at the beginning.
func (w *reorderBuffer) advance() {
	for e := w.first; e != nil && e.place == placeHeld; e = w.first {
		w.unlink(e)
		w.held--
		w.heldBytes -= e.size()
		e.place = placeGone
		w.push(e)
	}
}

// skip gives up waiting for the first entry, which is open: its line will come
// late.
func (w *reorderBuffer) skip() {
	e := w.first
	w.unlink(e)
	e.place = placeLate
	if w.late == nil {
		w.late = make(map[*Entry]struct{})
	}
	w.late[e] = struct{}{}
	w.advance()
}

func (w *reorderBuffer) push(e *Entry) {
	if w.ready == nil {
		w.ready = e
	} else {
		w.readyLast.next = e
	}
	w.readyLast = e
	w.queued++
	w.queuedBytes += e.size()
}

// drain empties ready.
func (w *reorderBuffer) drain() *Entry {
	e := w.ready
	w.ready, w.readyLast = nil, nil
	return e
}

// closeAll ends what is open as unfinished and hands everything over: late
// entries first, because they are the oldest. It returns how many had not
// ended, and how many of these were late.
func (w *reorderBuffer) closeAll() (unfinished, late int) {
	unfinished, late = w.open, len(w.late)
	for _, e := range slices.SortedFunc(maps.Keys(w.late), func(a, b *Entry) int { return cmp.Compare(a.seq, b.seq) }) {
		e.unfinished = true
		w.endEntry(e, true)
	}
	for e := w.first; e != nil; e = w.first {
		if e.place == placeOpen {
			e.unfinished = true
			w.endEntry(e, true)
		} else {
			w.advance()
		}
	}
	return unfinished, late
}
