// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"errors"
	"testing"
)

// TestAContextThatIsAskedForLate: whatever ended the call before its context was made is what the context says.
func TestAContextThatIsAskedForLate(t *testing.T) {
	t.Parallel()
	errGone, errLater := errors.New("gone"), errors.New("later")
	for name, tt := range map[string]struct {
		end  func(table *Table, c *Call, leave context.CancelCauseFunc)
		want error
	}{
		"running":                {func(*Table, *Call, context.CancelCauseFunc) {}, nil},
		"finished":               {func(_ *Table, c *Call, _ context.CancelCauseFunc) { c.Finish() }, context.Canceled},
		"aborted":                {func(_ *Table, c *Call, _ context.CancelCauseFunc) { c.Abort(errGone); c.Abort(errLater) }, errGone},
		"aborted, then left":     {func(_ *Table, c *Call, leave context.CancelCauseFunc) { c.Abort(errGone); leave(errLater) }, errGone},
		"left":                   {func(_ *Table, _ *Call, leave context.CancelCauseFunc) { leave(errGone) }, errGone},
		"left, then aborted":     {func(_ *Table, c *Call, leave context.CancelCauseFunc) { leave(errGone); c.Abort(errLater) }, errGone},
		"cut off by a drain":     {func(table *Table, _ *Call, _ context.CancelCauseFunc) { table.cut() }, ErrDrainCut},
		"finished, then a drain": {func(table *Table, c *Call, _ context.CancelCauseFunc) { c.Finish(); table.cut() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := New(Options{})
			parent, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			c, err := table.Register(parent, table.NewOrigin(), one)
			if err != nil {
				t.Fatal(err)
			}
			tt.end(table, c, leave)
			if got := c.Ended(); !errors.Is(got, tt.want) {
				t.Errorf("before there was a context: %v, want %v", got, tt.want)
			}
			ctx := c.Context()
			if got := context.Cause(ctx); !errors.Is(got, tt.want) || (ctx.Err() != nil) != (tt.want != nil) {
				t.Errorf("the context: %v, cause %v, want %v", ctx.Err(), got, tt.want)
			}
			if got := c.Ended(); !errors.Is(got, tt.want) {
				t.Errorf("with a context: %v, want %v", got, tt.want)
			}
			c.Finish()
			checkEmpty(t, table)
		})
	}
}
