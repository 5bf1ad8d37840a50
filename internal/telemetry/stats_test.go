// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		{Edge: telemetry.Edge(200), Code: "NO_SUCH_CODE", Took: 250 * time.Microsecond},
	} {
		s := counts.Tool("shop.get")
		s.Begin()
		s.End(e)
	}
	counts.Tool("shop.hangs").Begin()
	counts.Operation(1).Count(telemetry.EdgeRPC, "")
	counts.Operation(0).Count(telemetry.EdgeRPC, errmap.ParseError)
	counts.Operation(2).Count(telemetry.EdgeRPC, "")
	counts.Operation(-1).Begin()

	got := counts.Snapshot()
	want := []telemetry.Ends{
		{Code: "OK", Edge: telemetry.EdgeMCP, Count: 2},
		{Code: "TIMEOUT", Edge: telemetry.EdgeStdio, Count: 1},
		{Code: "INTERNAL_ERROR", Edge: telemetry.EdgeOther, Count: 1},
	}
	if len(got.Tools) != 2 || got.Tools[0].Name != "shop.get" || got.Tools[0].InFlight != 0 || got.Tools[1].InFlight != 1 {
		t.Fatalf("tools %+v", got.Tools)
	}
	if diff := cmp.Diff(want, got.Tools[0].Ends); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	took := got.Tools[0].Took
	if took.Counts[0] != 1 || took.Counts[1] != 1 || took.Counts[len(took.Bounds)-1] != 1 || took.Counts[len(took.Bounds)] != 1 || took.Count() != 4 ||
		took.Sum != 90*time.Second+550*time.Microsecond {
		t.Errorf("durations %+v", took)
	}
	if over := got.Overhead[telemetry.EdgeMCP]; len(got.Overhead) != 2 || over.Count() != 2 || over.Sum != 59*time.Second+40*time.Microsecond || over.Counts[4] != 1 || over.Counts[len(over.Bounds)] != 1 {
		t.Errorf("overhead %+v", got.Overhead)
	}
	if over := got.Overhead[telemetry.EdgeStdio]; over.Sum != 0 || over.Counts[0] != 1 {
		t.Errorf("an overhead below zero: %+v", over)
	}
	if diff := cmp.Diff([]telemetry.Ends{{Code: "PARSE_ERROR", Edge: telemetry.EdgeRPC, Count: 1}}, got.Operations[0].Ends); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
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
	got := counts.Snapshot().Tools
	total := uint64(0)
	for _, n := range got {
		total += n.Ends[0].Count
	}
	if len(got) != 4 || got[0].Name != telemetry.Other || total != 8000 || got[0].Took.Count() != 8*700 {
		t.Errorf("%d series, %d calls: %+v", len(got), total, got)
	}
}

func TestEveryCodeHasItsNumber(t *testing.T) {
	t.Parallel()
	counts := telemetry.NewStats(0)
	codes := append(errmap.Codes(), "")
	for _, code := range codes {
		counts.Tool("shop.get").Count(telemetry.EdgeMCP, code)
	}
	if ends := counts.Snapshot().Tools[0].Ends; len(ends) != len(codes) {
		t.Errorf("%d codes are counted as %d", len(codes), len(ends))
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
	if got := counts.Snapshot(); got.Tools != nil || got.Operations != nil {
		t.Errorf("%+v", got)
	}
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
	want := []telemetry.Ends{{Code: "ORIGIN_FORBIDDEN", Edge: telemetry.EdgeAdmin, Count: 2}}
	if diff := cmp.Diff(want, counts.Snapshot().HTTP); diff != "" {
		t.Errorf("refused requests (-want +got):\n%s", diff)
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

	type series struct {
		telemetry.MCPNumbers

		Bucket int
		Count  uint64
	}
	var got []series
	for _, n := range counts.Snapshot().MCP {
		s := series{MCPNumbers: n, Bucket: -1, Count: n.Took.Count()}
		for i, c := range n.Took.Counts {
			if c > 0 {
				s.Bucket = i
			}
		}
		s.Took = telemetry.Histogram{}
		got = append(got, s)
	}
	call := telemetry.MCPNumbers{IsToolCall: true, Tool: "shop.get", Method: "tools/call", Version: "2026-07-28", Transport: "tcp"}
	failed := call
	failed.ErrorType, failed.Status = "tool_error", "-32012"
	want := []series{
		{telemetry.MCPNumbers{Method: "ping", Transport: "pipe"}, 14, 1},
		{telemetry.MCPNumbers{IsToolCall: true, Method: "tools/call", Transport: "pipe"}, 0, 1},
		{call, 0, 2}, {failed, 1, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	sessions := counts.Snapshot().Sessions
	if len(sessions) != 1 || sessions[0].Version != "2025-11-25" || sessions[0].Took.Counts[13] != 1 || sessions[0].Took.Sum != 5*time.Minute {
		t.Errorf("sessions %+v", sessions)
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
	now, total := counts.Snapshot(), uint64(0)
	for _, n := range now.MCP {
		total += n.Took.Count()
	}
	if most := tools*4 + 256 + 1; len(now.MCP) > most || total != 7*each {
		t.Errorf("%d series, at most %d may be; %d requests, want %d", len(now.MCP), most, total, 7*each)
	}
	if len(now.Sessions) > 65 {
		t.Errorf("%d series of sessions", len(now.Sessions))
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
	for _, n := range counts.Snapshot().MCP {
		got[n.Tool]++
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
	for range 2000 {
		for _, n := range counts.Snapshot().MCP {
			for _, e := range n.Took.Exemplars {
				seen++
				if k := byte(e.Took); e.TraceID[0] != k || e.TraceID[15] != k || e.SpanID[0] != k || e.SpanID[7] != k {
					t.Fatalf("an exemplar of several requests: %+v", e)
				}
			}
		}
	}
	all.Wait()
	if n := counts.Snapshot().MCP[0].Took; len(n.Exemplars) != 1 || n.Count() != 8000 {
		t.Errorf("%d exemplars of %d requests in one bucket, %d seen before", len(n.Exemplars), n.Count(), seen)
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
	if now := counts.Snapshot(); now.MCP != nil || now.Sessions != nil || !now.Began.IsZero() {
		t.Errorf("%+v", now)
	}
}

func TestTransports(t *testing.T) {
	t.Parallel()
	for e := range telemetry.EdgeOther + 1 {
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
