// SPDX-License-Identifier: Apache-2.0

//go:build !race

package bridge_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// echoes is a backend that answers with what it is sent, without its own allocation beside the answer.
func echoes(_ context.Context, _ *catalog.Method, in []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	return &bridge.Answer{Body: append([]byte(nil), in...)}, nil
}

// TestWithoutTracingACallCostsNothingMore holds the number of allocations of a small call to what it was before there were
// spans. Lower the number where a call becomes cheaper.
func TestWithoutTracingACallCostsNothingMore(t *testing.T) {
	const before = 23
	b := bridge.New(mcptest.Memory(t), mcptest.Upstream(echoes), correlate.New(correlate.Options{}), bridge.Options{Guard: backend.NewGuard(backend.GuardOptions{})})
	call := func() {
		req := toolCall(b, "lab.echo", `{"nonce":"hello"}`)
		if resp := b.Handle(t.Context(), req); resp.Err != nil {
			t.Fatal(resp.Err)
		}
	}
	call()
	if got := testing.AllocsPerRun(500, call); got > before {
		t.Errorf("a call without tracing has %v allocations, want at most %v", got, before)
	}
}
