// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// methodAcknowledged is the method of a change feed's first notification.
const methodAcknowledged = "notifications/subscriptions/acknowledged"

// Watch subscribes to changes until ctx or the stream ends. It makes one attempt. The
// first notification passed to on is the acknowledgement: its filter says which of the
// requested changes will be reported from then on. Notifications come in order and on
// the caller's goroutine, and on owns them.
//
// Watch returns nil if the backend ended the stream successfully. It returns an
// *InvalidAnswerError if a notification breaks its rules, or the acknowledgement does
// not come first or comes twice. It returns a *backend.Error for everything else,
// including the end of ctx.
func (c *NativeClient) Watch(ctx context.Context, filter *outriggerv1.ChangeFilter, on func(*outriggerv1.Notification)) error {
	const procedure = outriggerv1connect.ToolServiceSubscribeProcedure
	body, err := encode(&outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Changes{Changes: filter}})
	if err != nil {
		return err
	}
	var refused error
	acknowledged := false
	_, err = c.backend.Stream(ctx, procedure, body, nil, func(message []byte) error {
		n := new(outriggerv1.Notification)
		if refused = c.check(procedure, message, n); refused != nil {
			return refused
		}
		isFirst := n.GetMethod() == methodAcknowledged && n.GetAcknowledged() != nil
		switch {
		case !isFirst && !acknowledged:
			refused = invalid(procedure, keywordAcknowledged, "wanted an acknowledgement with its filter as the first notification")
		case acknowledged && n.GetMethod() == methodAcknowledged:
			refused = invalid(procedure, keywordAcknowledged, "wanted no acknowledgement after the first notification")
		default:
			acknowledged = true
			on(n)
		}
		return refused
	})
	switch {
	case refused != nil:
		return refused
	case err == nil && !acknowledged:
		return invalid(procedure, keywordAcknowledged, "wanted an acknowledgement before the end of the stream")
	default:
		return err
	}
}

// Times that no setting changes, with reasons.
const (
	// watchBackoffMin is the maximum of the first pause after a break, so a backend
	// that restarts at once is found at once.
	watchBackoffMin = 100 * time.Millisecond
	// watchBackoffMax is the maximum pause, so a backend that comes back is found
	// within ten seconds.
	watchBackoffMax = 10 * time.Second
	// ackTimeout is the timeout of an acknowledgement, twice that of making a
	// connection. Waiting longer for a backend that withholds it would be in vain.
	ackTimeout = 10 * time.Second
	// watchOverlap is how long a stream stays open after a new stream with a new filter
	// was acknowledged. A backend in the same pod has told what it had to tell by then;
	// longer would tell more changes twice.
	watchOverlap = 100 * time.Millisecond
	// unofferedPause is the pause after the backend reported that it does not
	// implement Subscribe. Only a new version of it would.
	unofferedPause = 5 * time.Minute
)

// maxRetiring bounds the streams that live on at the same time, where filters
// change faster than the overlap; the oldest is closed for the newest. Each holds
// a stream of the connection, of which common peers allow a hundred.
const maxRetiring = 4

// WatcherOptions are the callbacks of a Watcher. A nil function is not called.
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
}

// Watcher keeps a subscription to a backend's changes alive until Close. If the
// subscription breaks, the watcher subscribes again after a backoff that grows from
// 100 ms to 10 s, and starts over once a subscription has held for as long. If the
// backend does not implement Subscribe, the pause is five minutes.
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
	reports chan watchReport // from the streams to the loop
	renewed chan struct{}    // the filter changed

	mu       sync.Mutex
	filter   *outriggerv1.ChangeFilter // never changed, only replaced
	inEffect *outriggerv1.ChangeFilter // that of the current subscription; nil: there is none
	effect   chan struct{}             // closed and replaced whenever inEffect is

	telling chan struct{} // holds one while one of the owner's functions runs
}

// watchReport is what the goroutine of a stream tells the loop.
type watchReport struct {
	feed  *watchFeed
	ended bool  // else it was acknowledged
	err   error // why it ended
}

// watchFeed is one subscription. Its fields belong to the loop.
type watchFeed struct {
	filter *outriggerv1.ChangeFilter
	end    context.CancelCauseFunc
	ctx    context.Context
}

// NewWatcher starts a watcher. A nil filter is an empty filter. Close the watcher after
// use.
func (c *NativeClient) NewWatcher(filter *outriggerv1.ChangeFilter, o WatcherOptions) *Watcher {
	return newWatcher(c.Watch, rand.Float64, filter, o)
}

