// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// Sampling decides which spans are recorded, as the SDK's samplers do: always_on is a Ratio of 1, always_off one of 0. It decides
// before the SDK makes anything, so that a call that is not sampled only gets ids.
type Sampling struct {
	// Ratio is the share of traces from 0 to 1. Their ids decide, so that services with the same ratio choose the same ones.
	Ratio float64
	// ParentBased follows the decision of the parent where there is one.
	ParentBased bool
}

// samples decides about a span.
func (s *Sampling) samples(parent Context, id trace.TraceID) bool {
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

// decide reports whether a span is recorded. It gives ids to one that is not.
func (s *Sampling) decide(n *node, below *origin) bool {
	id := below.ids.TraceID()
	isRoot := !id.IsValid()
	if isRoot {
		id = newTraceID()
	}
	if s.samples(below.ids, id) {
		if isRoot {
			below.within = root{below.within, id}
		}
		return true
	}
	n.within, n.ids = below.within, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: newSpanID(), TraceFlags: below.ids.TraceFlags().WithSampled(false), TraceState: below.ids.TraceState(),
	})
	return false
}

// root is the context of the first span of a trace, with the id that [Sampling] chose for the trace.
type root struct {
	context.Context //nolint:containedctx // it is this one with a value

	id trace.TraceID
}

type rootKey struct{}

// Value implements [context.Context].
func (r root) Value(key any) any {
	if key == (rootKey{}) {
		return r.id
	}
	return r.Context.Value(key)
}

// IDs are the ids of spans for a provider of the SDK whose tracer has a [Sampling].
type IDs struct{}

// NewIDs implements the SDK's IDGenerator.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(rootKey{}).(trace.TraceID)
	if !ok {
		id = newTraceID()
	}
	return id, newSpanID()
}

// NewSpanID implements the SDK's IDGenerator.
func (IDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

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
