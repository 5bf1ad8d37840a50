// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

func TestEndsAreCountedByCodeAndEdge(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0, "", "list")
	for _, e := range []telemetry.End{
		{Edge: telemetry.EdgeMCP, Took: 300 * time.Microsecond, Upstream: 260 * time.Microsecond},
		{Edge: telemetry.EdgeMCP, Took: time.Minute, Upstream: time.Second},
		{Edge: telemetry.EdgeStdio, Code: errmap.Timeout, Took: 30 * time.Second, Upstream: 30*time.Second + 1},
		{Edge: telemetry.EdgeOther, Code: "NO_SUCH_CODE", Took: 250 * time.Microsecond},
	} {
		s := counts.Tool("shop.get")
		s.Begin()
		s.End(e)
	}
	counts.Tool("shop.hangs").Begin()
	counts.Operation(1).Count(telemetry.EdgeRPC, "")
	counts.Operation(0).Count(telemetry.EdgeRPC, errmap.ParseError)
	counts.Operation(2).Count(telemetry.EdgeRPC, "")
	counts.Operation(-1).Count(telemetry.EdgeRPC, "")

	got := shown(t, counts, "outrigger_calls_total", "outrigger_requests_total", "outrigger_calls_in_flight", "outrigger_call_duration_seconds",
		"outrigger_call_overhead_seconds")
	for series, want := range map[string]float64{
		`outrigger_calls_total{code="OK",edge="mcp",tool="shop.get"}`:               2,
		`outrigger_calls_total{code="TIMEOUT",edge="stdio",tool="shop.get"}`:        1,
		`outrigger_calls_total{code="INTERNAL_ERROR",edge="other",tool="shop.get"}`: 1,
		`outrigger_requests_total{code="OK",edge="rpc",operation="list"}`:           1,
		`outrigger_requests_total{code="PARSE_ERROR",edge="rpc",operation=""}`:      1,
	} {
		if n := got[series].GetCounter().GetValue(); n != want {
			t.Errorf("%s: %v, want %v", series, n, want)
		}
	}
	for tool, want := range map[string]float64{"shop.get": 0, "shop.hangs": 1} {
		if n := got[`outrigger_calls_in_flight{tool="`+tool+`"}`].GetGauge().GetValue(); n != want {
			t.Errorf("%s: %v in flight, want %v", tool, n, want)
		}
	}
	for series, want := range map[string]string{
		`outrigger_call_duration_seconds{tool="shop.get"}`:   "4 90.00055 0.00025:1 0.0005:1 30:1 +Inf:1",
		`outrigger_call_duration_seconds{tool="shop.hangs"}`: "0 0",
		`outrigger_call_overhead_seconds{edge="mcp"}`:        "2 59.00004 5e-05:1 +Inf:1",
		`outrigger_call_overhead_seconds{edge="stdio"}`:      "1 0 5e-06:1", // not below zero
	} {
		if h := buckets(got[series]); h != want {
			t.Errorf("%s: %s, want %s", series, h, want)
		}
	}
	if len(got) != 5+2+4 {
		t.Errorf("%d series: %v", len(got), slices.Sorted(maps.Keys(got)))
	}
}

