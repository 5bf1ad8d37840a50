// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// Trace names the span of a request, if it is sampled. The zero value names none.
type Trace struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// Exemplar is one request among those of a bucket, by which a person finds a trace.
type Exemplar struct {
	Trace

	Took time.Duration
	// At is when the request ended.
	At time.Time
}

// exemplar is the last sampled request of one bucket. The zero value is ready.
//
// It is written in place, because an object for each sampled request would be garbage. A
// writer that meets another one gives up: either request is as good.
type exemplar struct {
	// version is odd while a writer is at work, and 0 before the first.
	version              atomic.Uint32
	traceHigh, traceLow  atomic.Uint64
	span                 atomic.Uint64
	took, unixNanosecond atomic.Int64
}

func (e *exemplar) keep(of Trace, took time.Duration, at time.Time) {
	version := e.version.Load()
	if version%2 == 1 || !e.version.CompareAndSwap(version, version+1) {
		return
	}
	e.traceHigh.Store(binary.BigEndian.Uint64(of.TraceID[:8]))
	e.traceLow.Store(binary.BigEndian.Uint64(of.TraceID[8:]))
	e.span.Store(binary.BigEndian.Uint64(of.SpanID[:]))
	e.took.Store(int64(took))
	e.unixNanosecond.Store(at.UnixNano())
	e.version.Store(version + 2)
}

// load returns the exemplar, or false if there is none. It gives up if writers do not let it
// read a consistent one.
func (e *exemplar) load() (Exemplar, bool) {
	const tries = 8
	for range tries {
		version := e.version.Load()
		if version == 0 {
			return Exemplar{}, false
		}
		if version%2 == 1 {
			continue
		}
		var out Exemplar
		binary.BigEndian.PutUint64(out.TraceID[:8], e.traceHigh.Load())
		binary.BigEndian.PutUint64(out.TraceID[8:], e.traceLow.Load())
		binary.BigEndian.PutUint64(out.SpanID[:], e.span.Load())
		out.Took, out.At = time.Duration(e.took.Load()), time.Unix(0, e.unixNanosecond.Load())
		if e.version.Load() == version {
			return out, true
		}
	}
	return Exemplar{}, false
}
