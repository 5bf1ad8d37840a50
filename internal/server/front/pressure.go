// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// shedHint is what a caller is asked to wait while memory is short: about the time
// in which calls end and a collection shows it.
const shedHint = time.Second

// Memory sheds load while memory is short. Before [Memory.Open], memory is never
// short. Its other methods are safe for concurrent use.
type Memory struct{ guard *peer.MemoryGuard }

// Open sets the memory limit of the garbage collector, and creates the guard that
// detects a shortage. wanted is the configured limit, 0 for the environment's.
func (m *Memory) Open(wanted int64, log *zap.Logger) {
	limit, source := peer.MemoryLimit(wanted, debug.SetMemoryLimit(-1), os.DirFS("/"))
	if limit <= 0 {
		return
	}
	debug.SetMemoryLimit(limit)
	m.guard = peer.NewMemoryGuard(limit)
	log.Info("memory limit", zap.Int64("limit_bytes", limit), zap.String("from", source))
}

// Short reports whether memory is short.
func (m *Memory) Short() bool { return m.guard.Short() }

// Stats returns the statistics of the guard.
func (m *Memory) Stats() peer.MemoryStats { return m.guard.Stats() }

// Run monitors memory until ctx ends.
func (m *Memory) Run(ctx context.Context) { m.guard.Run(ctx) }

// isTight reports that memory gets short.
func (m *Memory) isTight() bool {
	s := m.Stats()
	return s.Limit > 0 && float64(s.Used) >= tightAt*float64(s.Limit)
}

// Pace bounds the garbage of a large heap, unless the operator has said what there
// may be (GOGC). It returns what ends that.
func Pace() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	return peer.PaceCollector()
}

// Shed returns the error for new work while memory is short.
func (m *Memory) Shed() *errmap.Error {
	if !m.guard.Short() {
		return nil
	}
	m.guard.Refused()
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(shedHint),
		errmap.Message("Tool service unavailable: shedding load: memory limit reached (--memory-limit)"))
}

const (
	// bufferedPart is the part of the memory limit that may wait for slow peers by
	// default.
	bufferedPart = 4
	// tightAt is the part of the memory limit from which on unread answers are shed.
	// It is below the one from which on new calls are refused.
	tightAt = 0.8
	// shareHint is what a caller over its share is asked to wait: about the time in
	// which calls end and answers are read.
	shareHint = time.Second
)

// Slow limits the data that waits for slow peers. Before [Slow.Open] it limits
// nothing. Its other methods are safe for concurrent use.
type Slow struct {
	budget *peer.Budget
	most   int64
	// stuck counts connections that were closed because nothing moved.
	stuck atomic.Uint64
}

// Open sets the limits. m must be open.
func (s *Slow) Open(limits *configv1.Limits, m *Memory) {
	s.most = cmp.Or(limits.GetMaxBufferedBytes(), m.Stats().Limit/bufferedPart, peer.DefaultMaxBytes)
	s.budget = peer.NewBudget(peer.BudgetOptions{
		Timeout: limits.GetWriteTimeout().AsDuration(), MaxBytes: s.most, Share: policy.CallerShare(limits), ToolShare: peer.Percent(int(limits.GetToolSharePercent())),
		IsTight: m.isTight,
	})
}

// handler limits the data that waits for the responses of a handler. It must be the
// outermost handler, so that responses of the guard are limited too.
func (s *Slow) handler(next http.Handler) http.Handler {
	return s.budget.Handler(next, peer.Address)
}

// Unread returns the error for a request of a caller, or a call of a tool, with too many
// unread responses. tool is empty for requests that call none.
func (s *Slow) Unread(caller, tool string) *errmap.Error {
	switch s.budget.Verdict(caller, tool) {
	case peer.Granted:
		return nil
	case peer.OverTool:
		return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
			"Rate limit exceeded: unread results of this tool exceed its share (--max-buffered, --tool-share)"))
	case peer.ShareFull, peer.Over:
	}
	return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
		"Rate limit exceeded: unread responses of this caller exceed its share; read them first (--max-buffered, --caller-share)"))
}

// named tells the budget which caller a response and a body belong to. Install it
// behind authentication, which knows the caller.
func (s *Slow) named(next http.Handler) http.Handler { return &namedHandler{slow: s, next: next} }

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
func (s *Slow) countBody(w http.ResponseWriter, r *http.Request) *peer.Body {
	if who := identity.FromContext(r.Context()); who != nil {
		peer.WriterOf(w).SetCaller(who.Principal())
	}
	if r.Body == nil || r.Body == http.NoBody || isStream(r) {
		return nil
	}
	refuse := refuseBody
	if told := telemetry.HTTPRequestOf(r.Context()); told != nil {
		refuse = func(v peer.Verdict) error { return unread(told, refusal(v)) }
	}
	body := s.budget.Body(r.Body, bridge.CallerOf(r.Context(), r.RemoteAddr), refuse)
	r.Body = body
	return body
}

// refuseBody refuses a body without a span.
func refuseBody(v peer.Verdict) error { return unread(nil, refusal(v)) }

