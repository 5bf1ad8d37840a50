// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
)

// drift is a collector of the difference between the catalog and its lock: none without a
// catalog or a lock.
type drift struct {
	live  *catalog.Live
	tools *prometheus.Desc
}

func newDrift(live *catalog.Live) prometheus.Collector {
	return drift{live: live, tools: prometheus.NewDesc(namespace+"_catalog_lock_drift",
		"Tools that differ from the catalog lock, by change: added, removed or changed.", []string{"change"}, nil)}
}

// Describe implements [prometheus.Collector].
func (d drift) Describe(out chan<- *prometheus.Desc) { out <- d.tools }

// Collect implements [prometheus.Collector].
func (d drift) Collect(out chan<- prometheus.Metric) {
	var found lock.Drift
	if now := d.live.Current(); now != nil {
		found, _ = now.Drift()
	}
	for change, n := range map[string]int{"added": len(found.Added), "removed": len(found.Removed), "changed": len(found.Changed)} {
		out <- labelled(d.tools, prometheus.GaugeValue, float64(n), change)
	}
}
