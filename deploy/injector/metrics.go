// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

// Metrics are the injector's own, beside those of controller-runtime.
type Metrics struct {
	decisions           *prometheus.CounterVec
	sweeps, restarts    *prometheus.CounterVec
	without             *prometheus.GaugeVec
	rotations           prometheus.Counter
	certificateNotAfter prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	const prefix = "outrigger_injector_"
	m := &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "decisions_total", Help: "Pods that the webhook decided about, by outcome and reason.",
		}, []string{"outcome", "reason"}),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "sweeps_total", Help: "Sweeps over the pods that ask for a sidecar, by result.",
		}, []string{"result"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "restarts_total", Help: "Evictions of missed pods that asked for it, by result.",
		}, []string{"result"}),
		without: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "pods_without_sidecar", Help: "Running pods that ask for a sidecar and have none, by reason. The replica that leads has it.",
		}, []string{"reason"}),
		rotations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "certificate_rotations_total", Help: "Serving certificates that this replica has made.",
		}),
		certificateNotAfter: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "certificate_not_after_timestamp_seconds", Help: "When the serving certificate expires.",
		}),
	}
	for _, c := range []prometheus.Collector{m.decisions, m.sweeps, m.restarts, m.without, m.rotations, m.certificateNotAfter} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) decided(d inject.Decision) {
	m.decisions.WithLabelValues(string(d.Outcome), string(d.Reason)).Inc()
}

func (m *Metrics) certificate(notAfter time.Time) {
	m.certificateNotAfter.Set(float64(notAfter.Unix()))
}
