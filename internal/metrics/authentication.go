// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Authentication is the source of the metrics of caller authentication.
type Authentication struct {
	// Reasons lists the reasons for rejecting unauthenticated requests. Refused returns
	// the number of requests rejected for one of them.
	Reasons []string
	Refused func(reason string) uint64
	// Expires returns the expiry of the listener's certificate; nil without one.
	Expires func() time.Time
}

// authentication collects rejected unauthenticated requests.
type authentication struct {
	Authentication

	refused, expires *prometheus.Desc
}

func newAuthentication(of Authentication) prometheus.Collector {
	return authentication{
		Authentication: of,
		refused: prometheus.NewDesc(namespace+"_unauthenticated_total",
			"Rejected unauthenticated requests by reason: missing, malformed or unknown credentials, or certificate (a failed handshake).", []string{"reason"}, nil),
		expires: prometheus.NewDesc(namespace+"_tls_certificate_expiry_timestamp_seconds",
			"Expiry of the main listener's certificate, Unix time.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (d authentication) Describe(out chan<- *prometheus.Desc) {
	out <- d.refused
	out <- d.expires
}

// Collect implements [prometheus.Collector].
func (d authentication) Collect(out chan<- prometheus.Metric) {
	for _, reason := range d.Reasons {
		out <- labelled(d.refused, prometheus.CounterValue, float64(d.Refused(reason)), reason)
	}
	if d.Expires != nil {
		out <- labelled(d.expires, prometheus.GaugeValue, float64(d.Expires().Unix()))
	}
}
