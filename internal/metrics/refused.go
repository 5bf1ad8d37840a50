// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// refused is a collector of what the policy refused, by canonical code and tool.
// The parts that count bound the number of tools, and so that of the series.
type refused struct {
	desc *prometheus.Desc
	// parts are the counts of each code.
	parts map[errmap.Code]func() []policy.Refusals
}

// newRefused is a collector of the gate's and the limiter's refusals; either may
// be nil.
func newRefused(gate *policy.Gate, limiter *policy.Limiter) prometheus.Collector {
	r := refused{
		desc: prometheus.NewDesc(namespace+"_calls_refused_total",
			"Calls blocked by the destructive gate and rate-limited requests, by canonical code and tool; the tool is empty for "+
				"requests that call no tool, and \"other\" beyond the first 256 tools.",
			[]string{"code", "tool"}, nil),
		parts: map[errmap.Code]func() []policy.Refusals{errmap.RateLimited: limiter.Refused},
	}
	if gate != nil {
		r.parts[errmap.DestructiveBlocked] = gate.Refused
	}
	return r
}

// Describe implements [prometheus.Collector].
func (r refused) Describe(out chan<- *prometheus.Desc) { out <- r.desc }

// Collect implements [prometheus.Collector].
func (r refused) Collect(out chan<- prometheus.Metric) {
	for code, counts := range r.parts {
		for _, n := range counts() {
			out <- labelled(r.desc, prometheus.CounterValue, float64(n.Count), string(code), n.Tool)
		}
	}
}