func newWatcher(watch func(context.Context, *outriggerv1.ChangeFilter, func(*outriggerv1.Notification)) error, random func() float64, filter *outriggerv1.ChangeFilter, o WatcherOptions) *Watcher {
	w := &Watcher{
		watch: watch, opts: o, filter: normal(filter),
		reports: make(chan watchReport), renewed: make(chan struct{}, 1), telling: make(chan struct{}, 1),
		effect: make(chan struct{}),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	l := &watchLoop{watcher: w, backoff: backoff{min: watchBackoffMin, max: watchBackoffMax, random: random}}
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
func (w *Watcher) follow(f *watchFeed) {
	late := time.AfterFunc(ackTimeout, func() {
		f.end(fmt.Errorf("native: no acknowledgement within %v: %w", ackTimeout, context.DeadlineExceeded))
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
		w.report(watchReport{feed: f})
	})
	w.report(watchReport{feed: f, ended: true, err: err})
}

// watchReport hands r to the loop, which always takes it while it lives.
func (w *Watcher) report(r watchReport) {
	select {
	case w.reports <- r:
	case <-w.ctx.Done():
	}
}

// errRetired is the cause of the end of a stream that is no longer needed.
var errRetired = errors.New("native: replaced by another subscription")

// watchLoop is the state of a Watcher. One goroutine owns it.
type watchLoop struct {
	watcher *Watcher
	backoff backoff

	current  *watchFeed   // acknowledged
	opening  *watchFeed   // not yet
	retiring []*watchFeed // acknowledged, replaced, and alive for the overlap; oldest first

	since  time.Time // since when there has been a current one and no failure; zero: there is none
	due    time.Time // no attempt before
	missed bool      // changes may have been missed since the last Resynced
}

func (l *watchLoop) run() {
	w := l.watcher
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		if wait := l.step(); wait > 0 {
			pause.Reset(wait)
		} else {
			pause.Stop()
		}
		select {
		case <-w.ctx.Done():
			return
		case <-w.renewed:
		case <-pause.C:
		case r := <-w.reports:
			if r.ended {
				l.ended(r.feed, r.err)
			} else {
				l.acknowledged(r.feed)
			}
		}
	}
}

// step starts what has to be started, and returns after which pause to look
// again, 0 where nothing but events can change anything.
func (l *watchLoop) step() time.Duration {
	wanted := l.watcher.wanted()
	switch {
	case proto.Size(wanted) == 0:
		l.drop()
		return 0
	case l.opening != nil, l.current != nil && proto.Equal(l.current.filter, wanted):
		return 0
	}
	if wait := time.Until(l.due); wait > 0 {
		return wait
	}
	l.open(wanted)
	return 0
}

// open asks for a subscription.
func (l *watchLoop) open(wanted *outriggerv1.ChangeFilter) {
	w := l.watcher
	f := &watchFeed{filter: wanted}
	f.ctx, f.end = context.WithCancelCause(w.ctx)
	l.opening = f
	w.running.Go(func() { w.follow(f) })
}

// drop ends all subscriptions, because nothing is wanted. What is missed then is
// missed by intent.
func (l *watchLoop) drop() {
	for _, f := range append(l.retiring, l.opening, l.current) {
		if f != nil {
			f.end(errRetired)
		}
	}
	if l.current != nil {
		l.watcher.setInEffect(nil)
	}
	l.opening, l.current, l.retiring = nil, nil, nil
	l.since, l.missed = time.Time{}, false
}

// acknowledged makes the opening stream the current one.
func (l *watchLoop) acknowledged(f *watchFeed) {
	if f != l.opening {
		return // dropped meanwhile
	}
	l.opening = nil
	if l.current != nil {
		l.retire(l.current)
	} else {
		l.since = time.Now()
	}
	l.current = f
	l.watcher.setInEffect(f.filter)
	l.resync()
}

// retire lets a stream live on for a while.
func (l *watchLoop) retire(f *watchFeed) {
	if len(l.retiring) == maxRetiring {
		l.retiring[0].end(errRetired)
		l.retiring = slices.Delete(l.retiring, 0, 1)
	}
	l.retiring = append(l.retiring, f)
	time.AfterFunc(watchOverlap, func() { f.end(errRetired) })
}

// ended takes note of the end of a stream.
func (l *watchLoop) ended(f *watchFeed, err error) {
	defer f.end(nil)
	if cause := context.Cause(f.ctx); cause != nil {
		if errors.Is(cause, errRetired) {
			l.retiring = slices.DeleteFunc(l.retiring, func(r *watchFeed) bool { return r == f })
			return
		}
		err = errors.Join(cause, err)
	}
	switch f {
	case l.opening:
		l.opening = nil
		l.missed = l.missed || l.current == nil
		l.failed(err)
	case l.current:
		l.failed(err) // before the time since when it held is forgotten
		l.current, l.since, l.missed = nil, time.Time{}, true
		l.watcher.setInEffect(nil)
	default:
		// It broke while another took its place: perhaps before that one was in
		// effect.
		l.retiring = slices.DeleteFunc(l.retiring, func(r *watchFeed) bool { return r == f })
		l.missed = true
		if l.current != nil {
			l.resync()
		}
	}
}

// failed sets the time of the next attempt.
func (l *watchLoop) failed(err error) {
	w := l.watcher
	if !l.since.IsZero() {
		if time.Since(l.since) >= watchBackoffMax {
			l.backoff.reset()
		}
		l.since = time.Now()
	}
	pause := unofferedPause
	if !isUnimplemented(err) {
		pause = l.backoff.next()
	}
	l.due = time.Now().Add(pause)
	if w.opts.Failed != nil {
		w.tell(w.ctx, func() { w.opts.Failed(err, pause) })
	}
}

// resync tells the owner once that changes may have been missed.
func (l *watchLoop) resync() {
	w := l.watcher
	if l.missed && w.opts.Resynced != nil {
		w.tell(w.ctx, w.opts.Resynced)
	}
	l.missed = false
}

// backoff hands out pauses that double from min to max, each shortened by up to
// half at random, so that many sidecars of one backend do not come back at once.
type backoff struct {
	min, max time.Duration
	random   func() float64 // in [0, 1)
	failures int
}

// next is the pause after one more failure.
func (b *backoff) next() time.Duration {
	const doublings = 30 // reach any maximum from any minimum, and overflow nothing
	d := b.max
	if b.failures < doublings {
		d = min(b.max, b.min<<b.failures)
	}
	b.failures++
	return d/2 + time.Duration(b.random()*float64(d/2))
}

// reset starts over.
func (b *backoff) reset() { b.failures = 0 }
