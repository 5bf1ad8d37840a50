// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// lane is the way of one signal to its collector: it bounds what waits, and counts what happens to it.
type lane struct {
	signal   Signal
	exporter exporter
	client   *http.Client
	health   *health
	end      context.Context //nolint:containedctx // see Telemetry.ctx

	maxItems, maxBytes int64
	closed             atomic.Bool
	items, bytes       atomic.Int64
	// settling is held while items of an export are given back, or counted as lost at the end: they are counted once.
	settling sync.Mutex

	exports, failures, partial atomic.Uint64
	overflowed, lost           atomic.Uint64
	lastSuccess                atomic.Int64 // Unix milliseconds
}

// newLane returns the lane of a signal, whose exports are given up when end ends.
func newLane(end context.Context, signal Signal, s *Settings, h *health) (*lane, error) {
	client, err := s.exporters[signal].client()
	return &lane{
		signal: signal, exporter: s.exporters[signal], client: client, health: h, end: end,
		maxItems: int64(s.batches[signal].queue), maxBytes: s.maxBytes,
	}, err
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
func (l *lane) export(ctx context.Context, items, queued int, size int64, send func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.end, cancel)()
	err := send(ctx)
	if l.releaseRoom(queued, size) {
		l.count(items, err)
	}
}

// releaseRoom gives the room of an export back before its outcome is counted. It reports whether that is to be counted: after the end,
// close has counted it.
func (l *lane) releaseRoom(queued int, size int64) bool {
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

// Estimates of what an item takes in memory besides its texts.
const (
	spanBytes      = 256
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

// spanQueue is in front of the SDK's queue of spans, which counts neither bytes nor what it drops. It admits no more than fits.
type spanQueue struct {
	sdktrace.SpanProcessor

	lane *lane
}

// OnEnd implements [sdktrace.SpanProcessor].
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.lane.enter(sizeOfSpan(s)) {
		q.SpanProcessor.OnEnd(s)
	}
}

func sizeOfSpan(s sdktrace.ReadOnlySpan) int64 {
	size := int64(spanBytes+len(s.Name())+len(s.Status().Description)) + sizeOfAll(s.Attributes())
	for _, e := range s.Events() {
		size += int64(attributeBytes+len(e.Name)) + sizeOfAll(e.Attributes)
	}
	return size + int64(len(s.Links())*attributeBytes)
}

func sizeOfAll(attributes []attribute.KeyValue) (size int64) {
	for _, a := range attributes {
		size += sizeOf(a)
	}
	return size
}

// recordQueue is spanQueue for log records.
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

const (
	// retryBackoff and retryMaxBackoff are between attempts of one export.
	retryBackoff    = 500 * time.Millisecond
	retryMaxBackoff = 5 * time.Second
	// maxResponse bounds what is read of a collector's answer.
	maxResponse = 64 << 10
	// maxRequest bounds an export: many collectors accept no more.
	maxRequest = 16 << 20
	// maxBatchBytes bounds the spans of one export, of which maxRequest leaves room for more.
	maxBatchBytes = 4 << 20
	dialTime      = 5 * time.Second
	// idleConns is one connection for exports, which do not overlap.
	idleConns = 1
)

// client returns the HTTP client of a signal. It has its own connection, so that a signal that hangs holds up no other.
func (e exporter) client() (*http.Client, error) {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSHandshakeTimeout:    dialTime,
		MaxIdleConns:           idleConns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxResponse,
		ForceAttemptHTTP2:      true,
	}
	if e.tls != nil {
		files, err := keys.NewClient(*e.tls)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = files.Config()
	}
	return &http.Client{
		Transport: transport, Timeout: e.timeout,
		// A redirect would send the headers, and what they authenticate, somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// spanExporter sends spans, and tells the lane how it went.
type spanExporter struct {
	sdktrace.SpanExporter

	lane *lane
}

func newSpanExporter(l *lane) (sdktrace.SpanExporter, error) {
	compression := otlptracehttp.NoCompression
	if l.exporter.isGzip {
		compression = otlptracehttp.GzipCompression
	}
	inner, err := otlptracehttp.New(l.end,
		otlptracehttp.WithEndpointURL(l.exporter.url), otlptracehttp.WithHeaders(l.exporter.headers), otlptracehttp.WithTimeout(l.exporter.timeout),
		otlptracehttp.WithCompression(compression), otlptracehttp.WithHTTPClient(l.client),
		otlptracehttp.WithMaxRequestSize(maxRequest), otlptracehttp.WithMaxResponseSize(maxResponse),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: retryBackoff, MaxInterval: retryMaxBackoff, MaxElapsedTime: l.exporter.timeout,
		}))
	return spanExporter{inner, l}, err
}

