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

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// LiveOptions configure a Live. The zero value takes the defaults.
type LiveOptions struct {
	Build BuildOptions
	// BackoffMin and BackoffMax bound the pause after a failed load. Defaults: 100 ms and 10 s.
	BackoffMin, BackoffMax time.Duration
	// RefreshEvery is how often Run loads again after the first success; 0 leaves it to Refresh.
	RefreshEvery time.Duration
	// OnLoad is told how each load of Run and Refresh ended, unless its context ended it. It runs within the load: it must
	// be quick.
	OnLoad func(error)
	// Random shortens pauses, in [0, 1); nil means math/rand.
	Random func() float64
	// Types is asked for types that only answers name, within TypeLimits; nil where there is no source. See [Live.Learn].
	Types      TypeFinder
	TypeLimits TypeLimits
}

// Live keeps the current catalog. It loads until it has one, replaces it as a whole, and keeps it when a later load
// fails. All methods are safe for concurrent use.
type Live struct {
	plan       atomic.Pointer[plan]
	every      time.Duration
	onLoad     func(error)
	pause      backoff // used by Run only
	current    atomic.Pointer[Catalog]
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
		pause:   backoff{min: o.BackoffMin, max: max(o.BackoffMin, o.BackoffMax), random: o.Random},
		loading: make(chan struct{}, 1),
		settled: make(chan struct{}),
		types:   o.Types, typeLimits: o.TypeLimits,
	}
	l.plan.Store(&plan{sources: slices.Clone(sources), build: o.Build})
	return l
}

// Current is the catalog in use, nil before the first.
func (l *Live) Current() *Catalog { return l.current.Load() }

// Wait returns the catalog in use, or waits for the first one until the context ends or it is certain that there will
// be none. The error is then a *NotReadyError that says why.
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

// Run loads, with growing pauses, until there is a catalog, then keeps it fresh until the context ends, and returns nil.
//
// It returns an error where the first load fails in a way that waiting cannot mend (a *BuildError, a permanent
// *source.Error, or ErrEmpty from sources that do not change), so that the process can stop at its start. Once there is
// a catalog, failures only show in Status. Call it once.
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

// Refresh loads once. On success the new catalog is in use when it returns, or the old one where the sources bring what
// they brought before; on an error the old one stays. Calls queue
// up; the error is the context's where it ends first.
func (l *Live) Refresh(ctx context.Context) error { return l.load(ctx, nil) }

// Reconfigure loads once from these sources with these options. On success the new catalog is in use when it returns, and
// later loads go by them too. On an error everything stays as it was: the catalog, and what the next load goes by; the
// status says nothing of it.
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
	if err == nil && loads == nil {
		l.unchanged(statuses)
		return nil
	}
	var fresh *Catalog
	made := origin{by: by}
	if err == nil {
		fresh, err = l.build(ctx, &made, loads, statuses)
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
	fresh, err := fresh.rebind(l.registered.all, by.build.Limits.withDefaults())
	if err != nil {
		return err
	}
	l.plan.Store(by)
	old := l.current.Swap(fresh)
	l.succeeded(statuses)
	l.tell(old, fresh)
	return nil
}

// OnChange has fn called after every change that callers can see, the first catalog included (old is then nil), with
// one call at a time, until stop is called. What has changed are tools, resources, or what the native backend says about
// itself; the fingerprints of the catalogs and of their resources tell the first two apart. fn runs within the load or
// the registration: it must be quick and must not call Refresh or Register.
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

// IsPermanent reports whether a load failed in a way that trying again cannot help, until someone changes something.
func IsPermanent(err error) bool {
	var build *BuildError
	var source *source.Error
	var empty *emptyError
	return errors.As(err, &build) ||
		errors.As(err, &source) && source.Permanent ||
		errors.As(err, &empty) && empty.isStatic
}
