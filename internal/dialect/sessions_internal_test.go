// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// TestSessionErrors: a client that leaves while its session is looked for is no failure of the sidecar, and a store that is away
// does not make a session unknown.
func TestSessionErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]errmap.Code{
		context.Canceled: errmap.Cancelled, context.DeadlineExceeded: errmap.Timeout,
		session.ErrUnknown: errmap.SessionNotFound, session.ErrUnavailable: errmap.Unavailable, session.ErrFull: errmap.Unavailable,
		errors.ErrUnsupported: errmap.InternalError,
	} {
		if got := sessionError(fmt.Errorf("wrapped: %w", err)); got.Code != want {
			t.Errorf("%v: %s, want %s", err, got.Code, want)
		}
	}
}
