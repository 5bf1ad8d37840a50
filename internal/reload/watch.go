// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// settle is the pause after which a file that has changed is looked at again,
	// and maxSettle how often: a writer in place gets time to finish. A file
	// that changes all the time is read as it is.
	settle    = 100 * time.Millisecond
	maxSettle = 10
	// ReadTimeout bounds one reload of a group that is not slow. A reload must not block
	// the other groups indefinitely.
	ReadTimeout = time.Minute
	// A slow group whose outcome is [Deferred] is tried again at the next look. If that is Deferred too, further looks wait:
	// retryMin at first, and twice as long each time, up to retryMax. The host that it waits for is asked less and less.
	retryMin = 2 * time.Second
	retryMax = time.Minute
)

// Watcher polls files. Make one with [NewWatcher]. All methods are safe for
// concurrent use.
type Watcher struct {
	now chan struct{} // holds a token while a look at once is asked for

	mu     sync.Mutex
	every  time.Duration
	paced  chan struct{} // closed when every changes
	groups []*Group
	told   func(group string, o Outcome)

	slow slowPass
}

// slowPass is the state of the reloads of slow groups.
type slowPass struct {
	mu        sync.Mutex
	isRunning bool
	// isAsked is set if all groups are to be reloaded, changed or not.
	isAsked bool
	ended   sync.WaitGroup
}

// NewWatcher returns a watcher that polls its files at this interval while it runs.
// With 0, it checks them only when [Watcher.Now] is called.
func NewWatcher(every time.Duration) *Watcher {
	return &Watcher{now: make(chan struct{}, 1), every: every, paced: make(chan struct{})}
}

// Group is a set of files that are reloaded together, such as a certificate and its key.
type Group struct {
	name   string
	reload func(ctx context.Context) Outcome

	// list, if set, says which files there are at a look.
	list func() []string

	mu     sync.Mutex
	isSlow bool
	files  []string
	seen   map[string]version
	again  bool // the last outcome was Deferred
	// deferred is how often in a row that was so, and retry is when a slow group may be tried again.
	deferred int
	retry    time.Time
	status   Status
}

// Add starts to watch files: reload is called after any of them has changed. It
// reads them, applies their content or keeps the current one, logs errors, and
// returns the outcome. It is never called concurrently with itself or with the
// reload of another group, unless one of the two is slow ([Group.Slow]). Its ctx is
// bounded by [ReadTimeout].
//
// Add the files before they are read for the first time, so that no change between
// that read and the first poll is missed. The name is for logs and metrics, in
// snake case ("configuration", "tls_listener").
func (w *Watcher) Add(name string, reload func(ctx context.Context) Outcome, files ...string) *Group {
	g := &Group{name: name, reload: reload, status: Status{Group: name, Good: time.Now()}}
	g.Watch(files...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = append(w.groups, g)
	return g
}

// ErrUnchanged is returned by a read of [Keep] that found what is in use already.
var ErrUnchanged = errors.New("reload: unchanged")

// Keep returns a reload that leaves the last good content in use where read fails, and logs how it went: the line failed with the
// error, or done with the fields that read returns.
func Keep(log *zap.Logger, failed, done string, read func() ([]zap.Field, error)) func(context.Context) Outcome {
	return func(context.Context) Outcome {
		fields, err := read()
		switch {
		case errors.Is(err, ErrUnchanged):
			return Unchanged
		case err != nil:
			log.Error(failed, logkey.Error(err))
			return Refused
		}
		log.Info(done, fields...)
		return Applied
	}
}

// Certificates is [Keep] for the certificates of a peer.
func Certificates(log *zap.Logger, side string, read func() error) func(context.Context) Outcome {
	return Keep(log.With(zap.String("side", side)), "certificate reload failed; keeping the last good certificates", "certificates reloaded",
		func() ([]zap.Field, error) { return nil, read() })
}

// AddTree is Add for files that come and go: list returns the paths that there are, folders included, in order. A change is
// also that it returns others than before.
func (w *Watcher) AddTree(name string, reload func(ctx context.Context) Outcome, list func() []string) *Group {
	g := w.Add(name, reload, list()...)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = list
	return g
}

// Slow marks a group whose reload may wait for other hosts. Slow groups are looked at
// after the others, and reloaded one after another while those go on: what has to be
// used at once, such as credentials, does not wait for them. The ctx of a slow reload
// has no deadline; it must bound itself. What is Deferred again and again is tried after
// pauses that grow to a minute; a change of its files and [Watcher.Now] end a pause.
// Call it before the watcher runs.
func (g *Group) Slow() *Group {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isSlow = true
	return g
}

// Watch replaces the group's files. Files that stay are not reloaded. A new file
// counts as known from this call on, so call Watch before reading it.
func (g *Group) Watch(files ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := make(map[string]version, len(files))
	for _, path := range files {
		known, ok := g.seen[path]
		if !ok {
			known = look(path, version{})
		}
		seen[path] = known
	}
	g.files, g.seen, g.status.Files = slices.Clone(files), seen, len(files)
}

// Again makes the next poll reload the group even if its files have not changed.
func (g *Group) Again() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.again, g.retry = true, time.Time{}
}

