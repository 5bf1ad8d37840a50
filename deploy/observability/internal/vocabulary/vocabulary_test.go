// SPDX-License-Identifier: Apache-2.0

package vocabulary_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/vocabulary"
)

const page = `# TYPE calls_total counter
calls_total{tool="a",code="OK"} 1
# TYPE used gauge
used{limit="x"} 1
# TYPE most gauge
most{limit="x"} 2
# TYPE took_seconds histogram
took_seconds_bucket{tool="a",le="1"} 1
took_seconds_bucket{tool="a",le="+Inf"} 1
took_seconds_sum{tool="a"} 1
took_seconds_count{tool="a"} 1
`

func TestCheck(t *testing.T) {
	t.Parallel()
	v := vocabulary.New(map[string][]string{"code": {"OK", "TIMEOUT"}})
	if err := v.Read(strings.NewReader(page)); err != nil {
		t.Fatal(err)
	}
	v.Define("job:calls:rate5m", vocabulary.Labels{"job": true})
	for _, tt := range []struct {
		query  string
		labels string // of the result, sorted; or
		fault  string // what the error says
	}{
		{query: `calls_total`, labels: "code instance job tool"},
		{query: `sum by (tool) (rate(calls_total{code!="OK"}[5m]))`, labels: "tool"},
		{query: `sum without (code) (calls_total)`, labels: "instance job tool"},
		{query: `sum(calls_total) or vector(0)`, labels: ""},
		{query: `used / (most > 0)`, labels: "instance job limit"},
		{query: `time() - used`, labels: "instance job limit"},
		{query: `histogram_quantile(0.9, sum by (tool, le) (rate(took_seconds_bucket[5m])))`, labels: "tool"},
		{query: `topk(3, calls_total)`, labels: "code instance job tool"},
		{query: `used and on (job) most`, labels: "instance job limit"},
		{query: `used * on (job) most`, labels: "job"},
		{query: `job:calls:rate5m > 1`, labels: "job"},
		{query: `count(ALERTS{alertstate="firing", alertname=~"Outrigger.+"})`, labels: ""},
		{query: `calls_total{code=~"TIMEOUT|OK"}`, labels: "code instance job tool"},
		{query: `calls_total{tool=~".*"}`, labels: "code instance job tool"},

		{query: `call_total`, fault: "no such metric"},
		{query: `took_seconds`, fault: "no such metric"},
		{query: `sum by (tools) (calls_total)`, fault: "nothing in it has a label tools"},
		{query: `sum by (code) (sum by (tool) (calls_total))`, fault: "nothing in it has a label code"},
		{query: `calls_total{edge="mcp"}`, fault: "no label edge"},
		{query: `calls_total{code="TIMEDOUT"}`, fault: `never "TIMEDOUT"`},
		{query: `calls_total{code=~"OK|TIMEDOUT"}`, fault: `never "TIMEDOUT"`},
		{query: `calls_total{tool="b"}`, fault: `never "b"`},
		{query: `histogram_quantile(0.9, sum by (tool) (rate(took_seconds_bucket[5m])))`, fault: "lost their label le"},
		{query: `sum by (tool) (calls_total) / sum(calls_total)`, fault: "never match"},
		{query: `used * on (tool) calls_total`, fault: "not both sides have the label tool"},
		{query: `sum(calls_total`, fault: "parse error"},
	} {
		got, err := v.Check(tt.query)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: %v, want %q", tt.query, err, tt.fault)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.labels, strings.Join(slices.Sorted(maps.Keys(got)), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.query, diff)
		}
	}
}

func FuzzCheck(f *testing.F) {
	v := vocabulary.New(nil)
	if err := v.Read(strings.NewReader(page)); err != nil {
		f.Fatal(err)
	}
	f.Add(`sum by (tool) (rate(calls_total{code!="OK"}[5m])) / on (job) used`)
	f.Add(`histogram_quantile(0.9, took_seconds_bucket)`)
	f.Fuzz(func(_ *testing.T, query string) {
		_, _ = v.Check(query) // it must not panic
	})
}
