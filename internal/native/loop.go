// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// errRetired is the cause of the end of a stream that is no longer needed.
var errRetired = errors.New("native: replaced by another subscription")

// loop is the state of a Watcher. One goroutine owns it.
type loop struct {
	watcher *Watcher
	backoff backoff

	current  *feed   // acknowledged
	opening  *feed   // not yet
	retiring []*feed // acknowledged, replaced, and alive for an Overlap; oldest first

	since  time.Time // since when there has been a current one and no failure; zero: there is none
	due    time.Time // no attempt before
	missed bool      // changes may have been missed since the last Resynced
}

func (l *loop) run() {
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
func (l *loop) step() time.Duration {
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
func (l *loop) open(wanted *outriggerv1.ChangeFilter) {
	w := l.watcher
	f := &feed{filter: wanted}
	f.ctx, f.end = context.WithCancelCause(w.ctx)
	l.opening = f
	w.running.Go(func() { w.follow(f) })
}

// drop ends all subscriptions, because nothing is wanted. What is missed then is
// missed by intent.
func (l *loop) drop() {
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
func (l *loop) acknowledged(f *feed) {
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
func (l *loop) retire(f *feed) {
	if len(l.retiring) == maxRetiring {
		l.retiring[0].end(errRetired)
		l.retiring = slices.Delete(l.retiring, 0, 1)
	}
	l.retiring = append(l.retiring, f)
	time.AfterFunc(l.watcher.opts.Overlap, func() { f.end(errRetired) })
}

// ended takes note of the end of a stream.
func (l *loop) ended(f *feed, err error) {
	defer f.end(nil)
	if cause := context.Cause(f.ctx); cause != nil {
		if errors.Is(cause, errRetired) {
			l.retiring = slices.DeleteFunc(l.retiring, func(r *feed) bool { return r == f })
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
		l.retiring = slices.DeleteFunc(l.retiring, func(r *feed) bool { return r == f })
		l.missed = true
		if l.current != nil {
			l.resync()
		}
	}
}

// failed sets the time of the next attempt.
func (l *loop) failed(err error) {
	w := l.watcher
	if !l.since.IsZero() {
		if time.Since(l.since) >= w.opts.BackoffMax {
			l.backoff.reset()
		}
		l.since = time.Now()
	}
	pause := w.opts.UnofferedPause
	if !unimplemented(err) {
		pause = l.backoff.next()
	}
	l.due = time.Now().Add(pause)
	if w.opts.Failed != nil {
		w.tell(w.ctx, func() { w.opts.Failed(err, pause) })
	}
}

// resync tells the owner once that changes may have been missed.
func (l *loop) resync() {
	w := l.watcher
	if l.missed && w.opts.Resynced != nil {
		w.tell(w.ctx, w.opts.Resynced)
	}
	l.missed = false
}
