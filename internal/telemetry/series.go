// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// cache is the series of one metric that were seen, by their labels. Make one with newCache.
type cache[K comparable, V any] struct {
	// seen is replaced when a key is seen for the first time, so that code that counts takes no lock.
	seen atomic.Pointer[seen[K, V]]
	mu   sync.Mutex // held to replace seen, and for bound
	// bound returns the key to count as, while there are so many series. It must return one of a limited number, whatever it gets.
	bound func(key K, series int) K
	add   func(K) V
}

// seen is what a cache has. Most requests end as the first one did, and comparing keys takes a fraction of looking one up.
type seen[K comparable, V any] struct {
	first   K
	ofFirst V
	all     map[K]V
}

func newCache[K comparable, V any](bound func(key K, series int) K, add func(K) V) *cache[K, V] {
	c := &cache[K, V]{bound: bound, add: add}
	c.seen.Store(&seen[K, V]{})
	return c
}

// of returns the series to count a key in.
func (c *cache[K, V]) of(key K) V {
	now := c.seen.Load()
	if key == now.first && len(now.all) > 0 {
		return now.ofFirst
	}
	if v, ok := now.all[key]; ok {
		return v
	}
	return c.ofNew(key)
}

func (c *cache[K, V]) ofNew(key K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.seen.Load()
	key = c.bound(key, len(now.all))
	if v, ok := now.all[key]; ok {
		return v
	}
	v := c.add(key)
	more := seen[K, V]{now.first, now.ofFirst, maps.Clone(now.all)}
	if len(now.all) == 0 {
		more = seen[K, V]{key, v, map[K]V{}}
	}
	more.all[key] = v
	c.seen.Store(&more)
	return v
}

// anyOther represents all values of a label beyond the first ones, except that of a
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
	// maxSessionSeries bounds the series of sessions: every revision on every transport.
	maxSessionSeries = 64
)

// Labels returns the attributes of MCP requests by which OpenTelemetry's conventions count them. On the page their
// names have underscores, and one without a value is empty.
func Labels() []string {
	return []string{MethodName, ToolName, OperationName, ErrorType, StatusCode, ProtocolVersion, Transport}
}

// mcpLabels are the values of [Labels], sessionLabels those of a session: its error, revision and transport.
type (
	mcpLabels     [7]string
	sessionLabels [3]string
)

// mcpSeries is a series of MCP requests.
type mcpSeries struct {
	*shown

	labels mcpLabels
}

// addMCP adds the metrics of OpenTelemetry's conventions for MCP.
func (t *Stats) addMCP(tools int) {
	label := strings.NewReplacer(".", "_").Replace
	labels := Labels()
	for i := range labels {
		labels[i] = label(labels[i])
	}
	operations := t.histograms("mcp_server_operation_duration_seconds",
		"Duration of MCP requests, by OpenTelemetry's conventions for MCP (mcp.server.operation.duration). A label that does not apply is empty.", mcpBounds[:], labels...)
	sessions := t.histograms("mcp_server_session_duration_seconds",
		"Duration of ended MCP sessions, by OpenTelemetry's conventions for MCP (mcp.server.session.duration).", mcpBounds[:],
		label(ErrorType), label(ProtocolVersion), label(Transport))
	values := newVocabulary(maxMethods, tools+2, 1, maxErrorTypes, maxStatuses, maxVersions, maxTransports)
	t.mcp = newCache(func(k mcpLabels, series int) mcpLabels {
		if series >= tools*seriesPerTool+spareSeries {
			return mcpLabels{anyOther}
		}
		if series >= tools*seriesPerTool && k[2] != "" {
			k[1] = Other
		}
		values.bound(k[:])
		return k
	}, func(k mcpLabels) *mcpSeries { return &mcpSeries{operations(k[:]...), k} })
	ofSessions := newVocabulary(maxErrorTypes, maxVersions, maxTransports)
	t.sessions = newCache(func(k sessionLabels, series int) sessionLabels {
		if series >= maxSessionSeries {
			return sessionLabels{1: anyOther}
		}
		ofSessions.bound(k[:])
		return k
	}, func(k sessionLabels) *shown { return sessions(k[:]...) })
}

// vocabulary is the values that the labels of a metric have had, each up to a number.
type vocabulary []struct {
	most  int
	known map[string]string
}

func newVocabulary(most ...int) vocabulary {
	v := make(vocabulary, len(most))
	for i, n := range most {
		v[i].most, v[i].known = n, map[string]string{"": ""}
	}
	return v
}

// bound replaces values beyond the first ones by anyOther. It copies the others, which may be part of a message.
func (v vocabulary) bound(values []string) {
	for i, value := range values {
		kept, ok := v[i].known[value]
		switch {
		case ok:
		case len(v[i].known) > v[i].most:
			kept = anyOther
		default:
			kept = strings.Clone(valid(value))
			v[i].known[kept] = kept
		}
		values[i] = kept
	}
}

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

