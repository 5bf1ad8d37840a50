// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// classes is a collector of the configured classes of tools and callers, and of the calls that were rejected, by tool. The
// configuration bounds the number of classes.
type classes struct {
	slots                                                   *policy.Slots
	running, waiting, reserved, rejectedByClass, rejectedBy *prometheus.Desc
}

func newClasses(slots *policy.Slots) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return classes{
		slots:           slots,
		running:         desc("class_running", "Running calls of a class of tools or callers.", "of", "class"),
		waiting:         desc("class_waiting", "Queued calls of a class of tools or callers.", "of", "class"),
		reserved:        desc("class_reserved", "Slots that only calls of a class may use.", "of", "class"),
		rejectedByClass: desc("class_rejected_total", "Calls of a class that got no slot, by the configuration field of the limit.", "of", "class", "limit"),
		rejectedBy: desc("queue_rejected_total", "Calls of a tool that got no slot, by the configuration field of the limit; the tool is empty for "+
			"calls that were not read, and \"other\" beyond the first 256 tools.", "tool", "limit"),
	}
}

// Describe implements [prometheus.Collector].
func (c classes) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.running, c.waiting, c.reserved, c.rejectedByClass, c.rejectedBy} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c classes) Collect(out chan<- prometheus.Metric) {
	tools, callers := c.slots.Classes()
	c.send(out, "tools", tools)
	c.send(out, "callers", callers)
	for why, counts := range c.slots.Rejected() {
		for _, n := range counts {
			out <- labelled(c.rejectedBy, prometheus.CounterValue, float64(n.Count), n.Tool, why.String())
		}
	}
}

func (c classes) send(out chan<- prometheus.Metric, of string, all []policy.ClassStats) {
	for _, one := range all {
		out <- labelled(c.running, prometheus.GaugeValue, float64(one.Running), of, one.Name)
		out <- labelled(c.waiting, prometheus.GaugeValue, float64(one.Waiting), of, one.Name)
		out <- labelled(c.reserved, prometheus.GaugeValue, float64(one.Reserved), of, one.Name)
		for why, n := range one.Rejected {
			out <- labelled(c.rejectedByClass, prometheus.CounterValue, float64(n), of, one.Name, policy.Reason(why).String())
		}
	}
}
