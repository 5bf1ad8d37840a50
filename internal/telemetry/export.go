// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

const (
	// retryBackoff and retryMaxBackoff are between attempts of one export.
	retryBackoff    = 500 * time.Millisecond
	retryMaxBackoff = 5 * time.Second
	// maxResponse bounds what is read of a collector's answer.
	maxResponse = 64 << 10
	// maxRequest bounds an export: many collectors accept no more.
	maxRequest = 16 << 20
	dialTime   = 5 * time.Second
	// idleConns is one connection for exports, which do not overlap.
	idleConns = 1
)

// client returns the HTTP client of a signal. It has a connection of its own, so that a signal that hangs holds up no other.
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
	if e.tls != (tlsFiles{}) {
		files, err := e.clientTLS()
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

// logExporter sends log records, and tells the lane how it went.
type logExporter struct {
	sdklog.Exporter

	lane *lane
	end  context.Context //nolint:containedctx // see Telemetry.ctx
}

func newLogExporter(ctx context.Context, l *lane) (sdklog.Exporter, error) {
	client, err := l.exporter.client()
	if err != nil {
		return nil, err
	}
	compression := otlploghttp.NoCompression
	if l.exporter.isGzip {
		compression = otlploghttp.GzipCompression
	}
	inner, err := otlploghttp.New(ctx,
		otlploghttp.WithEndpointURL(l.exporter.url), otlploghttp.WithHeaders(l.exporter.headers), otlploghttp.WithTimeout(l.exporter.timeout),
		otlploghttp.WithCompression(compression), otlploghttp.WithHTTPClient(client),
		otlploghttp.WithMaxRequestSize(maxRequest), otlploghttp.WithMaxResponseSize(maxResponse),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{
			Enabled: true, InitialInterval: retryBackoff, MaxInterval: retryMaxBackoff, MaxElapsedTime: l.exporter.timeout,
		}))
	return logExporter{inner, l, ctx}, err
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
	e.lane.export(ctx, e.end, len(records), len(records), size, func(ctx context.Context) error { return e.Exporter.Export(ctx, records) })
	return nil
}

// metricExporter sends metrics, and tells the lane how it went.
type metricExporter struct {
	sdkmetric.Exporter

	lane *lane
	end  context.Context //nolint:containedctx // see Telemetry.ctx
}

func newMetricExporter(ctx context.Context, l *lane) (sdkmetric.Exporter, error) {
	client, err := l.exporter.client()
	if err != nil {
		return nil, err
	}
	compression := otlpmetrichttp.NoCompression
	if l.exporter.isGzip {
		compression = otlpmetrichttp.GzipCompression
	}
	inner, err := otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithEndpointURL(l.exporter.url), otlpmetrichttp.WithHeaders(l.exporter.headers), otlpmetrichttp.WithTimeout(l.exporter.timeout),
		otlpmetrichttp.WithCompression(compression), otlpmetrichttp.WithHTTPClient(client),
		otlpmetrichttp.WithMaxRequestSize(maxRequest), otlpmetrichttp.WithMaxResponseSize(maxResponse),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
			Enabled: true, InitialInterval: retryBackoff, MaxInterval: retryMaxBackoff, MaxElapsedTime: l.exporter.timeout,
		}))
	return metricExporter{inner, l, ctx}, err
}

// Export implements [sdkmetric.Exporter].
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	n := 0
	for _, scope := range m.ScopeMetrics {
		n += len(scope.Metrics)
	}
	e.lane.export(ctx, e.end, n, 0, 0, func(ctx context.Context) error { return e.Exporter.Export(ctx, m) })
	return nil
}