// Status returns the state of the group.
func (g *Group) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status
}

// Status returns the state of each group, in the order in which they were added.
func (w *Watcher) Status() []Status {
	var out []Status
	for _, g := range w.all() {
		out = append(out, g.Status())
	}
	return out
}

// OnOutcome sets a function that is called after each reload with its outcome, except
// Unchanged and Deferred. f must be safe for concurrent use. Call it before Run.
func (w *Watcher) OnOutcome(f func(group string, o Outcome)) { w.told = f }

// Every changes the interval; 0 stops polling.
func (w *Watcher) Every(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d == w.every {
		return
	}
	w.every = d
	close(w.paced)
	w.paced = make(chan struct{})
}

// Now requests an immediate reload of every group, changed or not, and does not
// wait for it. Calls made while a request is pending are merged into it.
func (w *Watcher) Now() {
	select {
	case w.now <- struct{}{}:
	default:
	}
}

// Run polls until ctx ends, and returns when all reloads have ended. Call it once.
func (w *Watcher) Run(ctx context.Context) {
	defer w.slow.ended.Wait()
	for ctx.Err() == nil {
		w.mu.Lock()
		every, paced := w.every, w.paced
		w.mu.Unlock()
		var due <-chan time.Time // never, for 0
		if every > 0 {
			due = time.After(every)
		}
		forced := false
		select {
		case <-ctx.Done():
		case <-paced:
			continue
		case <-w.now:
			forced = true
		case <-due:
		}
		w.pass(ctx, false, forced)
		w.passSlow(ctx, forced)
	}
}

// pass looks at the groups that are slow, or at the others.
func (w *Watcher) pass(ctx context.Context, isSlow, forced bool) {
	for _, g := range w.all() {
		if ctx.Err() == nil && g.is(isSlow) {
			w.tell(g, g.look(ctx, forced))
		}
	}
}

// passSlow looks at the slow groups without waiting for them. While that goes on, they are
// not looked at again, but what was asked for meanwhile is done afterwards.
func (w *Watcher) passSlow(ctx context.Context, forced bool) {
	s := &w.slow
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isAsked = s.isAsked || forced
	if s.isRunning {
		return
	}
	s.isRunning = true
	s.ended.Go(func() {
		for goesOn := true; goesOn; {
			s.mu.Lock()
			forced := s.isAsked
			s.isAsked = false
			s.mu.Unlock()
			w.pass(ctx, true, forced)
			s.mu.Lock()
			goesOn = s.isAsked && ctx.Err() == nil
			s.isRunning = goesOn
			s.mu.Unlock()
		}
	})
}

func (w *Watcher) tell(g *Group, o Outcome) {
	if w.told != nil && o != Unchanged && o != Deferred {
		w.told(g.name, o)
	}
}

func (w *Watcher) all() []*Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.groups)
}

// is reports whether the group is slow, or not.
func (g *Group) is(slow bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isSlow == slow
}

// look reads the group's files again where they have changed, or where that is
// forced.
func (g *Group) look(ctx context.Context, forced bool) Outcome {
	changed := g.changed()
	for n := 0; changed && n < maxSettle; n++ {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return Unchanged
		}
		if !g.changed() {
			break
		}
	}
	g.mu.Lock()
	due := changed || forced || g.again && !time.Now().Before(g.retry)
	g.mu.Unlock()
	if !due {
		return Unchanged
	}
	if !g.is(true) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ReadTimeout)
		defer cancel()
	}
	outcome := g.reload(ctx)
	g.ended(outcome)
	return outcome
}

// changed looks at every file and remembers what it saw.
func (g *Group) changed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := g.relist()
	for _, path := range g.files {
		before := g.seen[path]
		now := look(path, before)
		g.seen[path] = now
		changed = changed || now.content != before.content
	}
	return changed
}

// relist finds out which files there are now, and reports whether that has changed.
func (g *Group) relist() bool {
	if g.list == nil {
		return false
	}
	now := g.list()
	if slices.Equal(now, g.files) {
		return false
	}
	seen := make(map[string]version, len(now))
	for _, path := range now {
		seen[path] = g.seen[path]
	}
	g.files, g.seen, g.status.Files = now, seen, len(now)
	return true
}

func (g *Group) ended(o Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.again = o == Deferred
	g.defers()
	s := &g.status
	s.Counts[o]++
	s.Last, s.Tried = o, time.Now()
	if o.succeeded() {
		s.Good = s.Tried
	}
}

// defers decides when the group is tried again. Its mutex is held.
func (g *Group) defers() {
	g.retry = time.Time{}
	if !g.again {
		g.deferred = 0
		return
	}
	// Beyond 10 doublings the maximum is reached, and the shift would overflow some day.
	if g.deferred++; g.isSlow && g.deferred > 1 {
		g.retry = time.Now().Add(min(retryMax, retryMin<<min(g.deferred-2, 10)))
	}
}
