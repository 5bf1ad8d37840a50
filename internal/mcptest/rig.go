// SPDX-License-Identifier: Apache-2.0

// Package mcptest assembles a sidecar in the test's own process, in front of the
// real demo service on loopback, for tests of the bridge and its edges. Nothing
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
	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// Rig is an assembled sidecar.
type Rig struct {
	Bridge *bridge.Bridge
	Live   *catalog.Live
	// URL is the demo service's own.
	URL string
}

// Options change the assembly. The zero value is what serve does by default.
type Options struct {
	Bridge      bridge.Options
	MaxInFlight int
	// Wrap, where set, stands between the bridge and the backend.
	Wrap func(bridge.Caller) bridge.Caller
	// Live configures the catalog.
	Live catalog.LiveOptions
	Log  *zap.Logger
}

// Start assembles a rig, waits for its catalog, and takes everything down at
// the end of the test.
func Start(t testing.TB, o Options) *Rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	service, err := demo.Start(ctx, demo.Options{Logger: o.Log})
	if err != nil {
		t.Fatalf("start the demo service: %v", err)
	}
	t.Cleanup(func() {
		if err := service.Close(context.Background()); err != nil {
			t.Errorf("close the demo service: %v", err)
		}
	})
	target, err := backend.ParseTarget(service.URL())
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
	live := catalog.NewLive([]catalog.Source{bridge.NewReflectionSource(client, catalog.ReflectionOptions{})}, o.Live)
	if err := live.Refresh(ctx); err != nil {
		t.Fatalf("load the catalog: %v", err)
	}
	var caller bridge.Caller = bridge.NewBackendCaller(client)
	if o.Wrap != nil {
		caller = o.Wrap(caller)
	}
	o.Bridge.Log = o.Log
	b := bridge.New(live, caller, correlate.New(correlate.Options{MaxInFlight: o.MaxInFlight}), o.Bridge)
	return &Rig{Bridge: b, Live: live, URL: service.URL()}
}
