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

// consumersOf is the number of consumers of a stream.
func consumersOf(t *testing.T, n *natsServer, stream string) int {
	t.Helper()
	s, err := n.admin().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Consumers
}

// TestReadersLeaveNoConsumers: a server takes a thousand consumers of a stream, and remembers one that no one deletes for a
// minute.
func TestReadersLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	events := c.Stream(state.StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour})
	things := c.Bucket(things())
	healthy(t, c)
	if _, err := events.Append(t.Context(), "all", []byte("one")); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	for range 20 {
		if _, err := events.Read(t.Context(), "all", 1, func(state.Message) error { return enough }); !errors.Is(err, enough) {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		things.Watch(ctx, state.Watcher{Loaded: stop})
	}
	for _, stream := range []string{"outrigger_default_events", "KV_outrigger_default_things"} {
		testkit.Until(t, "no consumer is left", func() bool { return consumersOf(t, n, stream) == 0 })
	}
}
