// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// contention is a collector of who waits for whom while calls are queued.
type contention struct {
	slots                                            *policy.Slots
	toolRunning, toolWaiting, toolLimit, toolLongest *prometheus.Desc
	callerRunning, callerWaiting, callerLongest      *prometheus.Desc
	turnsWaiting, turnWaits                          *prometheus.Desc
}

func newContention(slots *policy.Slots) prometheus.Collector {
	desc := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, []string{label}, nil)
	}
	return contention{
		slots:         slots,
		toolRunning:   desc("queue_tool_running", "Running calls of a tool, while any call is queued.", "tool"),
		toolWaiting:   desc("queue_tool_waiting", "Queued calls of a tool.", "tool"),
		toolLimit:     desc("queue_tool_concurrency_limit", "Adaptive concurrency limit of a tool, while any call is queued.", "tool"),
		toolLongest:   desc("queue_tool_oldest_seconds", "Age of the oldest queued call of a tool.", "tool"),
		callerRunning: desc("queue_caller_running", "Running calls of a caller, while any call is queued.", "caller"),
		callerWaiting: desc("queue_caller_waiting", "Queued calls of a caller.", "caller"),
		callerLongest: desc("queue_caller_oldest_seconds", "Age of the oldest queued call of a caller.", "caller"),
		turnsWaiting:  desc("turns_waiting", "Messages that wait for their turn on the CPU.", "kind"),
		turnWaits:     desc("turn_waits_total", "Messages that had to wait for their turn on the CPU.", "kind"),
	}
}

// Describe implements [prometheus.Collector].
func (c contention) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements [prometheus.Collector].
func (c contention) Collect(out chan<- prometheus.Metric) {
	now := c.slots.Contention()
	send := func(desc *prometheus.Desc, value float64, name string) {
		out <- labelled(desc, prometheus.GaugeValue, value, name)
	}
	for _, t := range now.Tools {
		send(c.toolRunning, float64(t.Running), t.Name)
		send(c.toolWaiting, float64(t.Waiting), t.Name)
		send(c.toolLimit, float64(t.Limit), t.Name)
		send(c.toolLongest, t.Longest.Seconds(), t.Name)
	}
	for _, h := range now.Callers {
		send(c.callerRunning, float64(h.Running), h.Name)
		send(c.callerWaiting, float64(h.Waiting), h.Name)
		send(c.callerLongest, h.Longest.Seconds(), h.Name)
	}
	for kind, t := range c.slots.Turns() {
		send(c.turnsWaiting, float64(t.Waiting), kind.String())
		out <- labelled(c.turnWaits, prometheus.CounterValue, float64(t.Waits), kind.String())
	}
}
