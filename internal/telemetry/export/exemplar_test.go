// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

const (
	openMetrics = "application/openmetrics-text; version=1.0.0"
	textFormat  = "text/plain; version=0.0.4"
)

// counted returns a tally of a few requests with the given trace.
func counted(of telemetry.Trace) *telemetry.Stats {
	counts := telemetry.NewStats(0)
	s := counts.Tool("shop.get")
	for _, took := range []time.Duration{3 * time.Millisecond, 10 * time.Millisecond, time.Hour} {
		s.Begin()
		s.End(telemetry.End{Edge: telemetry.EdgeMCP, Took: took, Upstream: took - 40*time.Microsecond, Trace: of})
		counts.EndMCP(telemetry.MCPRequest{Tool: s, Method: "tools/call", Transport: "tcp", Took: took, Trace: of})
	}
	return counts
}

// TestExemplarsAreShownInOpenMetrics looks for the trace of each bucket, in the bucket that its value belongs to.
func TestExemplarsAreShownInOpenMetrics(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(export.Sources{Traffic: counted(telemetry.Trace{TraceID: [16]byte{0xab, 15: 1}, SpanID: [8]byte{7: 0x1f}})})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := scrape(t, m, openMetrics)
	const (
		trace, span = `trace_id="ab000000000000000000000000000001"`, `span_id="000000000000001f"`
		ids         = `# \{(` + trace + "," + span + "|" + span + "," + trace + `)\} ` // the library has no order
	)
	for _, want := range []string{
		`outrigger_call_duration_seconds_bucket\{tool="shop.get",le="0.005"\} 1 ` + ids + `0.003 `,
		`outrigger_call_duration_seconds_bucket\{tool="shop.get",le="0.01"\} 2 ` + ids + `0.01 `,
		`outrigger_call_duration_seconds_bucket\{tool="shop.get",le="\+Inf"\} 3 ` + ids + `3600`,
		`outrigger_call_overhead_seconds_bucket\{edge="mcp",le="5e-05"\} 3 ` + ids + `4e-05 `,
		`mcp_server_operation_duration_seconds_bucket\{.*mcp_method_name="tools/call".*le="0.01"\} 2 ` + ids + `0.01 `,
	} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(page) {
			t.Errorf("no line %s", want)
		}
	}
	if n := strings.Count(page, "trace_id="); n != 3+1+2 {
		t.Errorf("%d exemplars, want one for each bucket with a sampled request:\n%s", n, page)
	}
	if n := strings.Count(page, `outrigger_call_duration_seconds_bucket{tool="shop.get",le="+Inf"}`); n != 1 {
		t.Errorf("the last bucket stands %d times", n)
	}
}

// TestTextFormatHasNoExemplars compares the page of a process that samples with that of one that does not.
func TestTextFormatHasNoExemplars(t *testing.T) {
	t.Parallel()
	pages := map[bool]string{}
	for _, isSampled := range []bool{true, false} {
		of := telemetry.Trace{}
		if isSampled {
			of.TraceID[0], of.SpanID[0] = 1, 1
		}
		m, err := export.NewPage(export.Sources{Traffic: counted(of)})
		if err != nil {
			t.Fatal(err)
		}
		page, _ := scrape(t, m, textFormat)
		for line := range strings.Lines(page) {
			if isOwn(line) {
				pages[isSampled] += line
			}
		}
	}
	if pages[true] != pages[false] || len(pages[true]) < 1000 {
		t.Errorf("with exemplars:\n%s\nwithout:\n%s", pages[true], pages[false])
	}
}
