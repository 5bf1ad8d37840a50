// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/source"
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
	// Types finds types that occur only in google.protobuf.Any values of responses; nil if there is no source. See
	// [Live.Learn]. MaxTypes is the maximum number of learned types in one catalog; values of further types stay bytes, and
	// no server is asked if it is 0.
	Types    TypeFinder
	MaxTypes int
	// Persists has Run try again also where the first load failed permanently, and Reconfigure keep what it was given where a source
	// is away: for one of several backends.
	Persists bool
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

	types    TypeFinder
	maxTypes int
	persists bool
	learns   learnCounts

	// parts are the backends whose catalogs are shown as one; nil for one alone. stirred is sent to when one has changed.
	parts   []Part
	stirred chan struct{}
	// swapped is called with each catalog that comes into use, whether callers see a difference or not; nil calls nothing.
	swapped func()
	// before is called with each catalog before anyone can get it; nil calls nothing.
	before atomic.Pointer[func(*Catalog)]

	mu      sync.Mutex
	state   loadState
	settled chan struct{} // closed when there is a catalog, or can be none
	isDone  bool          // settled is closed
	watch   []*watcher
}

// plan has the sources and options of a load.
type plan struct {
	sources []source.Source
	build   BuildOptions
}

type watcher struct{ fn func(old, now *Catalog) }

// NewLive makes a Live of at least one source. Nothing is loaded before Run or Refresh.
func NewLive(sources []source.Source, o LiveOptions) *Live {
	defaults.Fill(&o.BackoffMin, defaultBackoffMin)
	defaults.Fill(&o.BackoffMax, defaults.CatalogMaxBackoff)
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
		types:   o.Types, maxTypes: o.MaxTypes, persists: o.Persists,
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
	if l.parts != nil {
		return l.runParts(ctx)
	}
	for ctx.Err() == nil {
		err := l.Refresh(ctx)
		switch {
		case ctx.Err() != nil: // whatever came of it
		case err == nil:
			l.pause.reset()
			if l.every <= 0 {
				<-ctx.Done()
				return nil
			}
			l.sleep(ctx, l.every)
		case l.Current() == nil && IsPermanent(err) && !l.persists:
			l.giveUp()
			return err
		default:
			l.sleep(ctx, l.pause.next())
		}
	}
	return nil
}

// Refresh loads once. When it returns nil, the new catalog is in use, or the old one if the sources are unchanged.
// On an error, the old catalog stays in use. Concurrent calls queue up. If the context ends first, the error is the
// context's.
//
// Of several parts, those that fail keep their tools, and are an error, after the others are in use. With names, only the parts of
// these are loaded; where there is one catalog, they say nothing.
func (l *Live) Refresh(ctx context.Context, names ...string) error {
	if l.parts != nil {
		return l.refreshParts(ctx, names)
	}
	return l.load(ctx, nil)
}

// Reconfigure loads once from the given sources with the given options. On success, the new catalog is in use when it
// returns, and later loads use the same sources and options. On an error, the catalog, the sources and the options stay
// as they were, and the status does not show the error.
func (l *Live) Reconfigure(ctx context.Context, sources []source.Source, build BuildOptions) error {
	next := &plan{sources: slices.Clone(sources), build: build}
	if l.parts != nil {
		l.plan.Store(next)
		return l.join(ctx)
	}
	return l.load(ctx, next)
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
		l.succeeded(statuses, false)
		return nil
	}
	// The loads must not be used from here on: what others do when they are told includes giving memory back.
	if err == nil {
		err = l.use(fresh, by, statuses)
	}
	switch {
	case err == nil:
		l.built = made
	case next == nil:
		l.failed(ctx, err, statuses)
	case l.persists && ctx.Err() == nil && (!IsPermanent(err) || IsPermanent(l.Status().Err)):
		l.plan.Store(next) // for the time when the backend is back, or no longer broken as it was before
		return nil
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
	old := l.swap(fresh)
	if l.swapped != nil {
		l.swapped()
	}
	l.succeeded(statuses, true)
	l.tellDrift(old, fresh)
	l.tell(old, fresh)
	return nil
}

// BeforeUse registers fn to be called with each catalog that comes into use, before anyone can get it, whether callers see a difference
// or not. What must know the tools before the first call of them hangs on it. There is one such function.
func (l *Live) BeforeUse(fn func(*Catalog)) { l.before.Store(&fn) }

