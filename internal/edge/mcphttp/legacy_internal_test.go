// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"context"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// TestWhatBeginsWhileItsSessionEnds ends with it: a request that has found its
// session and comes into the table when the session has been taken out already.
func TestWhatBeginsWhileItsSessionEnds(t *testing.T) {
	t.Parallel()
	flights := correlate.New(correlate.Options{})
	b := dialect.New(bridge.New(catalog.NewLive(nil, catalog.LiveOptions{}), bridge.NoBackend{}, flights, bridge.Options{}), dialect.Options{})
	h := New(b, Options{})
	origin := flights.NewOrigin()
	s, err := b.Sessions().Open("caller", nil, origin)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(n int64) *correlate.Call {
		t.Helper()
		call, err := flights.Register(context.Background(), origin, jsonrpc.IntID(n))
		if err != nil {
			t.Fatal(err)
		}
		return call
	}
	early := begin(1)
	h.endWith(s)
	if early.Context().Err() != nil {
		t.Error("a request of a session that goes on was ended")
	}
	if err := b.Sessions().End(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	late := begin(2)
	h.endWith(s)
	for _, call := range []*correlate.Call{early, late} {
		if call.Context().Err() == nil || call.Finish() {
			t.Error("a request of a session that has ended goes on")
		}
	}
}
