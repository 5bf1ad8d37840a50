// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAMessageBetweenReplicas: an answer for a replica that is gone, one for no one, and one
// for a stranger.
func TestAMessageBetweenReplicas(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	sealer := newSealer(t)
	a, b, other := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()}), Sealer: sealer}), open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()}), Sealer: sealer}), open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	for _, c := range []*state.Client{a, b, other} {
		healthy(t, c)
	}
	heard := make(chan string, 8)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	from, to, stranger := a.Channel("words"), b.Channel("words"), other.Channel("words")
	go func() {
		defer close(done)
		to.Serve(ctx, "b", func(data []byte) []byte { heard <- string(data); return append([]byte("heard "), data...) })
	}()
	testkit.Until(t, "it is served", func() bool {
		said, err := from.Ask(t.Context(), "b", []byte("one"))
		return err == nil && string(said) == "heard one"
	})
	if got := <-heard; got != "one" {
		t.Errorf("heard %q", got)
	}
	if err := from.Tell(t.Context(), []byte("two")); err != nil {
		t.Error(err)
	}
	if got := <-heard; got != "two" {
		t.Errorf("heard %q", got)
	}
	if _, err := from.Ask(t.Context(), "c", nil); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("a replica that is not there: %v", err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := stranger.Ask(brief, "b", []byte("secret")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a replica with another key: %v", err)
	}
	stop()
	<-done
	n.stop()
	testkit.Until(t, "the loss is noticed", func() bool { return !a.Health().OK })
	if _, err := from.Ask(t.Context(), "b", nil); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if len(heard) != 0 {
		t.Errorf("heard %q", <-heard)
	}
}
