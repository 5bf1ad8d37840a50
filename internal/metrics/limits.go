// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Limit is a limit of the process and its current use. The code that enforces the limit
// keeps the counts; a scrape reads them.
type Limit struct {
	// Name is the limit's field in the configuration ("max_in_flight"), so that an
	// operator who sees it reached knows what to change.
	Name string
	// Used and Most return the current value and the maximum, in the same unit. For a
	// limit without an amount, such as a timeout, both are nil.
	Used, Most func() float64
	// Refused returns how many times something was refused or ended because of this
	// limit. It is nil if this is not counted.
	Refused func() uint64
}

// limits is a collector of the process' bounds: three metrics with a series for
// each limit, so that one rule watches all of them.
type limits struct {
	all                 []Limit
	used, most, refused *prometheus.Desc
}

func newLimits(all []Limit) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, []string{"limit"}, nil)
	}
	return limits{
		all:     all,
		used:    desc("limit_used", "Current usage of a limit, by the limit's configuration field."),
		most:    desc("limit_max", "Value of the limit, in the unit of outrigger_limit_used."),
		refused: desc("limit_refused_total", "Requests, connections or other items rejected or ended early because a limit was reached."),
	}
}

// Describe implements [prometheus.Collector].
func (l limits) Describe(out chan<- *prometheus.Desc) {
	out <- l.used
	out <- l.most
	out <- l.refused
}

// Collect implements [prometheus.Collector].
func (l limits) Collect(out chan<- prometheus.Metric) {
	for _, one := range l.all {
		if one.Used != nil {
			out <- labelled(l.used, prometheus.GaugeValue, one.Used(), one.Name)
		}
		if one.Most != nil {
			out <- labelled(l.most, prometheus.GaugeValue, one.Most(), one.Name)
		}
		if one.Refused != nil {
			out <- labelled(l.refused, prometheus.CounterValue, float64(one.Refused()), one.Name)
		}
	}
}

// labelled is one number of a metric with labels. A label that is no text shows
// as an error of the scrape.
func labelled(desc *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string) prometheus.Metric {
	made, err := prometheus.NewConstMetric(desc, kind, n, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return made
}
