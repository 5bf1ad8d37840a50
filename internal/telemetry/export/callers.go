// SPDX-License-Identifier: Apache-2.0

package export

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/policy"
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

// policyRules collects the decisions of policy rules. Its series are bounded by the
// number of rules.
type policyRules struct {
	engine                      *policy.Engine
	decisions, failures, broken *prometheus.Desc
}

func newRules(of *policy.Engine) prometheus.Collector {
	return policyRules{
		engine: of,
		decisions: prometheus.NewDesc(namespace+"_policy_decisions_total",
			"Calls decided by a policy rule, by rule and effect: allow or deny.", []string{"rule", "effect"}, nil),
		failures: prometheus.NewDesc(namespace+"_policy_failures_total",
			"Evaluations of a policy rule that failed or exceeded the cost limit, which counts against the caller.", []string{"rule"}, nil),
		broken: prometheus.NewDesc(namespace+"_policy_disabled_tools",
			"Tools that are disabled because a policy rule does not fit their input.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (p policyRules) Describe(out chan<- *prometheus.Desc) {
	out <- p.decisions
	out <- p.failures
	out <- p.broken
}

// Collect implements [prometheus.Collector].
func (p policyRules) Collect(out chan<- prometheus.Metric) {
	for _, c := range p.engine.Counts() {
		out <- labelled(p.decisions, prometheus.CounterValue, float64(c.Allowed), c.Rule, string(policy.Allow))
		out <- labelled(p.decisions, prometheus.CounterValue, float64(c.Denied), c.Rule, string(policy.Deny))
		out <- labelled(p.failures, prometheus.CounterValue, float64(c.Failed), c.Rule)
	}
	out <- labelled(p.broken, prometheus.GaugeValue, float64(p.engine.Disabled()))
}
