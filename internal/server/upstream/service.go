// SPDX-License-Identifier: Apache-2.0

// Package upstream is the sidecar's view of its backend: the client and whom it speaks for, whether it is usable and why not
// ([Diagnoser]), the connection, catalog loads on demand ([Refresher]), the changes that a native backend reports, and the
// reload of credentials and certificates.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// Needs of the backend, as probes name them: the circuit breaker, and the answer to the sidecar's own questions.
const (
	needBackend = "backend"
	needAnswer  = "backend connection"
	needTools   = "backend tools" // of one of several; the catalog is that of all
)

// Options are what a [Service] has of its process.
type Options struct {
	Config *configv1.Config
	// Version is the sidecar's version, for the backend.
	Version string
	// Dial, if set, connects to the backend instead of the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Sources are sources of tools in addition to the configuration.
	Sources []source.Source
	// Keep, if set, gets what a native backend offers, after each load that brings something new.
	Keep func(*source.Native)
	// Life learns whether calls can be answered.
	Life *lifecycle.Machine
	// Noted is Log for lines that many requests can cause.
	Log, Noted *zap.Logger
	// Tell, if set, shows a person whether the backend can be used, in place of the log.
	Tell func(text string)

	// What follows is set for one of several backends: its name, how many calls it may have at once, how many of them no other
	// can take, what is left of the rest, and the clock of the process. life is where it says how it is doing, Life for the only
	// one.
	name               string
	maxCalls, ownCalls int
	sharedCalls        *atomic.Int64
	clock              *peer.Clock
	life               life
}

// life is where a backend says how it is doing.
type life interface {
	Set(need string, ok bool, why string)
	Status() lifecycle.Status
}

// Service is what a sidecar has of its backend. They are made by [OpenBackends]. Give it the catalog with [Service.Serve].
type Service struct {
	// Guard wraps the backend's calls, Clock knows when this process stood still; both are nil without a backend.
	Guard *backend.Guard
	Clock *peer.Clock
	// Refresher loads the catalog on demand.
	Refresher *Refresher

	opts Options
	demo *demo.Server
	// recorded answers where there is no backend; nil elsewhere.
	recorded *recorded.Upstream
	// client is nil where tools come from descriptors alone, native where the backend is not asked for its own tools.
	client *backend.Client
	native *backend.NativeClient
	live   *catalog.Live
	reach  *reach
	follow *follower
	behalf behalfOf
	// metadata says which headers cross, for what is asked of several backends.
	metadata backend.MetadataRules
	// seek wakes the probe for an unreachable backend.
	seek chan struct{}
}

// open starts the demo service where it is asked for, and makes the
// client of whatever the backend is. [Service.Close] ends what it has started, also after an
// error.
func open(ctx context.Context, o Options) (*Service, error) {
	s := &Service{opts: o, seek: make(chan struct{}, 1)}
	cfg, b := o.Config, o.Config.GetBackend()
	url := b.GetUrl()
	if cfg.GetDemo() {
		service, err := demo.Start(ctx, demo.Options{Logger: o.Log.Named("demo")})
		if err != nil {
			return s, fmt.Errorf("start the demo service: %w", err)
		}
		s.demo = service
		// The demo speaks gRPC for certain, so nothing has to be probed.
		url = "grpc" + service.URL()[len("http"):]
	}
	if url != "" { // otherwise tools can be shown from descriptors alone
		target, err := backend.ParseTarget(url)
		if err != nil {
			return s, fmt.Errorf("--backend: %w", err)
		}
		if s.Clock = o.clock; s.Clock == nil {
			s.Clock = peer.NewClock()
		}
		if s.client, err = backend.New(target.Speaking(protocolNamed(b.GetProtocol())), backend.Options{
			Config: b, UserAgent: "outrigger/" + o.Version, Dial: o.Dial, Log: o.Noted, Clock: s.Clock,
		}); err != nil {
			return s, fmt.Errorf("backend: %w", err)
		}
		o.life.Set(needAnswer, false, "not asked yet")
		if o.name != "" {
			o.life.Set(needTools, false, "not loaded yet")
		}
		s.Guard = backend.NewGuard(cfg.GetResilience(), backend.GuardOptions{
			OnState: s.breakerChanged, OnTool: s.toolBreakerChanged, OnDoubt: s.look, Clock: s.Clock,
			MaxCalls: o.maxCalls, OwnCalls: o.ownCalls, SharedCalls: o.sharedCalls,
		})
		if asksNative(cfg.GetCatalog()) {
			s.native = backend.NewNative(s.client)
		}
	}
	s.reach = newReach(s.Diagnoser(), o.Log, o.Tell)
	var err error
	if s.recorded, err = openRecorded(cfg, s.current); err != nil {
		return s, err
	}
	s.behalf, err = openBehalf(cfg, o.Log.Named("identity"))
	return s, err
}

