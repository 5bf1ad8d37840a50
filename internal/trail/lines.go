// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// errStalled is the error of a Commit that waited too long, and of those behind it until
// the disk answers again.
var errStalled = errors.New("the disk does not answer")

// errFull is the error of a Commit whose line does not fit into the queue.
var errFull = errors.New("the queue of lines is full")

// errClosed is the error of a Commit after Close.
var errClosed = errors.New("the file is closed")

// LineWriter writes lines to one file. Make one with [openLines]. All methods are safe for
// concurrent use and do nothing on nil.
type LineWriter struct {
	opts LineOptions

	mu sync.Mutex
	// pending are the lines that are not being written yet; writing is how many bytes the
	// goroutine has taken and not written.
	pending batch
	writing int
	stats   LineStats
	// failure is why the last write or sync failed, nil after one that succeeded.
	failure error
	stalled bool
	closed  bool

	// wake tells the goroutine that there is something to write, now that it should not
	// wait for more, stop that it should end. done is closed when it has.
	wake, now, stop, done chan struct{}
	closeErr              error
}

// batch is lines for one write.
type batch struct {
	lines []byte
	count int
	// durable is closed once the lines are durable, or after err was set; nil where
	// no one waits.
	durable chan struct{}
	err     *error
}

// LineStats are counts since Open.
type LineStats struct {
	// Written counts lines that were written, as far as the operating system reports, and
	// Dropped lines that were lost because the queue was full or the file failed until Close.
	Written, Dropped uint64
	// Errors counts failed operations on the file, Rotations the files that were set aside,
	// and Torn the pieces of lines that were found at the end of the file.
	Errors, Rotations, Torn uint64
	// Queued is the number of bytes that wait for the disk.
	Queued int
	// Failing is true from a failed write or sync until the next one that succeeds, and
	// while the disk does not answer. Failure is the reason.
	Failing bool
	Failure string
	// Syncs is the distribution of the durations of fsync.
	Syncs Latency
}

// openLines opens the file for appending and starts the goroutine that writes, which Close
// waits for. An error means that the file cannot be opened.
func openLines(o LineOptions) (*LineWriter, error) {
	w := &LineWriter{
		wake: make(chan struct{}, 1), now: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	var err error
	if w.opts, err = o.withDefaults(); err != nil {
		return nil, err
	}
	l := &loop{w: w}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	d := l.disk
	if d.torn {
		w.stats.Torn++
		w.opts.Log.Warn("the last line of the file is incomplete, as after a kill; continuing on a fresh line", zap.String(logkey.FilePath, w.opts.Path))
	}
	l.prune()
	go l.run()
	return w, nil
}

// Append queues one line, which must end with a line feed. It does not wait, and does not
// keep the line.
func (w *LineWriter) Append(line []byte) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.enqueue(line, false)
}

// Commit appends a line and returns once it is durable: written, and synced if the file
// can be synced. An error means that it may not be; the line stays queued if there is
// room. Commit waits no longer than Options.CommitWait.
func (w *LineWriter) Commit(ctx context.Context, line []byte) error {
	if w == nil {
		return nil
	}
	durable, failure := w.queued(line)
	if durable == nil {
		return *failure
	}
	timer := time.NewTimer(w.opts.CommitWait)
	defer timer.Stop()
	select {
	case <-durable:
		return *failure
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		w.stall()
		return errStalled
	}
}

// queued queues a line to wait for. Without a channel it is the error that counts.
func (w *LineWriter) queued(line []byte) (durable chan struct{}, failure *error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isIn, err := w.enqueue(line, true)
	switch {
	case err != nil:
	case !isIn:
		err = errFull
	case w.stalled:
		err = errStalled
	default:
		err = w.failure
	}
	if err != nil {
		return nil, &err
	}
	return w.pending.durable, w.pending.err
}

// enqueue adds a line to what is written next.
func (w *LineWriter) enqueue(line []byte, wait bool) (isIn bool, err error) {
	if w.closed {
		w.stats.Dropped++
		return false, errClosed
	}
	if size := len(w.pending.lines) + w.writing; size > 0 && size+len(line) > w.opts.MaxPendingBytes {
		w.stats.Dropped++
		return false, nil
	}
	isFirst := len(w.pending.lines) == 0
	w.pending.lines = append(w.pending.lines, line...)
	w.pending.count++
	if wait && w.pending.durable == nil {
		w.pending.durable, w.pending.err = make(chan struct{}), new(error)
	}
	if isFirst {
		signal(w.wake)
	}
	if wait || len(w.pending.lines) >= gatherBytes {
		signal(w.now)
	}
	return true, nil
}

