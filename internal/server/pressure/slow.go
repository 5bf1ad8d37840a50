// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/httpspan"
	"github.com/outrigger-mcp/outrigger/internal/server/route"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
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

// Slow limits the data that waits for slow peers. Before [Slow.Open] it limits
// nothing. Its other methods are safe for concurrent use.
type Slow struct {
	budget *slowpeer.Budget
	most   int64
	// stuck counts connections that were closed because nothing moved.
	stuck atomic.Uint64
}

// Open sets the limits. m must be open.
func (s *Slow) Open(limits *configv1.Limits, m *Memory) {
	s.most = limits.GetMaxBufferedBytes()
	if s.most == 0 {
		if s.most = m.Stats().Limit / bufferedPart; s.most == 0 {
			s.most = slowpeer.DefaultMaxBytes
		}
	}
	s.budget = slowpeer.NewBudget(slowpeer.Options{
		Timeout: limits.GetWriteTimeout().AsDuration(), MaxBytes: s.most, Share: settings.CallerShare(limits), ToolShare: settings.ToolShare(limits),
		IsTight: m.isTight,
	})
}

// Handler limits the data that waits for the responses of a handler. It must be the
// outermost handler, so that responses of the guard are limited too.
func (s *Slow) Handler(next http.Handler) http.Handler {
	return s.budget.Handler(next, bridge.CallerAddress)
}

// StuckCount returns the counter of connections that a listener closes because they
// make no progress.
func (s *Slow) StuckCount() *atomic.Uint64 { return &s.stuck }

// Unread returns the error for a request of a caller, or a call of a tool, with too many
// unread responses. tool is empty for requests that call none.
func (s *Slow) Unread(caller, tool string) *errmap.Error {
	if s.budget == nil {
		return nil
	}
	switch s.budget.Verdict(caller, tool) {
	case share.Granted:
		return nil
	case share.OverTool:
		return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
			"Rate limit exceeded: unread results of this tool exceed its share (--max-buffered, --tool-share)"))
	case share.Full, share.Over:
	}
	return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
		"Rate limit exceeded: unread responses of this caller exceed its share; read them first (--max-buffered, --caller-share)"))
}

// Named tells the budget which caller a response and a body belong to. Install it
// behind authentication, which knows the caller.
func (s *Slow) Named(next http.Handler) http.Handler { return &namedHandler{slow: s, next: next} }

// namedHandler has a small frame, because a stream waits on top of it for hours.
type namedHandler struct {
	slow *Slow
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *namedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := h.slow.countBody(w, r)
	h.next.ServeHTTP(w, r)
	if body != nil {
		body.Release()
	}
}

// countBody tells whose answer it is, and counts the body of the request; nil
// where there is none to count.
func (s *Slow) countBody(w http.ResponseWriter, r *http.Request) *slowpeer.Body {
	if who := access.FromContext(r.Context()); who != nil {
		slowpeer.Of(w).SetCaller(who.Principal())
	}
	if s.budget == nil || r.Body == nil || r.Body == http.NoBody || route.IsStream(r) {
		return nil
	}
	refuse := refuseBody
	if told := httpspan.Of(r.Context()); told != nil {
		refuse = func(v share.Verdict) error { return unread(told, refusal(v)) }
	}
	body := s.budget.Body(r.Body, bridge.CallerOf(r.Context(), r.RemoteAddr), refuse)
	r.Body = body
	return body
}

// refuseBody refuses a body without a span.
func refuseBody(v share.Verdict) error { return unread(nil, refusal(v)) }

// refusal is why a body is not read on.
func refusal(v share.Verdict) *errmap.Error {
	if v == share.Over {
		return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
			"Rate limit exceeded: unfinished requests and unread responses of this caller exceed its share (--max-buffered, --caller-share)"))
	}
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(shareHint),
		errmap.Message("Tool service unavailable: shedding load: buffer limit reached (--max-buffered)"))
}

// Most returns the limit in bytes.
func (s *Slow) Most() float64 { return float64(s.most) }

// Stats returns the statistics of the budget; zero without listeners.
func (s *Slow) Stats() slowpeer.Stats {
	if s.budget == nil {
		return slowpeer.Stats{}
	}
	return s.budget.Stats()
}

// Stuck returns the number of connections and streams that were ended because they
// made no progress.
func (s *Slow) Stuck() uint64 { return s.stuck.Load() + s.Stats().Stuck }
