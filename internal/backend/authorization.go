// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"maps"
	"net/http"
)

// authorizationKey is the context key of the Authorization header of calls.
type authorizationKey struct{}

// authorization is the value of a header. It formats as a mask. A context has a pointer
// to it, because fmt prints unexported fields without their methods.
type authorization struct{ value string }

// String returns a mask, so that formatted output never contains the value.
func (*authorization) String() string { return masked }

// GoString returns a mask for %#v.
func (*authorization) GoString() string { return masked }

// WithAuthorization returns a context in which calls and streams carry this value of the
// Authorization header, in place of the sidecar's own. Requests of the client itself
// (probes, health checks, reflection) do not. Like the client's other credentials, the
// value is masked in what the backend says about a failure.
func WithAuthorization(ctx context.Context, value string) context.Context {
	return context.WithValue(ctx, authorizationKey{}, &authorization{value})
}

// HasAuthorization reports whether [WithAuthorization] set a value, which may be empty.
func HasAuthorization(ctx context.Context) bool {
	_, ok := ctx.Value(authorizationKey{}).(*authorization)
	return ok
}

// authorizationOf returns the value of the header, or "" for none.
func authorizationOf(ctx context.Context) string {
	if a, ok := ctx.Value(authorizationKey{}).(*authorization); ok {
		return a.value
	}
	return ""
}

// withCredentials returns the headers of a call with the credentials of the client and
// those of ctx. It may change header, and what it returns must not be changed.
func (c *Client) withCredentials(ctx context.Context, header http.Header) http.Header {
	header = c.credentials.set().over(header)
	value := authorizationOf(ctx)
	if value == "" {
		return header
	}
	out := make(http.Header, len(header)+1) // header may be shared by all calls
	maps.Copy(out, header)
	out["Authorization"] = []string{value}
	return out
}

// maskError hides the credentials of the client and of ctx in what a backend says about
// a failure.
func (c *Client) maskError(ctx context.Context, e *Error) {
	c.credentials.set().maskError(e)
	if value := authorizationOf(ctx); value != "" {
		(&credentialSet{secrets: []string{secretPart(value)}}).maskError(e)
	}
}
