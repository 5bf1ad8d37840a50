// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"container/list"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// buckets are token buckets of one rate by name, a bounded number of them. Nil
// holds nothing back.
type buckets struct {
	rate Rate
	// text is the rate for callers that exceed it, made once.
	text string
	most int
	now  func() time.Time

	mu     sync.Mutex
	byName map[string]*list.Element
	// recent has the bucket that was used last at its front.
	recent *list.List
}

type bucket struct {
	name   string
	tokens *rate.Limiter
}

func newBuckets(r Rate, most int, now func() time.Time) *buckets {
	if !r.limits() {
		return nil
	}
	return &buckets{rate: r, text: r.String(), most: most, now: now, byName: map[string]*list.Element{}, recent: list.New()}
}

// holdsTo is the rate that the buckets hold to.
func (b *buckets) holdsTo() Rate {
	if b == nil {
		return Rate{}
	}
	return b.rate
}

// take takes a token of a bucket, or says how long it will be until there is
// one.
func (b *buckets) take(name string) (wait time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
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
		return tokensOf(at)
	}
	if b.recent.Len() >= b.most {
		oldest := b.recent.Back()
		delete(b.byName, nameOf(oldest))
		b.recent.Remove(oldest)
	}
	tokens := rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.burst())
	b.byName[name] = b.recent.PushFront(bucket{name: name, tokens: tokens})
	return tokens
}

func tokensOf(at *list.Element) *rate.Limiter {
	one, _ := at.Value.(bucket)
	return one.tokens
}

func nameOf(at *list.Element) string {
	one, _ := at.Value.(bucket)
	return one.name
}

// longestWait bounds what a caller is told: a rate may be as low as one likes,
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
