// SPDX-License-Identifier: Apache-2.0

package stats_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/stats"
)

func TestMCPRequestsAreCountedByTheirAttributes(t *testing.T) {
	t.Parallel()
	counts := stats.New(0)
	tool := counts.Tool("shop.get")
	for range 2 {
		counts.EndMCP(stats.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: 10 * time.Millisecond})
	}
	counts.EndMCP(stats.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", ErrorType: "tool_error", Status: "-32012", Took: 11 * time.Millisecond})
	counts.EndMCP(stats.MCPRequest{Tool: counts.Tool(""), Method: "tools/call", Transport: "pipe"})
	counts.EndMCP(stats.MCPRequest{Method: "ping", Transport: "pipe", Took: time.Hour})
	counts.EndSession(stats.Session{Version: "2025-11-25", Transport: "tcp", Took: 5 * time.Minute})

	type series struct {
		stats.MCPNumbers

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
		s.Took = stats.Histogram{}
		got = append(got, s)
	}
	call := stats.MCPNumbers{IsToolCall: true, Tool: "shop.get", Method: "tools/call", Version: "2026-07-28", Transport: "tcp"}
	failed := call
	failed.ErrorType, failed.Status = "tool_error", "-32012"
	want := []series{
		{stats.MCPNumbers{Method: "ping", Transport: "pipe"}, 14, 1},
		{stats.MCPNumbers{IsToolCall: true, Method: "tools/call", Transport: "pipe"}, 0, 1},
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
	counts := stats.New(tools)
	for n := range each {
		s := strconv.Itoa(n)
		for _, r := range []stats.MCPRequest{
			{Method: "m" + s}, {Version: "v" + s}, {Transport: "t" + s}, {ErrorType: "e" + s}, {Status: "s" + s},
			{Tool: counts.Tool("shop.t" + s), Method: "tools/call"},
			{Tool: counts.Tool("shop.t" + s), Method: "m" + s, Version: "v" + s, Transport: "t" + s, ErrorType: "e" + s, Status: "s" + s},
		} {
			counts.EndMCP(r)
		}
		counts.EndSession(stats.Session{Version: "v" + s, Transport: "t" + s, ErrorType: "e" + s})
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
	counts := stats.New(1)
	for n := range 10 {
		counts.EndMCP(stats.MCPRequest{Tool: counts.Tool("shop.get"), Method: "tools/call", Status: strconv.Itoa(n)})
	}
	got := map[string]int{}
	for _, n := range counts.Snapshot().MCP {
		got[n.Tool]++
	}
	if diff := cmp.Diff(map[string]int{"shop.get": 4, stats.Other: 6}, got); diff != "" {
		t.Errorf("series by tool (-want +got):\n%s", diff)
	}
}

// TestExemplarsFitTogether reads while many write: an exemplar is that of one request.
func TestExemplarsFitTogether(t *testing.T) {
	t.Parallel()
	counts := stats.New(0)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 2000 {
				k := byte(g*50 + n%50 + 1)
				of := stats.Trace{SpanID: [8]byte{k, 7: k}}
				for i := range of.TraceID {
					of.TraceID[i] = k
				}
				counts.EndMCP(stats.MCPRequest{Method: "ping", Took: time.Duration(k), Trace: of})
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
	counts := stats.New(1)
	requests := []stats.MCPRequest{
		{Tool: counts.Tool("shop.get"), Method: "tools/call", Version: "2026-07-28", Transport: "tcp"},
		{Tool: counts.Tool("shop.get"), Method: "tools/call", ErrorType: "tool_error", Status: "-32012"},
		{Tool: counts.Tool("shop.beyond"), Method: "tools/call"},
		{Method: "tools/list", Trace: stats.Trace{TraceID: [16]byte{1}, SpanID: [8]byte{2}}},
	}
	for n := range 1000 { // no room is left
		counts.EndMCP(stats.MCPRequest{Method: fmt.Sprint("m", n), Version: fmt.Sprint("v", n)})
	}
	requests = append(requests, stats.MCPRequest{Method: "one more", Status: "unknown"})
	for i, r := range requests {
		counts.EndMCP(r)
		if n := testing.AllocsPerRun(100, func() { counts.EndMCP(r) }); n != 0 {
			t.Errorf("request %d: %v allocations", i, n)
		}
	}
}

func TestNilCountsNoMCP(t *testing.T) {
	t.Parallel()
	var counts *stats.Stats
	counts.EndMCP(stats.MCPRequest{Method: "ping"})
	counts.EndSession(stats.Session{})
	if now := counts.Snapshot(); now.MCP != nil || now.Sessions != nil || !now.Began.IsZero() {
		t.Errorf("%+v", now)
	}
}

func TestTransports(t *testing.T) {
	t.Parallel()
	for e := range stats.EdgeOther + 1 {
		want := map[stats.Edge]string{stats.EdgeStdio: "pipe", stats.EdgeAdmin: "", stats.EdgeOther: ""}
		name, ok := want[e]
		if !ok {
			name = "tcp"
		}
		if got := e.Transport(); got != name {
			t.Errorf("%s: transport %q, want %q", e, got, name)
		}
		if isJSONRPC := e == stats.EdgeMCP || e == stats.EdgeRPC || e == stats.EdgeStdio; e.IsJSONRPC() != isJSONRPC {
			t.Errorf("%s: JSON-RPC %t", e, e.IsJSONRPC())
		}
	}
}
