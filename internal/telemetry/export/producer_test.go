// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// tally has something of every kind.
func tally() *telemetry.Stats {
	s := telemetry.NewStats(0, "", "list_tools")
	of := telemetry.Trace{TraceID: [16]byte{1, 2, 15: 3}, SpanID: [8]byte{4, 7: 5}}
	for _, name := range []string{"shop.get", "shop.put", ""} {
		for n, took := range []time.Duration{300 * time.Microsecond, 10 * time.Millisecond, 11 * time.Millisecond, 7 * time.Second, time.Hour} {
			tool := s.Tool(name)
			tool.Begin()
			end := telemetry.End{Edge: telemetry.EdgeMCP, Took: took, Upstream: took - 70*time.Microsecond}
			request := telemetry.MCPRequest{Tool: tool, Method: "tools/call", Version: "2026-07-28", Transport: "tcp", Took: took}
			if n%2 == 1 {
				end.Code, request.ErrorType, request.Status, request.Version = errmap.Timeout, "tool_error", "-32012", ""
				end.Trace, request.Trace = of, of
			}
			tool.End(end)
			s.EndMCP(request)
		}
	}
	s.Operation(1).Count(telemetry.EdgeStdio, "")
	s.EndMCP(telemetry.MCPRequest{Method: "tools/list", Version: "2025-11-25", Transport: "pipe", Took: time.Millisecond})
	s.EndSession(telemetry.Session{Version: "2025-11-25", Transport: "pipe", Took: 45 * time.Second})
	s.EndSession(telemetry.Session{Version: "2025-11-25", Transport: "tcp", ErrorType: "evicted", Took: time.Minute})
	return s
}

// frozen is a page as it was at one moment, because the metrics of the process move.
type frozen []*dto.MetricFamily

// Gather implements [prometheus.Gatherer].
func (f frozen) Gather() ([]*dto.MetricFamily, error) { return f, nil }

// page is what the metrics page shows of a tally, and of the process.
func page(t *testing.T, s *telemetry.Stats) frozen {
	t.Helper()
	m, err := export.NewPage(export.Sources{Traffic: s, InFlight: func() int { return 3 }, Begun: func() uint64 { return 17 }})
	if err != nil {
		t.Fatal(err)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// collect is what a reader of the SDK gets.
func collect(t *testing.T, p sdkmetric.Producer) metricdata.ResourceMetrics {
	t.Helper()
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(p))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) })
	var out metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheProducerSaysWhatThePageSays compares every number of the two, under the page's names.
func TestTheProducerSaysWhatThePageSays(t *testing.T) {
	t.Parallel()
	s := tally()
	shown := page(t, s)
	want, got := map[string]string{}, map[string]string{}
	for _, family := range shown {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			want[seriesName(family.GetName(), labels)] = pageValue(family.GetType(), m)
		}
	}
	for _, scope := range collect(t, export.NewProducer(shown, s)).ScopeMetrics {
		for _, m := range scope.Metrics {
			points(t, m, func(attributes attribute.Set, value string) {
				name, labels := m.Name, map[string]string{}
				for _, a := range attributes.ToSlice() {
					labels[strings.ReplaceAll(string(a.Key), ".", "_")] = a.Value.AsString()
				}
				if strings.HasPrefix(name, "mcp.") {
					name = strings.ReplaceAll(name, ".", "_") + "_seconds"
				}
				key := seriesName(name, labels)
				if _, ok := got[key]; ok {
					t.Errorf("%s stands twice", key)
				}
				got[key] = value
			})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page and producer (-page +producer):\n%s", diff)
	}
	if len(want) < 80 {
		t.Errorf("only %d series", len(want))
	}
}

// seriesName leaves out labels without a value: Prometheus has no others.
func seriesName(name string, labels map[string]string) string {
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	var b strings.Builder
	b.WriteString(name)
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, " %s=%s", label, labels[label])
	}
	return b.String()
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', 12, 64) }

func pageValue(kind dto.MetricType, m *dto.Metric) string {
	switch kind {
	case dto.MetricType_COUNTER:
		return number(m.GetCounter().GetValue())
	case dto.MetricType_GAUGE:
		return number(m.GetGauge().GetValue())
	case dto.MetricType_SUMMARY:
		return fmt.Sprint(m.GetSummary().GetSampleCount(), " ", number(m.GetSummary().GetSampleSum()))
	}
	h := m.GetHistogram()
	out, before := fmt.Sprint(h.GetSampleCount(), " ", number(h.GetSampleSum())), uint64(0)
	for _, b := range h.GetBucket() {
		if name := number(b.GetUpperBound()); name != "+Inf" {
			out += fmt.Sprintf(" %s:%d", name, b.GetCumulativeCount()-before)
			before = b.GetCumulativeCount()
		}
	}
	return out + fmt.Sprintf(" +Inf:%d", h.GetSampleCount()-before)
}

