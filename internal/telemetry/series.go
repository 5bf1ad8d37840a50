// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// maxCodes is how many codes there may be, success included: half as many again
// as the canonical table has. A test compares the two.
const maxCodes = 48

// codeTable numbers the canonical codes; success is 0. It is frozen when it is
// made.
type codeTable struct {
	names  []string
	number map[errmap.Code]int
}

func newCodeTable() codeTable {
	t := codeTable{names: []string{OK}, number: map[errmap.Code]int{}}
	for _, code := range errmap.Codes() {
		t.number[code] = len(t.names)
		t.names = append(t.names, string(code))
	}
	return t
}

// of is the code's number; a code that is not in the table counts as what it is
// answered as.
func (t codeTable) of(code errmap.Code) int {
	if code == "" {
		return 0
	}
	if n, ok := t.number[code]; ok {
		return n
	}
	return t.number[errmap.InternalError]
}

// byCode counts ends of one edge.
type byCode [maxCodes]atomic.Uint64

// Series is the counters of one tool or one operation. Nil counts nothing.
type Series struct {
	stats    *Stats
	name     string
	inFlight atomic.Int64
	// ends is made for an edge when the first request ends there: most processes
	// use one edge.
	ends [edges]atomic.Pointer[byCode]
	took histogram
	// usual is nil before the first call that is counted by the conventions for MCP.
	usual atomic.Pointer[usualEnd]
}

// Begin counts the start of a request. [Series.End] counts its end.
func (s *Series) Begin() {
	if s != nil {
		s.inFlight.Add(1)
	}
}

// End describes the end of a request.
type End struct {
	// Code is the canonical code, or empty for success.
	Code errmap.Code
	Edge Edge
	// Took is the duration of the request. Upstream is the part of it spent waiting for
	// the backend or a person.
	Took, Upstream time.Duration
	// Trace is the request's span, if it is sampled.
	Trace Trace
}

// End counts the end of a request that Begin counted.
func (s *Series) End(e End) {
	if s == nil {
		return
	}
	s.inFlight.Add(-1)
	s.Count(e.Edge, e.Code)
	if s.stats.ended != nil {
		s.stats.ended(CallEnd{Tool: s.name, End: e})
	}
	s.took.add(callBounds[:], e.Took, e.Trace)
	if e.Upstream > 0 {
		// Without a call of the backend there is nothing that could be overhead.
		s.stats.overhead[s.stats.edge(e.Edge)].add(overheadBounds[:], max(0, e.Took-e.Upstream), e.Trace)
	}
}

// Count counts only the end of a request. It is for requests that take no time, or that
// last as long as the caller wants.
func (s *Series) Count(edge Edge, code errmap.Code) {
	if s == nil {
		return
	}
	at := &s.ends[s.stats.edge(edge)]
	counts := at.Load()
	if counts == nil {
		at.CompareAndSwap(nil, new(byCode))
		counts = at.Load()
	}
	counts[s.stats.codes.of(code)].Add(1)
}

// Bounds of the buckets, each included in its bucket.
//
// callBounds spread from the fastest call over loopback to the default timeout.
// overheadBounds resolve what the sidecar itself adds, which is tens of
// microseconds; its slow end shows pauses of the machine. mcpBounds are those that
// OpenTelemetry's conventions for MCP ask for.
var (
	callBounds = [...]time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	}
	overheadBounds = [...]time.Duration{
		5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 30 * time.Microsecond, 50 * time.Microsecond, 75 * time.Microsecond,
		100 * time.Microsecond, 150 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond,
	}
	mcpBounds = [...]time.Duration{
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute,
	}
)

// maxBuckets is the most bounds that a histogram has.
const maxBuckets = len(callBounds)

