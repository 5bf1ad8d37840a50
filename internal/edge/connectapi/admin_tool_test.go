// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// postMessage sends one JSON-RPC message and returns the reply's result or error.
func postMessage(t *testing.T, url, params, method string, header ...string) (out struct {
	Result struct {
		IsError           bool             `json:"isError"`
		StructuredContent map[string]any   `json:"structuredContent"`
		Tools             []map[string]any `json:"tools"`
		Meta              struct {
			Error struct {
				Code errmap.Code `json:"code"`
			} `json:"dev.outrigger/error"`
		} `json:"_meta"`
	} `json:"result"`
	Error struct {
		Data struct {
			Code       errmap.Code        `json:"code"`
			Violations []errmap.Violation `json:"violations"`
		} `json:"data"`
	} `json:"error"`
}) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":"1","method":"` + method + `","params":` + params + `}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

// listedTool finds a tool among those that are shown.
func listedTool(tools []map[string]any, name string) map[string]any {
	for _, tool := range tools {
		if tool["name"] == name {
			return tool
		}
	}
	return nil
}

func TestARegisteredToolIsCallableOnEveryEdge(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	if _, err := s.register(t, echoTool()); err != nil {
		t.Fatal(err)
	}
	if err := s.live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	version := []string{"MCP-Protocol-Version", "2026-07-28"}
	mcp := func(method, name string) []string {
		out := append(slices.Clone(version), "Mcp-Method", method)
		if name != "" {
			out = append(out, "Mcp-Name", name)
		}
		return out
	}
	var want any
	if err := json.Unmarshal([]byte(repeatSchema), &want); err != nil {
		t.Fatal(err)
	}
	if tool := listedTool(postMessage(t, s.main+"/rpc", `{}`, "tools/list").Result.Tools, "desk.repeat"); cmp.Diff(want, tool["inputSchema"]) != "" {
		t.Errorf("/rpc lists %v", tool)
	}
	if tool := listedTool(postMessage(t, s.main+"/mcp", `{`+meta+`}`, "tools/list", mcp("tools/list", "")...).Result.Tools, "desk_repeat"); cmp.Diff(want, tool["inputSchema"]) != "" {
		t.Errorf("/mcp lists %v", tool)
	}
	// The RPC itself takes 1,024 characters, and a number.
	for arguments, isFine := range map[string]bool{`{"nonce":"hello"}`: true, `{"nonce":"hello!"}`: false, `{"nonce":"a","signed":1}`: false, `{}`: false} {
		rpc := postMessage(t, s.main+"/rpc", `{"name":"desk.repeat","arguments":`+arguments+`}`, "tools/call")
		modern := postMessage(t, s.main+"/mcp", `{"name":"desk_repeat","arguments":`+arguments+`,`+meta+`}`, "tools/call", mcp("tools/call", "desk_repeat")...)
		if isFine {
			if rpc.Result.StructuredContent["nonce"] != "hello" || modern.Result.StructuredContent["nonce"] != "hello" {
				t.Errorf("%s: /rpc %+v, /mcp %+v", arguments, rpc, modern)
			}
			continue
		}
		if rpc.Error.Data.Code != errmap.InvalidToolInput || len(rpc.Error.Data.Violations) == 0 ||
			!modern.Result.IsError || modern.Result.Meta.Error.Code != errmap.InvalidToolInput {
			t.Errorf("%s: /rpc %+v, /mcp %+v", arguments, rpc, modern)
		}
	}
	// The tool of the RPC itself is as it was.
	if plain := postMessage(t, s.main+"/rpc", `{"name":"lab.echo","arguments":{"nonce":"hello!","signed":1}}`, "tools/call"); plain.Result.StructuredContent["nonce"] != "hello!" {
		t.Errorf("lab.echo: %+v", plain)
	}
}

func TestDestructiveRegistrationsAreGated(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	for name, r := range map[string]*outriggerv1.RegisterToolRequest{
		"marked here": echoTool(func(r *outriggerv1.RegisterToolRequest) {
			r.Name, r.Metadata = "desk.marked", &outriggerv1.ToolMetadata{Destructive: true}
		}),
		"marked by the RPC": echoTool(func(r *outriggerv1.RegisterToolRequest) {
			r.Name, r.Binding = "desk.cancel", &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Fleet", Method: "CancelOrder"}
			r.Annotations = &outriggerv1.ToolAnnotations{ReadOnlyHint: new(true), DestructiveHint: new(false)}
		}),
	} {
		resp, err := s.register(t, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !resp.GetTool().GetMetadata().GetDestructive() {
			t.Errorf("%s: metadata %v", name, resp.GetTool().GetMetadata())
		}
		if got := postMessage(t, s.main+"/rpc", `{"name":"`+r.GetName()+`","arguments":{"nonce":"a"}}`, "tools/call"); got.Error.Data.Code != errmap.DestructiveBlocked {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// structOf is JSON as the configuration has it.
func structOf(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	out := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTypedCallersKeepToAnOverlaidSchema calls with the generated client of the
// demo service, for which nothing has changed but the limits.
func TestTypedCallersKeepToAnOverlaidSchema(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = []*configv1.ToolOverlay{{
			Method:       "outrigger.demo.v1.Lab/Echo",
			InputSchema:  structOf(t, `{"type":"object","properties":{"nonce":{"maxLength":5},"signed":{"type":"integer","maximum":7}}}`),
			OutputSchema: structOf(t, `{"type":"object","properties":{"nonce":{"not":{"const":"bad"}}}}`),
		}}
	}})
	for _, options := range [][]connect.ClientOption{{connect.WithGRPC()}, nil} {
		lab := demov1connect.NewLabClient(mcptest.Client(t, 2), s.main, options...)
		for _, tt := range []struct {
			request *demov1.EchoRequest
			code    errmap.Code
		}{
			{&demov1.EchoRequest{Nonce: "hello", Signed: 7}, ""},
			{&demov1.EchoRequest{Nonce: "hello!"}, errmap.InvalidToolInput},
			{&demov1.EchoRequest{Signed: 8}, errmap.InvalidToolInput},
			{&demov1.EchoRequest{Nonce: "bad"}, errmap.InvalidToolOutput},
		} {
			resp, err := lab.Echo(t.Context(), connect.NewRequest(tt.request))
			if tt.code == "" {
				if err != nil || resp.Msg.GetNonce() != tt.request.GetNonce() {
					t.Errorf("%v: %v", tt.request, err)
				}
				continue
			}
			if code, paths := whyRefused(t, err); code != tt.code || len(paths) == 0 && code == errmap.InvalidToolInput {
				t.Errorf("%v: %s, %v", tt.request, code, err)
			}
		}
	}
	// Connect's JSON goes the way of JSON arguments.
	lab := demov1connect.NewLabClient(mcptest.Client(t, 1), s.main, connect.WithProtoJSON())
	if _, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "hello!"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("JSON: %v", err)
	}
}
