// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// NewPageProducer returns a producer of what the Prometheus page shows, under the same names.
func NewPageProducer(page prometheus.Gatherer) sdkmetric.Producer {
	return bridge.NewMetricProducer(bridge.WithGatherer(page))
}
