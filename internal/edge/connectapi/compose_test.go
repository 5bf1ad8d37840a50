// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestTypedCallersPassTwoSidecars has a caller's own generated client, which
// knows of no sidecar, before both.
func TestTypedCallersPassTwoSidecars(t *testing.T) {
	t.Parallel()
	tw := build(t, 2, mcptest.Desk(), nil)
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			lab := demov1connect.NewLabClient(mcptest.Client(t, 2), tw.url, p.options...)
			resp, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "n", Unsigned: 1<<64 - 1}))
			if err != nil || resp.Msg.GetNonce() != "n" || resp.Msg.GetUnsigned() != 1<<64-1 {
				t.Errorf("got %v, %v", resp, err)
			}
			fleet := demov1connect.NewFleetClient(mcptest.Client(t, 2), tw.url, p.options...)
			_, err = fleet.CancelOrder(t.Context(), connect.NewRequest(&demov1.CancelOrderRequest{OrderId: 1}))
			if connect.CodeOf(err) != connect.CodePermissionDenied || reason(t, err) != errmap.DestructiveBlocked {
				t.Errorf("a destructive RPC: %v", err)
			}
			_, err = lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{Code: demov1.FailCode_FAIL_CODE_ABORTED}))
			if connect.CodeOf(err) != connect.CodeAborted || reason(t, err) != "" {
				t.Errorf("a failure: %v", err)
			}
		})
	}
	stream := grpcreflect.NewClient(mcptest.Client(t, 2), tw.url, connect.WithGRPC()).NewStream(t.Context())
	defer func() { _, _ = stream.Close() }()
	services, err := stream.ListServices()
	if err != nil || !slices.Contains(services, protoreflect.FullName("outrigger.demo.v1.Lab")) {
		t.Errorf("reflection lists %v, %v", services, err)
	}
}

// TestBothSidecarsShowTheSameTools lists every tool once, by the same names.
func TestBothSidecarsShowTheSameTools(t *testing.T) {
	t.Parallel()
	tw := build(t, 2, mcptest.Desk(), nil)
	inner, outer := tw.inner.Live.Current(), tw.outer.Live.Current()
	if len(inner.Tools()) != len(outer.Tools()) || len(outer.Warnings()) != 0 {
		t.Fatalf("%d tools inside, %d outside; warnings %v", len(inner.Tools()), len(outer.Tools()), outer.Warnings())
	}
	for i, in := range inner.Tools() {
		out := outer.Tools()[i]
		if !out.Native || in.Name != out.Name || in.MCPName != out.MCPName || in.Title != out.Title || in.Description != out.Description ||
			string(in.Input.Advertised()) != string(out.Input.Advertised()) || string(in.Output.Advertised()) != string(out.Output.Advertised()) ||
			in.Version != out.Version || in.Metadata != out.Metadata || in.TaskSupport != out.TaskSupport {
			t.Errorf("inside\n%+v\noutside\n%+v", in, out)
		}
	}
}

// TestMCPInFrontOfTwoSidecars speaks MCP to the outer one: what the inner one
// says over the tool API has to come out in MCP's words.
func TestMCPInFrontOfTwoSidecars(t *testing.T) {
	t.Parallel()
	b := build(t, 2, mcptest.Desk(), nil).outer.Bridge
	ask := func(method, params, capabilities string) []string {
		t.Helper()
		raw := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `,"progressToken":"p","io.modelcontextprotocol/logLevel":"warning"}}}`
		msg := jsonrpc.Parse([]byte(raw), jsonrpc.ProfileMCP, jsonrpc.Limits{})
		var said []string
		reply := b.HandleMessage(t.Context(), &dialect.Inbound{
			Dialect: dialect.Modern, Origin: b.Flights().NewOrigin(), Message: &msg, Transport: "test", Route: "test",
			Send: func(n []byte) error { said = append(said, string(n)); return nil },
		})
		return append(said, string(reply.Bytes()))
	}
	const form = `{"elicitation":{"form":{}}}`
	for _, tc := range []struct {
		name, method, params, capabilities string
		want                               []string // parts of what is said, one after the other
	}{
		{"progress and logs", "tools/call", `"name":"sort"`, `{}`, []string{
			`"progress":1,"total":10`, `"progress":4,`, `"letters":9007199254740993`, `"progress":10,`, `"text":"Sorted."`,
		}},
		{"items", "tools/call", `"name":"fleet_watch_vehicles","arguments":{"vehicleIds":["101"],"rounds":1}`, `{}`, []string{
			`"progress":1,`, `"structuredContent":{"items":[{"round":1,`,
		}},
		{"a question", "tools/call", `"name":"sign"`, form, []string{`"resultType":"input_required"`}},
		{"a question that cannot be asked", "tools/call", `"name":"sign"`, `{}`, []string{`"code":-32021`}},
		{"a resource", "resources/read", `"uri":"lagoon://vehicles/101"`, `{}`, []string{`Kingfisher`}},
		{"an unknown resource", "resources/read", `"uri":"desk://nothing"`, `{}`, []string{`"code":-32602`}},
		{"an unknown prompt", "prompts/get", `"name":"insult"`, `{}`, []string{`"code":-32602`}},
		{"an unknown task", "tasks/get", `"taskId":"t_1"`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, []string{`"code":-32602`}},
		{"an unknown tool", "tools/call", `"name":"fleet_fly"`, `{}`, []string{`"code":-32602`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			said := ask(tc.method, tc.params, tc.capabilities)
			if len(said) != len(tc.want) {
				t.Fatalf("said %q, want %d messages", said, len(tc.want))
			}
			for i, part := range tc.want {
				if !strings.Contains(said[i], part) {
					t.Errorf("message %d is %s, want %s", i, said[i], part)
				}
			}
		})
	}
}
