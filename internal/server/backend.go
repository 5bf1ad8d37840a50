// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// toolService is what a sidecar has of its backend.
type toolService struct {
	log, noted *zap.Logger
	life       *lifecycle.Machine

	demo *demo.Server
	// client is nil where tools come from descriptors alone.
	client *backend.Client
	// native asks the backend for what it offers itself; nil where it is not
	// asked.
	native *backend.NativeClient
	// guard wraps the backend's calls, clock knows when this process stood
	// still; both are nil without a backend.
	guard *backend.Guard
	clock *peer.Clock
	// seek wakes the probe for an unreachable backend.
	seek chan struct{}
}

// openToolService starts the demo service where it is asked for, and makes the
// client of whatever the backend is. close ends what it has started, also after an
// error.
func openToolService(ctx context.Context, cfg *configv1.Config, options backend.Options, life *lifecycle.Machine, log, noted *zap.Logger) (*toolService, error) {
	t := &toolService{log: log, noted: noted, life: life, seek: make(chan struct{}, 1)}
	url := cfg.GetBackend().GetUrl()
	if cfg.GetDemo() {
		service, err := demo.Start(ctx, demo.Options{Logger: log.Named("demo")})
		if err != nil {
			return t, fmt.Errorf("start the demo service: %w", err)
		}
		t.demo = service
		// The demo speaks gRPC for certain, so nothing has to be probed.
		url = "grpc" + service.URL()[len("http"):]
	}
	if url == "" {
		return t, nil // tools can be shown from descriptors alone
	}
	target, err := backend.ParseTarget(url)
	if err != nil {
		return t, fmt.Errorf("--backend: %w", err)
	}
	if t.client, err = backend.New(target.Speaking(protocolNamed(cfg.GetBackend().GetProtocol())), options); err != nil {
		return t, fmt.Errorf("backend: %w", err)
	}
	t.life.Set(needAnswer, false, "not asked yet")
	t.clock = peer.NewClock()
	retries := backend.GuardOptionsOf(cfg.GetResilience())
	retries.OnState, retries.OnTool, retries.OnDoubt, retries.Clock = t.breakerChanged, t.toolBreakerChanged, t.look, t.clock
	t.guard = backend.NewGuard(retries)
	if upstream.AsksNative(cfg.GetCatalog(), true) {
		t.native = backend.NewNative(t.client)
	}
	return t, nil
}

// callers are what makes the backend's calls, and what makes those of its native tools;
// the second is nil where it is not asked for any.
func (t *toolService) callers() (bridge.Upstream, bridge.Native) {
	if t.client == nil {
		return bridge.NoBackend{}, nil
	}
	if t.native == nil {
		return backend.NewUpstream(t.client), nil
	}
	return backend.NewUpstream(t.client), t.native
}

// protocolNamed is the protocol that the configuration names, unknown for the one that a probe finds.
func protocolNamed(name string) backend.Protocol {
	switch name {
	case "grpc":
		return backend.ProtocolGRPC
	case "connect":
		return backend.ProtocolConnect
	case "grpcweb":
		return backend.ProtocolGRPCWeb
	}
	return backend.ProtocolUnknown
}

// answered takes whether the backend answers the sidecar's own questions. The log has the cause and its fix.
func (t *toolService) answered(err error) {
	if err == nil {
		t.life.Set(needAnswer, true, "the backend answers")
		return
	}
	t.life.Set(needAnswer, false, "the backend does not answer: "+strings.ReplaceAll(err.Error(), "\n", "; "))
}

// maxDescribed bounds the procedures that a probe asks.
const maxDescribed = 8

// procedures are some that the backend should have, one of each service, for probes: unary ones where there are any.
func (a *App) procedures() []string {
	cat := a.live.Current()
	if cat == nil {
		return nil
	}
	var out []string
	for _, s := range cat.Services() {
		if len(s.Tools) == 0 || len(out) == maxDescribed {
			continue
		}
		chosen := s.Tools[0].Method
		for _, t := range s.Tools {
			if !t.Method.ClientStreaming && !t.Method.ServerStreaming {
				chosen = t.Method
				break
			}
		}
		out = append(out, chosen.Procedure)
	}
	return out
}

// look wakes the probe for a backend that may be unreachable.
func (t *toolService) look() {
	select {
	case t.seek <- struct{}{}:
	default:
	}
}

// breakerChanged passes on what the breaker knows of the backend. It runs within
// a call, and does not wait.
func (t *toolService) breakerChanged(from, to backend.BreakerState) {
	t.log.Debug("circuit breaker", zap.Stringer("from", from), zap.Stringer("to", to))
	switch to {
	case backend.BreakerOpen:
		t.life.Set(needBackend, false, "circuit breaker open: too many calls failed or timed out; probing")
		t.look()
	case backend.BreakerClosed:
		t.life.Set(needBackend, true, "circuit breaker closed")
	case backend.BreakerHalfOpen:
	}
}

// toolBreakerChanged tells operators of a tool that keeps running out of time. It runs
// within a call, and does not wait. The backend and readiness have no part in it.
func (t *toolService) toolBreakerChanged(tool string, from, to backend.BreakerState) {
	fields := []zap.Field{zap.String(logkey.CanonicalTool, tool), zap.Stringer("from", from), zap.Stringer("to", to)}
	switch {
	case from == backend.BreakerClosed && to == backend.BreakerOpen:
		t.noted.Warn("tool circuit breaker open: calls time out", fields...)
	case to == backend.BreakerClosed:
		t.noted.Info("tool circuit breaker closed", fields...)
	default:
		t.noted.Debug("tool circuit breaker", fields...)
	}
}

// keepTools forgets what is known of tools that a catalog no longer has.
func (t *toolService) keepTools(now *catalog.Catalog) {
	t.guard.KeepTools(func(key string) bool {
		_, ok := now.Lookup(key)
		return ok || strings.HasPrefix(key, "/") // a question to a native backend
	})
}

// closeTimeout bounds how long the demo service may take to end: its calls have
// ended by then.
const closeTimeout = 5 * time.Second

// close ends what was started. The client goes first, because an idle connection
// would make the demo service wait for it.
func (t *toolService) close(ctx context.Context) error {
	var errs []error
	t.clock.Stop()
	if t.client != nil {
		errs = append(errs, t.client.Close())
	}
	if t.demo != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		errs = append(errs, t.demo.Close(ctx))
	}
	return errors.Join(errs...)
}