// shown are the series of a Stats, by name and labels: of some metrics, or of all. A counter without labels that has counted nothing
// is left out, so that a test is about those that it knows.
func shown(t *testing.T, counts *telemetry.Stats, metrics ...string) map[string]*dto.Metric {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(counts); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.Metric{}
	for _, family := range families {
		if len(metrics) > 0 && !slices.Contains(metrics, family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			if len(m.GetLabel()) == 0 && m.GetCounter() != nil && m.GetCounter().GetValue() == 0 {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = m
		}
	}
	return out
}

// buckets are the count, the sum and the filled buckets of a histogram.
func buckets(m *dto.Metric) string {
	h, before := m.GetHistogram(), uint64(0)
	out := fmt.Sprint(h.GetSampleCount(), " ", h.GetSampleSum())
	for _, b := range h.GetBucket() {
		if n := b.GetCumulativeCount() - before; n > 0 && !math.IsInf(b.GetUpperBound(), 1) {
			out += fmt.Sprintf(" %v:%d", b.GetUpperBound(), n)
			before += n
		}
	}
	if n := h.GetSampleCount() - before; n > 0 {
		out += fmt.Sprintf(" +Inf:%d", n)
	}
	return out
}

// mcp are the series of MCP requests.
func mcp(t *testing.T, counts *telemetry.Stats) map[string]*dto.Metric {
	t.Helper()
	out := shown(t, counts)
	maps.DeleteFunc(out, func(series string, _ *dto.Metric) bool { return !strings.HasPrefix(series, "mcp_server_operation") })
	return out
}

// TestToolsAreBounded calls more tools than are counted one by one, from several
// goroutines.
func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(3)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 1000 {
				s := counts.Tool(fmt.Sprintf("shop.get%d", n%10))
				s.Begin()
				s.End(telemetry.End{Took: 1})
			}
		})
	}
	all.Wait()
	got, tools, total := shown(t, counts), 0, 0.0
	for series, m := range got {
		if strings.HasPrefix(series, "outrigger_calls_total") {
			tools, total = tools+1, total+m.GetCounter().GetValue()
		}
	}
	if n := got[`outrigger_call_duration_seconds{tool="other"}`].GetHistogram().GetSampleCount(); tools != 4 || total != 8000 || n != 8*700 {
		t.Errorf("%d series, %v calls, %d of other tools", tools, total, n)
	}
}

func TestEveryCodeHasItsNumber(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0, "list")
	codes := append(errmap.Codes(), "")
	for _, code := range codes {
		counts.Operation(0).Count(telemetry.EdgeMCP, code)
	}
	const outcomes = 5 // of programs, whose series exist from the start
	if n := len(shown(t, counts)) - outcomes; n != len(codes) {
		t.Errorf("%d codes are counted as %d", len(codes), n)
	}
}

func TestEdges(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, tt := range []struct {
		transport, route string
		isTyped          bool
		want             string
	}{
		{"http", "/mcp", false, "mcp"},
		{"http", "/sse", false, "mcp"},
		{"http", "/messages/of-a-client", false, "mcp"},
		{"http", "/rpc", false, "rpc"},
		{"stdio", "stdio", false, "stdio"},
		{"connect", "/outrigger.v1.ToolService/CallTool", false, "connect"},
		{"grpc", "/outrigger.v1.ToolService/CallTool", false, "grpc"},
		{"grpcweb", "/outrigger.v1.ToolService/CallTool", false, "grpcweb"},
		{"grpc", "/shop.v1.Orders/Get", true, "typed"},
		{"cli", "call", false, "other"},
		{"", "", false, "other"},
	} {
		got := telemetry.EdgeOf(tt.transport, tt.route, tt.isTyped).String()
		if got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.transport, tt.route, got, tt.want)
		}
		seen[got] = true
	}
	if len(seen) != 8 {
		t.Errorf("edges %v", seen)
	}
}

func TestNilCountsNothing(t *testing.T) {
	t.Parallel()
	var counts *telemetry.Stats
	s := counts.Tool("shop.get")
	s.Begin()
	s.End(telemetry.End{})
	counts.Operation(0).Count(telemetry.EdgeMCP, "")
}