// refusal is why a body is not read on.
func refusal(v peer.Verdict) *errmap.Error {
	if v == peer.Over {
		return errmap.New(errmap.RateLimited, errmap.RetryAfter(shareHint), errmap.Message(
			"Rate limit exceeded: unfinished requests and unread responses of this caller exceed its share (--max-buffered, --caller-share)"))
	}
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(shareHint),
		errmap.Message("Tool service unavailable: shedding load: buffer limit reached (--max-buffered)"))
}

// Most returns the limit in bytes.
func (s *Slow) Most() float64 { return float64(s.most) }

// Stats returns the statistics of the budget; zero without listeners.
func (s *Slow) Stats() peer.BudgetStats { return s.budget.Stats() }

// Stuck returns the number of connections and streams that were ended because they
// made no progress.
func (s *Slow) Stuck() uint64 { return s.stuck.Load() + s.Stats().Stuck }

// idleAfter is how long a sidecar must have been quiet before it gives memory
// back. Giving back costs a collection of a few milliseconds, and the next call
// some page faults, so it must not happen between the calls of one
// conversation.
const idleAfter = 10 * time.Second

// KeepSmall releases memory whenever the sidecar has been idle for a while, once per
// idle period: the sidecar of a pod is idle most of the day, and there are thousands
// of them. It also releases the memory used to build another catalog, under load too. now returns the number of requests that
// have begun and are in flight, and when the current catalog was built. KeepSmall returns when ctx ends.
func KeepSmall(ctx context.Context, now func() (begun uint64, inFlight int, built time.Time), log *zap.Logger) {
	ticker := time.NewTicker(idleAfter)
	defer ticker.Stop()
	var spare spareTime
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !spare.wants(now()) {
			continue
		}
		if _, err := peer.ReleaseMemory(); err != nil {
			log.Debug("releasing memory failed", logkey.Error(err))
		}
	}
}

// spareTime knows when memory is to be given back.
type spareTime struct {
	seen, released uint64
	built          time.Time
}

// wants looks at how many requests have begun and are in flight, and at when the
// catalog in use was built, zero for none. That of the first catalog is given back
// twice: when it is announced, and here, since a start goes on for a while.
func (s *spareTime) wants(begun uint64, inFlight int, built time.Time) bool {
	quiet := begun == s.seen && inFlight == 0 && begun != s.released
	rebuilt := !built.IsZero() && !built.Equal(s.built)
	s.seen, s.built = begun, built
	if quiet {
		s.released = begun
	}
	return quiet || rebuilt
}

// smallBody is up to how many bytes a message is read although its call will be rejected: then the answer has its id, and the
// connection goes on. It is more than most calls have.
const smallBody = 64 << 10

// sparing does not read a large message while shed reports that its call would be rejected, because a partly read
// message takes memory and a whole one takes CPU. Its caller gets the response after the head, and over HTTP/1.1 the
// connection closes, because the rest of the message is still to come. Calls on streams are rejected one by one.
func sparing(next http.Handler, shed func() *errmap.Error) http.Handler {
	return &thrifty{shed: shed, next: next}
}

// thrifty is a handler of small frame, because a stream waits on top of it for hours.
type thrifty struct {
	shed func() *errmap.Error
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *thrifty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		h.spare(w, r)
	}
	h.next.ServeHTTP(w, r)
}

func (h *thrifty) spare(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || isStream(r) {
		return
	}
	body := &sparingBody{ReadCloser: r.Body, shed: h.shed, told: telemetry.HTTPRequestOf(r.Context())}
	if r.ProtoMajor == 1 {
		body.reply = w.Header()
	}
	if r.ContentLength < 0 {
		body.free = smallBody
	}
	r.Body = body
}

// sparingBody is a body that ends with an error while calls are shed.
type sparingBody struct {
	io.ReadCloser

	shed func() *errmap.Error
	// free bytes are read in any case. reply is the head of the answer where it can close the connection.
	free  int
	reply http.Header
	// told is the request of the body, for its span.
	told *telemetry.HTTPRequest
}

// Read implements io.Reader. Each edge finds the error in its own vocabulary.
func (b *sparingBody) Read(p []byte) (int, error) {
	if b.free > 0 {
		n, err := b.ReadCloser.Read(p[:min(len(p), b.free)])
		b.free -= n
		return n, err
	}
	if err := b.shed(); err != nil {
		if b.reply != nil {
			b.reply.Set("Connection", "close")
		}
		return 0, unread(b.told, err)
	}
	return b.ReadCloser.Read(p)
}

// unread is the error of a body that is not read on, in the vocabulary of each edge. told learns why: the RPC library asks
// no one about a body that it cannot read.
func unread(told *telemetry.HTTPRequest, err *errmap.Error) error {
	if told != nil {
		told.Refused(telemetry.OutcomeOf(err, errmap.ConnectRPC)) // which edges with another vocabulary replace
	}
	return errors.Join(err, errmap.ToConnect(err, errmap.About{}))
}
