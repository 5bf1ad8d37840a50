// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/linefile"
	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Stdout is the Path of a trail on standard output.
const Stdout = "stdout"

// Options configure a Trail. Zero fields take their defaults.
type Options struct {
	// Path is the file, or Stdout, which is written to Out.
	Path string
	Out  io.Writer
	// MaxFileBytes, MaxFiles, Fsync, FsyncInterval and MaxQueuedBytes are those of
	// [linefile.Options].
	MaxFileBytes   int64
	MaxFiles       int
	Fsync          linefile.Sync
	FsyncInterval  time.Duration
	MaxQueuedBytes int
	// Required makes Begin fail for an invocation that cannot be recorded.
	Required bool
	// Payloads records arguments and results, without the values of members with these
	// names; nil means redact.DefaultNames. MaxPayloadBytes bounds each of them.
	Payloads        bool
	Redact          []string
	MaxPayloadBytes int
	// Deterministic fixes the clock, durations and ids.
	Deterministic bool
	Log           *zap.Logger
}

// optionalWait bounds how long an invocation waits for a trail that is not required: a
// disk that hangs costs one call that time, and the others nothing.
const optionalWait = time.Second

// Trail is an audit trail. Make one with [Open].
type Trail struct {
	opts    Options
	encoder encoder
	writer  *linefile.Writer
	buffers sync.Pool // of *[]byte
	refused atomic.Uint64
}

// Stats are counts since Open.
type Stats struct {
	linefile.Stats
	// Refused counts the invocations that were refused because they could not be recorded.
	Refused uint64
}

// Open opens the trail. An error means that the file cannot be opened.
func Open(o Options) (*Trail, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Redact == nil {
		o.Redact = redact.DefaultNames()
	}
	defaults.Fill(&o.MaxPayloadBytes, defaults.AuditMaxPayloadBytes)
	t := &Trail{opts: o, encoder: encoder{
		ids: newIDs(o.Deterministic), payloads: o.Payloads,
		redactor: redact.Redactor{Base: redact.NewNames(o.Redact)}, limit: o.MaxPayloadBytes,
	}}
	file := linefile.Options{
		Path: o.Path, MaxFileBytes: o.MaxFileBytes, MaxFiles: o.MaxFiles, Sync: o.Fsync, SyncEvery: o.FsyncInterval,
		MaxPendingBytes: o.MaxQueuedBytes, Log: o.Log,
	}
	if o.Path == Stdout {
		file.Out = o.Out
	}
	if !o.Required {
		file.CommitWait = optionalWait
	}
	var err error
	if t.writer, err = linefile.Open(file); err != nil {
		return nil, fmt.Errorf("audit trail: %w", err)
	}
	return t, nil
}

// IsOn reports whether there is a trail.
func (t *Trail) IsOn() bool { return t != nil }

// HasPayloads reports whether arguments and results are recorded, and the maximum size of
// each.
func (t *Trail) HasPayloads() (maxBytes int, ok bool) {
	if t == nil {
		return 0, false
	}
	return t.opts.MaxPayloadBytes, t.opts.Payloads
}

// IsRequired reports whether what cannot be recorded is refused.
func (t *Trail) IsRequired() bool { return t != nil && t.opts.Required }

// HasBegins reports whether invocations have two lines.
func (t *Trail) HasBegins() bool {
	return t != nil && (t.opts.Required || t.opts.Fsync == linefile.SyncAlways)
}

// NewID returns the id of a new invocation. Call it only if the trail is on.
func (t *Trail) NewID() ID { return t.encoder.ids.next() }

// Begin writes the first line of an invocation, if the trail has two for each, and returns
// once it is on the disk. An error means that the invocation must be refused, because it
// cannot be recorded; it is nil if the trail is not required. Only the first call for an
// event writes.
func (t *Trail) Begin(ctx context.Context, e *Event) error {
	if !t.HasBegins() || e.hasBegun {
		return nil
	}
	e.hasBegun = true
	line := t.buffer()
	defer t.recycle(line)
	*line = t.encoder.event((*line)[:0], t.now(), PhaseBegin, e)
	err := t.writer.Commit(ctx, *line)
	if err == nil || !t.opts.Required {
		return nil
	}
	if ctx.Err() == nil {
		t.refused.Add(1)
	}
	return err
}

// End writes the line of an invocation that has ended. It does not wait for the disk. An
// invocation that Begin has not seen gets its first line too, if there are two.
func (t *Trail) End(e *Event) {
	if t == nil {
		return
	}
	line := t.buffer()
	defer t.recycle(line)
	*line = (*line)[:0]
	if t.HasBegins() && !e.hasBegun {
		e.hasBegun = true
		*line = t.encoder.event(*line, t.now(), PhaseBegin, e)
		t.writer.Append(*line)
		*line = (*line)[:0]
	}
	t.write(line, PhaseEnd, e)
}

// EndTask writes the line of a call that ran on as a task and has ended. The event has
// the id of the call.
func (t *Trail) EndTask(e *Event) {
	if t == nil {
		return
	}
	line := t.buffer()
	defer t.recycle(line)
	*line = (*line)[:0]
	t.write(line, PhaseTask, e)
}

func (t *Trail) write(line *[]byte, phase Phase, e *Event) {
	if t.opts.Deterministic {
		e.Duration = 0
	}
	*line = t.encoder.event(*line, t.now(), phase, e)
	t.writer.Append(*line)
}

// Change writes the line of a change. It does not wait for the disk, because what keeps
// the trail from being written may be what the change mends.
func (t *Trail) Change(c Change) {
	if t == nil {
		return
	}
	line := t.buffer()
	defer t.recycle(line)
	*line = t.encoder.change((*line)[:0], t.now(), t.encoder.ids.next(), &c)
	t.writer.Append(*line)
}

// maxPooled is the capacity above which a buffer is left to the garbage collector.
const maxPooled = 16 << 10

func (t *Trail) buffer() *[]byte {
	if line, ok := t.buffers.Get().(*[]byte); ok {
		return line
	}
	line := make([]byte, 0, 1024)
	return &line
}

func (t *Trail) recycle(line *[]byte) {
	if cap(*line) <= maxPooled {
		t.buffers.Put(line)
	}
}

func (t *Trail) now() time.Time {
	if t.opts.Deterministic {
		return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Now()
}

// Stats returns the current counts, or zero counts for nil.
func (t *Trail) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	return Stats{Stats: t.writer.Stats(), Refused: t.refused.Load()}
}

// Close writes and syncs the remaining lines. An error means that lines are missing.
func (t *Trail) Close() error {
	if t == nil {
		return nil
	}
	if err := t.writer.Close(); err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}