// TestCountingAllocatesNothing holds the promise of the package.
func TestCountingAllocatesNothing(t *testing.T) {
	counts := telemetry.NewStats(0)
	call := func() {
		s := counts.Tool("shop.get")
		s.Begin()
		s.End(telemetry.End{Edge: telemetry.EdgeOf("http", "/mcp", false), Code: errmap.Timeout, Took: time.Millisecond, Upstream: time.Microsecond})
	}
	call()
	if n := testing.AllocsPerRun(100, call); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// BenchmarkCall is what one call costs, with a catalog of 256 tools: alone, and
// where all processors count the same tool.
func BenchmarkCall(b *testing.B) {
	counts := telemetry.NewStats(0)
	for n := range telemetry.DefaultMaxTools {
		counts.Tool(fmt.Sprintf("shop.tool_number_%d", n))
	}
	call := func() {
		s := counts.Tool("shop.tool_number_17")
		s.Begin()
		s.End(telemetry.End{Edge: telemetry.EdgeOf("http", "/mcp", false), Took: 700 * time.Microsecond, Upstream: 660 * time.Microsecond})
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("contended", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// TestLimitsAndRefusedRequests: only the limits of the contract are counted, and each
// for itself.
func TestLimitsAndRefusedRequests(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0)
	for _, l := range errmap.Limits() {
		if n := counts.TimesOver(l); n != 0 {
			t.Errorf("%s begins at %d", l, n)
		}
	}
	counts.Over(errmap.LimitIDBytes)
	counts.Over(errmap.LimitIDBytes)
	counts.Over(errmap.LimitJSONDepth)
	counts.Over("")
	counts.Over("no_such_limit")
	for l, want := range map[errmap.Limit]uint64{errmap.LimitIDBytes: 2, errmap.LimitJSONDepth: 1, errmap.LimitTasks: 0, "": 0, "no_such_limit": 0} {
		if n := counts.TimesOver(l); n != want {
			t.Errorf("%q: %d, want %d", l, n, want)
		}
	}
	counts.HTTPRefused(telemetry.EdgeAdmin, errmap.OriginForbidden)
	counts.HTTPRefused(telemetry.EdgeAdmin, errmap.OriginForbidden)
	if got := shown(t, counts); len(got) != 6 || got[`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="admin"}`].GetCounter().GetValue() != 2 {
		t.Errorf("refused requests: %v", got)
	}
	var none *telemetry.Stats
	none.Over(errmap.LimitIDBytes)
	none.HTTPRefused(telemetry.EdgeMCP, errmap.Unauthenticated)
	if n := none.TimesOver(errmap.LimitIDBytes); n != 0 {
		t.Errorf("nothing has counted %d", n)
	}
}

// BenchmarkMCP is what counting a request by the conventions adds to a call, without and with a sampled span.
func BenchmarkMCP(b *testing.B) {
	for name, of := range map[string]telemetry.Trace{"unsampled": {}, "sampled": {TraceID: [16]byte{1}, SpanID: [8]byte{2}}} {
		b.Run(name, func(b *testing.B) {
			counts := telemetry.NewStats(0)
			for n := range telemetry.DefaultMaxTools {
				counts.EndMCP(telemetry.MCPRequest{Tool: counts.Tool(fmt.Sprintf("shop.tool_number_%d", n)), Method: "tools/call", Version: "2026-07-28", Transport: "tcp"})
			}
			tool := counts.Tool("shop.tool_number_17")
			b.ReportAllocs()
			for b.Loop() {
				counts.EndMCP(telemetry.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: 700 * time.Microsecond, Trace: of})
			}
		})
	}
}

func TestMCPRequestsAreCountedByTheirAttributes(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0)
	tool := counts.Tool("shop.get")
	for range 2 {
		counts.EndMCP(telemetry.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: 10 * time.Millisecond})
	}
	counts.EndMCP(telemetry.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", ErrorType: "tool_error", Status: "-32012", Took: 11 * time.Millisecond})
	counts.EndMCP(telemetry.MCPRequest{Tool: counts.Tool(""), Method: "tools/call", Transport: "pipe"})
	counts.EndMCP(telemetry.MCPRequest{Method: "ping", Transport: "pipe", Took: time.Hour})
	counts.EndSession(telemetry.Session{Version: "2025-11-25", Transport: "tcp", Took: 5 * time.Minute})

	got := map[string]string{}
	for series, m := range shown(t, counts) {
		if strings.HasPrefix(series, "mcp_") {
			got[series] = buckets(m)
		}
	}
	want := map[string]string{}
	for _, tt := range []struct{ errorType, operation, tool, method, version, transport, status, buckets string }{
		{"", "execute_tool", "shop.get", "tools/call", "2026-07-28", "tcp", "", "2 0.02 0.01:2"},
		{"tool_error", "execute_tool", "shop.get", "tools/call", "2026-07-28", "tcp", "-32012", "1 0.011 0.02:1"},
		{"", "execute_tool", "", "tools/call", "", "pipe", "", "1 0 0.01:1"},
		{"", "", "", "ping", "", "pipe", "", "1 3600 +Inf:1"},
	} {
		want[fmt.Sprintf("mcp_server_operation_duration_seconds{error_type=%q,gen_ai_operation_name=%q,gen_ai_tool_name=%q,mcp_method_name=%q,mcp_protocol_version=%q,network_transport=%q,rpc_response_status_code=%q}",
			tt.errorType, tt.operation, tt.tool, tt.method, tt.version, tt.transport, tt.status)] = tt.buckets
	}
	want[`mcp_server_session_duration_seconds{error_type="",mcp_protocol_version="2025-11-25",network_transport="tcp"}`] = "1 300 300:1"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestMCPSeriesAreBounded invents every attribute, one at a time and all at once.
func TestMCPSeriesAreBounded(t *testing.T) {
	t.Parallel()
	const tools, each = 16, 5000
	counts := telemetry.NewStats(tools)
	for n := range each {
		s := strconv.Itoa(n)
		for _, r := range []telemetry.MCPRequest{
			{Method: "m" + s}, {Version: "v" + s}, {Transport: "t" + s}, {ErrorType: "e" + s}, {Status: "s" + s},
			{Tool: counts.Tool("shop.t" + s), Method: "tools/call"},
			{Tool: counts.Tool("shop.t" + s), Method: "m" + s, Version: "v" + s, Transport: "t" + s, ErrorType: "e" + s, Status: "s" + s},
		} {
			counts.EndMCP(r)
		}
		counts.EndSession(telemetry.Session{Version: "v" + s, Transport: "t" + s, ErrorType: "e" + s})
	}
	requests, sessions, total := 0, 0, uint64(0)
	for series, m := range shown(t, counts) {
		switch {
		case strings.HasPrefix(series, "mcp_server_operation"):
			requests, total = requests+1, total+m.GetHistogram().GetSampleCount()
		case strings.HasPrefix(series, "mcp_server_session"):
			sessions++
		}
	}
	if most := tools*4 + 256 + 1; requests > most || total != 7*each {
		t.Errorf("%d series, at most %d may be; %d requests, want %d", requests, most, total, 7*each)
	}
	if sessions > 65 {
		t.Errorf("%d series of sessions", sessions)
	}
}

// TestMethodsAreKeptWhereToolsAreNot: where there is no room for more tools, errors still show by method.
func TestMethodsAreKeptWhereToolsAreNot(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(1)
	for n := range 10 {
		counts.EndMCP(telemetry.MCPRequest{Tool: counts.Tool("shop.get"), Method: "tools/call", Status: strconv.Itoa(n)})
	}
	got := map[string]int{}
	for _, m := range mcp(t, counts) {
		for _, l := range m.GetLabel() {
			if l.GetName() == "gen_ai_tool_name" {
				got[l.GetValue()]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"shop.get": 4, telemetry.Other: 6}, got); diff != "" {
		t.Errorf("series by tool (-want +got):\n%s", diff)
	}
}

// TestExemplarsFitTogether reads while many write: an exemplar is that of one request.
func TestExemplarsFitTogether(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 2000 {
				k := byte(g*50 + n%50 + 1)
				of := telemetry.Trace{SpanID: [8]byte{k, 7: k}}
				for i := range of.TraceID {
					of.TraceID[i] = k
				}
				counts.EndMCP(telemetry.MCPRequest{Method: "ping", Took: time.Duration(k), Trace: of})
			}
		})
	}
	seen := 0
	exemplars := func() (n int, requests uint64) {
		for _, m := range mcp(t, counts) {
			requests += m.GetHistogram().GetSampleCount()
			for _, b := range m.GetHistogram().GetBucket() {
				if e := b.GetExemplar(); e != nil {
					n++
					k := byte(math.Round(e.GetValue() * 1e9))
					id, span := e.GetLabel()[0].GetValue(), e.GetLabel()[1].GetValue()
					if byName := fmt.Sprintf("%02x", k); id != strings.Repeat(byName, 16) || span != byName+strings.Repeat("00", 6)+byName {
						t.Fatalf("an exemplar of several requests: %v", e)
					}
				}
			}
		}
		return n, requests
	}
	for range 2000 {
		n, _ := exemplars()
		seen += n
	}
	all.Wait()
	if n, requests := exemplars(); n != 1 || requests != 8000 {
		t.Errorf("%d exemplars of %d requests in one bucket, %d seen before", n, requests, seen)
	}
}

