// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Recorder records spans without the library's SDK, which costs a call several times as much: a span is one pooled record,
// and is encoded once, when it ends. What is exported is what the SDK would export.
type Recorder struct {
	Sampling Sampling
	Limits   Limits
	// Export takes a span that has ended, as the bytes of an OTLP Span. It must not keep them. It is called concurrently.
	Export func(span []byte)
}

// Sampling decides which spans are recorded, as the library's samplers do: always_on is a Ratio of 1, always_off one of 0.
type Sampling struct {
	// Ratio is the share of traces from 0 to 1. Their ids decide, so that services with the same ratio choose the same ones.
	Ratio float64
	// ParentBased follows the decision of the parent where there is one.
	ParentBased bool
}

// Limits are what one span may have. Zero allows none.
type Limits struct {
	// Attributes, Events and Links limit their numbers, EventAttributes those of one event. New attributes and the oldest
	// events and links are dropped, and counted in the span.
	Attributes, Events, Links, EventAttributes int
	// Value is the longest text of an attribute in characters. The rest is cut off.
	Value int
}

// samples decides about a span.
func (s Sampling) samples(parent Context, id trace.TraceID) bool {
	switch {
	case s.ParentBased && parent.IsValid():
		return parent.IsSampled()
	case s.Ratio >= 1:
		return true
	case s.Ratio <= 0:
		return false
	}
	return binary.BigEndian.Uint64(id[8:])>>1 < uint64(s.Ratio*(1<<63))
}

// begin decides before it makes anything: a span that is not recorded only has ids.
func (r *Recorder) begin(n *node, below origin, s start, attributes []Attribute) {
	ids := trace.SpanContextConfig{TraceID: below.ids.TraceID(), TraceState: below.ids.TraceState()}
	if !ids.TraceID.IsValid() {
		ids.TraceID = newTraceID()
	}
	ids.SpanID = newSpanID()
	n.recorded = r.Sampling.samples(below.ids, ids.TraceID)
	ids.TraceFlags = below.ids.TraceFlags().WithSampled(n.recorded)
	n.ids, n.within = trace.NewSpanContext(ids), below.within
	if !n.recorded {
		return
	}
	if s.at.IsZero() {
		s.at = time.Now()
	}
	n.record = r.newRecord(below.ids, &s)
	n.record.set(attributes)
}

// newTraceID returns an id that is not zero. The source is ChaCha8 of the runtime: ids need to be unique, not secret.
func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64()) //nolint:gosec // see above
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64()) //nolint:gosec // see above
	}
	return id
}

func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64()) //nolint:gosec // see newTraceID
	}
	return id
}
