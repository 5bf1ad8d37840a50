// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

const (
	// DefaultMaxTools is the maximum number of tools with separate counters: as many as a
	// person can read on a metrics page. All other tools share one series.
	DefaultMaxTools = 256
	// Other is the name of the shared series. No tool has this name, because tool names
	// contain a dot.
	Other = "other"
	// OK is the code of success.
	OK = "OK"
	// namespace begins the names of the metrics that are ours.
	namespace = "outrigger"
)

// Stats holds the counters of requests, and is the collector of their metrics. Make one with [NewStats]. Nil counts
// nothing. Code that counts takes no lock, and allocates nothing once a combination of labels has been seen.
type Stats struct {
	all []prometheus.Collector

	tools      *cache[string, *Series]
	operations []*Ends
	// http is what was refused before it became a message, limits what was refused
	// for its size and the like.
	http     *Ends
	limits   limitCounts
	overhead *cache[Edge, *shown]
	// mcp and sessions are the metrics of OpenTelemetry's conventions for MCP.
	mcp      *cache[mcpLabels, *mcpSeries]
	sessions *cache[sessionLabels, *shown]
	// programs counts runs of programs by outcome.
	programs *prometheus.CounterVec
	// ended hears of the end of each call; nil tells no one.
	ended func(CallEnd)
	began time.Time
}

// NewStats returns a Stats with separate counters for up to maxTools tools (0:
// DefaultMaxTools) and for the given operations.
func NewStats(maxTools int, operations ...string) *Stats {
	defaults.Fill(&maxTools, DefaultMaxTools)
	t := &Stats{limits: newLimitCounts(), began: time.Now()}
	calls := t.counters("calls_total", "Finished tool calls by canonical tool, canonical code (OK for success) and edge. The tool is empty for "+
		"calls of unknown tools, and \"other\" beyond the first tools (telemetry.max_metric_tools).", "tool", "code", "edge")
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "calls_in_flight", Help: "Tool calls in flight."}, []string{"tool"})
	took := t.histograms(namespace+"_call_duration_seconds", "Duration of tool calls, from the parsed request to the response, before it is written.", callBounds[:], "tool")
	requests := t.counters("requests_total", "Finished requests other than tool calls by operation, canonical code and edge. The operation is empty "+
		"for messages rejected before they became a request.", "operation", "code", "edge")
	overhead := t.histograms(namespace+"_call_overhead_seconds", "The sidecar's own share of a tool call: its duration without the wait for the backend.", overheadBounds[:], "edge")
	http := t.counters("http_refused_total", "HTTP requests rejected for their path, method, headers, type, size or sender, by edge and canonical code. "+
		"They are not counted as calls.", "edge", "code")
	t.programs = t.counters("programs_total", "Programs of catalog.run by outcome: ok, dry_run, refused (before any call), asked (the user or others are asked), or failed.", "outcome")
	for _, outcome := range [...]string{"ok", "dry_run", "refused", "asked", "failed"} {
		t.Program(outcome, 0) // the series exist from the start
	}
	t.all = append(t.all, inFlight)

	t.tools = newCache(func(name string, tools int) string {
		if tools >= maxTools {
			return Other
		}
		return name
	}, func(name string) *Series {
		name = valid(name)
		return &Series{
			stats: t, name: name, inFlight: inFlight.WithLabelValues(name), took: took(name),
			ends: newEnds(func(edge, code string) prometheus.Counter { return calls.WithLabelValues(name, code, edge) }),
		}
	})
	for _, name := range operations {
		t.operations = append(t.operations, newEnds(func(edge, code string) prometheus.Counter { return requests.WithLabelValues(name, code, edge) }))
	}
	t.http = newEnds(func(edge, code string) prometheus.Counter { return http.WithLabelValues(edge, code) })
	t.overhead = newCache(func(e Edge, _ int) Edge { return e }, func(e Edge) *shown { return overhead(string(e)) })
	t.addMCP(maxTools)
	return t
}

// counters adds a metric.
func (t *Stats) counters(name, help string, labels ...string) *prometheus.CounterVec {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	t.all = append(t.all, all)
	return all
}

