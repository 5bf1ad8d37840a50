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

// TestAChangeThatTheCatalogDoesNotHaveYet: versions were compared with what the catalog has, so nothing may be written over a
// change that it does not have yet, whatever its version.
func TestAChangeThatTheCatalogDoesNotHaveYet(t *testing.T) {
	t.Parallel()
	s := &Store{pending: make(chan struct{}, 1), known: map[string]*kept{
		keyOf("heard"): {name: "heard", value: []byte("version 3"), revision: 7},
		keyOf("gone"):  {name: "gone", revision: 8, gone: true},
	}}
	for what, err := range map[string]error{
		"a registration": s.store(t.Context(), "heard", []byte("version 2")), "its end": s.remove(t.Context(), "heard"),
		"one that was unregistered": s.store(t.Context(), "gone", []byte("version 2")),
	} {
		var mapped *errmap.Error
		if !errors.As(err, &mapped) || mapped.Code != errmap.Unavailable || !errors.Is(err, state.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.store(t.Context(), "heard", []byte("version 3")); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if len(s.pending) != 1 {
		t.Error("no one was told to catch up")
	}
}
