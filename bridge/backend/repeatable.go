// SPDX-License-Identifier: Apache-2.0

package backend

import "context"

// repeatableKey is the context key of a call that somebody would make again.
type repeatableKey struct{}

// Repeatable says of the unary calls made with the context that they do no harm if
// they run twice, and that the caller makes one again that fails with
// KindTransport. Such a call does not wait for its answer on a connection that has
// gone silent once another one has reached the backend; any other call does, until
// the connection is given up. The client itself repeats nothing for it.
func Repeatable(ctx context.Context) context.Context {
	return context.WithValue(ctx, repeatableKey{}, true)
}

func isRepeatable(ctx context.Context) bool {
	is, _ := ctx.Value(repeatableKey{}).(bool)
	return is
}
