// SPDX-License-Identifier: Apache-2.0

package linefile

import (
	"bytes"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// loop is the goroutine that writes; nothing else touches its fields.
type loop struct {
	w    *Writer
	disk *disk
	// taken is what is being written; the bytes up to sent are in the file.
	taken batch
	sent  int
	// spare is the buffer of the batch before, to gather lines in again.
	spare []byte
	// synced is when the file was last synced.
	synced time.Time
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
				l.end()
				return
			}
			if !l.insist(gather) {
				l.end()
				return
			}
			l.syncLater(sync)
		case <-sync.C:
			l.settle(l.sync())
			l.syncLater(sync)
		case <-l.w.stop:
			l.end()
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
	for l.take() {
		err := l.writeAll()
		if err == nil && (l.w.opts.Sync == SyncAlways || l.taken.durable != nil) {
			err = l.sync()
		}
		l.settle(err)
		if err != nil && l.sent < len(l.taken.lines) {
			return err
		}
		l.release()
	}
	return nil
}

// take fetches what has gathered; false where there is nothing.
func (l *loop) take() bool {
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
		if err := l.disk.ensure(); err != nil {
			return err
		}
		rest := l.taken.lines[l.sent:]
		if l.disk.isFull(bytes.IndexByte(rest, '\n') + 1) {
			err := l.disk.rotate()
			if err == nil {
				l.count(func(s *Stats) { s.Rotations++ })
				l.report("remove old files", l.disk.prune())
			} else {
				l.report("begin a new file", err)
			}
			if l.disk.f == nil {
				return err
			}
		}
		n, err := l.disk.write(rest[:l.room(rest)])
		l.sent += n
		l.count(func(s *Stats) {
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
	if l.disk.opts.Out != nil || int64(len(lines)) <= free {
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
	l.count(func(s *Stats) { s.Syncs.add(took) })
	return err
}

func (l *loop) count(change func(*Stats)) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	change(&l.w.stats)
}

// settle tells those who wait, and the log, how a write or a sync went. No one waits for
// the attempts after the first one.
func (l *loop) settle(err error) {
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
	l.count(func(s *Stats) { s.Errors++ })
	l.w.opts.Log.Warn("file maintenance failed", zap.String(logkey.FilePath, l.w.opts.Path), zap.String("step", step), logkey.Error(err))
}

// end is the last attempt. What cannot be written now is lost.
func (l *loop) end() {
	err := l.drain()
	if err == nil {
		err = l.sync()
		l.settle(err)
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
