// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// DefaultMaxCallers is the number of callers that a Limiter remembers: as many as there may be sessions. A bucket takes about
// 300 bytes, so this is at most 3 MB, however many addresses call.
const DefaultMaxCallers = defaults.MaxSessions

// Rate is a rate limit: PerSecond events per second on average, with bursts of
// Burst. The zero value is no limit.
type Rate struct {
	PerSecond float64
	// Burst zero means PerSecond, at least 1.
	Burst int
}

// limits reports whether the rate is one at all.
func (r Rate) limits() bool { return r.PerSecond > 0 }

// burst is the size of the bucket.
func (r Rate) burst() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return max(1, int(r.PerSecond))
}

// String returns the rate as text for the caller that exceeded it.
func (r Rate) String() string {
	return fmt.Sprintf("%s per second, in bursts of %d", strconv.FormatFloat(r.PerSecond, 'g', -1, 64), r.burst())
}

// LimitOptions configure a Limiter. Zero fields have the defaults of this
// package; a zero rate is no limit.
type LimitOptions struct {
	// Caller is the rate of each caller's requests, Tool that of the calls of
	// each tool by all callers together.
	Caller, Tool Rate
	// MaxCallers and MaxTools limit the number of buckets. The least recently used
	// bucket is evicted first. A caller without a bucket is accepted, never
	// rejected.
	MaxCallers, MaxTools int
	// MaxCounted is the number of tools that Refused counts separately; zero is
	// DefaultMaxCounted.
	MaxCounted int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Limiter enforces the rate limits of callers and tools. It is safe for
// concurrent use. A nil Limiter limits nothing.
type Limiter struct {
	options        LimitOptions
	callers, tools atomic.Pointer[buckets]
	refused        refusals
	// ofCallers and ofTools are how often either rate was exceeded.
	ofCallers, ofTools atomic.Uint64
}

// NewLimiter returns a Limiter whose buckets are all full.
func NewLimiter(o LimitOptions) *Limiter {
	defaults.Fill(&o.MaxCallers, DefaultMaxCallers)
	defaults.Fill(&o.MaxTools, defaults.MaxTools)
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Limiter{options: o, refused: refusals{most: max(0, o.MaxCounted)}}
	l.callers.Store(newBuckets(o.Caller, o.MaxCallers, o.Now))
	l.tools.Store(newBuckets(o.Tool, o.MaxTools, o.Now))
	return l
}

// SetRates changes the rates. The buckets of a changed rate become full; those of
// an unchanged rate stay as they are. A call is checked by the old or by the new
// rates.
func (l *Limiter) SetRates(caller, tool Rate) {
	for _, one := range []struct {
		now  *atomic.Pointer[buckets]
		to   Rate
		most int
	}{{&l.callers, caller, l.options.MaxCallers}, {&l.tools, tool, l.options.MaxTools}} {
		if one.now.Load().holdsTo() != one.to {
			one.now.Store(newBuckets(one.to, one.most, l.options.Now))
		}
	}
}

// Refused returns how often Check has rejected calls of each tool, sorted by
// tool, for either rate. Requests that call no tool come first, with an empty
// name. Beyond MaxCounted tools, the rest is counted together as OtherTools. A
// nil Limiter has none.
func (l *Limiter) Refused() []Refusals {
	if l == nil {
		return nil
	}
	return l.refused.list()
}

// Exceeded returns how often Check has rejected for the rate of a caller, and for
// that of a tool. A nil Limiter has none.
func (l *Limiter) Exceeded() (callers, tools uint64) {
	if l == nil {
		return 0, 0
	}
	return l.ofCallers.Load(), l.ofTools.Load()
}

// CountRefused adds a rejection to those that Refused returns, for a rate that is
// enforced elsewhere. A nil Limiter counts nothing.
func (l *Limiter) CountRefused(tool string) {
	if l != nil {
		l.refused.add(tool)
	}
}

// Check counts one request of a caller. tool is the canonical name of the called
// tool, or empty. It returns nil if the request is within both rates, else
// RATE_LIMITED with the time until the bucket has a token again.
//
// The caller's bucket comes first, so that a caller over its own rate takes
// nothing from a tool that others use. A call that the tool's bucket rejects has
// still cost its caller a token: attempts count.
func (l *Limiter) Check(caller, tool string) *errmap.Error {
	if l == nil {
		return nil
	}
	callers := l.callers.Load()
	if wait, ok := callers.take(caller); !ok {
		l.refused.add(tool)
		l.ofCallers.Add(1)
		return limited("this caller's limit is "+callers.text, wait)
	}
	if tool == "" {
		return nil
	}
	tools := l.tools.Load()
	if wait, ok := tools.take(tool); !ok {
		l.refused.add(tool)
		l.ofTools.Add(1)
		return limited(tool+" may be called "+tools.text+", by all callers together", wait)
	}
	return nil
}

// limited is RATE_LIMITED with its reason.
func limited(reason string, wait time.Duration) *errmap.Error {
	return &errmap.Error{Code: errmap.RateLimited, RetryAfter: wait, Message: "Rate limit exceeded: " + reason}
}
