// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// ofBuild shows which binary runs, to be joined with other metrics.
func ofBuild(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; the labels are the version of the sidecar and that of Go.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	info.Set(1)
	return info
}
