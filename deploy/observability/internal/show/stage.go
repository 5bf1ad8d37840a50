// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/collector"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/rig"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/sink"
)

// stage is everything that runs.
type stage struct {
	sink       *sink.Sink
	collector  *collector.Collector
	agent      *sdktrace.TracerProvider
	backend    *sdktrace.TracerProvider
	service    *rig.Service
	sidecar    *rig.Sidecar
	prometheus *rig.Prometheus

	undo []func() // ends what was started, in the order of the start
}

// startTimeout bounds the start of everything.
const startTimeout = 3 * time.Minute

// newStage starts everything: where the collector sends to, the collector, the service, the sidecar, Prometheus.
func newStage(ctx context.Context, o Options) (*stage, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &stage{}
	dir, err := os.MkdirTemp("", "outrigger-observe")
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	s.undo = append(s.undo, func() { _ = os.RemoveAll(dir) })
	for _, step := range []func(context.Context, Options, string) error{s.startCollector, s.startService, s.startSidecar, s.startPrometheus} {
		if err := step(ctx, o, dir); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// endpoint is where the collector listens for OTLP over HTTP.
const endpoint = "OTLP_HTTP_ENDPOINT"

// startCollector starts the example configuration on loopback, with the sink behind it.
func (s *stage) startCollector(ctx context.Context, o Options, _ string) error {
	var err error
	if s.sink, err = sink.Start(ctx); err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = s.sink.Stop() })
	addrs, err := rig.FreeAddrs(ctx, 3)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addrs[2])
	if err != nil {
		return fmt.Errorf("start the collector: %w", err)
	}
	for name, value := range map[string]string{
		endpoint: addrs[0], "OTLP_GRPC_ENDPOINT": addrs[1], "COLLECTOR_METRICS_HOST": host, "COLLECTOR_METRICS_PORT": port, "COLLECTOR_LOG_LEVEL": "error",
		"TRACES_ENDPOINT": s.sink.URL(), "METRICS_ENDPOINT": s.sink.URL(), "LOGS_ENDPOINT": s.sink.URL(), "TRACES_ENCODING": "json",
		"DEPLOYMENT_ENVIRONMENT": "observe",
	} {
		if err := os.Setenv(name, value); err != nil { // the collector runs in this process
			return fmt.Errorf("start the collector: %w", err)
		}
	}
	if s.collector, err = collector.Start(ctx, filepath.Join(o.Folder, "collector.yaml")); err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = s.collector.Stop() })
	for {
		ready, err := s.collector.IsReady()
		if ready || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start the collector: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startService starts the demo service and the tracers of service and agents.
func (s *stage) startService(ctx context.Context, _ Options, _ string) error {
	var err error
	if s.agent, err = tracers(ctx, "agent"); err != nil {
		return err
	}
	if s.backend, err = tracers(ctx, "fleet"); err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = s.agent.Shutdown(context.WithoutCancel(ctx)) }, func() { _ = s.backend.Shutdown(context.WithoutCancel(ctx)) })
	if s.service, err = rig.StartService(ctx, s.backend); err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = s.service.Down() })
	return nil
}

func tracers(ctx context.Context, service string) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL("http://"+os.Getenv(endpoint)+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("start the tracers of %s: %w", service, err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service)))), nil
}

func (s *stage) startSidecar(ctx context.Context, _ Options, dir string) error {
	binary, err := rig.Build(ctx, dir)
	if err != nil {
		return err
	}
	shared, err := rig.StartShared(ctx, dir)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, shared.Stop)
	s.sidecar, err = rig.StartSidecar(ctx, binary, dir, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + os.Getenv(endpoint), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_SERVICE_NAME=outrigger",
		"OTEL_TRACES_SAMPLER=parentbased_always_on", "OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=desk-0",
	}, append(shared.Flags(), "--backend", s.service.URL(), "--log-level", "warn")...)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = s.sidecar.Stop() })
	return nil
}

func (s *stage) startPrometheus(ctx context.Context, o Options, dir string) error {
	binary, err := filepath.Abs(o.Prometheus)
	if err != nil {
		return fmt.Errorf("start Prometheus: %w", err)
	}
	if s.prometheus, err = rig.StartPrometheus(ctx, binary, dir, filepath.Join(o.Folder, "rules"), s.sidecar); err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = s.prometheus.Stop() })
	return nil
}

// flush exports the spans that are left. The sidecar exports its own at its end, so it ends here.
func (s *stage) flush(ctx context.Context) error {
	if err := s.sidecar.Stop(); err != nil {
		return err
	}
	for _, t := range []*sdktrace.TracerProvider{s.agent, s.backend} {
		if err := t.ForceFlush(ctx); err != nil {
			return fmt.Errorf("export spans: %w", err)
		}
	}
	return s.settle(ctx)
}

// settle waits until the collector sends nothing more.
func (s *stage) settle(ctx context.Context) error {
	const quiet = 2500 * time.Millisecond // longer than the collector's batches wait
	before := -1
	for {
		now, _, _, _ := s.sink.Counts()
		if now == before {
			return nil
		}
		before = now
		select {
		case <-ctx.Done():
			return fmt.Errorf("export spans: %w", ctx.Err())
		case <-time.After(quiet):
		}
	}
}

// close ends everything, last things first.
func (s *stage) close() {
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
	s.undo = nil
}
