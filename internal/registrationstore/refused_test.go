// SPDX-License-Identifier: Apache-2.0

package registrationstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// TestRefused: a store that does not answer in its own time is unavailable; the end of the caller's request is not.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want errmap.Code
	}{
		"no answer":        {fmt.Errorf("%w: %w", state.ErrUnavailable, context.DeadlineExceeded), errmap.Unavailable},
		"conflict":         {state.ErrConflict, errmap.Unavailable},
		"full":             {fmt.Errorf("%w: no room", state.ErrFull), errmap.ResourceExhausted},
		"the caller ended": {context.Canceled, ""},
	} {
		got := refused(tc.err)
		var mapped *errmap.Error
		switch {
		case tc.want == "":
			if !errors.Is(got, context.Canceled) || errors.As(got, &mapped) {
				t.Errorf("%s: %v", name, got)
			}
		case !errors.As(got, &mapped) || mapped.Code != tc.want:
			t.Errorf("%s: %v, want %s", name, got, tc.want)
		}
	}
}