// histogram counts durations. The zero value is ready.
type histogram struct {
	// counts has one more for what is above all bounds.
	counts [maxBuckets + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
	// exemplars are made for the first sampled request, one for each bucket.
	exemplars atomic.Pointer[[maxBuckets + 1]exemplar]
}

// add counts a duration, and keeps the trace of its request, if there is one.
func (h *histogram) add(bounds []time.Duration, d time.Duration, of Trace) {
	n := 0
	for n < len(bounds) && d > bounds[n] {
		n++
	}
	h.counts[n].Add(1)
	h.sum.Add(int64(d))
	if of != (Trace{}) {
		h.exemplar(n).keep(of, d, time.Now())
	}
}

func (h *histogram) exemplar(bucket int) *exemplar {
	all := h.exemplars.Load()
	if all == nil {
		h.exemplars.CompareAndSwap(nil, new([maxBuckets + 1]exemplar))
		all = h.exemplars.Load()
	}
	return &all[bucket]
}

// Histogram counts durations by bucket.
type Histogram struct {
	// Bounds are the upper bounds of the buckets. Counts are the numbers of durations in
	// each bucket; the last one is for durations above all bounds.
	Bounds []time.Duration
	Counts []uint64
	Sum    time.Duration
	// Exemplars are sampled requests, at most one for each bucket.
	Exemplars []Exemplar
}

// Count returns the number of durations.
func (h Histogram) Count() uint64 {
	n := uint64(0)
	for _, c := range h.Counts {
		n += c
	}
	return n
}

func (h *histogram) snapshot(bounds []time.Duration) Histogram {
	out := Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1), Sum: time.Duration(h.sum.Load())}
	for i := range out.Counts {
		out.Counts[i] = h.counts[i].Load()
	}
	all := h.exemplars.Load()
	for i := range out.Counts {
		if all == nil {
			break
		}
		if one, ok := all[i].load(); ok {
			out.Exemplars = append(out.Exemplars, one)
		}
	}
	return out
}

// Durations is a histogram of the durations of one operation, whose at most 16 bounds never change. The zero value is ready.
type Durations struct{ of histogram }

// Add counts a duration.
func (d *Durations) Add(bounds []time.Duration, took time.Duration) { d.of.add(bounds, took, Trace{}) }

// Snapshot returns what was counted so far.
func (d *Durations) Snapshot(bounds []time.Duration) Histogram { return d.of.snapshot(bounds) }

// Trace names the span of a request, if it is sampled. The zero value names none.
type Trace struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// Exemplar is one request among those of a bucket, by which a person finds a trace.
type Exemplar struct {
	Trace

	Took time.Duration
	// At is when the request ended.
	At time.Time
}

// exemplar is the last sampled request of one bucket. The zero value is ready.
//
// It is written in place, because an object for each sampled request would be garbage. A
// writer that meets another one gives up: either request is as good.
type exemplar struct {
	// version is odd while a writer is at work, and 0 before the first.
	version              atomic.Uint32
	traceHigh, traceLow  atomic.Uint64
	span                 atomic.Uint64
	took, unixNanosecond atomic.Int64
}

func (e *exemplar) keep(of Trace, took time.Duration, at time.Time) {
	version := e.version.Load()
	if version%2 == 1 || !e.version.CompareAndSwap(version, version+1) {
		return
	}
	e.traceHigh.Store(binary.BigEndian.Uint64(of.TraceID[:8]))
	e.traceLow.Store(binary.BigEndian.Uint64(of.TraceID[8:]))
	e.span.Store(binary.BigEndian.Uint64(of.SpanID[:]))
	e.took.Store(int64(took))
	e.unixNanosecond.Store(at.UnixNano())
	e.version.Store(version + 2)
}

// load returns the exemplar, or false if there is none. It gives up if writers do not let it
// read a consistent one.
func (e *exemplar) load() (Exemplar, bool) {
	const tries = 8
	for range tries {
		version := e.version.Load()
		if version == 0 {
			return Exemplar{}, false
		}
		if version%2 == 1 {
			continue
		}
		var out Exemplar
		binary.BigEndian.PutUint64(out.TraceID[:8], e.traceHigh.Load())
		binary.BigEndian.PutUint64(out.TraceID[8:], e.traceLow.Load())
		binary.BigEndian.PutUint64(out.SpanID[:], e.span.Load())
		out.Took, out.At = time.Duration(e.took.Load()), time.Unix(0, e.unixNanosecond.Load())
		if e.version.Load() == version {
			return out, true
		}
	}
	return Exemplar{}, false
}

// anyOther represents all values of an attribute beyond the first ones, except that of a
// tool, which is [Other]. OpenTelemetry's conventions use it for values that are not known.
const anyOther = "_OTHER"

