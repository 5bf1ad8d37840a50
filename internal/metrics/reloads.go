// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// Reloads is the source of the metrics of files that may change at run time.
type Reloads struct {
	// Status returns the status of each group of files.
	Status func() []reload.Status
	// Refused returns the number of changes in the configuration file that wait for a
	// restart.
	Refused func() int
}

// reloads is a collector of what came of reading files again.
type reloads struct {
	Reloads

	total, good, failing, refused *prometheus.Desc
}

func newReloads(of Reloads) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return reloads{
		Reloads: of,
		total: desc("reloads_total", "Reloads of files, on change or on request, by kind of file and outcome: "+
			"unchanged, applied, partial, refused or deferred.", "files", "outcome"),
		good:    desc("reload_good_timestamp_seconds", "Unix time of the last successful load of the content in use.", "files"),
		failing: desc("reload_failing", "1 while the files cannot be loaded and older content is in use.", "files"),
		refused: desc("reload_refused_changes", "Changed fields of the configuration file that need a restart."),
	}
}

// Describe implements [prometheus.Collector].
func (r reloads) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.total, r.good, r.failing, r.refused} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (r reloads) Collect(out chan<- prometheus.Metric) {
	for _, s := range r.Status() {
		for _, o := range reload.Outcomes() {
			out <- labelled(r.total, prometheus.CounterValue, float64(s.Counts[o]), s.Group, o.String())
		}
		failing := 0.0
		if s.Failing() {
			failing = 1
		}
		out <- labelled(r.good, prometheus.GaugeValue, seconds(time.Duration(s.Good.UnixNano())), s.Group)
		out <- labelled(r.failing, prometheus.GaugeValue, failing, s.Group)
	}
	out <- labelled(r.refused, prometheus.GaugeValue, float64(r.Refused()))
}