// swap brings a catalog into use, and returns the one before.
func (l *Live) swap(fresh *Catalog) *Catalog {
	if before := l.before.Load(); before != nil {
		(*before)(fresh)
	}
	return l.current.Swap(fresh)
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
	l.state.NextTry = time.Now().Add(d)
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

// TypeFinder asks a server for the files that define a message. [source.NewReflection] returns one.
type TypeFinder interface {
	FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error)
}

// LearnStats counts the lookups of a Live.
type LearnStats struct {
	// Types is the number of types that the catalog in use has learned.
	Types int
	// Found and Failed count the lookups that found a type and those that did not. Refused counts lookups that a limit
	// prevented.
	Found, Failed, Refused uint64
}

// learnCounts are the counts of LearnStats.
type learnCounts struct{ found, failed, refused atomic.Uint64 }

// LearnStats returns the counts since the start.
func (l *Live) LearnStats() LearnStats {
	out := LearnStats{Found: l.learns.found.Load(), Failed: l.learns.failed.Load(), Refused: l.learns.refused.Load()}
	for _, p := range l.parts {
		one := p.Live.LearnStats()
		out.Types, out.Found, out.Failed, out.Refused = out.Types+one.Types, out.Found+one.Found, out.Failed+one.Failed, out.Refused+one.Refused
	}
	if l.parts != nil {
		return out
	}
	if c := l.Current(); c != nil {
		if types := c.types.learned.types.Load(); types != nil {
			out.Types = len(*types)
		}
	}
	return out
}

// Learn asks the backend for the types, given by URL, that a response named. It reports whether the catalog knows any of
// them afterwards. Concurrent callers share one request per type, and failed lookups are remembered for some time.
// The context bounds the call. Use it for responses only: input from a caller must not cause the sidecar to ask a backend.
func (l *Live) Learn(ctx context.Context, c *Catalog, urls []string) bool {
	for _, p := range l.parts {
		if p.Name == c.backend {
			return p.Live.Learn(ctx, c, urls)
		}
	}
	if l.types == nil || l.maxTypes <= 0 {
		return false
	}
	knows := false
	for _, url := range urls {
		name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
		if ctx.Err() != nil {
			return knows
		}
		if len(name) <= maxTypeName && name.IsValid() && l.learn(ctx, c.types.learned, name) {
			knows = true
		}
	}
	return knows
}

// maxTypeName bounds the names that are asked for.
const maxTypeName = 512

// learn makes sure that one type is known, and reports whether it is.
func (l *Live) learn(ctx context.Context, k *learned, name protoreflect.FullName) bool {
	for {
		isKnown, isMine, isRefused, wait := k.decide(name, l.maxTypes)
		switch {
		case isRefused:
			l.learns.refused.Add(1)
			return false
		case isMine:
			return l.ask(ctx, k, name)
		case wait == nil:
			return isKnown
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return false
		}
	}
}

