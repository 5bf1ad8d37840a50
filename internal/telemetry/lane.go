// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// lane is the way of one signal to its collector: it bounds what waits, and counts what happens to it.
type lane struct {
	signal   Signal
	exporter exporter
	health   *health

	maxItems, maxBytes int64
	closed             atomic.Bool
	items, bytes       atomic.Int64
	// settling is held while items of an export are given back, or counted as lost at the end: they are counted once.
	settling sync.Mutex

	exports, failures, partial atomic.Uint64
	overflowed, lost           atomic.Uint64
	lastSuccess                atomic.Int64 // Unix milliseconds
}

func newLane(signal Signal, s *Settings, h *health) *lane {
	return &lane{
		signal: signal, exporter: s.exporters[signal], health: h,
		maxItems: int64(s.batches[signal].queue), maxBytes: s.maxBytes,
	}
}

// enter takes room for an item. Without room it counts the item as dropped.
func (l *lane) enter(size int64) bool {
	items, bytes := l.items.Add(1), l.bytes.Add(size)
	if items > l.maxItems || bytes > l.maxBytes || l.closed.Load() {
		l.leave(1, size)
		l.overflowed.Add(1)
		return false
	}
	return true
}

// leave gives the room of items back. The items go last: who sees that none wait sees no bytes either.
func (l *lane) leave(items int, size int64) {
	l.bytes.Add(-size)
	l.items.Add(-int64(items))
}

// export runs one export of items, of which queued have entered with size bytes, and counts its outcome. It returns no error:
// the library would report it again.
func (l *lane) export(ctx, end context.Context, items, queued int, size int64, send func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(end, cancel)()
	err := send(ctx)
	if l.settle(queued, size) {
		l.count(items, err)
	}
}

// settle gives the room of an export back before its outcome is counted. It reports whether that is to be counted: after the end,
// close has counted it.
func (l *lane) settle(queued int, size int64) bool {
	l.settling.Lock()
	defer l.settling.Unlock()
	if l.closed.Load() {
		return false
	}
	l.leave(queued, size)
	return true
}

// count says how an export went, and counts it. It is said first: who sees the count finds the line about it in the log.
func (l *lane) count(items int, err error) {
	l.health.report(l.signal, l.exporter.url, err)
	switch {
	case err == nil:
		l.exports.Add(1)
		l.lastSuccess.Store(time.Now().UnixMilli())
	case isPartial(err):
		l.partial.Add(1)
		l.lastSuccess.Store(time.Now().UnixMilli())
	default:
		l.failures.Add(1)
		l.lost.Add(uint64(items))
	}
}

// close counts what was not exported.
func (l *lane) close(log *zap.Logger) {
	l.settling.Lock()
	defer l.settling.Unlock()
	if l.closed.Swap(true) {
		return
	}
	if left := l.items.Swap(0); left > 0 {
		l.lost.Add(uint64(left))
		log.Warn("telemetry not exported before the end", zap.Stringer("signal", l.signal), zap.Int64("items", left))
	}
}

// Stats are the counts of a signal.
type Stats struct {
	Signal Signal
	// Exports succeeded, Failures did not, and of Partial the collector rejected some items.
	Exports, Failures, Partial uint64
	// Overflowed are items that were dropped because the queue was full, Lost those of failed exports.
	Overflowed, Lost uint64
	// Items and Bytes wait for export.
	Items, Bytes int64
	// LastSuccess is when a collector last accepted something; zero for never.
	LastSuccess time.Time
}

// Stats returns the counts of the signals that are exported.
func (t *Telemetry) Stats() []Stats {
	if t == nil {
		return nil
	}
	var out []Stats
	for _, l := range t.lanes {
		if l.exporter.isOn {
			out = append(out, l.stats())
		}
	}
	return out
}

func (l *lane) stats() Stats {
	s := Stats{
		Signal: l.signal, Exports: l.exports.Load(), Failures: l.failures.Load(), Partial: l.partial.Load(),
		Overflowed: l.overflowed.Load(), Lost: l.lost.Load(), Items: l.items.Load(), Bytes: l.bytes.Load(),
	}
	if at := l.lastSuccess.Load(); at != 0 {
		s.LastSuccess = time.UnixMilli(at)
	}
	return s
}
