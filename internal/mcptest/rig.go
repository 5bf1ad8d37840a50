// SPDX-License-Identifier: Apache-2.0

// Package mcptest runs a sidecar in the test's own process, in front of the real demo
// service, of a backend that speaks the tool API and does what its tables say, or of
// both. The sidecar is that of the command and of the package outrigger: [Start] makes
// it with internal/server, from the configuration that `sidecar serve` has by default.
// Backends listen on loopback.
//
// [Pipe] makes the same sidecar without a backend process, many times in one test and inside
// a synctest bubble, where there are no sockets: its backend is a function, such as an
// [Upstream], and its tools are those of [Memory], a catalog that is built once in a process.
//
// Tests speak to either with a [Message] of JSON-RPC, with a [Call] as the edges of Protobuf
// make them, or over HTTP. They name no part of the pipeline: what they need of one has a
// name here.
//
// It is imported by tests alone.
package mcptest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Rig is a sidecar that runs.
type Rig struct {
	Bridge *dialect.Handler
	Live   *catalog.Live
	// Native is the backend with tables, nil where there is none.
	Native *Native

	app *server.App
	// backend tells a configuration where the backend is, and how it is asked for tools.
	backend func(*configv1.Config)
	log     *zap.Logger
	change  func(*server.Options)
	end     func()
	ended   func(error)
	// prepareOnce makes the handlers of a [Pipe]; nil where they are there.
	prepareOnce func() error
}

// Options say what is behind a rig, and how it differs from a sidecar by default.
type Options struct {
	// Configure changes the configuration.
	Configure func(*configv1.Config)
	// Adjust changes what the configuration does not reach.
	Adjust server.Adjust
	// Native, where set, is a backend beside the demo service, or instead of it.
	Native *Native
	NoDemo bool
	// Behind, where set, is the URL of the backend instead.
	Behind string
	Log    *zap.Logger
	// Between, where set, is put between the sidecar and the Native backend: it takes the
	// URL of the backend and returns its own.
	Between func(url string) string
	// Change changes how the sidecar is assembled.
	Change func(*server.Options)
	// Ended, where set, judges the error with which the sidecar ends. Otherwise an error
	// fails the test.
	Ended func(error)
}

// Start starts a rig, waits for its catalog, and takes everything down at the end of
// the test.
func Start(t testing.TB, o Options) *Rig {
	t.Helper()
	rig := &Rig{Native: o.Native, backend: behind(t, o), log: o.Log, change: o.Change, ended: o.Ended}
	return rig.With(t, o.Configure, o.Adjust)
}

// behind starts the backend and returns what the configuration says about it.
func behind(t testing.TB, o Options) func(*configv1.Config) {
	t.Helper()
	switch {
	case o.Behind != "":
		return func(c *configv1.Config) { c.Backend.Url = o.Behind }
	case o.Native == nil:
		return func(c *configv1.Config) { c.Demo = true }
	case o.NoDemo:
		url := "connect+" + o.Native.Start(t)
		return func(c *configv1.Config) { c.Backend.Url, c.Catalog.Native = url, proto.String("on") }
	default:
		url := o.Native.startBesideDemo(t, o.Log)
		if o.Between != nil {
			url = o.Between(url)
		}
		return func(c *configv1.Config) {
			// The demo's reflection does not list the tool API.
			c.Backend.Url, c.Catalog.Native, c.Catalog.Reflection = url, proto.String("on"), proto.String("on")
		}
	}
}

// Again starts another sidecar in front of the same backend.
func (r *Rig) Again(t testing.TB, configure func(*configv1.Config)) *Rig {
	t.Helper()
	return r.With(t, configure, server.Adjust{})
}

// With is Again with an [server.Adjust].
func (r *Rig) With(t testing.TB, configure func(*configv1.Config), adjust server.Adjust) *Rig {
	t.Helper()
	options := server.Options{Log: r.log, Version: version, Embedded: true, Adjust: adjust}
	if r.change != nil {
		r.change(&options)
	}
	app, err := server.New(t.Context(), r.configuration(t, configure), options)
	if err != nil {
		t.Fatalf("assemble the sidecar: %v", err)
	}
	out := *r
	out.app, out.Bridge, out.Live = app, app.Dialects(), app.Live()
	out.run(t)
	return &out
}

// version is what a rig calls itself.
const version = "0.0.0"

// drainGrace is how long a call may go on after its test has ended.
const drainGrace = 5 * time.Second

// configuration is that of [Rig.configured], checked.
func (r *Rig) configuration(t testing.TB, configure func(*configv1.Config)) *configv1.Config {
	t.Helper()
	c := r.configured(configure)
	if err := config.Verify(config.Serve, c, config.Options{Checks: server.Checks(false)}); err != nil {
		t.Fatalf("configuration: %v", err)
	}
	return c
}

// run runs the sidecar until [Rig.End], at the latest until the end of the test, and
// waits for its catalog.
func (r *Rig) run(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if err := r.app.Prepare(stop); err != nil {
		t.Fatalf("prepare the sidecar: %v", err)
	}
	go func() { ended <- r.app.Run(ctx, stop, time.Now()) }()
	r.end = sync.OnceFunc(func() {
		stop()
		err := <-ended
		r.app.CloseListeners()
		err = errors.Join(err, r.app.Close(context.Background()))
		switch {
		case r.ended != nil:
			r.ended(err)
		case err != nil:
			t.Errorf("end the sidecar: %v", err)
		}
	})
	t.Cleanup(r.end)
	waiting, cancel := context.WithTimeout(ctx, testkit.Limit())
	defer cancel()
	if _, err := r.Live.Wait(waiting); err != nil {
		t.Fatalf("load the catalog: %v", err)
	}
}

// End drains and closes the sidecar before the test ends.
func (r *Rig) End() { r.end() }

// Serve listens on loopback with what the sidecar's main listener serves, and returns
// the URL.
func (r *Rig) Serve(t testing.TB) string {
	t.Helper()
	return Serve(t, r.Handler(t))
}

// Handler returns what the sidecar's main listener serves.
func (r *Rig) Handler(t testing.TB) http.Handler {
	t.Helper()
	r.prepare(t)
	handler, err := r.app.Handler(front.Place{Name: "test", Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// App returns the sidecar.
func (r *Rig) App() *server.App { return r.app }

// prepare makes the handlers of a [Pipe], once.
func (r *Rig) prepare(t testing.TB) {
	t.Helper()
	if r.prepareOnce == nil {
		return
	}
	if err := r.prepareOnce(); err != nil {
		t.Fatalf("prepare the sidecar: %v", err)
	}
}

// Operators listens on loopback with what the sidecar's admin listener serves, and
// returns the URL.
func (r *Rig) Operators(t testing.TB) string {
	t.Helper()
	r.prepare(t)
	return Serve(t, r.app.Operators())
}
