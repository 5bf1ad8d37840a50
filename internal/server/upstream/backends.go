// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// Backends are the backends of a sidecar: the only one, or several whose tools are offered as one catalog. Each has a client, a
// circuit breaker, loads and a diagnosis, so that one which is away takes nothing from the others. Make them with
// [OpenBackends], and their catalog with [Backends.NewLive].
type Backends struct {
	// Clock knows when this process stood still; nil without a backend.
	Clock *peer.Clock
	// Refresher loads the catalog of all on demand.
	Refresher *Refresher

	all  []*Service
	opts Options
	live *catalog.Live
}

// OpenBackends makes the clients of all backends. [Backends.Close] ends what it has started, also after an error.
func OpenBackends(ctx context.Context, o Options) (*Backends, error) {
	b := &Backends{opts: o}
	parts := config.Backends(o.Config)
	if b.isMany() && len(o.Sources) > 0 {
		return b, errors.New("backends: sources of a program need one backend; leave them out, or set backend")
	}
	ready := &readiness{life: o.Life, wanted: o.Config.GetReadyBackends()}
	// Half of all calls belong to the backends, in equal parts; what more one needs, it takes from the other half.
	all := int(o.Config.GetLimits().GetMaxConcurrentCalls())
	share, shared := all/sharedCalls/len(parts), new(atomic.Int64)
	shared.Store(int64(all - share*len(parts)))
	for i, cfg := range parts {
		own := o
		own.Config = cfg
		if b.isMany() {
			name := cfg.GetBackend().GetName()
			own.name, own.life = name, ready.of(name)
			own.Keep = nil // tools of several have one record, which cannot say whose they are
			own.Log, own.Noted = o.Log.With(zap.String("backend_name", name)), o.Noted.With(zap.String("backend_name", name))
			own.maxCalls = int(cfg.GetBackend().GetLimits().GetMaxConcurrentCalls())
			if own.maxCalls == 0 {
				own.maxCalls = max(1, all/sharedCalls)
			}
			own.ownCalls, own.sharedCalls = share, shared
		} else {
			own.life = o.Life
		}
		if i > 0 {
			own.clock = b.Clock
		}
		service, err := open(ctx, own)
		b.all = append(b.all, service)
		b.Clock = service.Clock
		if err != nil {
			return b, inBackend(own.name, err)
		}
	}
	return b, nil
}

// sharedCalls is the part of the concurrent calls that one of several backends may take, and that all have for themselves: half
// of them.
const sharedCalls = 2

// inBackend is an error with the backend that it is about; the only one has no name.
func inBackend(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("backend %s: %w", name, err)
}

func (b *Backends) isMany() bool { return len(b.opts.Config.GetBackends()) > 0 }

// NewLive makes the catalog of all backends. adjusted may change its options.
func (b *Backends) NewLive(adjusted func(catalog.LiveOptions) catalog.LiveOptions) (*catalog.Live, error) {
	parts := make([]catalog.Part, 0, len(b.all))
	for _, s := range b.all {
		cfg := s.opts.Config
		sources, build, err := s.Plan(cfg)
		if err != nil {
			return nil, inBackend(s.opts.name, err)
		}
		o := catalog.LiveOptions{
			Build: build, BackoffMax: cfg.GetCatalog().GetMaxBackoff().AsDuration(), RefreshEvery: cfg.GetCatalog().GetRefreshInterval().AsDuration(),
			OnLoad: s.Loaded, Types: s.Types(), MaxTypes: int(cfg.GetLimits().GetMaxLearnedTypes()),
		}
		if !b.isMany() {
			return catalog.NewLive(sources, adjusted(o)), nil
		}
		o.Build.Lock, o.Persists = nil, true
		live := catalog.NewLive(sources, o)
		live.OnChange(s.Changed)
		s.Serve(live)
		parts = append(parts, catalog.Part{Name: s.opts.name, Live: live})
	}
	joint, err := catalog.BuildOptionsOf(b.opts.Config, nil)
	if err != nil {
		return nil, err
	}
	return catalog.NewJoint(parts, adjusted(catalog.LiveOptions{Build: joint})), nil
}

// Serve gives the backends the catalog of all their tools, once and before all that follows.
func (b *Backends) Serve(live *catalog.Live) {
	b.live, b.Refresher = live, newRefresher(live, b.opts.Log)
	if !b.isMany() {
		b.all[0].Serve(live)
		b.all[0].Refresher = b.Refresher
	}
}

// Rebuild makes the catalog anew by a configuration that may be newer than that of the start. On an error all is as before.
func (b *Backends) Rebuild(ctx context.Context, running, next *configv1.Config) error {
	err := b.rebuild(ctx, next)
	if err != nil && b.isMany() {
		_ = b.rebuild(context.WithoutCancel(ctx), running) // it was in use, so that it can be made
	}
	return err
}

