// SPDX-License-Identifier: Apache-2.0

package backend

import "context"

// Again decides whether a call that could be made a second time will be. Claim
// reserves that, and reports false where there will be no second time: its budget is
// used up, or this was the last attempt. It must not block, and may be called from
// any goroutine while the call runs.
type Again interface{ Claim() bool }

// againKey is the context key of an Again.
type againKey struct{}

// Repeatable says of the unary calls made with the context that they do no harm if
// they run twice, and who decides whether one that fails with KindTransport is made
// again. A call with a claim does not wait for its answer on a connection that has
// gone silent once another one has reached the backend; any other call does, until
// the connection is given up. The client itself repeats nothing for it.
func Repeatable(ctx context.Context, again Again) context.Context {
	return context.WithValue(ctx, againKey{}, again)
}

// againOf is nil where a call is not to be made again.
func againOf(ctx context.Context) Again {
	again, _ := ctx.Value(againKey{}).(Again)
	return again
}
