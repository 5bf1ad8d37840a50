// SPDX-License-Identifier: Apache-2.0

//go:build !race

package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// maxCount is what counting one call may cost, in the tally and by the conventions together.
const maxCount = 150 * time.Nanosecond

// counting returns a function that counts one call, among as many tools as have series of their own. of is its span, if it is sampled.
func counting(of telemetry.Trace) func() {
	counts := telemetry.NewStats(0)
	for n := range telemetry.DefaultMaxTools {
		counts.Tool(fmt.Sprintf("shop.tool_number_%d", n))
	}
	return func() {
		tool := counts.Tool("shop.tool_number_17")
		tool.Begin()
		tool.End(telemetry.End{Edge: telemetry.EdgeMCP, Took: 700 * time.Microsecond, Upstream: 660 * time.Microsecond, Trace: of})
		counts.EndMCP(telemetry.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: 700 * time.Microsecond, Trace: of})
	}
}

// BenchmarkCounting is all that one call is counted by. A sampled span is kept as an exemplar, with the time, in three histograms.
func BenchmarkCounting(b *testing.B) {
	for name, of := range map[string]telemetry.Trace{"unsampled": {}, "sampled": {TraceID: [16]byte{1}, SpanID: [8]byte{2}}} {
		b.Run(name, func(b *testing.B) {
			count := counting(of)
			b.ReportAllocs()
			for b.Loop() {
				count()
			}
		})
	}
}

// TestCountingACallIsCheap takes the least of many runs, each of them so short that other processes interrupt only some.
func TestCountingACallIsCheap(t *testing.T) {
	const runs, calls = 400, 250
	count := counting(telemetry.Trace{})
	least := time.Hour
	for range runs {
		start := time.Now()
		for range calls {
			count()
		}
		least = min(least, time.Since(start)/calls)
	}
	if least > maxCount {
		t.Errorf("counting a call takes %v, want at most %v", least, maxCount)
	}
	t.Logf("%v", least)
	if n := testing.AllocsPerRun(100, count); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
