// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// serviceName is the service.name of a sidecar that has none set.
const serviceName = "outrigger"

// Options configure the exporters.
type Options struct {
	Settings *Settings
	// Version is the sidecar's version.
	Version string
	// Log gets a warning when exports begin to fail, and a line when they work again. It must not be exported itself.
	Log *zap.Logger
}

// Telemetry is the set of running exporters. Make one with [Open]. Nil exports nothing.
type Telemetry struct {
	opts   Options
	traces *sdktrace.TracerProvider
	logs   *sdklog.LoggerProvider
	ends   []func(context.Context) error // of the processors
	lanes  [numSignals]*lane
	// ctx ends when exports that are still running are to be given up.
	ctx    context.Context //nolint:containedctx // the end of all exports, which no caller's context knows
	giveUp context.CancelFunc

	mu      sync.Mutex
	metrics *sdkmetric.MeterProvider
	closed  bool
}

// Open starts the exporters of traces and logs; [Telemetry.ExportMetrics] starts those of metrics. It opens no connection:
// a collector that is away is no error. It returns nil if nothing is exported.
func Open(ctx context.Context, o Options) (*Telemetry, error) {
	if !o.Settings.IsOn() {
		return nil, nil //nolint:nilnil // nil exports nothing
	}
	t, health := &Telemetry{opts: o}, newHealth(o.Log)
	t.ctx, t.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	var errs [numSignals]error
	for _, signal := range Signals() {
		t.lanes[signal], errs[signal] = newLane(t.ctx, signal, o.Settings, health)
	}
	if err := errors.Join(append(errs[:], t.openTraces(), t.openLogs())...); err != nil {
		t.Close(0)
		return nil, err
	}
	return t, nil
}

// Tracer returns the tracer of requests; nil if traces are not exported.
func (t *Telemetry) Tracer() *telemetry.Tracer {
	if t == nil || t.traces == nil {
		return nil
	}
	s := t.opts.Settings
	return newTracer(telemetry.TracerOptions{Provider: t.traces, Sampling: &s.sampling, Propagator: s.propagator}, s.config)
}

// ProvidedTracer returns a tracer of requests on any provider, with what the configuration says about spans.
func ProvidedTracer(p telemetry.Provider, context telemetry.Propagator, c *configv1.Telemetry) *telemetry.Tracer {
	return newTracer(telemetry.TracerOptions{Provider: p, Propagator: context}, c)
}

func newTracer(o telemetry.TracerOptions, c *configv1.Telemetry) *telemetry.Tracer {
	o.Threshold, o.Payloads, o.MaxPayload = c.GetStepThreshold().AsDuration(), c.GetPayloads(), int(c.GetMaxPayloadBytes())
	return telemetry.NewTracer(o)
}

// LogCore returns a core that exports the log; nil if logs are not exported. level decides what is logged.
func (t *Telemetry) LogCore(level zapcore.LevelEnabler) zapcore.Core {
	if t == nil || t.logs == nil {
		return nil
	}
	return newCore(t.logs, level)
}

// ExportMetrics exports what a producer has, until [Telemetry.Close]. Call it once.
func (t *Telemetry) ExportMetrics(from sdkmetric.Producer) error {
	if t == nil || !t.opts.Settings.Exports(Metrics) {
		return nil
	}
	exporter, err := newMetricExporter(t.lanes[Metrics])
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.resource()), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter,
		sdkmetric.WithInterval(t.opts.Settings.interval), sdkmetric.WithTimeout(t.opts.Settings.timeout), sdkmetric.WithProducer(from))))
	return nil
}

// Close exports what is left, for at most the configured time and at most limit, and ends the exporters. What is left then
// is lost, and counted.
func (t *Telemetry) Close(limit time.Duration) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(limit, t.opts.Settings.flush))
	defer cancel()
	t.mu.Lock()
	metrics := t.metrics
	t.metrics, t.closed = nil, true
	t.mu.Unlock()
	// The processors themselves: a provider does not end them if ctx has ended. Of their errors, the health has told.
	var ending sync.WaitGroup
	if metrics != nil {
		ending.Go(func() { _ = metrics.Shutdown(ctx) })
	}
	for _, end := range t.ends {
		ending.Go(func() { _ = end(ctx) })
	}
	ending.Wait()
	t.giveUp()
	for _, l := range t.lanes {
		l.close(t.opts.Log)
	}
}

func (t *Telemetry) openTraces() error {
	s := t.opts.Settings
	if !s.Exports(Traces) {
		return nil
	}
	exporter, err := newSpanExporter(t.lanes[Traces])
	if err != nil {
		return err
	}
	b := s.batches[Traces]
	queue := sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithMaxQueueSize(b.queue), sdktrace.WithMaxExportBatchSize(b.size),
		sdktrace.WithBatchTimeout(b.delay), sdktrace.WithExportTimeout(b.timeout))
	t.ends = append(t.ends, queue.Shutdown)
	t.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(t.resource()), sdktrace.WithSpanProcessor(&spanQueue{queue, t.lanes[Traces]}),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(telemetry.IDs{}), sdktrace.WithRawSpanLimits(s.limits))
	return nil
}

func (t *Telemetry) openLogs() error {
	s := t.opts.Settings
	if !s.Exports(Logs) {
		return nil
	}
	exporter, err := newLogExporter(t.lanes[Logs])
	if err != nil {
		return err
	}
	b := s.batches[Logs]
	queue := sdklog.NewBatchProcessor(exporter, sdklog.WithMaxQueueSize(b.queue), sdklog.WithExportMaxBatchSize(b.size),
		sdklog.WithExportInterval(b.delay), sdklog.WithExportTimeout(b.timeout))
	t.ends = append(t.ends, queue.Shutdown)
	t.logs = sdklog.NewLoggerProvider(sdklog.WithResource(t.resource()), sdklog.WithProcessor(&recordQueue{Processor: queue, lane: t.lanes[Logs]}),
		sdklog.WithAttributeCountLimit(s.records.attributes), sdklog.WithAttributeValueLengthLimit(s.records.valueBytes))
	return nil
}

// resource describes the process.
func (t *Telemetry) resource() *resource.Resource {
	known := []attribute.KeyValue{
		attribute.String("service.name", serviceName),
		attribute.String("service.version", t.opts.Version),
		attribute.String("service.instance.id", uuid.NewString()),
		attribute.String("telemetry.sdk.name", "opentelemetry"),
		attribute.String("telemetry.sdk.language", "go"),
	}
	// Of attributes with the same name, the last one counts.
	return resource.NewSchemaless(append(known, t.opts.Settings.resource...)...)
}

// Signal is a kind of telemetry.
type Signal int

// The signals.
const (
	Traces Signal = iota
	Metrics
	Logs
	numSignals
)

// Signals returns all signals.
func Signals() []Signal { return []Signal{Traces, Metrics, Logs} }

// String returns the name of the signal, as in the configuration and in metrics.
func (s Signal) String() string { return [numSignals]string{"traces", "metrics", "logs"}[s] }

// path is where a collector accepts the signal.
func (s Signal) path() string { return "/v1/" + s.String() }
