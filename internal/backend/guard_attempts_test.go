// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// notes are what a call was told of its attempts.
type notes []string

func (n *notes) Begin(attempt int) { *n = append(*n, fmt.Sprint("begin ", attempt)) }
func (n *notes) Held(attempt int)  { *n = append(*n, fmt.Sprint("held ", attempt)) }

func TestACallIsToldOfItsAttempts(t *testing.T) {
	t.Parallel()
	g := backend.NewGuard(backend.GuardOptions{MaxAttempts: 3, Backoff: time.Millisecond, MinCalls: 3, FailurePercent: 1, OpenFor: time.Hour})
	fails := func(context.Context) (int, *errmap.Error) { return 0, errmap.New(errmap.Unavailable) }
	var first, second notes
	_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{Repeatable: true, Attempts: &first}, fails)
	_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{Repeatable: true, Attempts: &second}, fails)
	if diff := cmp.Diff(notes{"begin 1", "begin 2", "begin 3"}, first); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(notes{"held 1"}, second); diff != "" {
		t.Error(diff)
	}
}
