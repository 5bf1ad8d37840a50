// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// metric is one number of a snapshot.
type metric[S any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(S) float64
}

// counter is a number that only grows while the process lives.
func counter[S any](name, help string, read func(S) uint64) metric[S] {
	return newMetric(name, help, prometheus.CounterValue, func(s S) float64 { return float64(read(s)) })
}

// gauge is a number that goes up and down.
func gauge[S any](name, help string, read func(S) float64) metric[S] {
	return newMetric(name, help, prometheus.GaugeValue, read)
}

// state is a gauge that is 1 where something holds, else 0.
func state[S any](name, help string, read func(S) bool) metric[S] {
	return gauge(name, help, func(s S) float64 {
		if read(s) {
			return 1
		}
		return 0
	})
}

func newMetric[S any](name, help string, kind prometheus.ValueType, read func(S) float64) metric[S] {
	return metric[S]{prometheus.NewDesc(namespace+"_"+name, help, nil, nil), kind, read}
}

// group is a collector of what one snapshot holds, so that the numbers of one
// part fit together as well as that part can make them.
type group[S any] struct {
	snapshot func() S
	metrics  []metric[S]
}

func newGroup[S any](snapshot func() S, metrics ...metric[S]) prometheus.Collector {
	return group[S]{snapshot, metrics}
}

// Describe implements [prometheus.Collector].
func (g group[S]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range g.metrics {
		out <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (g group[S]) Collect(out chan<- prometheus.Metric) {
	s := g.snapshot()
	for _, m := range g.metrics {
		made, err := prometheus.NewConstMetric(m.desc, m.kind, m.read(s))
		if err != nil {
			made = prometheus.NewInvalidMetric(m.desc, err)
		}
		out <- made
	}
}
