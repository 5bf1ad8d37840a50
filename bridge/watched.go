// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

const (
	// maxKept is how many ended calls are kept of each kind: those that failed, of which each tool has a share, and the others, which
	// would push them out.
	maxKept = 500
	// maxKeptText bounds each text of a call that is kept, in bytes.
	maxKeptText = 512
)

// watched is what is known of the calls of a bridge, for people who look on. Of calls that succeed it takes nothing while no one
// does.
type watched struct {
	watchers atomic.Int32

	mu sync.Mutex
	// last is the number of the last call that ended and was kept, also of those that are not any more.
	last     uint64
	failed   shares
	finished ring
}

// Watch has calls that begin from now on timed step by step, and calls that succeed kept when they end, until stop is called for
// each Watch. Calls that fail are always kept. Stop may be called more than once.
func (b *Bridge) Watch() (stop func()) {
	b.watched.watchers.Add(1)
	return sync.OnceFunc(func() { b.watched.watchers.Add(-1) })
}

// ring holds the last calls that ended; at is the place of the oldest once it is full.
type ring struct {
	calls []known
	at    int
}

func (r *ring) add(k known) {
	if len(r.calls) < maxKept {
		r.calls = append(r.calls, k)
		return
	}
	r.calls[r.at] = k
	r.at = (r.at + 1) % maxKept
}

// newest appends the newest calls with numbers above after, the newest first, and returns how many there are.
func (r *ring) newest(to []known, after uint64, most int) (out []known, count int) {
	for i := range r.calls {
		k := &r.calls[(r.at+len(r.calls)-1-i)%len(r.calls)]
		if k.number <= after {
			break
		}
		if count++; count <= most {
			to = append(to, *k)
		}
	}
	return to, count
}

// shares hold calls that ended, in no order, with room for the calls of every tool: where it is full, the oldest call gives way of the
// tools that have most of it. So a tool that fails all the time leaves those of others where they are.
type shares struct {
	calls []known
	// counts are how many calls the tool of each has; of are the same by tool.
	counts []*int
	of     map[string]*int
}

func (s *shares) add(k known) {
	count := s.of[k.tool]
	if count == nil {
		if s.of == nil {
			s.of = map[string]*int{}
		}
		count = new(int)
		s.of[k.tool] = count
	}
	*count++
	if len(s.calls) < maxKept {
		s.calls, s.counts = append(s.calls, k), append(s.counts, count)
		return
	}
	at := 0
	for i, n := range s.counts {
		if most := s.counts[at]; *n > *most || *n == *most && s.calls[i].number < s.calls[at].number {
			at = i
		}
	}
	if *s.counts[at]--; *s.counts[at] == 0 {
		delete(s.of, s.calls[at].tool)
	}
	s.calls[at], s.counts[at] = k, count
}

// newest is that of [ring].
func (s *shares) newest(to []known, after uint64, most int) (out []known, count int) {
	var found []*known
	for i := range s.calls {
		if s.calls[i].number > after {
			found = append(found, &s.calls[i])
		}
	}
	slices.SortFunc(found, func(a, b *known) int { return cmp.Compare(b.number, a.number) })
	for _, k := range found[:max(0, min(most, len(found)))] {
		to = append(to, *k)
	}
	return to, len(found)
}

// known is what is known of a call, in little memory and nothing of its arguments and its result.
type known struct {
	number, id                                         uint64 // number counts the calls that ended
	op                                                 Op
	hasSpan, isAudited                                 bool
	began                                              time.Time
	took, upstream                                     time.Duration
	edge                                               telemetry.Edge
	caller, operator, tool, code, message, request, of string
	trace                                              [16]byte
	span                                               [8]byte
	audit                                              trail.ID
	stages                                             *stages // nil where no one watched when it began
}

// known is what is known of a flight while it is under way. Another goroutine than that of the flight may call it: nothing writes
// what it reads.
func (f *Flight) known() known {
	req := f.end.req
	k := known{
		id: f.id, op: req.Op, began: f.start, edge: telemetry.EdgeOf(req.Transport, req.Route, req.Procedure != ""),
		caller: kept(req.Caller), of: req.Revision, request: kept(requestText(req)), stages: f.end.meter.stages,
	}
	if span := req.Span.Context(); span.IsValid() {
		k.trace, k.span, k.hasSpan = span.TraceID(), span.SpanID(), true
	} else {
		_, _ = hex.Decode(k.trace[:], []byte(trail.TraceID(req.Header.Get(traceparent)))) // 32 digits, or none
	}
	if inv := f.end.meter.invoked; inv != nil {
		k.audit, k.isAudited = inv.id, true
	}
	k.operator = kept(req.console.Name())
	return k
}

// requestText is the id that a caller gave its request, as the log has it.
func requestText(req *Request) string {
	if text, ok := req.ID.Text(); ok {
		return text
	}
	return req.ID.String()
}

// kept is a text of a call that is kept. Callers choose some of them, and a message of Protobuf takes no invalid one.
func kept(text string) string {
	if len(text) <= maxKeptText {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:maxKeptText-len("…")], "") + "…" // not a part of the text, which would be kept whole
}

