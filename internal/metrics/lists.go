// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/listcost"
)

// lists is a collector of what the list of tools that was made last costs its readers.
type lists struct {
	meter                  *listcost.Meter
	bytes, budget, dearest *prometheus.Desc
}

func newLists(meter *listcost.Meter) prometheus.Collector {
	return lists{
		meter: meter,
		bytes: prometheus.NewDesc(namespace+"_tool_list_bytes",
			"Size of the newest list of tools for MCP clients; four bytes are about one token. 0 before the first.", nil, nil),
		budget: prometheus.NewDesc(namespace+"_tool_list_budget_bytes",
			"Size above which a list of tools causes a warning.", nil, nil),
		dearest: prometheus.NewDesc(namespace+"_tool_list_dearest_bytes",
			"Size of an entry of the newest list of tools, for the ten largest.", []string{"tool"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (l lists) Describe(out chan<- *prometheus.Desc) {
	out <- l.bytes
	out <- l.budget
	out <- l.dearest
}

// Collect implements [prometheus.Collector].
func (l lists) Collect(out chan<- prometheus.Metric) {
	last := l.meter.Last()
	out <- prometheus.MustNewConstMetric(l.bytes, prometheus.GaugeValue, float64(last.Bytes))
	out <- prometheus.MustNewConstMetric(l.budget, prometheus.GaugeValue, float64(l.meter.Budget().InBytes()))
	for _, t := range last.Dearest {
		out <- labelled(l.dearest, prometheus.GaugeValue, float64(t.Bytes), t.Name)
	}
}
