// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// TestTaskErrors: a caller whose time is over learns it, and one who left is not told of a failure of the store.
func TestTaskErrors(t *testing.T) {
	t.Parallel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	left, leave := context.WithCancel(t.Context())
	leave()
	for name, tc := range map[string]struct {
		ctx  context.Context //nolint:containedctx // a row of the table
		err  error
		want errmap.Code
	}{
		"the caller's time is over":               {late, context.DeadlineExceeded, errmap.Timeout},
		"the caller left":                         {left, context.Canceled, errmap.Cancelled},
		"the store is away":                       {t.Context(), task.ErrUnavailable, errmap.Unavailable},
		"the store is away, and so is the caller": {left, task.ErrUnavailable, errmap.Cancelled},
		"full":           {t.Context(), task.ErrFull, errmap.Unavailable},
		"over its share": {t.Context(), task.ErrShare, errmap.RateLimited},
		"anything else":  {t.Context(), errors.ErrUnsupported, errmap.InternalError},
	} {
		if got := task.Canonical(tc.ctx, tc.err); got.Code != tc.want {
			t.Errorf("%s: %s, want %s", name, got.Code, tc.want)
		}
	}
}