// Bounds of the series of MCP requests. There are as many methods, revisions and codes in the
// contract as fit several times; tools have the bound of [NewStats].
const (
	maxMethods    = 64
	maxVersions   = 16
	maxTransports = 8
	maxErrorTypes = 64
	maxStatuses   = 64
	// seriesPerTool is how many series there may be for each tool that has its own: success
	// and three kinds of errors, or two eras with one each.
	seriesPerTool = 4
	// spareSeries are for the methods and errors of all the tools beyond.
	spareSeries = 256
)

// MCPRequest is a finished request as OpenTelemetry's conventions for MCP describe it. A text
// that is empty is an attribute that the request does not have.
type MCPRequest struct {
	// Tool is the series of the tool of a call, and nil for other requests.
	Tool *Series
	// Method is the name of the operation, such as "tools/call".
	Method string
	// Version is the revision of the protocol. Transport is that of [Edge.Transport].
	Version, Transport string
	// ErrorType is empty for success, and for errors that are the caller's own. Status is the
	// code of the error in the caller's protocol.
	ErrorType, Status string
	Took              time.Duration
	// Trace is the request's span, if it is sampled.
	Trace Trace
}

// mcpKey are the attributes of a series of MCP requests.
type mcpKey struct {
	tool                                          *Series
	method, version, transport, errorType, status string
}

// EndMCP counts the end of an MCP request, beside what counts it in its own series. It
// allocates nothing once a combination of attributes has been seen.
func (t *Stats) EndMCP(r MCPRequest) {
	if t == nil {
		return
	}
	key := mcpKey{r.Tool, r.Method, r.Version, r.Transport, r.ErrorType, r.Status}
	if r.Tool == nil {
		t.mcp.of(key).add(mcpBounds[:], r.Took, r.Trace)
		return
	}
	usual := r.Tool.usual.Load()
	if usual == nil || usual.key != key {
		took := t.mcp.of(key)
		if usual == nil {
			r.Tool.usual.CompareAndSwap(nil, &usualEnd{key.clone(), took})
		}
		took.add(mcpBounds[:], r.Took, r.Trace)
		return
	}
	usual.took.add(mcpBounds[:], r.Took, r.Trace)
}

// usualEnd is where the calls of a tool are counted that end as its first one did, which most do. To compare a key takes a
// fraction of the time of looking it up.
type usualEnd struct {
	key  mcpKey
	took *histogram
}

// clone copies the texts, which may be part of a message.
func (k mcpKey) clone() mcpKey {
	for _, text := range []*string{&k.method, &k.version, &k.transport, &k.errorType, &k.status} {
		*text = strings.Clone(*text)
	}
	return k
}

// newMCP returns the family of MCP requests.
func newMCP(tools int, other *Series) *family[mcpKey] {
	methods, versions, transports := newNames(maxMethods), newNames(maxVersions), newNames(maxTransports)
	errorTypes, statuses := newNames(maxErrorTypes), newNames(maxStatuses)
	return newFamily(func(k mcpKey, series int) mcpKey {
		if series >= tools*seriesPerTool+spareSeries {
			return mcpKey{method: anyOther}
		}
		k.method, k.version, k.transport = methods.bound(k.method), versions.bound(k.version), transports.bound(k.transport)
		k.errorType, k.status = errorTypes.bound(k.errorType), statuses.bound(k.status)
		if series >= tools*seriesPerTool && k.tool != nil {
			k.tool = other
		}
		return k
	})
}

// MCPNumbers are the numbers of the MCP requests with the same attributes.
type MCPNumbers struct {
	// IsToolCall is set for calls; Tool is the canonical name of their tool, empty if there
	// is no such tool.
	IsToolCall                                          bool
	Tool, Method, Version, Transport, ErrorType, Status string
	Took                                                Histogram
}

func (t *Stats) mcpNumbers() []MCPNumbers {
	var out []MCPNumbers
	for k, h := range t.mcp.all() {
		n := MCPNumbers{
			IsToolCall: k.tool != nil, Method: k.method, Version: k.version, Transport: k.transport,
			ErrorType: k.errorType, Status: k.status, Took: h.snapshot(mcpBounds[:]),
		}
		if k.tool != nil {
			n.Tool = k.tool.name
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b MCPNumbers) int {
		return cmp.Or(strings.Compare(a.Method, b.Method), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Version, b.Version),
			strings.Compare(a.Transport, b.Transport), strings.Compare(a.ErrorType, b.ErrorType), strings.Compare(a.Status, b.Status))
	})
	return out
}
