// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"net/http"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// OpenOne opens one listener with a handler of a test.
func (f *Front) OpenOne(ctx context.Context, name, address string, h http.Handler) error {
	return f.open(ctx, name, address, h)
}

// Named is how callers' handlers are wrapped behind authentication.
func (s *Slow) Named(next http.Handler) http.Handler { return s.named(next) }

// OpenAuthenticator makes a Front that has its authentication alone.
func OpenAuthenticator(o Options, refuse func(http.ResponseWriter, *http.Request, *errmap.Error)) (*Front, error) {
	d, err := openAuthenticator(o, refuse)
	return &Front{opts: o, authn: d}, err
}

// Authenticated returns a handler that passes authenticated requests to next.
func (f *Front) Authenticated(next http.Handler) http.Handler { return f.authn.auth.Wrap(next) }

// TLS returns the TLS settings of the main listener.
func (f *Front) TLS() *keys.Server { return f.authn.tls }
