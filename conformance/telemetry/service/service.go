// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net"
	"sync"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
)

// Name is the service.name of the backend.
const Name = "lagoon"

// Service is a running backend.
type Service struct {
	*handler

	// Addr is the host:port of the listener.
	Addr string
}

// Provider exports the spans of a service to an OTLP endpoint, each as soon as it ends. It is flushed and shut down with
// the test.
func Provider(tb testing.TB, name, endpoint string) *sdktrace.TracerProvider {
	tb.Helper()
	exporter, err := otlptracehttp.New(tb.Context(), otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	if err != nil {
		tb.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSyncer(exporter),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(name))),
	)
	tb.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(tb.Context())) })
	return provider
}

// Propagator is what every service of a test speaks.
func Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// Start serves on a free port of loopback. Spans of reflection are left out.
func Start(tb testing.TB, endpoint string) *Service {
	tb.Helper()
	provider := Provider(tb, Name, endpoint)
	stats := otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(Propagator()),
		otelgrpc.WithFilter(isTool))
	return serve(tb, grpc.StatsHandler(stats))
}

// StartPlain serves without telemetry.
func StartPlain(tb testing.TB) *Service {
	tb.Helper()
	return serve(tb)
}

func serve(tb testing.TB, options ...grpc.ServerOption) *Service {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Service{handler: newHandler(), Addr: l.Addr().String()}
	server := grpc.NewServer(options...)
	server.RegisterService(lab(), s.handler)
	server.RegisterService(fleet(), s.handler)
	reflection.Register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	tb.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return s
}