// EndMCP counts the end of an MCP request, beside what counts it in its own series.
func (t *Stats) EndMCP(r MCPRequest) {
	if t == nil {
		return
	}
	labels := mcpLabels{r.Method, "", "", r.ErrorType, r.Status, r.Version, r.Transport}
	if r.Tool != nil {
		labels[1], labels[2] = r.Tool.name, ExecuteTool
		if usual := r.Tool.usual.Load(); usual != nil && usual.labels == labels {
			usual.Add(r.Took, r.Trace)
			return
		}
	}
	series := t.mcp.of(labels)
	if r.Tool != nil {
		r.Tool.usual.CompareAndSwap(nil, series)
	}
	series.Add(r.Took, r.Trace)
}

// Session is a session that has ended. A text that is empty is an attribute that it does not
// have.
type Session struct {
	// Version is the revision of the protocol. Transport is that of [Edge.Transport].
	Version, Transport string
	// ErrorType is why the session ended, if neither side wanted that.
	ErrorType string
	Took      time.Duration
}

// EndSession counts the end of a session.
func (t *Stats) EndSession(s Session) {
	if t != nil {
		t.sessions.of(sessionLabels{s.ErrorType, s.Version, s.Transport}).Add(s.Took, Trace{})
	}
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

// Durations counts durations by bucket, and keeps a sampled request for each bucket. The zero value is ready. client_golang's
// histogram would allocate for each sampled request.
type Durations struct {
	// counts has one more for what is above all bounds.
	counts [maxBuckets + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
	// exemplars are made for the first sampled request, one for each bucket.
	exemplars atomic.Pointer[[maxBuckets + 1]exemplar]
}

// Histogram is durations with the bounds of their buckets, at most 16 that never change.
type Histogram struct {
	*Durations

	Bounds []time.Duration
}

// Add counts a duration, and keeps the trace of its request, if there is one.
func (h Histogram) Add(d time.Duration, of Trace) {
	n := 0
	for n < len(h.Bounds) && d > h.Bounds[n] {
		n++
	}
	h.counts[n].Add(1)
	h.sum.Add(int64(d))
	if of == (Trace{}) {
		return
	}
	all := h.exemplars.Load()
	if all == nil {
		h.exemplars.CompareAndSwap(nil, new([maxBuckets + 1]exemplar))
		all = h.exemplars.Load()
	}
	all[n].keep(of, d, time.Now())
}

// Count returns the number of durations.
func (h Histogram) Count() uint64 {
	n := uint64(0)
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Metric returns the metric that shows a histogram as it is when it is read.
func (h Histogram) Metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	return &shown{h, desc, prometheus.MakeLabelPairs(desc, labels)}
}

// shown is a histogram with its name.
type shown struct {
	Histogram

	desc   *prometheus.Desc
	labels []*dto.LabelPair
}

// Desc implements [prometheus.Metric].
func (s *shown) Desc() *prometheus.Desc { return s.desc }

// Write implements [prometheus.Metric]. Each bucket holds those before. Only OpenMetrics shows exemplars.
func (s *shown) Write(out *dto.Metric) error {
	total, exemplars := uint64(0), s.exemplars.Load()
	out.Label, out.Histogram = s.labels, &dto.Histogram{SampleSum: proto.Float64(seconds(time.Duration(s.sum.Load())))}
	for i := range len(s.Bounds) + 1 {
		total += s.counts[i].Load()
		bucket := &dto.Bucket{CumulativeCount: proto.Uint64(total), UpperBound: proto.Float64(math.Inf(1))}
		if exemplars != nil {
			bucket.Exemplar = exemplars[i].load()
		}
		if i < len(s.Bounds) {
			*bucket.UpperBound = seconds(s.Bounds[i])
		} else if bucket.Exemplar == nil {
			break // it is the count of all
		}
		out.Histogram.Bucket = append(out.Histogram.Bucket, bucket)
	}
	out.Histogram.SampleCount = &total
	return nil
}

// seconds is a duration in Prometheus' unit, with bounds as people write them:
// 0.00025 rather than 0.00025000000000000001.
func seconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e9 }

// Trace names the span of a request, if it is sampled. The zero value names none.
type Trace struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// exemplar is the last sampled request of one bucket, by which a person finds a trace. The zero value is ready.
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

// load returns the exemplar, with the names of OpenTelemetry and Grafana, or nil if there is none. It gives up if writers do
// not let it read a consistent one.
func (e *exemplar) load() *dto.Exemplar {
	const tries = 8
	for range tries {
		version := e.version.Load()
		if version == 0 {
			return nil
		}
		var id [16 + 8]byte
		binary.BigEndian.PutUint64(id[:8], e.traceHigh.Load())
		binary.BigEndian.PutUint64(id[8:16], e.traceLow.Load())
		binary.BigEndian.PutUint64(id[16:], e.span.Load())
		took, at := time.Duration(e.took.Load()), time.Unix(0, e.unixNanosecond.Load())
		if version%2 == 1 || e.version.Load() != version {
			continue
		}
		return &dto.Exemplar{
			Label: []*dto.LabelPair{
				{Name: proto.String("trace_id"), Value: proto.String(hex.EncodeToString(id[:16]))},
				{Name: proto.String("span_id"), Value: proto.String(hex.EncodeToString(id[16:]))},
			},
			Value: proto.Float64(seconds(took)), Timestamp: timestamppb.New(at),
		}
	}
	return nil
}
