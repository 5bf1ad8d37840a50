// SPDX-License-Identifier: Apache-2.0

package stats_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

func TestEndsAreCountedByCodeAndEdge(t *testing.T) {
	t.Parallel()
	counts := stats.New(0, "", "list")
	for _, e := range []stats.End{
		{Edge: stats.EdgeMCP, Took: 300 * time.Microsecond, Upstream: 260 * time.Microsecond},
		{Edge: stats.EdgeMCP, Took: time.Minute, Upstream: time.Second},
		{Edge: stats.EdgeStdio, Code: errmap.Timeout, Took: 30 * time.Second, Upstream: 30*time.Second + 1},
		{Edge: stats.Edge(200), Code: "NO_SUCH_CODE", Took: 250 * time.Microsecond},
	} {
		s := counts.Tool("shop.get")
		s.Begin()
		s.End(e)
	}
	counts.Tool("shop.hangs").Begin()
	counts.Operation(1).Count(stats.EdgeRPC, "")
	counts.Operation(0).Count(stats.EdgeRPC, errmap.ParseError)
	counts.Operation(2).Count(stats.EdgeRPC, "")
	counts.Operation(-1).Begin()

	got := counts.Snapshot()
	want := []stats.Ends{
		{Code: "OK", Edge: stats.EdgeMCP, Count: 2},
		{Code: "TIMEOUT", Edge: stats.EdgeStdio, Count: 1},
		{Code: "INTERNAL_ERROR", Edge: stats.EdgeOther, Count: 1},
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
	if over := got.Overhead[stats.EdgeMCP]; len(got.Overhead) != 2 || over.Count() != 2 || over.Sum != 59*time.Second+40*time.Microsecond || over.Counts[4] != 1 || over.Counts[len(over.Bounds)] != 1 {
		t.Errorf("overhead %+v", got.Overhead)
	}
	if over := got.Overhead[stats.EdgeStdio]; over.Sum != 0 || over.Counts[0] != 1 {
		t.Errorf("an overhead below zero: %+v", over)
	}
	if diff := cmp.Diff([]stats.Ends{{Code: "PARSE_ERROR", Edge: stats.EdgeRPC, Count: 1}}, got.Operations[0].Ends); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// TestToolsAreBounded calls more tools than are counted one by one, from several
// goroutines.
func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	counts := stats.New(3)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 1000 {
				s := counts.Tool(fmt.Sprintf("shop.get%d", n%10))
				s.Begin()
				s.End(stats.End{Took: 1})
			}
		})
	}
	all.Wait()
	got := counts.Snapshot().Tools
	total := uint64(0)
	for _, n := range got {
		total += n.Ends[0].Count
	}
	if len(got) != 4 || got[0].Name != stats.Other || total != 8000 || got[0].Took.Count() != 8*700 {
		t.Errorf("%d series, %d calls: %+v", len(got), total, got)
	}
}

func TestEveryCodeHasItsNumber(t *testing.T) {
	t.Parallel()
	counts := stats.New(0)
	codes := append(errmap.Codes(), "")
	for _, code := range codes {
		counts.Tool("shop.get").Count(stats.EdgeMCP, code)
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
		got := stats.EdgeOf(tt.transport, tt.route, tt.isTyped).String()
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
	var counts *stats.Stats
	s := counts.Tool("shop.get")
	s.Begin()
	s.End(stats.End{})
	counts.Operation(0).Count(stats.EdgeMCP, "")
	if got := counts.Snapshot(); got.Tools != nil || got.Operations != nil {
		t.Errorf("%+v", got)
	}
}

// TestCountingAllocatesNothing holds the promise of the package.
func TestCountingAllocatesNothing(t *testing.T) {
	counts := stats.New(0)
	call := func() {
		s := counts.Tool("shop.get")
		s.Begin()
		s.End(stats.End{Edge: stats.EdgeOf("http", "/mcp", false), Code: errmap.Timeout, Took: time.Millisecond, Upstream: time.Microsecond})
	}
	call()
	if n := testing.AllocsPerRun(100, call); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// BenchmarkCall is what one call costs, with a catalog of 256 tools: alone, and
// where all processors count the same tool.
func BenchmarkCall(b *testing.B) {
	counts := stats.New(0)
	for n := range stats.DefaultMaxTools {
		counts.Tool(fmt.Sprintf("shop.tool_number_%d", n))
	}
	call := func() {
		s := counts.Tool("shop.tool_number_17")
		s.Begin()
		s.End(stats.End{Edge: stats.EdgeOf("http", "/mcp", false), Took: 700 * time.Microsecond, Upstream: 660 * time.Microsecond})
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
	counts := stats.New(0)
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
	counts.HTTPRefused(stats.EdgeAdmin, errmap.OriginForbidden)
	counts.HTTPRefused(stats.EdgeAdmin, errmap.OriginForbidden)
	want := []stats.Ends{{Code: "ORIGIN_FORBIDDEN", Edge: stats.EdgeAdmin, Count: 2}}
	if diff := cmp.Diff(want, counts.Snapshot().HTTP); diff != "" {
		t.Errorf("refused requests (-want +got):\n%s", diff)
	}
	var none *stats.Stats
	none.Over(errmap.LimitIDBytes)
	none.HTTPRefused(stats.EdgeMCP, errmap.Unauthenticated)
	if n := none.TimesOver(errmap.LimitIDBytes); n != 0 {
		t.Errorf("nothing has counted %d", n)
	}
}

// BenchmarkMCP is what counting a request by the conventions adds to a call, without and with a sampled span.
func BenchmarkMCP(b *testing.B) {
	for name, of := range map[string]stats.Trace{"unsampled": {}, "sampled": {TraceID: [16]byte{1}, SpanID: [8]byte{2}}} {
		b.Run(name, func(b *testing.B) {
			counts := stats.New(0)
			for n := range stats.DefaultMaxTools {
				counts.EndMCP(stats.MCPRequest{Tool: counts.Tool(fmt.Sprintf("shop.tool_number_%d", n)), Method: "tools/call", Version: "2026-07-28", Transport: "tcp"})
			}
			tool := counts.Tool("shop.tool_number_17")
			b.ReportAllocs()
			for b.Loop() {
				counts.EndMCP(stats.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: 700 * time.Microsecond, Trace: of})
			}
		})
	}
}
