// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of WatcherOptions, with reasons.
const (
	// DefaultBackoffMin is the maximum of the first pause after a break, so a backend
	// that restarts at once is found at once.
	DefaultBackoffMin = 100 * time.Millisecond
	// DefaultBackoffMax is the maximum pause, so a backend that comes back is found
	// within ten seconds.
	DefaultBackoffMax = 10 * time.Second
	// DefaultAckTimeout is the timeout of an acknowledgement, twice that of making a
	// connection. Waiting longer for a backend that withholds it would be in vain.
	DefaultAckTimeout = 10 * time.Second
	// DefaultOverlap is how long a stream stays open after a new stream with a new filter
	// was acknowledged, so that changes in flight arrive. It is far above a round trip.
	DefaultOverlap = time.Second
	// DefaultUnofferedPause is the pause after the backend reported that it does not
	// implement Subscribe. Only a new version of it would.
	DefaultUnofferedPause = 5 * time.Minute
)

// maxRetiring bounds the streams that live on at the same time, where filters
// change faster than an Overlap; the oldest is closed for the newest. Each holds
// a stream of the connection, of which common peers allow a hundred.
const maxRetiring = 4

// WatcherOptions are the callbacks and settings of a Watcher. A nil function is not
// called. A duration that is not positive means the default of the same name.
//
// The functions are called one at a time. They may call SetFilter, and must not call
// Close. The watcher reads nothing from the backend while one of them runs.
type WatcherOptions struct {
	// Changed receives a change, in the order of its stream. When the filter changes, a
	// change may come twice, and a task's older state may follow a newer one: compare
	// `last_updated_at`.
	Changed func(*outriggerv1.Notification)
	// Acknowledged reports that a filter is in effect, and which part of it the backend
	// honours. It comes before any change of that subscription, and again after each
	// reconnect.
	Acknowledged func(asked, honoured *outriggerv1.ChangeFilter)
	// Resynced reports that a subscription is in effect again and changes may have been
	// missed: after a break, or after attempts that failed before the first success. The
	// owner must then treat everything as changed.
	Resynced func()
	// Failed reports why a subscription ended or could not be made (nil: the backend
	// ended it successfully), and the pause before the next attempt. It is for logs and
	// counters.
	Failed func(err error, pause time.Duration)

	BackoffMin     time.Duration
	BackoffMax     time.Duration
	AckTimeout     time.Duration
	Overlap        time.Duration
	UnofferedPause time.Duration
}

func (o WatcherOptions) withDefaults() WatcherOptions {
	defaults.Fill(&o.BackoffMin, DefaultBackoffMin)
	defaults.Fill(&o.BackoffMax, DefaultBackoffMax)
	defaults.Fill(&o.AckTimeout, DefaultAckTimeout)
	defaults.Fill(&o.Overlap, DefaultOverlap)
	defaults.Fill(&o.UnofferedPause, DefaultUnofferedPause)
	return o
}

// Watcher keeps a subscription to a backend's changes alive until Close. If the
// subscription breaks, the watcher subscribes again after a backoff that grows from
// BackoffMin to BackoffMax. The backoff starts over once a subscription has held for
// BackoffMax. If the backend does not implement Subscribe, the pause is UnofferedPause.
// While the filter is empty, there is no subscription.
//
// A Watcher reports changes after its first acknowledgement. Start it before you read
// data that may change.
type Watcher struct {
	watch func(context.Context, *outriggerv1.ChangeFilter, func(*outriggerv1.Notification)) error
	opts  WatcherOptions

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	reports chan report   // from the streams to the loop
	renewed chan struct{} // the filter changed

	mu       sync.Mutex
	filter   *outriggerv1.ChangeFilter // never changed, only replaced
	inEffect *outriggerv1.ChangeFilter // that of the current subscription; nil: there is none
	effect   chan struct{}             // closed and replaced whenever inEffect is

	telling chan struct{} // holds one while one of the owner's functions runs
}

// report is what the goroutine of a stream tells the loop.
type report struct {
	feed  *feed
	ended bool  // else it was acknowledged
	err   error // why it ended
}

// feed is one subscription. Its fields belong to the loop.
type feed struct {
	filter *outriggerv1.ChangeFilter
	end    context.CancelCauseFunc
	ctx    context.Context
}

// NewWatcher starts a watcher. A nil filter is an empty filter. Close the watcher after
// use.
func (c *Client) NewWatcher(filter *outriggerv1.ChangeFilter, o WatcherOptions) *Watcher {
	return newWatcher(c.Watch, rand.Float64, filter, o)
}