// points yields every data point of a metric as pageValue writes it.
func points(t *testing.T, m metricdata.Metrics, yield func(attribute.Set, string)) {
	t.Helper()
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		if !data.IsMonotonic || data.Temporality != metricdata.CumulativeTemporality {
			t.Errorf("%s is no cumulative counter", m.Name)
		}
		for _, p := range data.DataPoints {
			yield(p.Attributes, number(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			yield(p.Attributes, number(p.Value))
		}
	case metricdata.Summary:
		for _, p := range data.DataPoints {
			yield(p.Attributes, fmt.Sprint(p.Count, " ", number(p.Sum)))
		}
	case metricdata.Histogram[float64]:
		if data.Temporality != metricdata.CumulativeTemporality {
			t.Errorf("%s is not cumulative", m.Name)
		}
		for _, p := range data.DataPoints {
			out := fmt.Sprint(p.Count, " ", number(p.Sum))
			for i, bound := range p.Bounds {
				out += fmt.Sprintf(" %s:%d", number(bound), p.BucketCounts[i])
			}
			yield(p.Attributes, out+fmt.Sprintf(" +Inf:%d", p.BucketCounts[len(p.Bounds)]))
		}
	default:
		t.Errorf("%s is a %T", m.Name, data)
	}
}

// TestTheConventionsMetrics holds names, units, attributes and start times against the text of
// the conventions.
func TestTheConventionsMetrics(t *testing.T) {
	t.Parallel()
	before := time.Now()
	s := tally()
	after := time.Now()
	all := map[string]metricdata.Metrics{}
	for _, scope := range collect(t, export.NewProducer(page(t, s), s)).ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	for name, want := range map[string][]string{
		"mcp.server.operation.duration": {
			"gen_ai.operation.name=execute_tool,gen_ai.tool.name=shop.get,mcp.method.name=tools/call,mcp.protocol.version=2026-07-28,network.transport=tcp",
			"error.type=tool_error,gen_ai.operation.name=execute_tool,gen_ai.tool.name=shop.get,mcp.method.name=tools/call,network.transport=tcp,rpc.response.status_code=-32012",
			"gen_ai.operation.name=execute_tool,mcp.method.name=tools/call,mcp.protocol.version=2026-07-28,network.transport=tcp",
			"mcp.method.name=tools/list,mcp.protocol.version=2025-11-25,network.transport=pipe",
		},
		"mcp.server.session.duration": {
			"mcp.protocol.version=2025-11-25,network.transport=pipe",
			"error.type=evicted,mcp.protocol.version=2025-11-25,network.transport=tcp",
		},
	} {
		m := all[name]
		data, ok := m.Data.(metricdata.Histogram[float64])
		if !ok || m.Unit != "s" || m.Description == "" {
			t.Fatalf("%s: %+v", name, m)
		}
		var got []string
		for _, p := range data.DataPoints {
			got = append(got, p.Attributes.Encoded(attribute.DefaultEncoder()))
			if diff := cmp.Diff([]float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}, p.Bounds); diff != "" {
				t.Errorf("%s: bounds (-want +got):\n%s", name, diff)
			}
			if p.StartTime.Before(before) || p.StartTime.After(after) || p.Time.Before(p.StartTime) {
				t.Errorf("%s: from %s to %s, want a start between %s and %s", name, p.StartTime, p.Time, before, after)
			}
		}
		for _, attributes := range want {
			if !slices.Contains(got, attributes) {
				t.Errorf("%s: no series %s in\n%s", name, attributes, strings.Join(got, "\n"))
			}
		}
	}
	own, ok := all["outrigger_calls_total"].Data.(metricdata.Sum[float64])
	if !ok || own.DataPoints[0].StartTime.Before(before) || own.DataPoints[0].StartTime.After(after) {
		t.Errorf("counters of ours begin when the process did: %+v", own)
	}
	for name, unit := range map[string]string{"outrigger_call_duration_seconds": "s", "process_resident_memory_bytes": "By", "process_cpu_seconds_total": "s", "outrigger_calls_total": ""} {
		if m, ok := all[name]; !ok || m.Unit != unit {
			t.Errorf("%s: %t, unit %q, want %q", name, ok, m.Unit, unit)
		}
	}
}

// TestExemplarsHaveIDs compares the ids of exemplars as bytes, in metrics of the page too.
func TestExemplarsHaveIDs(t *testing.T) {
	t.Parallel()
	s := tally()
	for name, want := range map[string]int{"mcp.server.operation.duration": 6, "outrigger_call_duration_seconds": 6, "outrigger_call_overhead_seconds": 1} {
		n := 0
		for _, scope := range collect(t, export.NewProducer(page(t, s), s)).ScopeMetrics {
			for _, m := range scope.Metrics {
				data, ok := m.Data.(metricdata.Histogram[float64])
				if m.Name != name || !ok {
					continue
				}
				for _, p := range data.DataPoints {
					for _, e := range p.Exemplars {
						n++
						if !slices.Equal(e.TraceID, []byte{1, 2, 15: 3}) || !slices.Equal(e.SpanID, []byte{4, 7: 5}) || e.Value <= 0 || time.Since(e.Time) > time.Minute {
							t.Errorf("%s: %+v", name, e)
						}
					}
				}
			}
		}
		if n != want {
			t.Errorf("%s: %d exemplars, want %d", name, n, want)
		}
	}
}

// TestWithoutATally exports the page alone.
func TestWithoutATally(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(export.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	out := collect(t, export.NewProducer(m.Gatherer(), nil))
	if len(out.ScopeMetrics) != 1 || len(out.ScopeMetrics[0].Metrics) < 10 {
		t.Errorf("%+v", out)
	}
}

// failing is a page of which a part cannot be read.
type failing struct{ frozen }

// Gather implements [prometheus.Gatherer].
func (f failing) Gather() ([]*dto.MetricFamily, error) {
	return f.frozen, errors.New("one collector fails")
}

// TestAPageWithAFaultIsExportedAsFarAsItGoes keeps one bad collector from hiding all others.
func TestAPageWithAFaultIsExportedAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	s := tally()
	scopes, err := export.NewProducer(failing{page(t, s)}, s).Produce(t.Context())
	names := map[string]bool{}
	for _, scope := range scopes {
		for _, m := range scope.Metrics {
			names[m.Name] = true
		}
	}
	if err != nil || !names["outrigger_calls_total"] || !names["mcp.server.operation.duration"] {
		t.Errorf("%v, %v", names, err)
	}
}
