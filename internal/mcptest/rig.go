// SPDX-License-Identifier: Apache-2.0

// Package mcptest assembles a sidecar in the test's own process, in front of the
// real demo service on loopback, of a backend that speaks the tool API and does
// what its tables say, or of both, for tests of the bridge and its edges. Nothing
// in a Rig is a mock: only the listener in front is left to the test. For tests
// of time, which need a clock of their own and so no sockets, there is a catalog
// from memory and a Caller that is a function. It is imported by tests alone.
package mcptest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/native"
)

// Rig is an assembled sidecar.
type Rig struct {
	Bridge *dialect.Handler
	Live   *catalog.Live
	// URL is the demo service's own.
	URL string
	// Native is the backend with tables, nil where there is none.
	Native *Native

	caller bridge.Upstream
	native bridge.Native
	log    *zap.Logger
}

// With returns the rig with another bridge in front of the same backends, with
// options of its own. Nothing that a backend reports as changed is followed for
// it.
func (r *Rig) With(o bridge.Options, d dialect.Options) *Rig {
	out := *r
	out.Bridge = r.assemble(o, d, correlate.Options{})
	return &out
}

func (r *Rig) assemble(o bridge.Options, d dialect.Options, table correlate.Options) *dialect.Handler {
	o.Log, o.Native = r.log, r.native
	return dialect.New(bridge.New(r.Live, r.caller, correlate.New(table), o), d)
}

// Options change the assembly. The zero value is what serve does by default.
type Options struct {
	Bridge      bridge.Options
	Dialect     dialect.Options
	MaxInFlight int
	// Native, where set, is a backend beside the demo service, or instead of it.
	// What it reports as changed is followed.
	Native *Native
	NoDemo bool
	// Behind, where set, is the URL of the one backend instead: it is asked for its
	// RPCs and for the tool API, as serve asks by default. What it reports as
	// changed is followed.
	Behind string
	// Wrap, where set, stands between the bridge and the backend.
	Wrap func(bridge.Upstream) bridge.Upstream
	// Live configures the catalog.
	Live catalog.LiveOptions
	Log  *zap.Logger
}

// patience bounds what a rig waits for: far more than loopback takes, also where
// many rigs start at once on a busy machine, and less than a test run.
const patience = time.Minute

// Start assembles a rig, waits for its catalog, and takes everything down at
// the end of the test.
func Start(t testing.TB, o Options) *Rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rig := &Rig{Native: o.Native, caller: bridge.NoBackend{}, log: o.Log}
	var sources []source.Source
	if !o.NoDemo && o.Behind == "" {
		rig.URL = startDemo(ctx, t, o.Log)
		client := dial(t, rig.URL)
		sources = append(sources, bridge.NewReflectionSource(client, source.ReflectionOptions{}))
		rig.caller = bridge.NewBackendUpstream(client)
	}
	var talks *native.Client
	if o.Native != nil {
		talks = native.New(dial(t, "connect+"+o.Native.Start(t)))
		sources = append(sources, bridge.NewNativeSource("tables", talks, true))
		rig.native = bridge.NewNativeUpstream(talks)
	}
	if o.Behind != "" {
		client := dial(t, o.Behind)
		talks, rig.caller = native.New(client), bridge.NewBackendUpstream(client)
		sources = append(sources, bridge.NewReflectionSource(client, source.ReflectionOptions{}),
			bridge.NewNativeSource("tool API", talks, false))
		rig.native = bridge.NewNativeUpstream(talks)
	}
	rig.Live = catalog.NewLive(sources, o.Live)
	if err := rig.Live.Refresh(ctx); err != nil {
		t.Fatalf("load the catalog: %v", err)
	}
	if o.Wrap != nil {
		rig.caller = o.Wrap(rig.caller)
	}
	rig.Bridge = rig.assemble(o.Bridge, o.Dialect, correlate.Options{MaxInFlight: o.MaxInFlight})
	if talks != nil {
		rig.follow(t, talks)
	}
	return rig
}

// startDemo starts the demo service and returns its URL.
func startDemo(ctx context.Context, t testing.TB, log *zap.Logger) string {
	t.Helper()
	service, err := demo.Start(ctx, demo.Options{Logger: log})
	if err != nil {
		t.Fatalf("start the demo service: %v", err)
	}
	t.Cleanup(func() {
		if err := service.Close(context.Background()); err != nil {
			t.Errorf("close the demo service: %v", err)
		}
	})
	return service.URL()
}

func dial(t testing.TB, url string) *backend.Client {
	t.Helper()
	target, err := backend.ParseTarget(url)
	if err != nil {
		t.Fatalf("target: %v", err)
	}
	client, err := backend.New(target, backend.Options{})
	if err != nil {
		t.Fatalf("backend client: %v", err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close the backend client: %v", err)
		}
	})
	return client
}