// ask asks for one type and keeps what comes of it.
func (l *Live) ask(ctx context.Context, k *learned, name protoreflect.FullName) bool {
	var files *protoregistry.Files
	var size int
	var mt protoreflect.MessageType
	var err error
	select {
	case k.slots <- struct{}{}:
		files, size, err = l.fetch(ctx, name)
		<-k.slots
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		if mt = messageIn(files, name); mt == nil {
			err = source.ErrRefused // the files of the answer do not define the message
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.asking[name])
	delete(k.asking, name)
	if err == nil {
		k.files, k.bytes = append(k.files, files), k.bytes+size
		k.add(name, mt)
		l.learns.found.Add(1)
		return true
	}
	l.learns.failed.Add(1)
	switch {
	case errors.Is(err, source.ErrRefused), connect.CodeOf(err) == connect.CodeUnimplemented:
		k.failed[name] = time.Now().Add(refusedFor)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil: // its caller has gone, which says nothing of the type
	default:
		k.failed[name] = time.Now().Add(failedFor)
	}
	return false
}

// fetch asks the server, and links what it sends by itself: it need not fit the files of the catalog.
func (l *Live) fetch(ctx context.Context, name protoreflect.FullName) (*protoregistry.Files, int, error) {
	files, err := l.types.FindType(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	size := 0
	for _, f := range files {
		size += proto.Size(f)
	}
	merged, err := mergeFiles([]*source.Loaded{{Source: "reflection", Files: files}}, nil)
	if err != nil {
		return nil, 0, err
	}
	linked, err := linkFiles(merged, nil, l.plan.Load().build.Rivals)
	if err != nil {
		return nil, 0, err
	}
	return linked.registry, size, nil
}

// origin is what the catalog in use was built of; the token of a load guards it.
type origin struct {
	by *plan
	// revisions are what to recognise the next load of each source of by by, nil for those that cannot tell. statuses are what
	// this one counted.
	revisions []*source.Revision
	statuses  []SourceStatus
	kept      *kept
}

// loadSources loads by a plan. It brings nothing where all sources bring what the catalog in use was built of.
func (l *Live) loadSources(ctx context.Context, by *plan) (loads []*source.Loaded, statuses []SourceStatus, err error) {
	from := origin{}
	if l.built.by == by {
		from = l.built
	}
	used := l.built.revisions
	loads, statuses, err = from.loadAll(ctx, by.sources, used)
	if err != nil || !slices.ContainsFunc(loads, func(load *source.Loaded) bool { return load != nil }) {
		return nil, statuses, err
	}
	// One has changed, so that a catalog is built. Of the others it needs what it does not have.
	for i, load := range loads {
		if load != nil {
			continue
		}
		if known := from.kept.loads[i]; known != nil && len(known.Revision.Needed) == 0 {
			loads[i] = known
			continue
		}
		some, status, failed := new(origin).loadAll(ctx, by.sources[i:i+1], used)
		loads[i], statuses[i], err = some[0], status[0], errors.Join(err, failed)
	}
	return loads, statuses, err
}

// build builds a catalog of loads, on top of the one in use where it was made in the same way. Where that does not come
// out, it is done again from nothing: that costs more, and depends on nothing else.
func (l *Live) build(ctx context.Context, made *origin, loads []*source.Loaded, statuses []SourceStatus) (*Catalog, error) {
	var before *kept
	if l.built.by == made.by {
		before = l.built.kept
	}
	fresh, now, err := build(loads, made.by.build, before)
	if err != nil && before != nil {
		all, again, failed := new(origin).loadAll(ctx, made.by.sources, revisionsOf(loads))
		copy(loads, all)
		copy(statuses, again)
		if failed != nil {
			return nil, failed
		}
		fresh, now, err = build(loads, made.by.build, nil)
	}
	if errors.Is(err, ErrEmpty) {
		err = &emptyError{cause: err, isStatic: allStatic(loads)}
	}
	made.kept, made.revisions, made.statuses = now, revisionsOf(loads), statuses
	return fresh, err
}

// loadAll loads all sources at the same time, and brings nil for those that are unchanged. Those without a revision bring
// all, with the help of the revisions that are used. It fails if one fails: half a catalog would look like a change.
func (o *origin) loadAll(ctx context.Context, sources []source.Source, used []*source.Revision) ([]*source.Loaded, []SourceStatus, error) {
	loads := make([]*source.Loaded, len(sources))
	statuses := make([]SourceStatus, len(sources))
	errs := make([]error, len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() {
			start := time.Now()
			isKnown := i < len(o.revisions) && o.revisions[i] != nil
			if isKnown {
				loads[i], errs[i] = source.Load(ctx, s, o.revisions[i])
			} else {
				loads[i], errs[i] = source.Recall(ctx, s, used)
			}
			statuses[i] = SourceStatus{Name: s.Name(), At: start, Took: time.Since(start), Err: errs[i]}
			switch load := loads[i]; {
			case load == nil && errs[i] == nil && isKnown:
				before := o.statuses[i]
				statuses[i].Files, statuses[i].Services, statuses[i].Tools = before.Files, before.Services, before.Tools
			case load != nil:
				statuses[i].Files, statuses[i].Services = len(load.Files)+len(load.Same), countServices(load, o.kept.linkage())
				if load.Native != nil {
					statuses[i].Tools = len(load.Native.Tools)
				}
			}
		})
	}
	all.Wait()
	return loads, statuses, errors.Join(errs...)
}

func countServices(load *source.Loaded, before *keptFiles) int {
	if load.Services != nil {
		return len(load.Services)
	}
	n := 0
	for _, f := range load.Files {
		n += len(f.GetService())
	}
	for _, path := range load.Same {
		if f := before.file(path); f != nil {
			n += f.descriptor.Services().Len()
		}
	}
	return n
}

// revisionsOf are what to recognise loads by.
func revisionsOf(loads []*source.Loaded) []*source.Revision {
	out := make([]*source.Revision, len(loads))
	for i, load := range loads {
		out[i] = load.Revision
	}
	return out
}

// defaultBackoffMin is the first pause between two loads: short, because a sidecar and its backend start together.
const defaultBackoffMin = 100 * time.Millisecond

// backoff hands out pauses that double from min to max, each shortened by up to half at random, so that many sidecars
// of one backend do not ask it all at once.
type backoff struct {
	min, max time.Duration
	random   func() float64 // in [0, 1)
	failures int
}

// next is the pause after one more failure.
func (b *backoff) next() time.Duration {
	d := b.max
	// Beyond 30 doublings the maximum is reached from any minimum, and the shift would overflow.
	if b.failures < 30 {
		d = min(b.max, b.min<<b.failures)
	}
	b.failures++
	return d/2 + time.Duration(b.random()*float64(d/2))
}

// reset starts over after a success.
func (b *backoff) reset() { b.failures = 0 }

// Change is the difference between two catalogs that is visible to callers.
type Change struct {
	// Added and Changed are tools of the newer catalog, sorted by name.
	// A changed tool differs in anything visible to callers, not only in a schema.
	Added, Changed []*Tool
	// Removed are the names of tools that only the older catalog has, sorted.
	Removed []string
}

// shownNames bounds the names of each kind in the text of a change.
const shownNames = 20

// AddedNames returns the names of the first 20 tools that are new, and how many more there are as the last one.
func (c Change) AddedNames() []string { return firstNames(namesOfTools(c.Added)) }

// ChangedNames returns the names of the tools that look different, as AddedNames does.
func (c Change) ChangedNames() []string { return firstNames(namesOfTools(c.Changed)) }

// RemovedNames returns the names of the tools that are gone, as AddedNames does.
func (c Change) RemovedNames() []string { return firstNames(c.Removed) }

// String returns the change in words, as in "removed: shop.put; added: shop.drop, shop.take". It is empty if no tool differs.
func (c Change) String() string {
	var out []string
	for _, part := range [...]struct {
		what  string
		names []string
	}{{"removed", c.RemovedNames()}, {"added", c.AddedNames()}, {"changed", c.ChangedNames()}} {
		if len(part.names) > 0 {
			out = append(out, part.what+": "+strings.Join(part.names, ", "))
		}
	}
	return strings.Join(out, "; ")
}

func namesOfTools(tools []*Tool) []string {
	out := make([]string, 0, min(len(tools), shownNames+1))
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}

func firstNames(names []string) []string {
	if more := len(names) - shownNames; more > 0 {
		return append(slices.Clone(names[:shownNames]), fmt.Sprintf("%d more", more))
	}
	return names
}

// looksLike reports whether callers see no difference from another catalog.
func (c *Catalog) looksLike(old *Catalog) bool {
	return c.fingerprint == old.fingerprint && c.resources.Fingerprint() == old.resources.Fingerprint() &&
		proto.Equal(c.description, old.description)
}

// Since compares the catalog with an older one. If old is nil, every tool is new.
func (c *Catalog) Since(old *Catalog) Change {
	var out Change
	var before []*Tool
	if old != nil {
		before = old.Tools()
	}
	for _, t := range c.Tools() {
		for len(before) > 0 && before[0].Name < t.Name {
			out.Removed = append(out.Removed, before[0].Name)
			before = before[1:]
		}
		if len(before) == 0 || before[0].Name != t.Name {
			out.Added = append(out.Added, t)
			continue
		}
		if before[0].sealed != t.sealed {
			out.Changed = append(out.Changed, t)
		}
		before = before[1:]
	}
	for _, t := range before {
		out.Removed = append(out.Removed, t.Name)
	}
	return out
}

// Status is the state of the catalog.
type Status struct {
	// Ready is true if there is a catalog.
	Ready bool
	// Why explains why there is no catalog, or why the last refresh failed. It is empty if there is no problem.
	Why string
	// Err is the error of the last load; nil if it succeeded.
	Err error
	// Loads counts all loads so far. Failures counts those since the last success.
	Loads, Failures int
	// Loaded is the time of the last successful load. Built is the time when the catalog in use was built: an unchanged
	// load does not rebuild it. NextTry is the time of Run's next load. Each is zero if unknown.
	Loaded, Built, NextTry time.Time
	// Sources hold the result of each source in the last load, in configuration order.
	Sources []SourceStatus
}

// SourceStatus is the result of one source.
type SourceStatus struct {
	Name string
	// Err is nil if the load succeeded.
	Err error
	// At is the start of the load. Took is its duration.
	At   time.Time
	Took time.Duration
	// Files, Services and Tools count what the load returned. Tools are those that a native backend declares.
	Files, Services, Tools int
}

// NotReadyError is the reason why there is no catalog yet.
type NotReadyError struct {
	// Why explains the reason to people.
	Why string
	// Cause joins the error that ended the wait and the error of the last load.
	Cause error
}

// Error returns the reason as text.
func (e *NotReadyError) Error() string { return "no tools yet: " + e.Why }

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Cause }

