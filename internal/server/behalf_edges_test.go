// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// edge is one way to reach the backend, or to be refused.
type edge struct {
	// call makes requests with its own token.
	call func(t *testing.T, s *sidecar, token string)
	// calls: the backend has to see a request in the caller's name.
	calls bool
}

// edges are all ways in, by a name that is a part of a token.
func edges() map[string]edge {
	all := map[string]edge{
		"modern-list":       {modern("tools/list", ""), false},
		"modern-call":       {modern("tools/call", `"name":"lab_echo","arguments":{"nonce":"hi"}`, "Mcp-Name: lab_echo"), true},
		"modern-stream":     {modern("tools/call", `"name":"fleet_watch_vehicles","arguments":{}`, "Mcp-Name: fleet_watch_vehicles"), true},
		"modern-native":     {modern("tools/call", `"name":"weigh","arguments":{"parcel":"x"}`, "Mcp-Name: weigh"), true},
		"modern-progress":   {modern("tools/call", `"name":"sort","arguments":{}`, "Mcp-Name: sort"), true},
		"modern-resources":  {modern("resources/list", ""), true},
		"modern-read":       {modern("resources/read", `"uri":"desk://notes/1"`, "Mcp-Name: desk://notes/1"), true},
		"modern-prompts":    {modern("prompts/list", ""), true},
		"modern-prompt":     {modern("prompts/get", `"name":"greet","arguments":{"name":"Ann"}`, "Mcp-Name: greet"), true},
		"modern-complete":   {modern("completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"}`), true},
		"modern-fault":      {modern("tools/call", `"name":"lab_fail","arguments":{"code":"FAIL_CODE_INTERNAL","message":"m"}`, "Mcp-Name: lab_fail"), false},
		"modern-unknown":    {modern("tools/call", `"name":"lab_ekko","arguments":{}`, "Mcp-Name: lab_ekko"), false},
		"modern-bad-input":  {modern("tools/call", `"name":"lab_echo","arguments":{"nonce":5}`, "Mcp-Name: lab_echo"), false},
		"modern-task":       {task("do", `{"job":"printing"}`), true},
		"modern-own-task":   {task("lab_sleep", `{"duration":"0.2s"}`), true},
		"rejected":          {modern("tools/call", `"name":"lab_echo","arguments":{"nonce":"hi"}`, "Mcp-Name: lab_echo"), false},
		"away":              {modern("tools/call", `"name":"lab_echo","arguments":{"nonce":"hi"}`, "Mcp-Name: lab_echo"), false},
		"rejected-rpc":      {rpc(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"hi"}}}`), false},
		"rpc":               {rpc(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"hi"}}}`), true},
		"rpc-batch":         {rpc(`[{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"a"}}},{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"weigh","arguments":{"parcel":"b"}}},{"jsonrpc":"2.0","id":"3","method":"nothing"}]`), true},
		"rpc-no-json":       {rpc(`{"jsonrpc":`), false},
		"in-the-query":      {inTheQuery, false},
		"two-headers":       {twoHeaders, false},
		"with-proxy-header": {proxyHeader, true},
		"legacy-2025-11-25": {legacy("2025-11-25", false), true},
		"legacy-2025-06-18": {legacy("2025-06-18", false), true},
		"legacy-2025-03-26": {legacy("2025-03-26", true), true},
		"connect-get":       {connectGet, true},
	}
	for name, options := range protocols() {
		all[name+"-tools"] = edge{toolService(options), true}
		all[name+"-typed"] = edge{passThrough(options), true}
		all[name+"-rejected"] = edge{passThrough(options), false}
	}
	return all
}

// protocols are those of the Protobuf edges.
func protocols() map[string][]connect.ClientOption {
	return map[string][]connect.ClientOption{
		"connect": nil, "connect-json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
	}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":1}`

// post sends a message with "Name: value" headers and returns the answer.
func post(t *testing.T, client *http.Client, url, body string, headers ...string) string {
	t.Helper()
	resp := open(t.Context(), t, client, http.MethodPost, url, body, headers...)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func open(ctx context.Context, t *testing.T, client *http.Client, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func modernMessage(method, params string) (string, []string) {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + meta + `}}`,
		[]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
}

func modern(method, params string, headers ...string) func(*testing.T, *sidecar, string) {
	return func(t *testing.T, s *sidecar, token string) {
		t.Helper()
		body, more := modernMessage(method, params)
		for version := 1; version <= 2; version++ {
			post(t, s.client(t, version, token), s.url+"/mcp", body, append(more, headers...)...)
		}
	}
}

// task begins a task, asks for it and cancels it.
func task(tool, arguments string) func(*testing.T, *sidecar, string) {
	return func(t *testing.T, s *sidecar, token string) {
		t.Helper()
		client := s.client(t, 2, token)
		body, headers := modernMessage("tools/call", `"name":"`+tool+`","arguments":`+arguments)
		answer := post(t, client, s.url+"/mcp", body, append(headers, "Mcp-Name: "+tool)...)
		_, rest, ok := strings.Cut(answer, `"taskId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		if !ok {
			t.Errorf("no task: %s", answer)
		}
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/get"} {
			params := `"taskId":"` + id + `"`
			if method == "tasks/update" {
				params += `,"inputResponses":{}`
			}
			body, headers := modernMessage(method, params)
			post(t, client, s.url+"/mcp", body, append(headers, "Mcp-Name: "+id)...)
		}
	}
}

func rpc(body string) func(*testing.T, *sidecar, string) {
	return func(t *testing.T, s *sidecar, token string) {
		t.Helper()
		post(t, s.client(t, 1, token), s.url+"/rpc", body)
	}
}

const echoMessage = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"hi"}}}`

func inTheQuery(t *testing.T, s *sidecar, token string) {
	t.Helper()
	query := strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(token)
	for _, path := range []string{"/rpc", "/mcp", "/outrigger.v1.ToolService/CallTool"} {
		post(t, s.client(t, 1, token), s.url+path+"?access_token="+query, echoMessage, "Authorization: Basic eDp5")
	}
}

func twoHeaders(t *testing.T, s *sidecar, token string) {
	t.Helper()
	post(t, s.client(t, 1, token), s.url+"/rpc", echoMessage, "Authorization: Bearer "+token, "Authorization: Bearer "+token)
	post(t, s.client(t, 1, token), s.url+"/rpc", echoMessage, "Authorization: "+token)
}

func proxyHeader(t *testing.T, s *sidecar, token string) {
	t.Helper()
	post(t, s.client(t, 1, token), s.url+"/rpc", echoMessage, "Proxy-Authorization: Bearer "+token)
}

// legacy opens a session, calls, and leaves its stream open until the test ends.
func legacy(version string, batch bool) func(*testing.T, *sidecar, string) {
	return func(t *testing.T, s *sidecar, token string) {
		t.Helper()
		client := s.client(t, 1, token)
		resp := open(t.Context(), t, client, http.MethodPost, s.url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		session := []string{"Mcp-Session-Id: " + resp.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version: " + version}
		stream := open(t.Context(), t, client, http.MethodGet, s.url+"/mcp", "", session...)
		t.Cleanup(func() { _ = stream.Body.Close() })
		call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"hi"},"_meta":{"progressToken":1}}}`
		bodies := []string{
			call, `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"desk://notes/1"}}`,
			`{"jsonrpc":"2.0","id":4,"method":"prompts/list"}`, `{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"desk://notes/1"}}`,
		}
		if batch {
			bodies = append(bodies, "["+call+`,{"jsonrpc":"2.0","id":9,"method":"ping"}]`)
		}
		for _, body := range bodies {
			post(t, client, s.url+"/mcp", body, session...)
		}
	}
}

// toolService calls the RPCs of the tool API, and leaves its streams open.
func toolService(options []connect.ClientOption) func(*testing.T, *sidecar, string) {
	return func(t *testing.T, s *sidecar, token string) {
		t.Helper()
		ctx := t.Context()
		c := outriggerv1connect.NewToolServiceClient(s.client(t, 2, token), s.url, options...)
		call := &outriggerv1.ToolCall{ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"hi"}`)}}
		_, err := c.CallTool(ctx, connect.NewRequest(call))
		must(t, "CallTool", err)
		events, err := c.CallToolStream(ctx, connect.NewRequest(call))
		must(t, "CallToolStream", err)
		for events.Receive() {
		}
		must(t, "CallToolStream", events.Err())
		_, err = c.ListResources(ctx, connect.NewRequest(&outriggerv1.ListResourcesRequest{}))
		must(t, "ListResources", err)
		_, err = c.ReadResource(ctx, connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: "desk://notes/1"}))
		must(t, "ReadResource", err)
		_, err = c.GetPrompt(ctx, connect.NewRequest(&outriggerv1.GetPromptRequest{Name: "greet", Arguments: map[string]string{"name": "Ann"}}))
		must(t, "GetPrompt", err)
		_, err = c.GetTask(ctx, connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: "none"}))
		if err == nil {
			t.Error("a task that is not there")
		}
		lasting, err := c.Subscribe(ctx, connect.NewRequest(&outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ToolsListChanged: true}}}))
		must(t, "Subscribe", err)
		t.Cleanup(func() { _ = lasting.Close() })
		watched, err := c.WatchTools(ctx, connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
		must(t, "WatchTools", err)
		t.Cleanup(func() { _ = watched.Close() })
	}
}

// passThrough calls the backend's own services.
func passThrough(options []connect.ClientOption) func(*testing.T, *sidecar, string) {
	return func(t *testing.T, s *sidecar, token string) {
		t.Helper()
		c := demov1connect.NewLabClient(s.client(t, 2, token), s.url, options...)
		_, err := c.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "hi"}))
		if wanted := s.mode == "exchange" && strings.Contains(token, "rejected"); (err != nil) != wanted {
			t.Errorf("Echo: %v", err)
		}
		_, _ = c.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{}))
	}
}

// connectGet is a unary call of the Connect protocol by GET.
func connectGet(t *testing.T, s *sidecar, token string) {
	t.Helper()
	c := demov1connect.NewLabClient(s.client(t, 1, token), s.url, connect.WithHTTPGet())
	_, err := c.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "hi"}))
	must(t, "GET", err)
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