func newWatcher(watch func(context.Context, *outriggerv1.ChangeFilter, func(*outriggerv1.Notification)) error, random func() float64, filter *outriggerv1.ChangeFilter, o WatcherOptions) *Watcher {
	w := &Watcher{
		watch: watch, opts: o.withDefaults(), filter: normal(filter),
		reports: make(chan report), renewed: make(chan struct{}, 1), telling: make(chan struct{}, 1),
		effect: make(chan struct{}),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	l := &loop{watcher: w, backoff: backoff{min: w.opts.BackoffMin, max: w.opts.BackoffMax, random: random}}
	w.running.Go(l.run)
	return w
}

// SetFilter replaces the filter. It does not wait: the old filter is in effect until
// Acknowledged reports the new one. The watcher skips a filter that is replaced before
// its turn. Backoff after failures continues.
func (w *Watcher) SetFilter(filter *outriggerv1.ChangeFilter) {
	w.mu.Lock()
	w.filter = normal(filter)
	w.mu.Unlock()
	select {
	case w.renewed <- struct{}{}:
	default: // the loop has yet to look
	}
}

// Settled waits until a subscription that covers all of filter is in effect. Pass filter
// to [Watcher.SetFilter] before or after. The error is the cause of the end of ctx.
func (w *Watcher) Settled(ctx context.Context, filter *outriggerv1.ChangeFilter) error {
	filter = normal(filter)
	for {
		w.mu.Lock()
		now, next := w.inEffect, w.effect
		w.mu.Unlock()
		if includes(now, filter) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// setInEffect tells the waiters what the current subscription asks for.
func (w *Watcher) setInEffect(filter *outriggerv1.ChangeFilter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inEffect = filter
	close(w.effect)
	w.effect = make(chan struct{})
}

// includes reports whether a normal filter asks for everything that another one
// asks for. One that wants nothing is included in none at all, too.
func includes(all, some *outriggerv1.ChangeFilter) bool {
	flag := func(all, some bool) bool { return all || !some }
	names := func(all, some []string) bool {
		return !slices.ContainsFunc(some, func(name string) bool {
			_, found := slices.BinarySearch(all, name)
			return !found
		})
	}
	return flag(all.GetToolsListChanged(), some.GetToolsListChanged()) &&
		flag(all.GetPromptsListChanged(), some.GetPromptsListChanged()) &&
		flag(all.GetResourcesListChanged(), some.GetResourcesListChanged()) &&
		names(all.GetResourceUris(), some.GetResourceUris()) && names(all.GetTaskIds(), some.GetTaskIds())
}

// Close ends the subscription and waits for callbacks that run. None runs afterwards.
// Close may be called twice.
func (w *Watcher) Close() {
	w.stop()
	w.running.Wait()
}

func (w *Watcher) wanted() *outriggerv1.ChangeFilter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.filter
}

// normal copies a filter with its lists in order and nothing in them twice, so
// that equal wishes are equal.
func normal(filter *outriggerv1.ChangeFilter) *outriggerv1.ChangeFilter {
	if filter == nil {
		return &outriggerv1.ChangeFilter{}
	}
	filter = proto.CloneOf(filter)
	for _, list := range []*[]string{&filter.ResourceUris, &filter.TaskIds} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return filter
}

// tell runs one of the owner's functions, unless ctx has ended.
func (w *Watcher) tell(ctx context.Context, function func()) {
	select {
	case w.telling <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-w.telling }()
	if ctx.Err() == nil { // select chooses at random
		function()
	}
}

// follow is the goroutine of a stream.
func (w *Watcher) follow(f *feed) {
	late := time.AfterFunc(w.opts.AckTimeout, func() {
		f.end(fmt.Errorf("native: no acknowledgement within %v: %w", w.opts.AckTimeout, context.DeadlineExceeded))
	})
	defer late.Stop()
	acknowledged := false
	err := w.watch(f.ctx, f.filter, func(n *outriggerv1.Notification) {
		if acknowledged {
			if w.opts.Changed != nil {
				w.tell(f.ctx, func() { w.opts.Changed(n) })
			}
			return
		}
		acknowledged = true
		if !late.Stop() {
			return // too late, and the stream is about to end
		}
		if w.opts.Acknowledged != nil {
			w.tell(f.ctx, func() { w.opts.Acknowledged(f.filter, n.GetAcknowledged()) })
		}
		w.report(report{feed: f})
	})
	w.report(report{feed: f, ended: true, err: err})
}

// report hands r to the loop, which always takes it while it lives.
func (w *Watcher) report(r report) {
	select {
	case w.reports <- r:
	case <-w.ctx.Done():
	}
}