// loadState is what is known of the loads; Live.mu guards it.
type loadState struct {
	Status // without Ready and Why

	isLoading, isHopeless bool
}

// Status returns a snapshot of the catalog's state.
func (l *Live) Status() Status {
	isReady := l.Current() != nil
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.state.Status
	out.Ready, out.Why = isReady, l.state.why(isReady)
	if l.parts != nil {
		out.Loads, out.Loaded = 0, time.Time{}
	}
	for _, p := range l.parts {
		one := p.Live.Status()
		// As an alert wants to hear of them: the most failures in a row, and the last load that is longest ago. What never loaded
		// shows as failures.
		out.Loads, out.Failures = out.Loads+one.Loads, max(out.Failures, one.Failures)
		if out.Loaded.IsZero() || !one.Loaded.IsZero() && one.Loaded.Before(out.Loaded) {
			out.Loaded = one.Loaded
		}
		out.Sources = append(out.Sources, one.Sources...)
	}
	return out
}

// why puts the state in words.
func (s loadState) why(isReady bool) string {
	switch {
	case s.Err == nil && isReady:
		return ""
	case s.Err == nil && s.isLoading:
		return "the first load is in progress"
	case s.Err == nil:
		return "loading has not started"
	}
	text := oneLine(s.Err)
	if isReady {
		text = "last refresh failed; keeping the previous catalog: " + text
	}
	switch {
	case s.isHopeless:
		return text
	case s.isLoading:
		return text + "; retrying now"
	case s.NextTry.IsZero():
		return text
	}
	left := max(0, time.Until(s.NextTry))
	unit := 100 * time.Millisecond
	if left >= time.Second {
		unit = time.Second
	}
	return fmt.Sprintf("%s; next attempt in %v", text, left.Round(unit))
}

