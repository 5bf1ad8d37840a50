// SPDX-License-Identifier: Apache-2.0

package rateservice

import (
	"fmt"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// unknownWait is the hint where the service does not say when a limit is reset: the
// shortest unit that limits have.
const unknownWait = time.Second

// overLimit is RATE_LIMITED for an answer to the question about d. If several limits are
// exceeded, the request has to wait for the one that is reset last.
func overLimit(a *ratelimitv3.RateLimitResponse, d []descriptor) *errmap.Error {
	var wait time.Duration
	text := "a limit that replicas share"
	for i, status := range a.GetStatuses() {
		if status.GetCode() != ratelimitv3.RateLimitResponse_OVER_LIMIT {
			continue
		}
		until := unknownWait
		if reset := status.GetDurationUntilReset(); reset != nil {
			until = max(minWait, reset.AsDuration())
		}
		if until <= wait {
			continue
		}
		wait = until
		if i < len(d) {
			text = "the shared limit of " + d[i].of + limitText(status.GetCurrentLimit())
		}
	}
	if wait == 0 {
		wait = unknownWait
	}
	return &errmap.Error{Code: errmap.RateLimited, RetryAfter: wait, Message: "Rate limit exceeded: " + text}
}

// limitText is a limit in words, or empty if the service does not name it.
func limitText(l *ratelimitv3.RateLimitResponse_RateLimit) string {
	if l == nil || l.GetUnit() == ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN {
		return ""
	}
	return fmt.Sprintf(" is %d per %s", l.GetRequestsPerUnit(), strings.ToLower(l.GetUnit().String()))
}
