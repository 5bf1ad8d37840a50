// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
)

// consentLog is every call that needed a consent.
type consentLog struct {
	odd *oddities
	mu  sync.Mutex
	all []*consented
}

// consented is a call with its consent.
type consented struct {
	name string
	mu   sync.Mutex
	ran  int // as clients were told
}

// consents asks for destructive calls, and sends each consent to several replicas at once.
func consents(ctx context.Context, c *client, log *consentLog) {
	for ctx.Err() == nil {
		one := &consented{name: c.unique(0)}
		log.mu.Lock()
		log.all = append(log.all, one)
		log.mu.Unlock()
		if params := c.asks(ctx, one.name, log.odd); params != "" {
			var sent sync.WaitGroup
			for range 2 + c.rand.IntN(4) {
				sent.Go(func() { c.uses(ctx, one, params, log.odd) })
			}
			sent.Wait()
			c.uses(ctx, one, params, log.odd) // and once more, when the others have been answered
		}
		pause(ctx, c.between(50*time.Millisecond, 400*time.Millisecond))
	}
}

// asks makes a destructive call, and returns it with the consent of its user; "" if there was no question.
func (c *client) asks(ctx context.Context, name string, odd *oddities) string {
	params := `"name":"shop_refund","arguments":{"name":"` + name + `"}`
	got, err := c.modern(ctx, "tools/call", "shop_refund", params)
	switch {
	case err != nil, got.code() == "UNAVAILABLE":
		return ""
	case got.Result.RequestState == "":
		odd.add("refund without a question: %s", got.raw)
		return ""
	}
	return params + `,"inputResponses":{"outrigger_confirm":{"action":"accept","content":{"confirm":true}}},"requestState":"` + got.Result.RequestState + `"`
}

// uses sends a consent once. It is safe for concurrent use.
func (c *client) uses(ctx context.Context, one *consented, params string, odd *oddities) {
	call := c.h.now()
	got, err := c.modern(ctx, "tools/call", "shop_refund", params)
	switch {
	case err != nil, got.code() == "UNAVAILABLE":
		// It may have been counted although it did not run.
		c.h.open("consents", c.id, call, one.name, models.Unknown)
	case got.Result.StructuredContent.Name == models.ResultOf("Refund", one.name):
		one.mu.Lock()
		one.ran++
		one.mu.Unlock()
		c.h.add("consents", c.id, call, one.name, models.Ran)
	case strings.Contains(got.raw, "was used before"):
		c.h.add("consents", c.id, call, one.name, models.UsedBefore)
	default:
		odd.add("consent to %s: %s", one.name, got.raw)
		c.h.open("consents", c.id, call, one.name, models.Unknown)
	}
}

// check compares what the backend did with what clients were told.
func (l *consentLog) check(b *till) (runs int) {
	for _, one := range l.all {
		n := b.count("Refund", one.name)
		runs += n
		if n > 1 || one.ran > n {
			l.odd.add("the consent to %s ran %d times, and %d clients were told that it did", one.name, n, one.ran)
		}
	}
	return runs
}
