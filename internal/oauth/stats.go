// SPDX-License-Identifier: Apache-2.0

package oauth

import "sync/atomic"

// counts are what a Verifier counts.
type counts struct {
	hits, misses, verified               atomic.Uint64
	keyFetches, keyFetchesFailed         atomic.Uint64
	introspections, introspectionsFailed atomic.Uint64
	proofs                               atomic.Uint64
}

// Stats are the counts of a [Verifier] since it was made, and what it holds now.
type Stats struct {
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

// Stats returns the counts.
func (v *Verifier) Stats() Stats {
	c := &v.counts
	return Stats{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Verified: c.verified.Load(), Proofs: c.proofs.Load(),
		KeyFetches: c.keyFetches.Load(), KeyFetchesFailed: c.keyFetchesFailed.Load(),
		Introspections: c.introspections.Load(), IntrospectionsFailed: c.introspectionsFailed.Load(),
		Cached: v.tokens.len(),
	}
}
