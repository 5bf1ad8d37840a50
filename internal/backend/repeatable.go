// SPDX-License-Identifier: Apache-2.0

package backend

import "context"

// Again decides whether a call that can be retried is retried. Claim reserves the retry
// and returns false if there will be none: the retry budget is exhausted, or this was
// the last attempt. Claim must not block, and any goroutine may call it while the call
// runs.
type Again interface{ Claim() bool }

// againKey is the context key of an Again.
type againKey struct{}

// Repeatable marks the unary calls made with the context as safe to run twice. again
// decides whether a call that fails with KindTransport is retried. A call with a claim
// stops waiting for its response on a silent connection once another connection has
// reached the backend. Any other call waits until the connection is given up. The client
// itself does not retry these calls.
func Repeatable(ctx context.Context, again Again) context.Context {
	return context.WithValue(ctx, againKey{}, again)
}

// againOf is nil where a call is not to be made again.
func againOf(ctx context.Context) Again {
	again, _ := ctx.Value(againKey{}).(Again)
	return again
}
