// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

const (
	// maxBatchBytes bounds the spans of one export, of which maxRequest leaves room for more.
	maxBatchBytes = 4 << 20
	// spansField is the field of spans in ScopeSpans.
	spansField protowire.Number = 2
)

// spanClient is the library's client of a collector. It compresses, retries, and reads the answer.
type spanClient interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error
}

// spanBatch is spans that are exported together, in the encoding of ScopeSpans.
type spanBatch struct {
	wire  []byte
	items int
	size  int64 // as the lane counts it
}

// spanQueue collects encoded spans, and exports them in batches. Make one with [newSpanQueue].
type spanQueue struct {
	lane     *lane
	client   spanClient
	limits   batch
	resource *resourcepb.Resource
	end      context.Context //nolint:containedctx // see Telemetry.ctx

	// wake has room for one note: a batch has begun, or is full. stop ends the goroutine, which closes done.
	wake, stop, done chan struct{}
	stopping         sync.Once

	mu      sync.Mutex
	open    spanBatch
	full    []spanBatch
	spare   []byte // for the next batch
	stopped bool
}

func newSpanQueue(ctx context.Context, l *lane, limits batch, of *resource.Resource) (*spanQueue, error) {
	client, err := newSpanClient(l)
	if err != nil {
		return nil, err
	}
	q := &spanQueue{
		lane: l, client: client, limits: limits, resource: resourceOf(of), end: ctx,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	go q.run()
	return q, nil
}

func newSpanClient(l *lane) (spanClient, error) {
	client, err := l.exporter.client()
	if err != nil {
		return nil, err
	}
	compression := otlptracehttp.NoCompression
	if l.exporter.isGzip {
		compression = otlptracehttp.GzipCompression
	}
	return otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(l.exporter.url), otlptracehttp.WithHeaders(l.exporter.headers), otlptracehttp.WithTimeout(l.exporter.timeout),
		otlptracehttp.WithCompression(compression), otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithMaxRequestSize(maxRequest), otlptracehttp.WithMaxResponseSize(maxResponse),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: retryBackoff, MaxInterval: retryMaxBackoff, MaxElapsedTime: l.exporter.timeout,
		})), nil
}

// resourceOf is a resource in OTLP. Its attributes are texts.
func resourceOf(r *resource.Resource) *resourcepb.Resource {
	out := &resourcepb.Resource{}
	for all := r.Iter(); all.Next(); {
		a := all.Attribute()
		out.Attributes = append(out.Attributes, &commonpb.KeyValue{
			Key: string(a.Key), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: a.Value.AsString()}},
		})
	}
	return out
}

// add takes a span that has ended, see [tracing.Recorder]. It waits for nothing: what does not fit is dropped and counted.
func (q *spanQueue) add(span []byte) {
	size := int64(len(span))
	if !q.lane.enter(size) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return // lane.close counts it
	}
	if q.open.wire == nil {
		q.open.wire, q.spare = q.spare, nil
	}
	q.open.wire = protowire.AppendTag(q.open.wire, spansField, protowire.BytesType)
	q.open.wire = protowire.AppendBytes(q.open.wire, span)
	q.open.items++
	q.open.size += size
	isFull := q.open.items >= q.limits.size || len(q.open.wire) >= maxBatchBytes
	if isFull {
		q.seal()
	}
	if isFull || q.open.items == 1 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// seal ends the open batch; q.mu is held.
func (q *spanQueue) seal() {
	if q.open.items > 0 {
		q.full = append(q.full, q.open)
		q.open = spanBatch{}
	}
}

// run exports batches that are full, and every batch when it has waited long enough.
func (q *spanQueue) run() {
	defer close(q.done)
	timer := time.NewTimer(q.limits.delay)
	defer timer.Stop()
	isWaiting := false // the timer is that of the open batch
	for {
		select {
		case <-q.stop:
			q.mu.Lock()
			q.stopped = true
			q.seal()
			q.mu.Unlock()
			q.exportFull()
			return
		case <-timer.C:
			isWaiting = false
			q.mu.Lock()
			q.seal()
			q.spare = nil
			q.mu.Unlock()
		case <-q.wake:
		}
		if q.exportFull() {
			isWaiting = false // the open batch is another one
		}
		if q.hasOpen() && !isWaiting {
			timer.Reset(q.limits.delay)
			isWaiting = true
		}
	}
}

func (q *spanQueue) hasOpen() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open.items > 0
}

// exportFull exports what is full, and reports whether there was something. At the end of all exports it leaves the rest, which
// lane.close counts.
func (q *spanQueue) exportFull() (did bool) {
	for q.end.Err() == nil {
		q.mu.Lock()
		if len(q.full) == 0 {
			q.mu.Unlock()
			return did
		}
		b := q.full[0]
		q.full[0] = spanBatch{}
		if q.full = q.full[1:]; len(q.full) == 0 {
			q.full = nil
		}
		q.mu.Unlock()
		q.export(b)
		did = true
		q.mu.Lock()
		if q.open.items > 0 { // spans come fast enough that the next batch needs memory
			q.spare = b.wire[:0]
		}
		q.mu.Unlock()
	}
	return did
}

func (q *spanQueue) export(b spanBatch) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), q.limits.timeout, errors.New("timeout of an export"))
	defer cancel()
	q.lane.export(ctx, q.end, b.items, b.items, b.size, func(ctx context.Context) error {
		if err := q.client.UploadTraces(ctx, q.message(b.wire)); err != nil {
			return fmt.Errorf("traces export: %w", err)
		}
		return nil
	})
}

// message has encoded spans where a decoded message has fields that it does not know: they are sent as they are.
func (q *spanQueue) message(spans []byte) []*tracepb.ResourceSpans {
	of := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: tracing.Scope}}
	of.ProtoReflect().SetUnknown(spans)
	return []*tracepb.ResourceSpans{{Resource: q.resource, ScopeSpans: []*tracepb.ScopeSpans{of}}}
}

// shutdown exports what is left until ctx ends.
func (q *spanQueue) shutdown(ctx context.Context) error {
	q.stopping.Do(func() { close(q.stop) })
	select {
	case <-q.done:
		return q.client.Stop(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}
