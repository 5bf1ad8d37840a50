// SPDX-License-Identifier: Apache-2.0

package export

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
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
	OAuth func() identity.VerifierStats
}

func newAuthentication(of *Authentication) prometheus.Collector {
	return newGroup(is(of),
		counters("unauthenticated_total",
			"Rejected unauthenticated requests by reason: missing, malformed or unknown credentials, or certificate (a failed handshake). With OAuth also what was wrong with the token or its proof.",
			func(a *Authentication, put func(uint64, ...string)) {
				for _, reason := range a.Reasons {
					put(a.Refused(reason), reason)
				}
			}, "reason"),
		gauges("tls_certificate_expiry_timestamp_seconds", "Expiry of the main listener's certificate, Unix time.", func(a *Authentication, put func(float64, ...string)) {
			if a.Expires != nil {
				put(float64(a.Expires().Unix()))
			}
		}),
	)
}

func newOAuth(of *Authentication) prometheus.Collector {
	type stats = identity.VerifierStats
	return newGroup(of.OAuth,
		counters("oauth_token_lookups_total", "Access tokens looked up in the cache of verified tokens, by result: hit or miss.",
			func(s stats, put func(uint64, ...string)) { put(s.Hits, "hit"); put(s.Misses, "miss") }, "result"),
		gauge("oauth_cached_tokens", "Access tokens in the cache of verified tokens.", func(s stats) float64 { return float64(s.Cached) }),
		counters("oauth_key_fetches_total", "Fetches of an issuer's keys, by result: ok or failed.",
			func(s stats, put func(uint64, ...string)) { put(s.KeyFetches, "ok"); put(s.KeyFetchesFailed, "failed") }, "result"),
		counters("oauth_introspections_total", "Introspection requests to an issuer, by result: ok or failed.",
			func(s stats, put func(uint64, ...string)) {
				put(s.Introspections, "ok")
				put(s.IntrospectionsFailed, "failed")
			}, "result"),
		counter("oauth_signatures_verified_total", "Signatures of access tokens that were verified, good or bad.", func(s stats) uint64 { return s.Verified }),
		counter("oauth_dpop_proofs_total", "Accepted DPoP proofs.", func(s stats) uint64 { return s.Proofs }),
	)
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
		newMetric("token_exchange_seconds_total", "Total duration of token exchanges.", nil, func(i Identity, desc *prometheus.Desc, out chan<- prometheus.Metric) {
			out <- number(desc, prometheus.CounterValue, i.Seconds, nil)
		}),
		counter("identity_tokens_signed_total", "Tokens signed in the name of callers.", func(i Identity) uint64 { return i.Signed }),
		counter("identity_cache_hits_total", "Calls that used a kept exchanged or signed token.", func(i Identity) uint64 { return i.CacheHits }),
		gauge("identity_cache_entries", "Kept exchanged or signed tokens.", func(i Identity) float64 { return float64(i.Cached) }),
		gauge("identity_cache_max_entries", "Maximum number of kept tokens.", func(i Identity) float64 { return float64(i.MaxCached) }),
		counter("identity_refused_total", "Calls refused because their caller has no token to exchange, or no identity.", func(i Identity) uint64 { return i.Missing }),
	)
}

// newRules shows the decisions of policy rules, whose number bounds the series.
func newRules(of *policy.Engine) prometheus.Collector {
	return newGroup(is(of),
		counters("policy_decisions_total", "Calls decided by a policy rule, by rule and effect: allow, deny or approve.", func(e *policy.Engine, put func(uint64, ...string)) {
			for _, c := range e.Counts() {
				put(c.Allowed, c.Rule, string(policy.Allow))
				put(c.Denied, c.Rule, string(policy.Deny))
				put(c.Asked, c.Rule, string(policy.Approve))
			}
		}, "rule", "effect"),
		counters("policy_failures_total", "Evaluations of a policy rule that failed or exceeded the cost limit, which counts against the caller.",
			func(e *policy.Engine, put func(uint64, ...string)) {
				for _, c := range e.Counts() {
					put(c.Failed, c.Rule)
				}
			}, "rule"),
		gauge("policy_disabled_tools", "Tools that are disabled because a policy rule does not fit their input.", func(e *policy.Engine) float64 { return float64(e.Disabled()) }),
	)
}

// newApprovals shows the calls that wait until others approve them.
func newApprovals(of *approval.Service) prometheus.Collector {
	return newGroup(of.Stats,
		gauge("approvals_waiting", "Calls that wait for approval, of all replicas.", func(s approval.Stats) float64 { return float64(s.Waiting) }),
		counters("approvals_total", "Approvals by what this replica made of them: asked, approved, denied, expired, cancelled, ran, or over, of calls that found no room.",
			func(s approval.Stats, put func(uint64, ...string)) {
				put(s.Asked, "asked")
				put(s.Approved, approval.Approved)
				put(s.Denied, approval.Denied)
				put(s.Expired, approval.Expired)
				put(s.Cancelled, approval.Cancelled)
				put(s.Ran, "ran")
				put(s.Over, "over")
			}, "outcome"),
	)
}