// stall notes that the disk does not answer.
func (w *LineWriter) stall() {
	w.mu.Lock()
	isNew := !w.stalled
	w.stalled = true
	w.mu.Unlock()
	if isNew {
		w.opts.Log.Warn("the disk does not answer; lines wait in the queue", zap.String(logkey.FilePath, w.opts.Path))
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns the current counts, or zero counts for nil.
func (w *LineWriter) Stats() LineStats {
	if w == nil {
		return LineStats{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Queued = len(w.pending.lines) + w.writing
	s.Failing = w.failure != nil || w.stalled
	if w.stalled {
		s.Failure = errStalled.Error()
	} else if w.failure != nil {
		s.Failure = w.failure.Error()
	}
	return s
}

func (w *LineWriter) isFailing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != nil
}

// Close writes and syncs the remaining lines, and waits for that, but not for ever: a
// disk that hangs is given up. An error means that lines are missing. Later calls return
// the same error.
func (w *LineWriter) Close() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
	}
	w.mu.Unlock()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.closeErr
	case <-timer.C:
		return fmt.Errorf("%s: %d bytes are not written: %w", w.opts.Path, w.Stats().Queued, errStalled)
	}
}

// loop is the goroutine that writes; nothing else touches its fields.
type loop struct {
	w     *LineWriter
	disk  *disk
	files *numberedFile
	// taken is what is being written; the bytes up to sent are in the file.
	taken batch
	sent  int
	// spare is the buffer of the batch before, to gather lines in again.
	spare []byte
	// synced is when the file was last synced.
	synced time.Time
}

// open opens the file.
func (l *loop) open() error {
	o := &l.w.opts
	l.files = &numberedFile{path: o.Path}
	l.disk = &disk{place: l.files, out: o.Out, open: o.open, max: o.MaxFileBytes, limit: o.MaxFileBytes, syncs: o.Sync != SyncNever}
	if o.Out != nil {
		return nil
	}
	// Rotation is by this path, also if the process changes its directory.
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return err
	}
	o.Path, l.files.path = path, path
	files, err := Files(path)
	if err != nil {
		return err
	}
	l.files.rotated = newest(files)
	_, err = l.disk.ensure()
	return err
}

// prune removes files beyond their number.
func (l *loop) prune() {
	if most := l.w.opts.MaxFiles; most > 0 && l.disk.out == nil {
		l.report("remove old files", l.files.prune(most))
	}
}

// run writes until stop.
func (l *loop) run() {
	defer close(l.w.done)
	l.synced = time.Now()
	gather, sync := newStopped(), newStopped()
	defer gather.Stop()
	defer sync.Stop()
	for {
		select {
		case <-l.w.wake:
			if !l.await(gather) {
				l.lastAttempt()
				return
			}
			if !l.insist(gather) {
				l.lastAttempt()
				return
			}
			l.syncLater(sync)
		case <-sync.C:
			l.tellOutcome(l.sync())
			l.syncLater(sync)
		case <-l.w.stop:
			l.lastAttempt()
			return
		}
	}
}

// syncLater has the file synced where that is due, or has failed.
func (l *loop) syncLater(timer *time.Timer) {
	if l.disk.unsynced && (l.w.opts.Sync == SyncInterval || l.w.isFailing()) {
		timer.Reset(max(l.w.opts.SyncEvery-time.Since(l.synced), 0))
	}
}

// newStopped returns a timer that does not run.
func newStopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// await lets lines gather, unless somebody waits for one. It returns false to end.
func (l *loop) await(gather *time.Timer) bool {
	if l.w.opts.Sync == SyncAlways {
		return true
	}
	gather.Reset(l.w.opts.FlushEvery)
	select {
	case <-gather.C:
	case <-l.w.now:
	case <-l.w.stop:
		return false
	}
	return true
}

// insist writes all there is, again and again where it fails. It returns false to end.
func (l *loop) insist(gather *time.Timer) bool {
	for pause := l.w.opts.FlushEvery; l.drain() != nil; pause = min(2*pause, maxBackoff) {
		gather.Reset(pause)
		select {
		case <-gather.C:
		case <-l.w.stop:
			return false
		}
	}
	return true
}

