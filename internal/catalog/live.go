// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// LiveOptions configure a Live. The zero value means the defaults.
type LiveOptions struct {
	Build BuildOptions
	// BackoffMin and BackoffMax bound the backoff after a failed load. Defaults: 100 ms and 10 s.
	BackoffMin, BackoffMax time.Duration
	// RefreshEvery is the interval between Run's loads after the first success; 0 disables them and leaves loads to Refresh.
	RefreshEvery time.Duration
	// OnLoad is called with the outcome of each load of Run and Refresh, unless the load's context ended it. It runs within
	// the load, so it must be quick.
	OnLoad func(error)
	// OnDrift is called with the difference from the lock when a catalog comes into use, unless it is the one of the catalog
	// before. It is not called without a lock. It runs within the load, so it must be quick.
	OnDrift func(lock.Drift)
	// Random provides jitter in [0, 1), which shortens backoff; nil means math/rand.
	Random func() float64
	// Types finds types that occur only in responses, within TypeLimits; nil if there is no source. See [Live.Learn].
	Types      TypeFinder
	TypeLimits TypeLimits
}

// Live holds the current catalog. It loads until it has one, replaces it as a whole, and keeps it when a later load
// fails. All methods are safe for concurrent use.
type Live struct {
	plan       atomic.Pointer[plan]
	every      time.Duration
	onLoad     func(error)
	onDrift    func(lock.Drift)
	pause      backoff // used by Run only
	current    atomic.Pointer[Catalog]
	isReduced  atomic.Bool // current is for a backend without HTTP/2
	registered registrations
	// loading holds a token while a load is under way: there is one at a time.
	loading chan struct{}
	built   origin

	types      TypeFinder
	typeLimits TypeLimits
	learns     learnCounts

	mu      sync.Mutex
	state   loadState
	settled chan struct{} // closed when there is a catalog, or can be none
	isDone  bool          // settled is closed
	watch   []*watcher
}

// plan is what a load goes by.
type plan struct {
	sources []source.Source
	build   BuildOptions
}

type watcher struct{ fn func(old, now *Catalog) }

// NewLive makes a Live of at least one source. Nothing is loaded before Run or Refresh.
func NewLive(sources []source.Source, o LiveOptions) *Live {
	defaults.Fill(&o.BackoffMin, defaultBackoffMin)
	defaults.Fill(&o.BackoffMax, defaults.MaxBackoff)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	l := &Live{
		every:   o.RefreshEvery,
		onLoad:  o.OnLoad,
		onDrift: o.OnDrift,
		pause:   backoff{min: o.BackoffMin, max: max(o.BackoffMin, o.BackoffMax), random: o.Random},
		loading: make(chan struct{}, 1),
		settled: make(chan struct{}),
		types:   o.Types, typeLimits: o.TypeLimits,
	}
	l.plan.Store(&plan{sources: slices.Clone(sources), build: o.Build})
	return l
}

// Current returns the catalog in use, or nil before the first load succeeds.
func (l *Live) Current() *Catalog { return l.current.Load() }