// histograms adds a metric, and returns what makes its series.
func (t *Stats) histograms(name, help string, bounds []time.Duration, labels ...string) func(values ...string) *shown {
	desc := prometheus.NewDesc(name, help, labels, nil)
	all := prometheus.NewMetricVec(desc, func(values ...string) prometheus.Metric {
		return Histogram{new(Durations), bounds}.Metric(desc, values...)
	})
	t.all = append(t.all, all)
	return func(values ...string) *shown {
		made, _ := all.GetMetricWithLabelValues(values...)
		return made.(*shown) //nolint:forcetypeassert // no error: the values are texts, as many as labels
	}
}

// Describe implements [prometheus.Collector].
func (t *Stats) Describe(out chan<- *prometheus.Desc) {
	for _, metric := range t.all {
		metric.Describe(out)
	}
}

// Collect implements [prometheus.Collector].
func (t *Stats) Collect(out chan<- prometheus.Metric) {
	for _, metric := range t.all {
		metric.Collect(out)
	}
}

// Program counts n runs of programs.
func (t *Stats) Program(outcome string, n int) {
	if t != nil {
		t.programs.WithLabelValues(outcome).Add(float64(n))
	}
}

// Began returns when counting began; the zero time for nil.
func (t *Stats) Began() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.began
}

// CallEnd is the end of one tool call.
type CallEnd struct {
	// Tool is the canonical name, or "" for a tool that does not exist.
	Tool string
	End
}

// OnEnd makes f run at the end of each tool call, on the goroutine of the call. Call it
// before the first call.
func (t *Stats) OnEnd(f func(CallEnd)) { t.ended = f }

// Tool returns the series of a tool by its canonical name. The empty name is for calls
// of tools that do not exist, because text from callers must not become a label.
func (t *Stats) Tool(name string) *Series {
	if t == nil {
		return nil
	}
	return t.tools.of(name)
}

// Operation returns the counts of the nth operation given to NewStats. For any other number
// it returns nil, which counts nothing.
func (t *Stats) Operation(n int) *Ends {
	if t == nil || n < 0 || n >= len(t.operations) {
		return nil
	}
	return t.operations[n]
}

// HTTPRefused counts an HTTP request that was rejected at the HTTP level: for its path,
// its method, its headers, its size, or its sender.
func (t *Stats) HTTPRefused(edge Edge, code errmap.Code) {
	if t != nil {
		t.http.Count(edge, code)
	}
}

// limitCounts are how often each of [errmap.Limits] was met. The keys are fixed
// when it is made.
type limitCounts map[errmap.Limit]*atomic.Uint64

func newLimitCounts() limitCounts {
	counts := limitCounts{}
	for _, l := range errmap.Limits() {
		counts[l] = new(atomic.Uint64)
	}
	return counts
}

// Over counts a request that was refused or cut short because of a limit. A value that
// is not in [errmap.Limits] counts nothing.
func (t *Stats) Over(l errmap.Limit) {
	if t == nil || l == "" {
		return
	}
	if n, ok := t.limits[l]; ok {
		n.Add(1)
	}
}

// TimesOver returns how many times Over has counted a limit.
func (t *Stats) TimesOver(l errmap.Limit) uint64 {
	if t == nil || t.limits[l] == nil {
		return 0
	}
	return t.limits[l].Load()
}

// Ends counts ended requests by edge and code. Nil counts nothing.
type Ends struct {
	of *cache[ending, prometheus.Counter]
}

type ending struct {
	edge Edge
	code errmap.Code
}

func newEnds(counter func(edge, code string) prometheus.Counter) *Ends {
	return &Ends{newCache(func(e ending, _ int) ending {
		if e.code != "" && !slices.Contains(errmap.Codes(), e.code) {
			e.code = errmap.InternalError // as it is answered
		}
		return e
	}, func(e ending) prometheus.Counter { return counter(string(e.edge), cmp.Or(string(e.code), OK)) })}
}

// Count counts the end of a request, with its canonical code, or none for success.
func (e *Ends) Count(edge Edge, code errmap.Code) {
	if e != nil {
		e.of.of(ending{edge, code}).Inc()
	}
}

// Series is the counters of one tool. Nil counts nothing.
type Series struct {
	stats    *Stats
	name     string
	ends     *Ends
	inFlight prometheus.Gauge
	took     *shown
	// usual is how the first call of the tool ended, and so do most: comparing its labels takes a fraction of looking them up. It is
	// nil before that.
	usual atomic.Pointer[mcpSeries]
}

