// SPDX-License-Identifier: Apache-2.0

package linefile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// ErrStalled is the error of a Commit that waited too long, and of those behind it until
// the disk answers again.
var ErrStalled = errors.New("the disk does not answer")

// errFull is the error of a Commit whose line does not fit into the queue.
var errFull = errors.New("the queue of lines is full")

// errClosed is the error of a Commit after Close.
var errClosed = errors.New("the file is closed")

// Writer writes lines to one file. Make one with [Open]. All methods are safe for
// concurrent use and do nothing on nil.
type Writer struct {
	opts Options

	mu sync.Mutex
	// pending are the lines that are not being written yet; writing is how many bytes the
	// goroutine has taken and not written.
	pending batch
	writing int
	stats   Stats
	// failure is why the last write or sync failed, nil after one that succeeded.
	failure error
	stalled bool
	closed  bool

	// wake tells the goroutine that there is something to write, now that it should not
	// wait for more, stop that it should end. done is closed when it has.
	wake, now, stop, done chan struct{}
	closeErr              error
}

// batch is what is written at once.
type batch struct {
	lines []byte
	count int
	// durable is closed once the lines are durable, or after err was set; nil where
	// no one waits.
	durable chan struct{}
	err     *error
}

// Stats are counts since Open.
type Stats struct {
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

// Open opens the file for appending and starts the goroutine that writes, which Close
// waits for. An error means that the file cannot be opened.
func Open(o Options) (*Writer, error) {
	w := &Writer{
		wake: make(chan struct{}, 1), now: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	var err error
	if w.opts, err = o.withDefaults(); err != nil {
		return nil, err
	}
	d, err := newDisk(&w.opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	if d.torn {
		w.stats.Torn++
		w.opts.Log.Warn("the last line of the file is incomplete, as after a kill; continuing on a fresh line", zap.String(logkey.FilePath, w.opts.Path))
	}
	l := &loop{w: w, disk: d}
	l.report("remove old files", d.prune())
	go l.run()
	return w, nil
}

// Append queues one line, which must end with a line feed. It does not wait, and does not
// keep the line.
func (w *Writer) Append(line []byte) {
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
func (w *Writer) Commit(ctx context.Context, line []byte) error {
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
		return ErrStalled
	}
}

// queued queues a line to wait for. Without a channel it is the error that counts.
func (w *Writer) queued(line []byte) (durable chan struct{}, failure *error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isIn, err := w.enqueue(line, true)
	switch {
	case err != nil:
	case !isIn:
		err = errFull
	case w.stalled:
		err = ErrStalled
	default:
		err = w.failure
	}
	if err != nil {
		return nil, &err
	}
	return w.pending.durable, w.pending.err
}

// enqueue adds a line to what is written next.
func (w *Writer) enqueue(line []byte, wait bool) (isIn bool, err error) {
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
func (w *Writer) stall() {
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
func (w *Writer) Stats() Stats {
	if w == nil {
		return Stats{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Queued = len(w.pending.lines) + w.writing
	s.Failing = w.failure != nil || w.stalled
	if w.stalled {
		s.Failure = ErrStalled.Error()
	} else if w.failure != nil {
		s.Failure = w.failure.Error()
	}
	return s
}

func (w *Writer) isFailing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != nil
}

// Close writes and syncs the remaining lines, and waits for that, but not for ever: a
// disk that hangs is given up. An error means that lines are missing. Later calls return
// the same error.
func (w *Writer) Close() error {
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
		return fmt.Errorf("%s: %d bytes are not written: %w", w.opts.Path, w.Stats().Queued, ErrStalled)
	}
}