// keep keeps a call that has ended.
func (w *watched) keep(f *Flight) {
	end := &f.end
	k := f.known()
	k.took, k.upstream, k.code = end.took, end.meter.upstream, string(end.code)
	if end.resp.Tool != nil {
		k.tool = end.resp.Tool.Name
	}
	if end.resp.Err != nil {
		k.message = kept(end.resp.Err.Described())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	k.number = w.last
	if k.code != "" {
		w.failed.add(k)
	} else {
		w.finished.add(k)
	}
}

// EndedSince returns calls that are kept and ended after the one with this number, the oldest first: at most so many, of which those
// that failed come before others that are newer. last is the number to ask with next; 0 asks for all. omitted counts the calls that
// ended since and are not returned; for 0, of those that are kept.
func (b *Bridge) EndedSince(number uint64, most int) (calls []*adminv1.Call, last uint64, omitted int64) {
	w := &b.watched
	all := make([]known, 0, max(0, min(most, 2*maxKept)))
	w.mu.Lock()
	if number > w.last {
		number = 0 // of another process
	}
	all, failed := w.failed.newest(all, number, most)
	all, finished := w.finished.newest(all, number, most-len(all))
	last = w.last
	w.mu.Unlock()
	ended := last - number
	if number == 0 {
		ended = uint64(failed + finished)
	}
	slices.SortFunc(all, func(a, b known) int { return cmp.Compare(a.number, b.number) })
	for i := range all {
		calls = append(calls, all[i].ended())
	}
	return calls, last, int64(ended) - int64(len(calls))
}

// InFlight returns the requests in flight, the oldest first and streams of changes last: at most so many, and how many there are. A
// request that its caller has cancelled counts until its work has ended, but is not returned.
func (b *Bridge) InFlight(most int) (calls []*adminv1.Call, total int) {
	flights := b.inFlight()
	slices.SortFunc(flights, func(a, b *Flight) int {
		if isStream := a.end.req.Op == OpListen; isStream != (b.end.req.Op == OpListen) {
			if isStream {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.id, b.id)
	})
	now := time.Now()
	for _, f := range flights[:max(0, min(most, len(flights)))] {
		calls = append(calls, b.underWay(f, now))
	}
	return calls, max(b.flights.InFlight(), len(calls))
}

// inFlight returns the flights that have begun and not ended.
func (b *Bridge) inFlight() (flights []*Flight) {
	for _, owner := range b.flights.Owners() {
		if f, ok := owner.(*Flight); ok {
			flights = append(flights, f)
		}
	}
	return flights
}

// StreamItems returns the items of the call with an id that came after the one with this number and are kept, the oldest first, and
// how many are not. operator is the one that made the call in a console: only it may see them. It is empty for all other calls, and
// for those that are not in flight.
func (b *Bridge) StreamItems(id, number uint64) (items []*adminv1.StreamItem, omitted uint64, operator string) {
	for _, f := range b.inFlight() {
		if f.id == id {
			items, omitted = f.end.req.items.since(number)
			return items, omitted, f.end.req.console.Name()
		}
	}
	return nil, 0, ""
}

// Found is a call that [Bridge.FindCall] has found.
type Found struct {
	Call *adminv1.Call
	// Audit is the id of its lines in the audit trail; IsAudited is false if it has none.
	Audit     trail.ID
	IsAudited bool
}

// FindCall returns the call with an id, if it is in flight or among those that are kept.
func (b *Bridge) FindCall(id uint64) (Found, bool) {
	for _, f := range b.inFlight() {
		if f.id == id {
			k := f.known()
			return Found{Call: b.underWay(f, time.Now()), Audit: k.audit, IsAudited: k.isAudited}, true
		}
	}
	// It may have ended since it was looked for among those.
	if k, ok := b.watched.find(id); ok {
		return Found{Call: k.ended(), Audit: k.audit, IsAudited: k.isAudited}, true
	}
	return Found{}, false
}

// find returns the call that is kept with an id.
func (w *watched) find(id uint64) (known, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, calls := range [...][]known{w.failed.calls, w.finished.calls} {
		for i := range calls {
			if calls[i].id == id {
				return calls[i], true
			}
		}
	}
	return known{}, false
}

// underWay is a flight as operators see it.
func (b *Bridge) underWay(f *Flight, now time.Time) *adminv1.Call {
	k := f.known()
	k.tool, k.took = b.named(f.end.req), now.Sub(f.start)
	out := k.call()
	out.Steps, out.Step, k.upstream = k.stages.steps(k.took, true)
	out.Upstream = durationpb.New(k.upstream)
	return out
}

// named is the canonical name of the tool of a request, looked up where the one that the request has found cannot be read.
func (b *Bridge) named(req *Request) string {
	cat := b.parts.directory.catalogs.Current()
	if cat == nil || req.Op != OpCall {
		return ""
	}
	tool, ok := cat.ByProcedure(req.Procedure)
	if req.Procedure == "" {
		tool, ok = cat.Lookup(req.Tool)
	}
	if !ok {
		return ""
	}
	return tool.Name
}

// ended is a call that has ended, as operators see it.
func (k *known) ended() *adminv1.Call {
	out := k.call()
	out.Code, out.Message = cmp.Or(k.code, telemetry.OK), k.message
	out.Steps, _, _ = k.stages.steps(k.took, false)
	return out
}

// call is what is known of any call, as operators see it.
func (k *known) call() *adminv1.Call {
	out := &adminv1.Call{
		Id: k.id, Caller: k.caller, Operator: k.operator, Tool: k.tool, Edge: k.edge.String(), Operation: k.op.String(),
		Began: timestamppb.New(k.began), Took: durationpb.New(k.took), Upstream: durationpb.New(k.upstream),
		Revision: k.of, RequestId: k.request,
	}
	if k.trace != [16]byte{} {
		out.TraceId = hex.EncodeToString(k.trace[:])
	}
	if k.hasSpan {
		out.SpanId = hex.EncodeToString(k.span[:])
	}
	return out
}