// ExportSpans implements [sdktrace.SpanExporter]. Large spans go in several requests.
func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	for len(spans) > 0 {
		n, size := 0, int64(0)
		for n < len(spans) && size < maxBatchBytes {
			size += sizeOfSpan(spans[n])
			n++
		}
		e.lane.export(ctx, n, n, size, func(ctx context.Context) error { return e.SpanExporter.ExportSpans(ctx, spans[:n]) })
		spans = spans[n:]
	}
	return nil
}

// logExporter sends log records, and tells the lane how it went.
type logExporter struct {
	sdklog.Exporter

	lane *lane
}

func newLogExporter(l *lane) (sdklog.Exporter, error) {
	compression := otlploghttp.NoCompression
	if l.exporter.isGzip {
		compression = otlploghttp.GzipCompression
	}
	inner, err := otlploghttp.New(l.end,
		otlploghttp.WithEndpointURL(l.exporter.url), otlploghttp.WithHeaders(l.exporter.headers), otlploghttp.WithTimeout(l.exporter.timeout),
		otlploghttp.WithCompression(compression), otlploghttp.WithHTTPClient(l.client),
		otlploghttp.WithMaxRequestSize(maxRequest), otlploghttp.WithMaxResponseSize(maxResponse),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{
			Enabled: true, InitialInterval: retryBackoff, MaxInterval: retryMaxBackoff, MaxElapsedTime: l.exporter.timeout,
		}))
	return logExporter{inner, l}, err
}

// Export implements [sdklog.Exporter].
func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	if len(records) == 0 {
		return nil
	}
	size := int64(0)
	for i := range records {
		size += sizeOfRecord(&records[i])
	}
	e.lane.export(ctx, len(records), len(records), size, func(ctx context.Context) error { return e.Exporter.Export(ctx, records) })
	return nil
}

// metricExporter sends metrics, and tells the lane how it went.
type metricExporter struct {
	sdkmetric.Exporter

	lane *lane
}

func newMetricExporter(l *lane) (sdkmetric.Exporter, error) {
	compression := otlpmetrichttp.NoCompression
	if l.exporter.isGzip {
		compression = otlpmetrichttp.GzipCompression
	}
	inner, err := otlpmetrichttp.New(l.end,
		otlpmetrichttp.WithEndpointURL(l.exporter.url), otlpmetrichttp.WithHeaders(l.exporter.headers), otlpmetrichttp.WithTimeout(l.exporter.timeout),
		otlpmetrichttp.WithCompression(compression), otlpmetrichttp.WithHTTPClient(l.client),
		otlpmetrichttp.WithMaxRequestSize(maxRequest), otlpmetrichttp.WithMaxResponseSize(maxResponse),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
			Enabled: true, InitialInterval: retryBackoff, MaxInterval: retryMaxBackoff, MaxElapsedTime: l.exporter.timeout,
		}))
	return metricExporter{inner, l}, err
}

// Export implements [sdkmetric.Exporter].
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	n := 0
	for _, scope := range m.ScopeMetrics {
		n += len(scope.Metrics)
	}
	e.lane.export(ctx, n, 0, 0, func(ctx context.Context) error { return e.Exporter.Export(ctx, m) })
	return nil
}
