// SPDX-License-Identifier: Apache-2.0

package observability_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/load"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/rig"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/sink"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/vocabulary"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// atWork returns what the real binary exposes while it meets everything that the load has.
func atWork(t *testing.T) *vocabulary.Vocabulary {
	t.Helper()
	ctx := t.Context()
	binary, err := rig.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Files depend on the configuration, versions on the build.
	v := vocabulary.New(map[string][]string{"code": codes(), "edge": edges(), "files": nil, "version": nil, "go_version": nil})
	readBusy(ctx, t, v, binary)
	readTLS(ctx, t, v, binary)
	readShared(ctx, t, v, binary)
	return v
}

// readBusy reads the page of a sidecar under load again and again: some series only exist while calls are queued.
func readBusy(ctx context.Context, t *testing.T, v *vocabulary.Vocabulary, binary string) {
	t.Helper()
	tracers := noop.NewTracerProvider()
	service, err := rig.StartService(ctx, tracers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Down() })
	exports, err := sink.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exports.Stop() })
	sidecar := start(ctx, t, binary, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + exports.URL()}, "--backend", service.URL())
	ended := make(chan error, 1)
	go func() {
		_, err := load.Run{URL: sidecar.URL, Duration: 12 * time.Second, Service: service, Tracers: tracers}.Do(ctx)
		ended <- err
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		read(ctx, t, v, sidecar)
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-tick.C:
		}
	}
}

// readTLS reads the page of a sidecar with a certificate.
func readTLS(ctx context.Context, t *testing.T, v *vocabulary.Vocabulary, binary string) {
	t.Helper()
	pair := tlstest.NewAuthority(t).Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	read(ctx, t, v, start(ctx, t, binary, nil, "--demo", "--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile))
}

// readShared reads the page of a sidecar that shares its state in a real NATS server, and asks a rate limit service.
func readShared(ctx context.Context, t *testing.T, v *vocabulary.Vocabulary, binary string) {
	t.Helper()
	shared, err := rig.StartShared(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shared.Stop)
	sidecar := start(ctx, t, binary, nil, append(shared.Flags(), "--demo")...)
	// A lease is renewed within seconds, which is an update. The stores are looked at one after another.
	awaited := []string{`operation="update"`, `outrigger_state_stored_bytes{store="events"}`}
	testkit.Try(t, "the metrics of the shared state", func() error {
		page, err := rig.Get(ctx, sidecar.Admin+"/metrics")
		for _, series := range awaited {
			if err == nil && !strings.Contains(page, series) {
				err = fmt.Errorf("no %s: %s", series, sidecar.Output())
			}
		}
		return err
	})
	read(ctx, t, v, sidecar)
}

// start starts a sidecar that the test ends.
func start(ctx context.Context, t *testing.T, binary string, env []string, flags ...string) *rig.Sidecar {
	t.Helper()
	sidecar, err := rig.StartSidecar(ctx, binary, t.TempDir(), env, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sidecar.Stop(); err != nil {
			t.Error(err)
		}
	})
	return sidecar
}

// read adds the page of a sidecar as it is now.
func read(ctx context.Context, t *testing.T, v *vocabulary.Vocabulary, sidecar *rig.Sidecar) {
	t.Helper()
	page, err := rig.Get(ctx, sidecar.Admin+"/metrics")
	if err == nil {
		err = v.Read(strings.NewReader(page))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, sidecar.Output())
	}
}

func codes() []string {
	out := []string{telemetry.OK}
	for _, c := range errmap.Codes() {
		out = append(out, string(c))
	}
	return out
}

func edges() []string {
	return []string{"mcp", "rpc", "stdio", "connect", "grpc", "grpcweb", "typed", "admin", "other"}
}
