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
	// OAuth returns the counts of the resource server; nil without one.
	OAuth func() OAuth
}

// OAuth is what the resource server has counted.
type OAuth struct {
	// Hits and Misses count tokens that were, or were not, in the cache.
	Hits, Misses uint64
	// Verified counts verified signatures of tokens, Proofs accepted DPoP proofs.
	Verified, Proofs uint64
	// KeyFetches and KeyFetchesFailed count requests for an issuer's keys.
	KeyFetches, KeyFetchesFailed uint64
	// Introspections and IntrospectionsFailed count introspection requests.
	Introspections, IntrospectionsFailed uint64
	// Cached is the number of tokens in the cache.
	Cached int
}

// authentication collects rejected unauthenticated requests.
type authentication struct {
	Authentication

	refused, expires                *prometheus.Desc
	lookups, cached, fetches, asked *prometheus.Desc
	signatures, proofs              *prometheus.Desc
}

func newAuthentication(of Authentication) prometheus.Collector {
	return authentication{
		Authentication: of,
		refused: prometheus.NewDesc(namespace+"_unauthenticated_total",
			"Rejected unauthenticated requests by reason: missing, malformed or unknown credentials, or certificate (a failed handshake). With OAuth also what was wrong with the token or its proof.", []string{"reason"}, nil),
		expires: prometheus.NewDesc(namespace+"_tls_certificate_expiry_timestamp_seconds",
			"Expiry of the main listener's certificate, Unix time.", nil, nil),
		lookups: prometheus.NewDesc(namespace+"_oauth_token_lookups_total",
			"Access tokens looked up in the cache of verified tokens, by result: hit or miss.", []string{"result"}, nil),
		cached: prometheus.NewDesc(namespace+"_oauth_cached_tokens",
			"Access tokens in the cache of verified tokens.", nil, nil),
		fetches: prometheus.NewDesc(namespace+"_oauth_key_fetches_total",
			"Fetches of an issuer's keys, by result: ok or failed.", []string{"result"}, nil),
		asked: prometheus.NewDesc(namespace+"_oauth_introspections_total",
			"Introspection requests to an issuer, by result: ok or failed.", []string{"result"}, nil),
		signatures: prometheus.NewDesc(namespace+"_oauth_signatures_verified_total",
			"Signatures of access tokens that were verified, good or bad.", nil, nil),
		proofs: prometheus.NewDesc(namespace+"_oauth_dpop_proofs_total",
			"Accepted DPoP proofs.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (d authentication) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.refused, d.expires, d.lookups, d.cached, d.fetches, d.asked, d.signatures, d.proofs} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (d authentication) Collect(out chan<- prometheus.Metric) {
	for _, reason := range d.Reasons {
		out <- labelled(d.refused, prometheus.CounterValue, float64(d.Refused(reason)), reason)
	}
	if d.Expires != nil {
		out <- labelled(d.expires, prometheus.GaugeValue, float64(d.Expires().Unix()))
	}
	if d.OAuth != nil {
		d.collectOAuth(out, d.OAuth())
	}
}

func (d authentication) collectOAuth(out chan<- prometheus.Metric, s OAuth) {
	for _, one := range []struct {
		desc   *prometheus.Desc
		a, b   string
		na, nb uint64
	}{
		{d.lookups, "hit", "miss", s.Hits, s.Misses},
		{d.fetches, "ok", "failed", s.KeyFetches, s.KeyFetchesFailed},
		{d.asked, "ok", "failed", s.Introspections, s.IntrospectionsFailed},
	} {
		out <- labelled(one.desc, prometheus.CounterValue, float64(one.na), one.a)
		out <- labelled(one.desc, prometheus.CounterValue, float64(one.nb), one.b)
	}
	out <- labelled(d.cached, prometheus.GaugeValue, float64(s.Cached))
	out <- labelled(d.signatures, prometheus.CounterValue, float64(s.Verified))
	out <- labelled(d.proofs, prometheus.CounterValue, float64(s.Proofs))
}