// Wait returns the catalog in use. If there is none yet, it waits until there is, until the context ends, or until it is
// certain that there will be none. The error is then a *NotReadyError with the reason.
func (l *Live) Wait(ctx context.Context) (*Catalog, error) {
	if c := l.Current(); c != nil {
		return c, nil
	}
	var cause error
	select {
	case <-l.settled:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	if c := l.Current(); c != nil {
		return c, nil
	}
	status := l.Status()
	return nil, &NotReadyError{Why: status.Why, Cause: errors.Join(cause, status.Err)}
}

// Run loads, with growing backoff, until there is a catalog. Then it keeps the catalog fresh until the context ends, and
// returns nil.
//
// It returns an error if the first load fails permanently (a *BuildError, a permanent *source.Error, or ErrEmpty from
// sources that do not change), so that the process can exit at startup. Once there is a catalog, failures only appear
// in Status. Call it once.
func (l *Live) Run(ctx context.Context) error {
	for {
		err := l.Refresh(ctx)
		switch {
		case isOver(ctx):
			return nil
		case err == nil:
			l.pause.reset()
			if l.every <= 0 {
				<-ctx.Done()
				return nil
			}
			l.sleep(ctx, l.every)
		case l.Current() == nil && IsPermanent(err):
			l.giveUp()
			return err
		default:
			l.sleep(ctx, l.pause.next())
		}
		if isOver(ctx) {
			return nil
		}
	}
}

// isOver reports whether the context has ended.
func isOver(ctx context.Context) bool { return ctx.Err() != nil }

// Refresh loads once. When it returns nil, the new catalog is in use, or the old one if the sources are unchanged.
// On an error, the old catalog stays in use. Concurrent calls queue up. If the context ends first, the error is the
// context's.
func (l *Live) Refresh(ctx context.Context) error { return l.load(ctx, nil) }

// Reconfigure loads once from the given sources with the given options. On success, the new catalog is in use when it
// returns, and later loads use the same sources and options. On an error, the catalog, the sources and the options stay
// as they were, and the status does not show the error.
func (l *Live) Reconfigure(ctx context.Context, sources []source.Source, build BuildOptions) error {
	return l.load(ctx, &plan{sources: slices.Clone(sources), build: build})
}

// load loads once by a plan that is used from then on where it works, or by the one in use.
func (l *Live) load(ctx context.Context, next *plan) error {
	err := l.loadOnce(ctx, next)
	if l.onLoad != nil && next == nil && ctx.Err() == nil {
		l.onLoad(err)
	}
	return err
}

// loadOnce is load without telling.
func (l *Live) loadOnce(ctx context.Context, next *plan) error {
	select {
	case l.loading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.loading }()
	by := next
	if by == nil {
		by = l.plan.Load()
		l.began()
	}
	loads, statuses, err := l.loadSources(ctx, by)
	var fresh *Catalog
	made := origin{by: by}
	switch {
	case err != nil:
	case loads != nil:
		fresh, err = l.build(ctx, &made, loads, statuses)
	case l.IsStale():
		fresh, made = l.built.kept.catalog, l.built
	default:
		l.unchanged(statuses)
		return nil
	}
	// The loads must not be used from here on: what others do when they are told includes giving memory back.
	if err == nil {
		err = l.use(fresh, by, statuses)
	}
	if err == nil {
		l.built = made
	}
	if err != nil && next == nil {
		l.failed(ctx, err, statuses)
	}
	return err
}

// tell calls those who watch where a change shows. The caller holds the lock of the registrations.
func (l *Live) tell(old, now *Catalog) {
	if old != nil && now.looksLike(old) {
		return
	}
	l.mu.Lock()
	watch := l.watch
	l.mu.Unlock()
	for _, w := range watch {
		w.fn(old, now)
	}
}

// use puts a freshly built catalog into use, with the registered tools added.
func (l *Live) use(fresh *Catalog, by *plan, statuses []SourceStatus) error {
	l.registered.mu.Lock()
	defer l.registered.mu.Unlock()
	fresh, err := fresh.hold(by.build)
	if err != nil {
		return err
	}
	isReduced := by.build.lacksHTTP2()
	if isReduced {
		if fresh, err = fresh.overHTTP1(); err != nil {
			return err
		}
	}
	fresh, err = fresh.rebind(l.registered.all, by.build.Limits.withDefaults())
	if err != nil {
		return err
	}
	l.isReduced.Store(isReduced)
	l.plan.Store(by)
	old := l.current.Swap(fresh)
	l.succeeded(statuses)
	l.tellDrift(old, fresh)
	l.tell(old, fresh)
	return nil
}

// OnChange registers fn to be called after every change visible to callers, one call at a time, until stop is called.
// The first catalog counts as a change, with old set to nil. A change affects tools, resources, or the native backend's
// description of itself. To tell the first two apart, compare the fingerprints of the catalogs and of their resources.
// fn runs within the load or the registration: it must be quick and must not call Refresh or Register.
func (l *Live) OnChange(fn func(old, now *Catalog)) (stop func()) {
	w := &watcher{fn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = append(slices.Clone(l.watch), w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watch = slices.DeleteFunc(slices.Clone(l.watch), func(x *watcher) bool { return x == w })
	}
}

// sleep waits before the next load, and says in the status when that is.
func (l *Live) sleep(ctx context.Context, d time.Duration) {
	l.mu.Lock()
	l.state.nextTry = time.Now().Add(d)
	l.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func allStatic(loads []*source.Loaded) bool {
	return !slices.ContainsFunc(loads, func(l *source.Loaded) bool { return !l.Static })
}

// emptyError is ErrEmpty, with what decides whether waiting may help.
type emptyError struct {
	cause    error
	isStatic bool
}

func (e *emptyError) Error() string { return e.cause.Error() }
func (e *emptyError) Unwrap() error { return e.cause }

// IsPermanent reports whether a load failed in a way that retrying cannot fix without a change to the setup.
func IsPermanent(err error) bool {
	var build *BuildError
	var source *source.Error
	var empty *emptyError
	return errors.As(err, &build) ||
		errors.As(err, &source) && source.Permanent ||
		errors.As(err, &empty) && empty.isStatic
}