func (l *Live) began() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isLoading = true
	l.state.Loads++
	l.state.NextTry = time.Time{}
}

// failed notes a load that brought nothing. One that its caller gave up says nothing about the sources.
func (l *Live) failed(ctx context.Context, err error, sources []SourceStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isLoading = false
	if ctx.Err() != nil {
		return
	}
	l.state.Failures++
	l.state.Err, l.state.Sources = err, sources
}

// succeeded notes a load that replaced the catalog, or brought what the catalog in use was built of.
func (l *Live) succeeded(sources []SourceStatus, isBuilt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state
	s.isLoading, s.Failures, s.Err, s.Sources, s.Loaded = false, 0, nil, sources, time.Now()
	if isBuilt {
		s.isHopeless, s.Built = false, s.Loaded
		l.wakeWaiters()
	}
}

// giveUp notes that there will be no catalog.
func (l *Live) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isHopeless = true
	l.wakeWaiters()
}

// wakeWaiters lets those who wait go on. The caller holds the lock.
func (l *Live) wakeWaiters() {
	if !l.isDone {
		l.isDone = true
		close(l.settled)
	}
}

// IsStale reports whether a load would change the catalog for what became known about the backend since the last one: see
// BuildOptions.LacksHTTP2.
func (l *Live) IsStale() bool {
	return l.parts == nil && l.Current() != nil && l.plan.Load().build.lacksHTTP2() != l.isReduced.Load()
}

func (o BuildOptions) lacksHTTP2() bool { return o.LacksHTTP2 != nil && o.LacksHTTP2() }

// overHTTP1 is a fresh catalog without the tools that a backend without HTTP/2 can never run, and with a warning for each.
// Typed callers still find them, and get the reason from the call.
func (c *Catalog) overHTTP1() (*Catalog, error) {
	var lost []source.Warning
	isDuplex := func(t *Tool) bool { return !t.Native && t.Method.ClientStreaming && t.Method.ServerStreaming }
	out := c.Only(func(t *Tool) bool { return !isDuplex(t) })
	for _, t := range c.Tools() {
		if isDuplex(t) {
			lost = append(lost, source.Warning{Subject: t.Subject(), Text: "left out of the lists: a bidirectional stream needs HTTP/2, and the backend " +
				"offers HTTP/1.1 only; serve HTTP/2 (h2c without TLS), or leave the method out with --exclude"})
		}
	}
	if len(out.Tools()) == 0 && len(lost) > 0 {
		return nil, &emptyError{cause: fmt.Errorf("%w: the backend offers HTTP/1.1 only, and every method is a bidirectional stream, which needs HTTP/2", ErrEmpty)}
	}
	out.derived = c.derived
	out.warnings = slices.Concat(c.warnings, lost)
	slices.SortStableFunc(out.warnings, bySubject)
	return out, nil
}

