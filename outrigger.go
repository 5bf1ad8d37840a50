// SPDX-License-Identifier: Apache-2.0

package outrigger

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/slogcore"
)

// Sidecar exposes the RPCs of a backend as tools. Make one with [New]. Its methods are
// safe for concurrent use.
type Sidecar struct {
	app       *server.App
	handler   http.Handler
	operators http.Handler
	// inside serves Options.Handler; nil where there is none.
	inside *backend.InProcess
	forget func()

	// drain begins the end, done is closed when everything has ended.
	draining context.Context //nolint:containedctx // the sidecar's own end, which no call's context knows
	drain    context.CancelFunc
	began    atomic.Bool
	done     chan struct{}
}

// ErrStarted is returned by [Sidecar.Run] if it was called before, or after
// [Sidecar.Drain].
var ErrStarted = errors.New("outrigger: Run was called before, or Drain was")

// New returns a sidecar. It checks all options and reports all errors at once. It opens
// no connection before [Sidecar.Run]. To discard a sidecar without running it, call
// [Sidecar.Drain].
func New(ctx context.Context, o Options) (*Sidecar, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	var to slog.Handler
	if o.Logger != nil {
		to = o.Logger.Handler()
	}
	options := server.Options{
		Log: slogcore.New(to), Version: "devel", Sources: o.Sources, Authenticator: o.Authenticator, OnEnd: o.Hooks.ended(), Embedded: true,
	}
	if o.TracerProvider != nil {
		options.Tracer = export.ProvidedTracer(o.TracerProvider, o.Propagator, cfg.GetTelemetry())
	}
	s := &Sidecar{done: make(chan struct{}), forget: func() {}}
	if o.Handler != nil {
		s.inside = backend.NewInProcess(o.Handler, options.Log.Named("backend"))
		options.Dial = s.inside.Dial
	}
	if s.app, err = server.New(ctx, cfg, options); err != nil {
		return nil, errors.Join(err, s.closeInside())
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	if err := s.prepare(o); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

// prepare makes the handlers.
func (s *Sidecar) prepare(o Options) error {
	if err := s.app.Prepare(s.drain); err != nil {
		return err
	}
	if o.Hooks.Tools != nil {
		s.forget = s.app.Live().OnChange(func(_, now *catalog.Catalog) { o.Hooks.Tools(toolsOf(now)) })
	}
	s.operators = s.app.Operators()
	var err error
	s.handler, err = s.app.Handler(front.Place{Name: "embedded", Loopback: !o.AnyHost, TLS: o.TLS})
	return err
}

// ended is the hook for calls as the counts know it; nil where there is none.
func (h Hooks) ended() func(telemetry.CallEnd) {
	if h.Call == nil {
		return nil
	}
	return func(e telemetry.CallEnd) {
		h.Call(Call{Tool: e.Tool, Edge: e.Edge.String(), Code: string(e.Code), Duration: e.Took, Upstream: e.Upstream})
	}
}

// Handler returns the handler for callers: all protocols, with all guards. Mount it at
// the root of a server with HTTP/1.1 and, for gRPC, HTTP/2. It returns UNAVAILABLE
// until [Sidecar.Run] has loaded the tools, and during and after a drain.
func (s *Sidecar) Handler() http.Handler { return s.handler }

// Operator returns the handler for operators: /readyz, /livez, /metrics, /drain,
// /trust, /debug/pprof, the registration of tools and the console. It does not authenticate its
// callers: never mount it where others can reach it. The console answers only clients on this machine.
func (s *Sidecar) Operator() http.Handler { return s.operators }

// Run loads the tools and keeps them up to date until ctx ends or [Sidecar.Drain] is
// called. Then it drains, closes everything, and returns. The error is nil after a
// requested drain. A sidecar runs once: later calls return [ErrStarted].
func (s *Sidecar) Run(ctx context.Context) error {
	if !s.began.CompareAndSwap(false, true) {
		return ErrStarted
	}
	return s.run(ctx)
}

func (s *Sidecar) run(ctx context.Context) error {
	defer close(s.done)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.draining, stop)()
	err := s.app.Run(ctx, stop, time.Now())
	return errors.Join(err, s.close(context.WithoutCancel(ctx)))
}

// Ready waits until the tools have been loaded for the first time.
func (s *Sidecar) Ready(ctx context.Context) error {
	_, err := s.app.Live().Wait(ctx)
	return err
}

// Drain rejects new requests and waits until those in flight have finished, or until
// ctx ends. In the latter case the drain continues, within Limits.DrainGrace.
func (s *Sidecar) Drain(ctx context.Context) error {
	s.drain()
	if s.began.CompareAndSwap(false, true) {
		go func() { _ = s.run(s.draining) }() // done tells when it has ended
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends what New has started.
func (s *Sidecar) close(ctx context.Context) error {
	s.forget()
	s.drain()
	s.app.CloseListeners()
	return errors.Join(s.app.Close(ctx), s.closeInside())
}

func (s *Sidecar) closeInside() error {
	if s.inside == nil {
		return nil
	}
	return s.inside.Close()
}
