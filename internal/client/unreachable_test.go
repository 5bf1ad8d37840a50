// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// TestUnreachable: a connection that is not made in time is a sidecar that is away, and no call runs; only the caller's own deadline is
// TIMEOUT, and nothing else is worth another attempt of a wait.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	dial := fmt.Errorf("post: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded})
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		err    error
		want   errmap.Code
		isAway bool
	}{
		{"the dialer's timeout", t.Context(), &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}, errmap.Unavailable, true},
		{"a deadline of the kernel", t.Context(), dial, errmap.Unavailable, true},
		{"the caller's deadline while it dials", late, dial, errmap.Timeout, false},
		{"a deadline of the answer", t.Context(), context.DeadlineExceeded, errmap.Timeout, false},
		{"the caller has left", gone, dial, errmap.Cancelled, false},
	} {
		if got := unreachable(tt.ctx, "http://host", tt.err); got.Code != tt.want || got.isAway != tt.isAway {
			t.Errorf("%s: %s, away: %v", tt.name, got.Code, got.isAway)
		}
	}
}