// TestCountingMCPAllocatesNothing covers a success, an error, and a sampled request.
func TestCountingMCPAllocatesNothing(t *testing.T) {
	counts := telemetry.NewStats(1)
	requests := []telemetry.MCPRequest{
		{Tool: counts.Tool("shop.get"), Method: "tools/call", Version: "2026-07-28", Transport: "tcp"},
		{Tool: counts.Tool("shop.get"), Method: "tools/call", ErrorType: "tool_error", Status: "-32012"},
		{Tool: counts.Tool("shop.beyond"), Method: "tools/call"},
		{Method: "tools/list", Trace: telemetry.Trace{TraceID: [16]byte{1}, SpanID: [8]byte{2}}},
	}
	for n := range 1000 { // no room is left
		counts.EndMCP(telemetry.MCPRequest{Method: fmt.Sprint("m", n), Version: fmt.Sprint("v", n)})
	}
	requests = append(requests, telemetry.MCPRequest{Method: "one more", Status: "unknown"})
	for i, r := range requests {
		counts.EndMCP(r)
		if n := testing.AllocsPerRun(100, func() { counts.EndMCP(r) }); n != 0 {
			t.Errorf("request %d: %v allocations", i, n)
		}
	}
}

func TestNilCountsNoMCP(t *testing.T) {
	t.Parallel()
	var counts *telemetry.Stats
	counts.EndMCP(telemetry.MCPRequest{Method: "ping"})
	counts.EndSession(telemetry.Session{})
	if began := counts.Began(); !began.IsZero() {
		t.Errorf("began at %s", began)
	}
}

