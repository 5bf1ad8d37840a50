// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Collector keeps what it receives. It is safe for concurrent use.
type Collector struct {
	addr    string
	stop    func()
	mu      sync.Mutex
	spans   []Span
	points  map[string]Point // the last of each series
	records []Record
}

// Start starts a collector on a free port. It ends with the test.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	return StartAt(tb, testkit.Reserved(tb))
}

// StartAt starts a collector on a host:port of loopback.
func StartAt(tb testing.TB, addr string) *Collector {
	tb.Helper()
	c := &Collector{addr: addr, points: map[string]Point{}}
	running, err := c.start(tb.Context())
	c.stop = sync.OnceFunc(func() {
		for _, r := range running {
			_ = r.Shutdown(context.WithoutCancel(tb.Context()))
		}
	})
	tb.Cleanup(c.stop)
	if err != nil {
		tb.Fatalf("collector: %v", err)
	}
	return c
}

// start makes a receiver for each signal. The library serves them on one listener.
func (c *Collector) start(ctx context.Context) (running []component.Component, err error) {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	settings := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": c.addr}}})
	if err := settings.Unmarshal(config); err != nil {
		return nil, err
	}
	set := receivertest.NewNopSettings(factory.Type())
	traces, err := consumer.NewTraces(c.consumeTraces)
	if err != nil {
		return nil, err
	}
	metrics, err := consumer.NewMetrics(c.consumeMetrics)
	if err != nil {
		return nil, err
	}
	logs, err := consumer.NewLogs(c.consumeLogs)
	if err != nil {
		return nil, err
	}
	add := func(r component.Component, err error) error {
		if err == nil {
			running = append(running, r)
		}
		return err
	}
	t, errTraces := factory.CreateTraces(ctx, set, config, traces)
	m, errMetrics := factory.CreateMetrics(ctx, set, config, metrics)
	l, errLogs := factory.CreateLogs(ctx, set, config, logs)
	for _, err := range []error{add(t, errTraces), add(m, errMetrics), add(l, errLogs)} {
		if err != nil {
			return nil, err
		}
	}
	for i, r := range running {
		if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
			return running[:i], err
		}
	}
	return running, nil
}

// Stop ends the collector before the test does: its port refuses connections then.
func (c *Collector) Stop() { c.stop() }

// Addr is the host:port of the listener.
func (c *Collector) Addr() string { return c.addr }

// URL is what OTEL_EXPORTER_OTLP_ENDPOINT takes.
func (c *Collector) URL() string { return "http://" + c.addr }

func (c *Collector) consumeTraces(_ context.Context, td ptrace.Traces) error {
	arrived := spansOf(td)
	c.keep(func() { c.spans = append(c.spans, arrived...) })
	return nil
}

func (c *Collector) consumeMetrics(_ context.Context, md pmetric.Metrics) error {
	arrived := pointsOf(md)
	c.keep(func() {
		for _, p := range arrived {
			c.points[p.series()] = p
		}
	})
	return nil
}

func (c *Collector) consumeLogs(_ context.Context, ld plog.Logs) error {
	arrived := recordsOf(ld)
	c.keep(func() { c.records = append(c.records, arrived...) })
	return nil
}

func (c *Collector) keep(add func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add()
}

// Spans returns the spans that have arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Points returns the last point of each series, in no order.
func (c *Collector) Points() []Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Point, 0, len(c.points))
	for _, p := range c.points {
		out = append(out, p)
	}
	return out
}

// Records returns the log records that have arrived.
func (c *Collector) Records() []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Record(nil), c.records...)
}

// Wait waits until enough has arrived.
func (c *Collector) Wait(tb testing.TB, what string, enough func() bool) {
	tb.Helper()
	testkit.Until(tb, "the collector gets "+what, enough)
}