// Diagnoser returns the diagnosis of the backend.
func (s *Service) Diagnoser() Diagnoser {
	return Diagnoser{Name: s.opts.name, Client: s.client, Recorded: s.recorded, Config: s.opts.Config.GetBackend(), sources: s.opts.Config.GetCatalog(), live: s.live}
}

// Plan returns where tools come from and how they are made, by a configuration that may be newer than that of the start.
func (s *Service) Plan(cfg *configv1.Config) ([]source.Source, catalog.BuildOptions, error) {
	return Plan(cfg, Origins{Client: s.client, Native: s.native, Keep: s.opts.Keep, More: s.opts.Sources})
}

// Types returns what finds types that no tool names, nil for nothing: the backend, also where descriptor files say what the
// tools are. They seldom have all that an Any may hold.
func (s *Service) Types() catalog.TypeFinder {
	if s.client == nil || s.opts.Config.GetCatalog().GetReflection() == "off" {
		return nil
	}
	return backend.NewReflectionSource(s.client, source.ReflectionOptions{})
}

// Serve gives the service the catalog of its tools, once and before all that follows.
func (s *Service) Serve(live *catalog.Live) {
	s.live, s.Refresher = live, newRefresher(live, s.opts.Log)
	if s.client != nil {
		s.client.Describe(s.procedures)
	}
}

// current is the catalog, nil before the first.
func (s *Service) current() *catalog.Catalog {
	if s.live == nil {
		return nil
	}
	return s.live.Current()
}

// Callers returns what makes the backend's calls, and what makes those of its native tools;
// the second is nil where it is not asked for any.
func (s *Service) Callers() (bridge.Upstream, bridge.Native) {
	if s.recorded != nil {
		return s.recorded, s.recorded
	}
	if s.client == nil {
		return bridge.NoBackend{}, nil
	}
	if s.native == nil {
		return backend.NewUpstream(s.client), nil
	}
	return backend.NewUpstream(s.client), s.native
}

// Follow forwards the changes that a native backend reports, once the service runs.
func (s *Service) Follow(feed *notify.Feed, publish func(notify.Change)) {
	if s.native != nil {
		s.follow = newFollower(followerOptions{Name: s.opts.name, Native: s.native, Live: s.live, Feed: feed, Publish: publish, Log: s.opts.Log})
	}
}

// Run looks after the backend until ctx ends.
func (s *Service) Run(ctx context.Context) {
	l, all := &link{Service: s}, sync.WaitGroup{}
	all.Go(func() { s.follow.Run(ctx) })
	all.Go(func() { l.await(ctx) })
	all.Go(func() { s.reach.Run(ctx) })
	all.Go(func() { l.Run(ctx) })
	all.Wait()
}

