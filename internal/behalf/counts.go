// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"sync/atomic"
	"time"
)

// Stats are the counts of an [Exchanger] or a [Signer] since its start.
type Stats struct {
	// Issued, Rejected and Unavailable count exchanges by their end.
	Issued, Rejected, Unavailable uint64
	// Spared counts exchanges that failed at once because the server was away.
	Spared uint64
	// Signed counts signatures.
	Signed uint64
	// CacheHits counts calls that took a token or a signature from the cache, Cached is the
	// number of entries in it, and MaxCached its limit.
	CacheHits         uint64
	Cached, MaxCached int
	// Missing counts calls that were refused because the backend could not be called in
	// the caller's name.
	Missing uint64
	// Seconds is the total duration of exchanges.
	Seconds float64
}

type exchangeCounts struct {
	issued, rejected, unavailable, spared, hits, none atomic.Uint64
	nanos                                             atomic.Int64
}

func (c *exchangeCounts) missing() { c.none.Add(1) }

func (c *exchangeCounts) took(d time.Duration) { c.nanos.Add(int64(d)) }

func (c *exchangeCounts) count(got issued, err error) {
	switch {
	case err != nil:
		c.unavailable.Add(1)
	case got.rejected != nil:
		c.rejected.Add(1)
	default:
		c.issued.Add(1)
	}
}

// Stats returns the counts.
func (x *Exchanger) Stats() Stats {
	c := &x.counts
	return Stats{
		Issued: c.issued.Load(), Rejected: c.rejected.Load(), Unavailable: c.unavailable.Load(), Spared: c.spared.Load(),
		CacheHits: c.hits.Load(), Cached: x.tokens.len(), MaxCached: x.opts.MaxTokens, Missing: c.none.Load(),
		Seconds: time.Duration(c.nanos.Load()).Seconds(),
	}
}