// drain writes and, where that is wanted, syncs what is queued. After an error the rest
// waits for the next attempt.
func (l *loop) drain() error {
	for l.fetch() {
		err := l.writeAll()
		if err == nil && (l.w.opts.Sync == SyncAlways || l.taken.durable != nil) {
			err = l.sync()
		}
		l.tellOutcome(err)
		if err != nil && l.sent < len(l.taken.lines) {
			return err
		}
		l.release()
	}
	return nil
}

// fetch fetches what has gathered; false where there is nothing.
func (l *loop) fetch() bool {
	if len(l.taken.lines) > 0 {
		return true
	}
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	l.taken, l.sent = w.pending, 0
	w.pending = batch{lines: l.spare[:0]}
	w.writing, l.spare = len(l.taken.lines), nil
	return len(l.taken.lines) > 0
}

// release keeps the buffer of a batch that is in the file, unless it is large.
func (l *loop) release() {
	if cap(l.taken.lines) <= 16*gatherBytes {
		l.spare = l.taken.lines[:0]
	}
	l.taken, l.sent = batch{}, 0
}

// writeAll writes the taken lines, file after file.
func (l *loop) writeAll() error {
	for l.sent < len(l.taken.lines) {
		if _, err := l.disk.ensure(); err != nil {
			return err
		}
		rest := l.taken.lines[l.sent:]
		if l.disk.isFull(0, bytes.IndexByte(rest, '\n')+1) {
			err := l.disk.rotate()
			if err == nil {
				l.count(func(s *LineStats) { s.Rotations++ })
				l.prune()
			} else {
				l.report("begin a new file", err)
			}
			if l.disk.f == nil {
				return err
			}
		}
		n, err := l.disk.write(rest[:l.room(rest)])
		l.sent += n
		l.count(func(s *LineStats) {
			s.Written += uint64(bytes.Count(rest[:n], []byte{'\n'}))
			l.w.writing -= n
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// room is how much of the lines fits into the file, one line at least.
func (l *loop) room(lines []byte) int {
	free := l.disk.limit - l.disk.size
	if l.disk.out != nil || int64(len(lines)) <= free {
		return len(lines)
	}
	first := bytes.IndexByte(lines, '\n') + 1
	if free < int64(first) {
		return first
	}
	return bytes.LastIndexByte(lines[:free], '\n') + 1
}

// sync syncs the file, and measures how long that takes.
func (l *loop) sync() error {
	if l.disk.f == nil || !l.disk.unsynced {
		return nil
	}
	l.synced = time.Now()
	err := l.disk.sync()
	took := time.Since(l.synced)
	l.count(func(s *LineStats) { s.Syncs.add(took) })
	return err
}

func (l *loop) count(change func(*LineStats)) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	change(&l.w.stats)
}

// tellOutcome tells those who wait, and the log, how a write or a sync went. No one waits for
// the attempts after the first one.
func (l *loop) tellOutcome(err error) {
	w := l.w
	w.mu.Lock()
	before, wasStalled := w.failure, w.stalled
	w.failure, w.stalled = err, false
	if err != nil {
		w.stats.Errors++
	}
	waiting := l.taken
	l.taken.durable, l.taken.err = nil, nil
	if waiting.durable != nil {
		*waiting.err = err
		close(waiting.durable)
	}
	if next := &w.pending; err != nil && next.durable != nil {
		*next.err = err
		close(next.durable)
		next.durable, next.err = nil, nil
	}
	w.mu.Unlock()
	switch {
	case err != nil && before == nil:
		w.opts.Log.Warn("write failed; lines are queued, and dropped when the queue is full", zap.String(logkey.FilePath, w.opts.Path), logkey.Error(err))
	case err == nil && (before != nil || wasStalled):
		w.opts.Log.Info("file writable again", zap.String(logkey.FilePath, w.opts.Path))
	}
}

// report counts and logs what does not keep lines from being written.
func (l *loop) report(step string, err error) {
	if err == nil {
		return
	}
	l.count(func(s *LineStats) { s.Errors++ })
	l.w.opts.Log.Warn("file maintenance failed", zap.String(logkey.FilePath, l.w.opts.Path), zap.String("step", step), logkey.Error(err))
}

// lastAttempt is the last attempt. What cannot be written now is lost.
func (l *loop) lastAttempt() {
	err := l.drain()
	if err == nil {
		err = l.sync()
		l.tellOutcome(err)
	}
	l.disk.close()
	lost := l.discard()
	if err != nil {
		l.w.closeErr = fmt.Errorf("%s: %d lines are not written: %w", l.w.opts.Path, lost, err)
	}
}

// discard drops what could not be written.
func (l *loop) discard() (lost int) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	lost = bytes.Count(l.taken.lines[l.sent:], []byte{'\n'}) + w.pending.count
	w.stats.Dropped += uint64(lost)
	w.pending, w.writing = batch{}, 0
	return lost
}

// Sync says when written lines are synced to the disk.
type Sync uint8

// The policies. SyncNever leaves it to the operating system, except that Commit and Close
// sync. SyncInterval syncs after an interval, and SyncAlways after each write.
const (
	SyncNever Sync = iota
	SyncInterval
	SyncAlways
)

// ParseSync parses "never", "interval" or "always".
func ParseSync(s string) (Sync, error) {
	switch s {
	case "never":
		return SyncNever, nil
	case "interval":
		return SyncInterval, nil
	case "always":
		return SyncAlways, nil
	}
	return SyncNever, fmt.Errorf("fsync %q: want never, interval or always", s)
}

// Defaults of Options.
const (
	// defaultMaxPendingBytes is that of the audit trail.
	defaultMaxPendingBytes = defaults.AuditMaxQueuedBytes
	// defaultFlushEvery is how long a line may wait for others before it is written. It
	// bounds what a killed process loses.
	defaultFlushEvery = 100 * time.Millisecond
	// defaultCommitWait is longer than a busy disk takes for an fsync, and shorter than
	// callers wait for a response.
	defaultCommitWait = 5 * time.Second
	// closeWait bounds how long Close waits for a disk or a stream that hangs.
	closeWait = 10 * time.Second
	// maxBackoff bounds the pause between attempts while the disk fails.
	maxBackoff = 5 * time.Second
	// gatherBytes is how much may gather before it is written at once.
	gatherBytes = 64 << 10
)

// LineOptions configure a LineWriter. Zero fields take the defaults of this package.
type LineOptions struct {
	// Path is the file. Out, if set, is a stream to write to instead: it is neither synced
	// nor rotated, and Path is only its name.
	Path string
	Out  io.Writer
	// MaxFileBytes is the size at which the file is rotated. MaxFiles bounds the number of
	// files, the current one included; zero keeps all.
	MaxFileBytes int64
	MaxFiles     int
	// Sync says when lines are synced, and SyncEvery is the interval of SyncInterval.
	Sync      Sync
	SyncEvery time.Duration
	// MaxPendingBytes bounds the queue of lines that wait for the disk.
	MaxPendingBytes int
	// FlushEvery is the longest time that a queued line waits for others.
	FlushEvery time.Duration
	// CommitWait bounds how long Commit waits.
	CommitWait time.Duration
	// Log receives errors, once per episode. Nil discards them.
	Log *zap.Logger

	// open opens the file for appending; nil is the operating system's.
	open func(path string) (file, error)
}

func (o LineOptions) withDefaults() (LineOptions, error) {
	if o.Path == "" {
		return o, errors.New("linefile: no path is set")
	}
	defaults.Fill(&o.MaxFileBytes, defaults.AuditMaxFileBytes)
	defaults.Fill(&o.SyncEvery, defaults.AuditFsyncInterval)
	defaults.Fill(&o.MaxPendingBytes, defaultMaxPendingBytes)
	defaults.Fill(&o.FlushEvery, defaultFlushEvery)
	defaults.Fill(&o.CommitWait, defaultCommitWait)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.open == nil {
		o.open = openFile
	}
	return o, nil
}

// Buckets returns the upper bounds of the buckets of a [Latency].
func Buckets() [9]time.Duration {
	return [...]time.Duration{
		100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second,
	}
}

// Latency is a distribution of durations.
type Latency struct {
	Count uint64
	Sum   time.Duration
	// UpTo counts the durations up to each bound of Buckets.
	UpTo [9]uint64
}

func (l *Latency) add(d time.Duration) {
	l.Count++
	l.Sum += d
	for i, bound := range Buckets() {
		if d <= bound {
			l.UpTo[i]++
		}
	}
}