// Part is one of several backends whose catalogs a [Live] shows as one.
type Part struct {
	// Name is the name of the backend, which its catalogs have as BuildOptions.Backend.
	Name string
	Live *Live
}

const (
	// joinSettle is how long the first catalog waits for further parts after one has tools: the backends of one machine start
	// together, and each change makes clients list again.
	joinSettle = time.Second
	// joinGap is the shortest time between two joins: parts that change together become one change.
	joinGap = 100 * time.Millisecond
)

// NewJoint makes a Live that shows the catalogs of parts as one. Parts load and fail by themselves: one that is away keeps its last
// good tools, and takes nothing from the others. Of two tools of one name, that of the earlier part is shown, except that a name never
// changes its backend while that has the tool. Options of the build but for the lock are those of the parts.
func NewJoint(parts []Part, o LiveOptions) *Live {
	l := NewLive(nil, o)
	l.parts, l.stirred = slices.Clone(parts), make(chan struct{}, 1)
	for _, p := range l.parts {
		p.Live.swapped = l.stir
	}
	return l
}

// runParts is Run of a Live that has parts. It returns an error if no part can ever have a catalog.
func (l *Live) runParts(ctx context.Context) error {
	ended := make(chan error, len(l.parts))
	for _, part := range l.parts {
		go func() { ended <- part.Live.Run(ctx) }()
	}
	left, hopeless := len(l.parts), []error(nil)
	finish := func(err error) {
		if left--; err != nil {
			hopeless = append(hopeless, err)
			l.stir()
		}
	}
	defer func() {
		for left > 0 {
			finish(<-ended)
		}
	}()
	var settle <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			finish(err)
			if len(hopeless) == len(l.parts) {
				l.failed(ctx, errors.Join(hopeless...), nil)
				l.giveUp()
				return errors.Join(hopeless...)
			}
			continue
		case <-settle:
		case <-l.stirred:
			if l.Current() == nil && !l.areSettled() {
				if settle == nil {
					settle = time.After(joinSettle)
				}
				continue
			}
		}
		settle = nil
		if err := l.join(ctx); err != nil && ctx.Err() == nil {
			l.failed(ctx, err, nil)
		}
		select {
		case <-time.After(joinGap):
		case <-ctx.Done():
		}
	}
}

// stir has parts joined again, soon.
func (l *Live) stir() {
	select {
	case l.stirred <- struct{}{}:
	default:
	}
}

// areSettled reports whether each part has had tools, or has failed.
func (l *Live) areSettled() bool {
	return !slices.ContainsFunc(l.parts, func(p Part) bool {
		s := p.Live.Status()
		return !s.Ready && s.Err == nil
	})
}

// refreshParts loads the parts of these names, or all, at once, and joins what there is. Parts that fail are an error, after the
// others are in use.
func (l *Live) refreshParts(ctx context.Context, names []string) error {
	errs := make([]error, len(l.parts))
	var all sync.WaitGroup
	for i, p := range l.parts {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		all.Go(func() {
			if err := p.Live.Refresh(ctx); err != nil {
				errs[i] = fmt.Errorf("backend %s: %w", p.Name, err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var joining error
	if slices.ContainsFunc(l.parts, func(p Part) bool { return p.Live.Current() != nil }) {
		joining = l.join(ctx)
	}
	err := errors.Join(errors.Join(errs...), joining)
	if l.onLoad != nil {
		l.onLoad(err)
	}
	return err
}

// join puts the catalogs of the parts into use that have one.
func (l *Live) join(ctx context.Context) error {
	select {
	case l.loading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.loading }()
	by := l.plan.Load()
	var parts []*Catalog
	for _, p := range l.parts {
		if c := p.Live.Current(); c != nil {
			parts = append(parts, c)
		}
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: no backend has any yet", ErrEmpty)
	}
	l.began()
	joint, err := joined(parts, l.Current(), by.build.Limits.withDefaults().MaxTools)
	if err != nil {
		return err
	}
	return l.use(joint, by, nil)
}