func TestTransports(t *testing.T) {
	t.Parallel()
	for _, e := range []telemetry.Edge{
		telemetry.EdgeMCP, telemetry.EdgeRPC, telemetry.EdgeStdio, telemetry.EdgeConnect, telemetry.EdgeGRPC, telemetry.EdgeGRPCWeb, telemetry.EdgeTyped,
		telemetry.EdgeAdmin, telemetry.EdgeOther,
	} {
		want := map[telemetry.Edge]string{telemetry.EdgeStdio: "pipe", telemetry.EdgeAdmin: "", telemetry.EdgeOther: ""}
		name, ok := want[e]
		if !ok {
			name = "tcp"
		}
		if got := e.Transport(); got != name {
			t.Errorf("%s: transport %q, want %q", e, got, name)
		}
		if isJSONRPC := e == telemetry.EdgeMCP || e == telemetry.EdgeRPC || e == telemetry.EdgeStdio; e.IsJSONRPC() != isJSONRPC {
			t.Errorf("%s: JSON-RPC %t", e, e.IsJSONRPC())
		}
	}
}

// TestLabelsAreTexts: what is no UTF-8 would make a page that nothing can read.
func TestLabelsAreTexts(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0)
	tool := counts.Tool("shop.\xff")
	tool.Begin()
	tool.End(telemetry.End{Edge: telemetry.EdgeMCP})
	counts.EndMCP(telemetry.MCPRequest{Tool: tool, Method: "\xff", Version: "\xfe", Status: "\xff"})
	counts.EndSession(telemetry.Session{Version: "\xff", ErrorType: "\xff"})
	got := shown(t, counts, "outrigger_calls_total", "outrigger_calls_in_flight", "outrigger_call_duration_seconds", "mcp_server_operation_duration_seconds",
		"mcp_server_session_duration_seconds")
	if _, ok := got["outrigger_calls_total{code=\"OK\",edge=\"mcp\",tool=\"shop.\uFFFD\"}"]; !ok || len(got) != 5 {
		t.Errorf("series %v", slices.Sorted(maps.Keys(got)))
	}
}