// Loaded takes the outcome of a load of the catalog. A first one that can never succeed is for [Service.Fatal].
func (s *Service) Loaded(err error) {
	if hasTools := s.live.Current() != nil; s.opts.name != "" && hasTools {
		s.opts.life.Set(needTools, true, "tools loaded")
	} else if s.opts.name != "" {
		s.opts.life.Set(needTools, false, "no tools: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err == nil || s.live.Current() != nil || !catalog.IsPermanent(err) || s.opts.name != "" {
		s.reach.note(fromCatalog, err)
	}
}

// Fatal logs why the first catalog can never be loaded, and what to do.
func (s *Service) Fatal(ctx context.Context, err error) { s.reach.fatal(ctx, err) }

// Changed takes another catalog, the first one in place of nil, and forgets what is known of tools that it no longer has.
func (s *Service) Changed(old, now *catalog.Catalog) {
	if old == nil && s.client != nil && (s.opts.Dial != nil || len(s.opts.Sources) == 0 && !makesTools(s.opts.Config.GetCatalog())) {
		s.answered(nil) // it is in this process, or the tools come from it
	}
	sayRecorded(s.recorded, s.opts.Log, s.opts.Tell)
	s.Guard.KeepTools(func(key string) bool {
		_, ok := now.Lookup(key)
		return ok || strings.HasPrefix(key, "/") // a question to a native backend
	})
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
func (s *Service) answered(err error) {
	if err == nil {
		s.opts.life.Set(needAnswer, true, "the backend answers")
		return
	}
	s.opts.life.Set(needAnswer, false, "the backend does not answer: "+strings.ReplaceAll(err.Error(), "\n", "; "))
}

// maxDescribed bounds the procedures that a probe asks.
const maxDescribed = 8

// procedures are some that the backend should have, one of each service, for probes: unary ones where there are any.
func (s *Service) procedures() []string {
	cat := s.live.Current()
	if cat == nil {
		return nil
	}
	var out []string
	for _, service := range cat.Services() {
		if len(service.Tools) == 0 || len(out) == maxDescribed {
			continue
		}
		chosen := service.Tools[0].Method
		for _, t := range service.Tools {
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
func (s *Service) look() {
	select {
	case s.seek <- struct{}{}:
	default:
	}
}

// breakerChanged passes on what the breaker knows of the backend. It runs within
// a call, and does not wait.
func (s *Service) breakerChanged(from, to backend.BreakerState) {
	s.opts.Log.Debug("circuit breaker", zap.Stringer("from", from), zap.Stringer("to", to))
	switch to {
	case backend.BreakerOpen:
		s.opts.life.Set(needBackend, false, "circuit breaker open: too many calls failed or timed out; probing")
		s.look()
	case backend.BreakerClosed:
		s.opts.life.Set(needBackend, true, "circuit breaker closed")
	case backend.BreakerHalfOpen:
	}
}

// toolBreakerChanged tells operators of a tool that keeps running out of time. It runs
// within a call, and does not wait. The backend and readiness have no part in it.
func (s *Service) toolBreakerChanged(tool string, from, to backend.BreakerState) {
	fields := []zap.Field{zap.String(logkey.CanonicalTool, tool), zap.Stringer("from", from), zap.Stringer("to", to)}
	switch {
	case from == backend.BreakerClosed && to == backend.BreakerOpen:
		s.opts.Noted.Warn("tool circuit breaker open: calls time out", fields...)
	case to == backend.BreakerClosed:
		s.opts.Noted.Info("tool circuit breaker closed", fields...)
	default:
		s.opts.Noted.Debug("tool circuit breaker", fields...)
	}
}

// label is a name with that of the backend behind it, for one of several.
func (s *Service) label(of string) string { return strings.TrimSuffix(of+" "+s.opts.name, " ") }

// suffix is what names of groups of files end in, for one of several.
func (s *Service) suffix() string { return strings.TrimSuffix("_"+s.opts.name, "_") }

// maxHeldShown bounds the tools that /readyz?verbose names.
const maxHeldShown = 10

// Checks say how the backend is doing, for /readyz; there are none without one.
func (s *Service) Checks() (checks []admin.Check) {
	if s.recorded != nil {
		return recordedChecks(s.recorded)
	}
	if s.Guard == nil {
		return nil
	}
	stats := s.Guard.Stats()
	answer, isAnswering := "", true
	for _, need := range s.opts.life.Status().Needs {
		if (need.Name == needAnswer || need.Name == needTools) && !need.OK {
			answer, isAnswering = need.Why+"; ", false
		}
	}
	checks = append(checks, admin.Check{
		Name: s.label("backend"), Info: s.opts.name != "", OK: isAnswering && stats.Breaker == backend.BreakerClosed,
		Detail: answer + fmt.Sprintf("circuit breaker %v, opened %d times; %d calls rejected, %d retried", stats.Breaker, stats.Opened, stats.Held, stats.Repeated),
	})
	checks = append(checks, s.addresses()...)
	for i, held := range stats.Tools {
		if i == maxHeldShown {
			return append(checks, admin.Check{Name: "tools", Info: true, Detail: fmt.Sprintf("%d more circuit breakers are not closed", len(stats.Tools)-i+stats.MoreTools)})
		}
		checks = append(checks, admin.Check{Name: "tool " + held.Tool, Info: true, Detail: fmt.Sprintf("circuit breaker %v: calls time out", held.State)})
	}
	return checks
}

// addresses say how those of a backend with many are doing: how many there are, and which get no calls, and why.
func (s *Service) addresses() []admin.Check {
	b := s.client.Balance()
	if b == nil {
		return nil
	}
	text, isWell := SayAddresses(b)
	return []admin.Check{{Name: s.label("backend addresses"), Info: true, OK: isWell, Detail: text}}
}

// SayAddresses says how the addresses of a backend are doing, and whether all are well.
func SayAddresses(b *backend.BalanceStats) (text string, isWell bool) {
	var away []string
	for _, one := range b.Addresses {
		switch one.State {
		case backend.AddressEjected:
			away = append(away, fmt.Sprintf("%s (ejected for %v: its calls failed)", one.Address, one.Left.Round(time.Second)))
		case backend.AddressUnreachable:
			away = append(away, one.Address+" (unreachable)")
		case backend.AddressReady:
		}
	}
	text = fmt.Sprintf("%d of %d addresses get calls, over %d connections; %d ejections", len(b.Addresses)-len(away), len(b.Addresses), b.Connections, b.Ejections)
	if len(away) > 0 {
		text += "; not " + strings.Join(away[:min(len(away), maxHeldShown)], ", ")
	}
	if b.Draining > 0 {
		text += fmt.Sprintf("; %d more are gone, and end their calls", b.Draining)
	}
	if b.LeftOut > 0 {
		text += fmt.Sprintf("; %d more are not used (backend.balance.max_addresses)", b.LeftOut)
	}
	if b.LookupError != "" {
		text += "; the last look-up failed: " + b.LookupError
	}
	return text, len(away) == 0 && len(b.Addresses) > 0 && b.LookupError == ""
}

// WatchTLS has the certificates for the backend read again when they change.
func (s *Service) WatchTLS(watcher *reload.Watcher) {
	watchTLS("backend_tls"+s.suffix(), s.label("backend"), s.client, watcher, s.opts.Log)
}

// WatchCredentials has the files of the backend's credentials read again when they
// change. Files that cannot be used leave the last good ones in use; the log names no value.
func (s *Service) WatchCredentials(watcher *reload.Watcher) {
	if s.client == nil || len(s.client.CredentialFiles()) == 0 {
		return
	}
	reread := reload.Keep(s.opts.Log, "backend credentials reload failed; keeping the last good ones", "backend credentials reloaded", func() ([]zap.Field, error) {
		changed, err := s.client.ReloadCredentials()
		switch {
		case err != nil:
			return nil, err
		case !changed:
			return nil, reload.ErrUnchanged
		}
		s.Refresher.Begin("credentials") // they may be what a backend waits for that refused the old ones
		return nil, nil
	})
	watcher.Add("backend_credentials"+s.suffix(), reread, s.client.CredentialFiles()...)
	reread(context.Background()) // they were read before they were watched
}

// watchTLS has the certificates of a client read again when they change. Those that cannot be used leave the last good ones in
// use. group is their name in metrics, side that of the peer in the log.
func watchTLS(group, side string, client *backend.Client, watcher *reload.Watcher, log *zap.Logger) {
	if client == nil || len(client.TLSFiles()) == 0 {
		return
	}
	watcher.Add(group, reload.Certificates(log, side, client.ReloadTLS), client.TLSFiles()...)
	if err := client.ReloadTLS(); err != nil { // they were read before they were watched
		log.Error("certificate reload failed; keeping the last good certificates", zap.String("side", side), logkey.Error(err))
	}
}

// closeTimeout bounds how long the demo service may take to end: its calls have
// ended by then.
const closeTimeout = 5 * time.Second

// Close ends what was started. The client goes first, because an idle connection
// would make the demo service wait for it.
func (s *Service) Close(ctx context.Context) error {
	var errs []error
	if s.Refresher != nil {
		s.Refresher.close()
	}
	s.behalf.stop()
	s.Clock.Stop()
	errs = append(errs, s.recorded.Close())
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.demo != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		errs = append(errs, s.demo.Close(ctx))
	}
	return errors.Join(errs...)
}
