// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Door is what a scrape asks of the door of the main listener.
type Door struct {
	// Reasons are why unauthenticated requests are rejected, and Refused is how many were
	// for one of them.
	Reasons []string
	Refused func(reason string) uint64
	// Expires is when the listener's certificate runs out; nil where it has none.
	Expires func() time.Time
}

// door is a collector of who was not let in.
type door struct {
	Door

	refused, expires *prometheus.Desc
}

func newDoor(of Door) prometheus.Collector {
	return door{
		Door: of,
		refused: prometheus.NewDesc(namespace+"_unauthenticated_total",
			"Rejected unauthenticated requests by reason: missing, malformed or unknown credentials, or certificate (a failed handshake).", []string{"reason"}, nil),
		expires: prometheus.NewDesc(namespace+"_tls_certificate_expiry_timestamp_seconds",
			"Expiry of the main listener's certificate, Unix time.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (d door) Describe(out chan<- *prometheus.Desc) {
	out <- d.refused
	out <- d.expires
}

// Collect implements [prometheus.Collector].
func (d door) Collect(out chan<- prometheus.Metric) {
	for _, reason := range d.Reasons {
		out <- labelled(d.refused, prometheus.CounterValue, float64(d.Refused(reason)), reason)
	}
	if d.Expires != nil {
		out <- labelled(d.expires, prometheus.GaugeValue, float64(d.Expires().Unix()))
	}
}
