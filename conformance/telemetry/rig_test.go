// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/collector"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/service"
)

// update writes the goldens instead of comparing them.
var update = flag.Bool("update", false, "write the files of testdata")

// built is what TestMain made; it is written before the first test starts. Spans come from a binary with the race
// detector; what is measured is the one that people run.
var built struct{ binary, measured string }

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(ctx context.Context, binary, dir string) (err error) {
		built.binary, built.measured = binary, os.Getenv("OUTRIGGER_TEST_BINARY")
		if built.measured != "" {
			return nil
		}
		built.measured, err = sidecar.BuildPlain(ctx, dir)
		return err
	}))
}

// serviceName is the service.name of the sidecar.
const serviceName = "outrigger-under-test"

// rig is a collector and a backend that exports to it.
type rig struct {
	*collector.Collector

	backend *service.Service
	// relay is the way to the backend.
	relay *service.Relay
}

// newRig also sets the variables that the sidecar reads, for each process that the test starts.
func newRig(t *testing.T) *rig {
	t.Helper()
	c := collector.Start(t)
	telemetryTo(t, c.URL())
	backend := service.Start(t, c.URL())
	return &rig{Collector: c, backend: backend, relay: service.StartRelay(t, backend.Addr)}
}

// telemetryTo has sidecars export everything to an endpoint.
func telemetryTo(t *testing.T, endpoint string) {
	t.Helper()
	for name, value := range map[string]string{
		"OTEL_SERVICE_NAME":           serviceName,
		"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_TRACES_EXPORTER":        "otlp",
		"OTEL_METRICS_EXPORTER":       "otlp",
		"OTEL_LOGS_EXPORTER":          "otlp",
		"OTEL_TRACES_SAMPLER":         "parentbased_always_on",
		"OTEL_BSP_SCHEDULE_DELAY":     "100",
		"OTEL_METRIC_EXPORT_INTERVAL": "500",
	} {
		t.Setenv(name, value)
	}
}

// args are those of a sidecar in front of the backend.
func (r *rig) args(more ...string) []string {
	return append([]string{"--backend", "grpc://" + r.relay.Addr}, more...)
}

// serve starts a sidecar in front of the backend.
func (r *rig) serve(t *testing.T, more ...string) *sidecar.Server {
	t.Helper()
	return sidecar.ServeReady(t, built.binary, r.args(more...)...)
}
