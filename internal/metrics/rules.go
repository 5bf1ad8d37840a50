// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/rules"
)

// policyRules collects the decisions of policy rules. Its series are bounded by the
// number of rules.
type policyRules struct {
	engine                      *rules.Engine
	decisions, failures, broken *prometheus.Desc
}

func newRules(of *rules.Engine) prometheus.Collector {
	return policyRules{
		engine: of,
		decisions: prometheus.NewDesc(namespace+"_policy_decisions_total",
			"Calls decided by a policy rule, by rule and effect: allow or deny.", []string{"rule", "effect"}, nil),
		failures: prometheus.NewDesc(namespace+"_policy_failures_total",
			"Evaluations of a policy rule that failed or exceeded the cost limit, which counts against the caller.", []string{"rule"}, nil),
		broken: prometheus.NewDesc(namespace+"_policy_disabled_tools",
			"Tools that are disabled because a policy rule does not fit their input.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (p policyRules) Describe(out chan<- *prometheus.Desc) {
	out <- p.decisions
	out <- p.failures
	out <- p.broken
}

// Collect implements [prometheus.Collector].
func (p policyRules) Collect(out chan<- prometheus.Metric) {
	for _, c := range p.engine.Counts() {
		out <- labelled(p.decisions, prometheus.CounterValue, float64(c.Allowed), c.Rule, string(rules.Allow))
		out <- labelled(p.decisions, prometheus.CounterValue, float64(c.Denied), c.Rule, string(rules.Deny))
		out <- labelled(p.failures, prometheus.CounterValue, float64(c.Failed), c.Rule)
	}
	out <- labelled(p.broken, prometheus.GaugeValue, float64(p.engine.Disabled()))
}
