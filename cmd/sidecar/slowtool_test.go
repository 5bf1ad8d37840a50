// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
)

// TestOneSlowToolClosesNoOther makes calls of one tool that meet the server's
// timeout. Its own callers are told to wait, on every edge; all other tools and
// readiness stay.
func TestOneSlowToolClosesNoOther(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo", "--timeout", "2s", "--breaker-open-for", "1m")
	// On a busy machine the process stalls at times, and timeouts meanwhile do not count: callers go on until enough do.
	opened := make(chan struct{})
	var calls sync.WaitGroup
	for range 60 {
		calls.Go(func() {
			for {
				_, _ = postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"5s"}}}`)
				select {
				case <-opened:
					return
				default:
				}
			}
		})
	}
	func() {
		defer calls.Wait()
		defer close(opened)
		p.await(t, "tool circuit breaker open: calls time out")
	}()
	for range 60 {
		if status, raw := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"}}}`); status != http.StatusOK {
			t.Fatalf("another tool: %d %s", status, raw)
		}
	}
	if status, raw := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"0s"}}}`); status != http.StatusServiceUnavailable ||
		!strings.Contains(raw, "circuit breaker of lab.sleep open after too many timeouts") || !strings.Contains(raw, "retryAfterMs") {
		t.Errorf("/rpc: %d %s", status, raw)
	}
	for name, option := range map[string]connect.ClientOption{"grpc": connect.WithGRPC(), "grpcweb": connect.WithGRPCWeb(), "connect": connect.WithProtoJSON()} {
		lab := demov1connect.NewLabClient(webClient(2), p.main, option)
		if _, err := lab.Sleep(t.Context(), connect.NewRequest(&demov1.SleepRequest{Duration: durationpb.New(0)})); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "lab.sleep") {
			t.Errorf("typed, %s: %v", name, err)
		}
		if _, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "n"})); err != nil {
			t.Errorf("typed, %s: %v", name, err)
		}
	}
	if status, page := get2(t, p.admin+"/readyz?verbose"); status != http.StatusOK || !strings.Contains(page, "tool lab.sleep") {
		t.Errorf("%d %s", status, page)
	}
	if _, page := get2(t, p.admin+"/metrics"); !strings.Contains(page, `outrigger_tool_breaker_state{state="open",tool="lab.sleep"} 1`) || !strings.Contains(page, `outrigger_breaker_state{state="closed"} 1`) {
		t.Error("the tool's breaker does not show, or the backend's is not closed")
	}
}