// Begin counts the start of a request. [Series.End] counts its end.
func (s *Series) Begin() {
	if s != nil {
		s.inFlight.Inc()
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
	s.inFlight.Dec()
	s.ends.Count(e.Edge, e.Code)
	if s.stats.ended != nil {
		s.stats.ended(CallEnd{Tool: s.name, End: e})
	}
	s.took.Add(e.Took, e.Trace)
	if e.Upstream > 0 {
		// Without a call of the backend there is nothing that could be overhead.
		s.stats.overhead.of(e.Edge).Add(max(0, e.Took-e.Upstream), e.Trace)
	}
}

// ToolCounts are the counts of one tool.
type ToolCounts struct {
	// Tool is the canonical name, [Other] for the tools beyond the bound, or "" for tools that do not exist.
	Tool string
	// Calls are those that ended, Failed those of them that failed, and InFlight those that have not ended.
	Calls, Failed uint64
	InFlight      int64
	// Total is the sum of the durations of the calls that ended. Buckets count them: up to each of Bounds, and above all of them.
	Total   time.Duration
	Bounds  []time.Duration
	Buckets []uint64
}

// Counts returns the counts of the tools that were called, at most so many: those with most calls, which come first.
func (t *Stats) Counts(most int) []ToolCounts {
	var out []ToolCounts
	for _, s := range t.tools.seen.Load().all {
		if one := s.counts(); one.Calls > 0 || one.InFlight > 0 {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b ToolCounts) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool))
	})
	return out[:min(len(out), most)]
}

// counts reads the counters of a tool.
func (s *Series) counts() ToolCounts {
	out := ToolCounts{Tool: s.name, InFlight: int64(value(s.inFlight)), Total: time.Duration(s.took.sum.Load()), Bounds: s.took.Bounds}
	for i := range len(s.took.Bounds) + 1 {
		n := s.took.counts[i].Load()
		out.Calls += n
		out.Buckets = append(out.Buckets, n)
	}
	for end, count := range s.ends.of.seen.Load().all {
		if end.code != "" {
			out.Failed += uint64(value(count))
		}
	}
	return out
}

// value is what a counter or a gauge shows.
func value(m prometheus.Metric) float64 {
	var out dto.Metric
	// Counters and gauges have no error.
	_ = m.Write(&out)
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// Edge is the name of the interface through which a request arrived, for logs and metrics.
type Edge string

// The edges. EdgeTyped is the typed pass-through in any protocol. The three before it
// are the tool API. EdgeAdmin is the listeners for operators and for probes. EdgeOther
// is everything else, such as a command that makes one call.
const (
	EdgeMCP     Edge = "mcp"
	EdgeRPC     Edge = "rpc"
	EdgeStdio   Edge = "stdio"
	EdgeConnect Edge = "connect"
	EdgeGRPC    Edge = "grpc"
	EdgeGRPCWeb Edge = "grpcweb"
	EdgeTyped   Edge = "typed"
	EdgeAdmin   Edge = "admin"
	EdgeOther   Edge = "other"
)

// EdgeOf returns the edge of a request from its transport and route. The name of an edge over HTTP is its path, except that
// the paths of servers of MCP 2024-11-05 are those of EdgeMCP too. isTyped marks requests of the typed pass-through.
func EdgeOf(transport, route string, isTyped bool) Edge {
	if isTyped {
		return EdgeTyped
	}
	switch transport {
	case "http":
		if route == "" || route == "/sse" || strings.HasPrefix(route, "/message") {
			return EdgeMCP
		}
		return Edge(strings.TrimPrefix(route, "/"))
	case "stdio", "connect", "grpc", "grpcweb":
		return Edge(transport)
	}
	return EdgeOther
}

// Transport returns OpenTelemetry's name of the transport of an edge (network.transport), or ""
// for the edges that have none. Callers reach all others by TCP.
func (e Edge) Transport() string {
	switch e {
	case EdgeStdio:
		return "pipe"
	case EdgeAdmin, EdgeOther:
		return ""
	}
	return "tcp"
}

// IsRPC reports whether the callers of an edge speak Connect, gRPC or gRPC-Web.
func (e Edge) IsRPC() bool {
	return e == EdgeConnect || e == EdgeGRPC || e == EdgeGRPCWeb || e == EdgeTyped
}

// IsJSONRPC reports whether messages of the edge are JSON-RPC, in MCP or in the canonical dialect.
func (e Edge) IsJSONRPC() bool { return e.Transport() != "" && !e.IsRPC() }

// String returns the name of the edge.
func (e Edge) String() string { return string(e) }
