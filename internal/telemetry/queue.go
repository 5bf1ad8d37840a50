// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Estimates of what an item takes in memory besides its texts.
const (
	recordBytes    = 256
	attributeBytes = 64
)

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

// recordQueue is in front of the library's queue, which counts neither bytes nor what it drops. It admits no more than fits.
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
