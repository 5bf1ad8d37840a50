// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Identity is a snapshot of the credentials that were made in the name of callers.
type Identity struct {
	// Issued, Rejected and Unavailable count token exchanges by their end, Spared those
	// that were not attempted because the server was away.
	Issued, Rejected, Unavailable, Spared uint64
	// Signed counts signatures.
	Signed uint64
	// CacheHits counts calls that used a kept token. Cached is the number of kept tokens,
	// MaxCached its limit.
	CacheHits         uint64
	Cached, MaxCached int
	// Missing counts calls that were refused because their caller has no token or identity.
	Missing uint64
	// Seconds is the total duration of exchanges.
	Seconds float64
}

func newIdentity(snapshot func() Identity) prometheus.Collector {
	return newGroup(snapshot,
		counter("token_exchanges_issued_total", "Token exchanges that returned a token.", func(i Identity) uint64 { return i.Issued }),
		counter("token_exchanges_rejected_total", "Token exchanges that the authorization server rejected.", func(i Identity) uint64 { return i.Rejected }),
		counter("token_exchanges_unavailable_total", "Token exchanges without a usable response.", func(i Identity) uint64 { return i.Unavailable }),
		counter("token_exchanges_spared_total", "Token exchanges not attempted because the authorization server was away.", func(i Identity) uint64 { return i.Spared }),
		newMetric("token_exchange_seconds_total", "Total duration of token exchanges.", prometheus.CounterValue, func(i Identity) float64 { return i.Seconds }),
		counter("identity_tokens_signed_total", "Tokens signed in the name of callers.", func(i Identity) uint64 { return i.Signed }),
		counter("identity_cache_hits_total", "Calls that used a kept exchanged or signed token.", func(i Identity) uint64 { return i.CacheHits }),
		gauge("identity_cache_entries", "Kept exchanged or signed tokens.", func(i Identity) float64 { return float64(i.Cached) }),
		gauge("identity_cache_max_entries", "Maximum number of kept tokens.", func(i Identity) float64 { return float64(i.MaxCached) }),
		counter("identity_refused_total", "Calls refused because their caller has no token to exchange, or no identity.", func(i Identity) uint64 { return i.Missing }),
	)
}
