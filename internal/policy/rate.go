// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"container/list"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// defaultMaxCallers is the number of callers that a Limiter remembers: as many as there may be sessions. A bucket takes about
// 300 bytes, so this is at most 3 MB, however many addresses call.
const defaultMaxCallers = defaults.MaxSessions

// Rate is a rate limit: PerSecond events per second on average, with bursts of
// Burst. The zero value is no limit.
type Rate struct {
	PerSecond float64
	// Burst zero means PerSecond, at least 1.
	Burst int
}

// rateOf is a rate of the configuration.
func rateOf(r *configv1.Rate) Rate {
	return Rate{PerSecond: r.GetPerSecond(), Burst: int(r.GetBurst())}
}

// limits reports whether the rate is a limit.
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

// Limiter enforces the rate limits of callers and tools. It is safe for
// concurrent use. A nil Limiter limits nothing.
type Limiter struct {
	callers, tools atomic.Pointer[buckets]
	refused        refusals
	// ofCallers and ofTools are how often either rate was exceeded.
	ofCallers, ofTools atomic.Uint64
}

// NewLimiter returns a Limiter whose buckets are all full. The number of buckets is limited: the least recently used one is
// evicted first, and a caller without a bucket is accepted, never rejected.
func NewLimiter(limits *configv1.Limits) *Limiter {
	l := new(Limiter)
	l.SetRates(limits)
	return l
}

// SetRates changes the rates. The buckets of a changed rate become full; those of
// an unchanged rate stay as they are. A call is checked by the old or by the new
// rates.
func (l *Limiter) SetRates(limits *configv1.Limits) {
	for _, one := range []struct {
		now  *atomic.Pointer[buckets]
		to   Rate
		most int
	}{{&l.callers, rateOf(limits.GetCallerRate()), defaultMaxCallers}, {&l.tools, rateOf(limits.GetToolRate()), defaults.MaxTools}} {
		if one.now.Load().holdsTo() != one.to {
			one.now.Store(newBuckets(one.to, one.most))
		}
	}
}

// Refused returns how often Check has rejected calls of each tool, sorted by
// tool, for either rate. Requests that call no tool come first, with an empty
// name. Beyond defaultMaxCounted tools, the rest is counted together as otherTools. A
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
	if wait, ok := callers.takeToken(caller); !ok {
		l.refused.add(tool)
		l.ofCallers.Add(1)
		return limited("this caller's limit is "+callers.text, wait)
	}
	if tool == "" {
		return nil
	}
	tools := l.tools.Load()
	if wait, ok := tools.takeToken(tool); !ok {
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

// buckets are token buckets of one rate by name, a bounded number of them. Nil
// holds nothing back.
type buckets struct {
	rate Rate
	// text is the rate for callers that exceed it, made once.
	text string
	most int

	mu     sync.Mutex
	byName map[string]*list.Element
	// recent has the bucket that was used last at its front.
	recent *list.List
}

type bucket struct {
	name   string
	tokens *rate.Limiter
}

func newBuckets(r Rate, most int) *buckets {
	if !r.limits() {
		return nil
	}
	return &buckets{rate: r, text: r.String(), most: most, byName: map[string]*list.Element{}, recent: list.New()}
}

// holdsTo is the rate of the buckets.
func (b *buckets) holdsTo() Rate {
	if b == nil {
		return Rate{}
	}
	return b.rate
}

// takeToken takes a token of a bucket, or says how long it will be until there is
// one.
func (b *buckets) takeToken(name string) (wait time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	tokens := b.find(name)
	// A reservation that is given back would cost others theirs where several
	// are made at once, so nothing is reserved: the wait is read off the bucket.
	if tokens.AllowN(now, 1) {
		return 0, true
	}
	return b.wait(1 - tokens.TokensAt(now)), false
}

// find returns the bucket of a name, a full one where the name is new.
func (b *buckets) find(name string) *rate.Limiter {
	if at, ok := b.byName[name]; ok {
		b.recent.MoveToFront(at)
		one, _ := at.Value.(bucket)
		return one.tokens
	}
	if b.recent.Len() >= b.most {
		oldest, _ := b.recent.Remove(b.recent.Back()).(bucket)
		delete(b.byName, oldest.name)
	}
	tokens := rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.burst())
	b.byName[name] = b.recent.PushFront(bucket{name: name, tokens: tokens})
	return tokens
}

// longestWait bounds the retry hint: a rate may be as low as one likes,
// and no client plans further ahead.
const longestWait = 24 * time.Hour

// wait is how long the bucket takes to gain so much of a token, in whole
// milliseconds, rounded up: an early retry would be refused again.
func (b *buckets) wait(lack float64) time.Duration {
	ms := math.Ceil(lack / b.rate.PerSecond * 1000)
	if ms >= float64(longestWait.Milliseconds()) {
		return longestWait
	}
	return time.Millisecond * max(1, time.Duration(ms)) //nolint:durationcheck // ms is a number without a unit
}

// callers is a set of callers without credentials: addresses, networks, and standard input.
type callers struct {
	networks []netip.Prefix
	stdio    bool
}

// callerStdio is the caller on standard input.
const callerStdio = "stdio"

// parseCallers reads addresses, networks and words.
func parseCallers(names []string) (callers, error) {
	var out callers
	for _, name := range names {
		if name == callerStdio {
			out.stdio = true
			continue
		}
		network, err := netip.ParsePrefix(name)
		if err != nil {
			addr, addrErr := netip.ParseAddr(name)
			if addrErr != nil {
				return callers{}, fmt.Errorf("caller %q: want an address, a network such as 10.1.0.0/16, or stdio", name)
			}
			network = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		out.networks = append(out.networks, network.Masked())
	}
	return out, nil
}

// include reports whether a caller is one of the set.
func (c callers) include(caller string) bool {
	if caller == callerStdio || len(c.networks) == 0 {
		return caller == callerStdio && c.stdio
	}
	addr, err := netip.ParseAddr(caller)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(c.networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// defaultMaxCounted is the number of tools whose rejections are counted
// separately, so that a page of metrics stays readable. The others are counted
// together.
const defaultMaxCounted = 256

// otherTools is the name for tools that are counted together. It is not a valid
// tool name, which has a dot.
const otherTools = "other"

// Refusals is the number of rejections of a tool.
type Refusals struct {
	// Tool is its canonical name; empty for requests that call no tool.
	Tool  string
	Count uint64
}

// refusals counts what is refused. The zero value counts defaultMaxCounted tools
// one by one. It is safe for concurrent use.
type refusals struct {
	most int

	mu     sync.Mutex
	byTool map[string]uint64
}

// add counts one more.
func (r *refusals) add(tool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byTool == nil {
		r.byTool = map[string]uint64{}
	}
	if _, known := r.byTool[tool]; !known && len(r.byTool) >= cmp.Or(r.most, defaultMaxCounted) {
		tool = otherTools
	}
	r.byTool[tool]++
}

// list is the counts, sorted by tool.
func (r *refusals) list() []Refusals {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Refusals, 0, len(r.byTool))
	for tool, n := range r.byTool {
		out = append(out, Refusals{tool, n})
	}
	slices.SortFunc(out, func(a, b Refusals) int { return cmp.Compare(a.Tool, b.Tool) })
	return out
}
