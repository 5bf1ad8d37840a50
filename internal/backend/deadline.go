// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"time"
)

// privateKey is the context key of a deadline that the service is not told.
type privateKey struct{}

// PrivateDeadline marks the context's deadline as the sidecar's own: unary calls made with
// it end at the deadline, and the request does not carry it. The service sees what it
// would see of a caller who set none.
func PrivateDeadline(ctx context.Context) context.Context {
	return context.WithValue(ctx, privateKey{}, true)
}

// hasPrivateDeadline reports whether ctx is marked.
func hasPrivateDeadline(ctx context.Context) bool {
	private, _ := ctx.Value(privateKey{}).(bool)
	return private
}

// silent is a context that ends at its deadline and does not show it. Connect's library
// sends what it is shown.
type silent struct{ context.Context }

// Deadline implements [context.Context].
func (silent) Deadline() (time.Time, bool) { return time.Time{}, false }

// shown is the context that a library may send the deadline of.
func shown(ctx context.Context) context.Context {
	if hasPrivateDeadline(ctx) {
		return silent{ctx}
	}
	return ctx
}