func (b *Backends) rebuild(ctx context.Context, cfg *configv1.Config) error {
	errs := make([]error, len(b.all))
	var all sync.WaitGroup
	for i, one := range config.Backends(cfg) {
		s := b.all[i]
		sources, build, err := s.Plan(one)
		if err != nil {
			errs[i] = inBackend(s.opts.name, err)
			continue
		}
		if b.isMany() {
			build.Lock = nil
		}
		all.Go(func() {
			if err := s.live.Reconfigure(ctx, sources, build); err != nil {
				errs[i] = inBackend(s.opts.name, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || !b.isMany() {
		return err
	}
	joint, err := catalog.BuildOptionsOf(cfg, nil)
	if err != nil {
		return err
	}
	return b.live.Reconfigure(ctx, nil, joint)
}

// Start lets loads on demand begin: everybody who has to hear of the first catalog listens. It is called once.
func (b *Backends) Start() {
	b.Refresher.Start()
	for _, s := range b.all {
		if s.Refresher != b.Refresher {
			s.Refresher.Start()
		}
	}
}

// Callers returns what makes the calls of each backend, by its name; the only one has none. wrap may change them.
func (b *Backends) Callers(wrap func(bridge.Upstream, bridge.Native) (bridge.Upstream, bridge.Native)) (map[string]bridge.Backend, error) {
	out := make(map[string]bridge.Backend, len(b.all))
	for i, s := range b.all {
		upstream, native := s.Callers()
		if wrap != nil {
			upstream, native = wrap(upstream, native)
		}
		metadata, err := metadataOf(s.opts.Config)
		if err != nil {
			return nil, inBackend(s.opts.name, err)
		}
		s.metadata = metadata
		if i == 0 && b.isMany() { // for what is asked of no tool
			out[""] = bridge.Backend{Upstream: bridge.NoBackend{}, Native: natives{b.all}}
		}
		out[s.opts.name] = bridge.Backend{Upstream: upstream, Native: native, Guard: s.Guard, Metadata: metadata, OnBehalf: s.behalf.source()}
	}
	return out, nil
}

// CheckBackends returns the check of the settings of each backend, before a port opens. once is for a command that calls once: it
// accepts no callers.
func CheckBackends(once bool) config.Check {
	return config.EachBackend(func(cfg *configv1.Config, report func(path, message string)) {
		backend.Check(cfg, report)
		source.Check(cfg, report)
		if !once {
			checkSubjectHeader(cfg, report)
			checkIdentity(cfg, report)
		}
	})
}

// ForwardsHeaders reports whether a backend gets headers of callers.
func (b *Backends) ForwardsHeaders() bool {
	return slices.ContainsFunc(b.all, func(s *Service) bool { return len(s.opts.Config.GetBackend().GetMetadata().GetInbound()) > 0 })
}

// Guards are what protects the calls of each backend, by its name; the only one has none, and there are none without a backend.
func (b *Backends) Guards() map[string]*backend.Guard {
	out := map[string]*backend.Guard{}
	for _, s := range b.all {
		if s.Guard != nil {
			out[s.opts.name] = s.Guard
		}
	}
	return out
}

// Balances count the addresses of each backend that has many, by its name; the only one has none.
func (b *Backends) Balances() map[string]func() *backend.BalanceStats {
	out := map[string]func() *backend.BalanceStats{}
	for _, s := range b.all {
		if s.client != nil && s.client.Target().IsSpread() {
			out[s.opts.name] = s.client.Balance
		}
	}
	return out
}

// Follow forwards the changes that native backends report, once they run.
func (b *Backends) Follow(feed *notify.Feed, publish func(notify.Change)) {
	for _, s := range b.all {
		s.Follow(feed, publish)
	}
}

// Run looks after the backends until ctx ends.
func (b *Backends) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range b.all {
		all.Go(func() { s.Run(ctx) })
	}
	all.Wait()
}

// Changed takes another catalog of all, the first one in place of nil. Several backends hear of their own.
func (b *Backends) Changed(old, now *catalog.Catalog) {
	if !b.isMany() {
		b.all[0].Changed(old, now)
	}
}

// Fatal logs why the first catalog can never be loaded, and what to do.
func (b *Backends) Fatal(ctx context.Context, err error) { b.all[0].Fatal(ctx, err) }

// Diagnosers return the diagnosis of each backend.
func (b *Backends) Diagnosers() []Diagnoser {
	out := make([]Diagnoser, 0, len(b.all))
	for _, s := range b.all {
		out = append(out, s.Diagnoser())
	}
	return out
}

// Diagnose finds out why a load of the catalog failed: that of the only backend, or of the first that failed.
func (b *Backends) Diagnose(ctx context.Context, err error) Diagnosis {
	for _, s := range b.all {
		if s.live == nil || !b.isMany() {
			break
		}
		if failed := s.live.Status().Err; failed != nil {
			d := s.Diagnoser().Diagnose(ctx, failed)
			d.What = "backend " + s.opts.name + ": " + d.What
			return d
		}
	}
	return b.all[0].Diagnoser().Diagnose(ctx, err)
}

// Checks say how the backends are doing, for /readyz.
func (b *Backends) Checks() (checks []admin.Check) {
	if b.isMany() {
		for _, need := range b.opts.Life.Status().Needs {
			if need.Name == needBackends {
				checks = append(checks, admin.Check{Name: needBackends, OK: need.OK, Detail: need.Why})
			}
		}
	}
	for _, s := range b.all {
		checks = append(checks, s.Checks()...)
	}
	return checks
}

// WatchTLS has the certificates for the backends read again when they change.
func (b *Backends) WatchTLS(watcher *reload.Watcher) {
	for _, s := range b.all {
		s.WatchTLS(watcher)
	}
}

// Certificates returns when the certificates that the sidecar shows to its backends end, by what they are for.
func (b *Backends) Certificates() map[string]time.Time {
	out := map[string]time.Time{}
	for _, s := range b.all {
		if s.client == nil {
			continue
		}
		if ends, ok := s.client.CertificateExpires(); ok {
			out["client certificate for "+s.label("backend")] = ends
		}
	}
	return out
}

// WatchCredentials has the files of the backends' credentials read again when they change.
func (b *Backends) WatchCredentials(watcher *reload.Watcher) {
	for _, s := range b.all {
		s.WatchCredentials(watcher)
	}
}

// Close ends what was started.
func (b *Backends) Close(ctx context.Context) error {
	var errs []error
	if b.Refresher != nil {
		b.Refresher.close()
	}
	for _, s := range b.all {
		errs = append(errs, s.Close(ctx))
	}
	return errors.Join(errs...)
}

// Keep returns what keeps a caller's token for an exchange; nil where no backend is called with one.
func (b *Backends) Keep() func(context.Context, string) context.Context {
	for _, s := range b.all {
		if s.behalf.keep != nil {
			return s.behalf.keep
		}
	}
	return nil
}

// Keys serves the keys of signed tokens, which all backends share; nil where none is called with one.
func (b *Backends) Keys() http.Handler {
	for _, s := range b.all {
		if s.behalf.keys != nil {
			return s.behalf.keys
		}
	}
	return nil
}

// Identity counts what was made in the name of callers, for all backends together; nil in the modes that make nothing.
func (b *Backends) Identity() func() export.Identity {
	var makers []tokenMaker
	for _, s := range b.all {
		if s.behalf.maker != nil {
			makers = append(makers, s.behalf.maker)
		}
	}
	if makers == nil {
		return nil
	}
	return func() export.Identity {
		var sum behalf.Stats
		for _, m := range makers {
			sum = sum.With(m.Stats())
		}
		return export.Identity(sum)
	}
}

// WatchIdentity has the client secrets and signing keys read again when they change.
func (b *Backends) WatchIdentity(watcher *reload.Watcher, log *zap.Logger) {
	for _, s := range b.all {
		s.behalf.watch(watcher, s.behalf.group+s.suffix(), log)
	}
}

// needBackends is what several backends are together, as probes name it.
const needBackends = "backends"

// readiness is whether as many of several backends can be used as must be.
type readiness struct {
	life *lifecycle.Machine
	// wanted are names of backends, or "any", or "all".
	wanted []string

	mu    sync.Mutex
	order []*partLife
}

// partLife is what one of several backends says of itself.
type partLife struct {
	of    *readiness
	name  string
	needs []lifecycle.Need
}

// of returns where a backend says how it is doing.
func (r *readiness) of(name string) *partLife {
	p := &partLife{of: r, name: name}
	r.order = append(r.order, p)
	return p
}

// Set implements [life].
func (p *partLife) Set(need string, ok bool, why string) {
	r := p.of
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(p.needs, func(n lifecycle.Need) bool { return n.Name == need })
	if at < 0 {
		at = len(p.needs)
		p.needs = append(p.needs, lifecycle.Need{Name: need})
	}
	p.needs[at].OK, p.needs[at].Why = ok, why
	isReady, text := r.now()
	r.life.Set(needBackends, isReady, text)
}

// Status implements [life].
func (p *partLife) Status() lifecycle.Status {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return lifecycle.Status{Needs: slices.Clone(p.needs)}
}

// now says whether enough backends can be used, and which cannot.
func (r *readiness) now() (ok bool, why string) {
	var away []string
	usable, missing := 0, false
	for _, p := range r.order {
		at := slices.IndexFunc(p.needs, func(n lifecycle.Need) bool { return !n.OK })
		if at < 0 && len(p.needs) > 0 {
			usable++
			continue
		}
		said := "not asked yet"
		if at >= 0 {
			said = p.needs[at].Why
		}
		away = append(away, p.name+" ("+said+")")
		missing = missing || slices.Contains(r.wanted, p.name) || slices.Contains(r.wanted, "all")
	}
	text := fmt.Sprintf("%d of %d backends can be used", usable, len(r.order))
	if len(away) > 0 {
		text += "; not " + strings.Join(away[:min(len(away), maxHeldShown)], ", ")
	}
	return !missing && usable > 0, text
}
