// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// TestARegistrationWhoseCallerStopsWaiting is not the sidecar's failure.
func TestARegistrationWhoseCallerStopsWaiting(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]errmap.Code{
		context.DeadlineExceeded: errmap.Timeout, context.Canceled: errmap.Cancelled, errors.ErrUnsupported: errmap.InternalError,
	} {
		if got := registrationError("x.y", err); got.Code != want {
			t.Errorf("%v: %s, want %s", err, got.Code, want)
		}
	}
}
