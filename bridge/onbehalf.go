// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// OnBehalf makes the credentials with which the backend is called in the name of a
// caller. Implementations are safe for concurrent use.
type OnBehalf interface {
	// Authorization returns the value of the Authorization header for calls of the caller in
	// ctx, or "" for none. Its errors are canonical.
	Authorization(ctx context.Context) (string, *errmap.Error)
}

// onBehalf returns a context in which the backend is called in the name of the caller.
// Attempts of a call share it, and so does a call that runs on as a task, because the
// caller's own token ends with its request.
func (b *Bridge) onBehalf(ctx context.Context, req *Request) (context.Context, *errmap.Error) {
	if b.opts.OnBehalf == nil || backend.HasAuthorization(ctx) {
		return ctx, nil
	}
	defer req.Span.Step(tracing.StepCredentials, req.Span.Now())
	value, err := b.opts.OnBehalf.Authorization(ctx)
	if err != nil {
		return ctx, err
	}
	return backend.WithAuthorization(ctx, value), nil
}
