// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Estimates of what an item takes in memory besides its texts.
const (
	spanBytes      = 512
	recordBytes    = 256
	attributeBytes = 64
	linkBytes      = 96
)

// spanQueue is in front of the library's queue, which counts neither bytes nor what it drops. It admits no more than fits.
type spanQueue struct {
	sdktrace.SpanProcessor

	lane *lane
}

// OnEnd implements [sdktrace.SpanProcessor].
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && q.lane.enter(sizeOfSpan(s)) {
		q.SpanProcessor.OnEnd(s)
	}
}

// sizeOfSpan estimates the memory of a span that has ended. It is the same for each call.
func sizeOfSpan(s sdktrace.ReadOnlySpan) int64 {
	size := spanBytes + int64(len(s.Name())+len(s.Status().Description)) + sizeOfAll(s.Attributes())
	for _, l := range s.Links() {
		size += linkBytes + sizeOfAll(l.Attributes)
	}
	for _, e := range s.Events() {
		size += linkBytes + int64(len(e.Name)) + sizeOfAll(e.Attributes)
	}
	return size
}

func sizeOfAll(attributes []attribute.KeyValue) int64 {
	size := int64(0)
	for _, a := range attributes {
		size += sizeOf(a)
	}
	return size
}

func sizeOf(a attribute.KeyValue) int64 {
	size := int64(attributeBytes + len(a.Key))
	switch a.Value.Type() {
	case attribute.STRING:
		size += int64(len(a.Value.AsString()))
	case attribute.STRINGSLICE:
		for _, text := range a.Value.AsStringSlice() {
			size += int64(len(text))
		}
	}
	return size
}

// recordQueue is the same for log records.
type recordQueue struct {
	sdklog.Processor

	lane *lane
}

// OnEmit implements [sdklog.Processor].
func (q *recordQueue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if !q.lane.enter(sizeOfRecord(r)) {
		return nil
	}
	return q.Processor.OnEmit(ctx, r)
}

func sizeOfRecord(r *sdklog.Record) int64 {
	size := recordBytes + sizeOf(attribute.KeyValue{Value: r.Body()})
	r.WalkAttributes(func(a attribute.KeyValue) bool {
		size += sizeOf(a)
		return true
	})
	return size
}
