// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/access"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/share"
	"github.com/outrigger-mcp/outrigger/internal/slowpeer"
)

const (
	// bufferedPart is the part of the memory limit that may wait for slow peers by
	// default.
	bufferedPart = 4
	// tightAt is the part of the memory limit from which on unread answers are shed.
	// It is below the one from which on new calls are refused.
	tightAt = 0.8
	// shareHint is what a caller over its share is told to wait: about the time in
	// which calls end and answers are read.
	shareHint = time.Second
)

// slowPeers bounds what waits for peers that are slow.
type slowPeers struct {
	budget *slowpeer.Budget
	most   int64
	// stuck counts connections that were closed because nothing moved.
	stuck atomic.Uint64
}

// callerShare is how much of a limit one caller may hold.
func callerShare(limits *configv1.Limits) share.Rule {
	return share.Percent(int(limits.GetCallerSharePercent()))
}

// openSlowPeers makes the bounds. The memory limit is known by then.
func (a *app) openSlowPeers() {
	limits := a.cfg.GetLimits()
	s := &slowPeers{most: limits.GetMaxBufferedBytes()}
	if s.most == 0 {
		if s.most = a.memory.Stats().Limit / bufferedPart; s.most == 0 {
			s.most = slowpeer.DefaultMaxBytes
		}
	}
	s.budget = slowpeer.NewBudget(slowpeer.Options{
		Timeout: limits.GetWriteTimeout().AsDuration(), MaxBytes: s.most, Share: callerShare(limits), IsTight: a.isTight,
	})
	a.slow = s
}

// isTight reports that memory gets short.
func (a *app) isTight() bool {
	m := a.memory.Stats()
	return m.Limit > 0 && float64(m.Used) >= tightAt*float64(m.Limit)
}

// overBuffered refuses a request of a caller that leaves too many answers unread.
func (a *app) overBuffered(caller string) *errmap.Error {
	if a.slow == nil || a.slow.budget.Verdict(caller) == share.Granted {
		return nil
	}
	return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
		"Rate limit exceeded: unread responses of this caller exceed its share; read them first (--max-buffered, --caller-share)"))
}

// named has the budget know whose answers and bodies there are. It stands behind
// the door, where that is known.
func (a *app) named(next http.Handler) http.Handler { return &namedHandler{app: a, next: next} }

// namedHandler has a small frame, because a stream waits on top of it for hours.
type namedHandler struct {
	app  *app
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *namedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := h.app.countBody(w, r)
	h.next.ServeHTTP(w, r)
	if body != nil {
		body.Release()
	}
}

// countBody tells whose answer it is, and counts the body of the request; nil
// where there is none to count.
func (a *app) countBody(w http.ResponseWriter, r *http.Request) *slowpeer.Body {
	if who := access.FromContext(r.Context()); who != nil {
		slowpeer.Of(w).SetCaller(who.Principal())
	}
	if a.slow == nil || r.Body == nil || r.Body == http.NoBody || isStream(r) {
		return nil
	}
	body := a.slow.budget.Body(r.Body, bridge.CallerOf(r.Context(), r.RemoteAddr), refuseBody)
	r.Body = body
	return body
}

// refuseBody is why a body is not read on. Each edge finds the error in its own
// vocabulary.
func refuseBody(v share.Verdict) error {
	err := errmap.New(errmap.Unavailable, errmap.RetryAfter(shareHint),
		errmap.Message("Tool service unavailable: shedding load: buffer limit reached (--max-buffered)"))
	if v == share.Over {
		err = errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
			"Rate limit exceeded: unfinished requests and unread responses of this caller exceed its share (--max-buffered, --caller-share)"))
	}
	return errors.Join(err, errmap.ToConnect(err, errmap.About{}))
}

// overShare is how often a caller was refused because it held its share already.
func (a *app) overShare() uint64 {
	return a.slow.stats().Over + a.slots.Stats().Over + a.streams.Stats().Over + a.sessions.Stats().Over + a.tasks.Stats().Over
}

// mostBytes is how much may wait.
func (s *slowPeers) mostBytes() float64 {
	if s == nil {
		return 0
	}
	return float64(s.most)
}

// stats are the counts of the budget; none where nothing listens.
func (s *slowPeers) stats() slowpeer.Stats {
	if s == nil {
		return slowpeer.Stats{}
	}
	return s.budget.Stats()
}

// stuckPeers is how many connections and streams were ended because nothing moved.
func (s *slowPeers) stuckPeers() uint64 {
	if s == nil {
		return 0
	}
	return s.stuck.Load() + s.budget.Stats().Stuck
}
