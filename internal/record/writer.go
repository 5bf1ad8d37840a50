// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

const (
	// chunkBytes is what is written at once: a hundred lines or so.
	chunkBytes = 64 << 10
	// maxBackoff bounds the pause between attempts while the disk fails: soon
	// enough for somebody who has just made room.
	maxBackoff = 5 * time.Second
)

// writer moves ready lines to the file. It runs on the one goroutine that Close
// waits for; nothing else touches its fields.
type writer struct {
	run *Run
	log *logFile

	batch *Entry // taken from the reorder buffer, linked by next
	// chunk holds whole lines on their way to the file; those up to sent are in
	// it, those up to settled have been counted.
	chunk         []byte
	sent, settled int
	// limit is the size at which the file is rotated; it grows where rotation
	// fails.
	limit int64

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
			w.end()
			return
		}
		timer.Reset(gather)
		select {
		case <-timer.C:
		case <-w.run.full:
		case <-w.run.stop:
			w.end()
			return
		}
		if left := w.run.overdue(); left > 0 {
			hold.Reset(left)
		}
		for pause := backoff; w.drain() != nil; pause = min(2*pause, maxBackoff) {
			w.tell()
			timer.Reset(pause)
			select {
			case <-timer.C:
			case <-w.run.stop:
				w.end()
				return
			}
		}
		w.tell()
	}
}

// end is the last attempt. What cannot be written now is lost.
func (w *writer) end() {
	err := w.drain()
	switch {
	case err != nil:
		w.discard()
	case w.log.f != nil:
		if err = w.log.f.Sync(); err != nil {
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
		w.settle()
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
		w.batch = w.run.reorder.take()
		w.run.mu.Unlock()
	}
	return w.batch != nil
}

// fill moves lines from the batch to the chunk, as many as fit into it and into
// the file. Which file a line stands in depends on the lines alone, not on when
// they came.
func (w *writer) fill() {
	if w.limit == 0 {
		w.limit = w.run.opts.MaxFileBytes
	}
	for e := w.batch; e != nil && len(w.chunk) < chunkBytes; e = w.batch {
		if size := w.log.size + int64(len(w.chunk)); size > 0 && size+int64(e.size()) > w.limit {
			if len(w.chunk) > 0 || !w.rotate() {
				return
			}
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

// settle counts the lines that have got into the file.
func (w *writer) settle() {
	end := bytes.LastIndexByte(w.chunk[:w.sent], '\n') + 1
	if end <= w.settled {
		return
	}
	lines := bytes.Count(w.chunk[w.settled:end], []byte{'\n'})
	var again bool
	w.free(lines, end-w.settled, func(s *Stats) {
		s.Written += uint64(lines)
		again, s.Failing = s.Failing, false
	})
	w.settled = end
	if again {
		w.run.opts.Log.Info("run record writable again", zap.String(logkey.FileDirectory, w.run.folder.path()))
	}
}

// free takes lines out of the queue, and counts them as what they are.
func (w *writer) free(lines, size int, count func(*Stats)) {
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
	w.free(lines, size, func(s *Stats) { s.Dropped += uint64(lines) })
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
	w.limit = w.run.opts.MaxFileBytes
	err := w.log.rotate()
	if err == nil {
		w.free(0, 0, func(s *Stats) { s.Rotations++ })
		w.report("remove old files", w.run.folder.prune(w.run.opts.MaxFiles))
		return true
	}
	w.limit += w.log.size
	w.report("begin a new file", err)
	return w.log.f != nil
}
