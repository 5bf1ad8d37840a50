// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// outcome is how an operation ended.
type outcome struct {
	// code is the canonical code, "" for success, and challenge the value of
	// www-authenticate.
	code, challenge string
	// status is the HTTP status, or 0 where the edge has none.
	status int
	body   string
}

// column is one way to the sidecar.
type column struct {
	name string
	// bare is set where an answer has no headers to carry a challenge.
	bare bool
	// run does an operation as a caller; false if the edge cannot say it.
	run func(t *testing.T, m *matrix, w who, o *operation) (outcome, bool)
}

// columns are the edges of the matrix.
func columns() []column {
	out := []column{
		{name: "MCP 2026-07-28", run: modernMCP},
		{name: "/rpc", run: func(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
			return canonical(t, m, w, o.canonical, o.canonicalParams), o.canonical != ""
		}},
		{name: "/rpc, message form", run: func(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
			return canonical(t, m, w, o.canonical, o.message), o.message != ""
		}},
		{name: "/rpc, batch", bare: true, run: batch},
		{name: "Exchange", bare: true, run: exchange},
		{name: "CallToolStream", run: callToolStream},
	}
	for _, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		out = append(out, column{name: "MCP " + revision, run: func(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
			return legacyMCP(t, m, w, o, revision)
		}})
	}
	for name, protocol := range map[string][]connect.ClientOption{"Connect": nil, "Connect JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		out = append(out, column{name: "tool API, " + name, run: func(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
			if o.api == nil {
				return outcome{}, false
			}
			return ofRPC(o.api(t.Context(), outriggerv1connect.NewToolServiceClient(w.client(t, 2), m.url, protocol...))), true
		}}, column{name: "typed, " + name, run: func(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
			if o.typed == nil {
				return outcome{}, false
			}
			return ofRPC(o.typed(t.Context(), w.client(t, 2), m.url, protocol...)), true
		}})
	}
	return out
}

// codes finds the canonical code in a reply of any form.
var codes = regexp.MustCompile(`"(?:code|error_type|reason)":"([A-Z_]{4,})"`)

// sendHTTP sends a message and reads the answer; of a stream only its beginning.
func sendHTTP(t *testing.T, client *http.Client, url, body string, headers ...string) (outcome, http.Header) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	ctx, leave := context.WithTimeout(t.Context(), testkit.Limit())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body == "" {
		r.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out := outcome{status: resp.StatusCode, challenge: strings.Join(resp.Header.Values("WWW-Authenticate"), " AND ")}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && (body == "" || strings.Contains(body, "subscriptions/listen")) {
		if body != "" { // that of a session may stay silent
			out.body, _ = bufio.NewReader(resp.Body).ReadString('\n')
		}
		return out, resp.Header
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out.body = string(raw)
	if found := codes.FindStringSubmatch(out.body); found != nil {
		out.code = found[1]
	}
	return out, resp.Header
}

// modernMCP sends a request of MCP 2026-07-28.
func modernMCP(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
	t.Helper()
	if o.mcp == "" || o.legacyOnly {
		return outcome{}, false
	}
	return callModern(t, w.client(t, 1), m.url, o.mcp, o.params, o.mcpName), true
}

func callModern(t *testing.T, client *http.Client, url, method, params, name string) outcome {
	t.Helper()
	if params != "" {
		params += ","
	}
	out, _ := sendHTTP(t, client, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	return out
}

// legacySession is a session of a legacy revision.
type legacySession struct{ url, revision, id string }

func openSession(t *testing.T, client *http.Client, url, revision string) legacySession {
	t.Helper()
	out, header := sendHTTP(t, client, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	if out.status != http.StatusOK {
		t.Fatalf("initialize: %+v", out)
	}
	return legacySession{url: url + "/mcp", revision: revision, id: header.Get("Mcp-Session-Id")}
}

// send sends a request in the session; an empty method opens its stream.
func (s legacySession) send(t *testing.T, client *http.Client, method, params string) outcome {
	t.Helper()
	body := ""
	if method != "" {
		body = `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	}
	out, _ := sendHTTP(t, client, s.url, body, "Mcp-Session-Id", s.id, "MCP-Protocol-Version", s.revision)
	return out
}

func legacyMCP(t *testing.T, m *matrix, w who, o *operation, revision string) (outcome, bool) {
	t.Helper()
	if o.mcp == "" || o.modernOnly {
		return outcome{}, false
	}
	client := w.client(t, 1)
	method := o.mcp
	if o.get {
		method = ""
	}
	return openSession(t, client, m.url, revision).send(t, client, method, o.params), true
}

// canonical sends a request to /rpc.
func canonical(t *testing.T, m *matrix, w who, method, params string) outcome {
	t.Helper()
	if method == "" || params == "" {
		return outcome{}
	}
	out, _ := sendHTTP(t, w.client(t, 1), m.url+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":{`+params+`}}`)
	return out
}

// batch sends a request beside one that everybody may make.
func batch(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
	t.Helper()
	if o.canonical == "" {
		return outcome{}, false
	}
	out, _ := sendHTTP(t, w.client(t, 1), m.url+"/rpc", `[{"jsonrpc":"2.0","id":"1","method":"`+o.canonical+`","params":{`+o.canonicalParams+`}},`+
		`{"jsonrpc":"2.0","id":"2","method":"ping","params":{}}]`)
	if !strings.Contains(out.body, `"id":"2","result"`) {
		t.Errorf("the other entry of the batch: %s", out.body)
	}
	return out, true
}

// exchange sends a request on a stream of many.
func exchange(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
	t.Helper()
	if o.canonical == "" {
		return outcome{}, false
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	stream := outriggerv1connect.NewToolServiceClient(w.client(t, 2), m.url, connect.WithGRPC()).Exchange(ctx)
	defer func() { _, _ = stream.CloseRequest(), stream.CloseResponse() }()
	err := stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
		Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}, Method: o.canonical,
		ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte("{" + o.canonicalParams + "}")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Receive()
	if err != nil {
		t.Fatal(err)
	}
	out := outcome{body: string(reply.GetSuccessResponse().GetResultJson()) + string(reply.GetErrorResponse().GetError().GetDataJson())}
	if found := codes.FindStringSubmatch(out.body); found != nil {
		out.code = found[1]
	}
	return out, true
}

// callToolStream calls a tool with events.
func callToolStream(t *testing.T, m *matrix, w who, o *operation) (outcome, bool) {
	t.Helper()
	if o.message == "" {
		return outcome{}, false
	}
	_, arguments, _ := strings.Cut(o.canonicalParams, `"arguments":`)
	stream, err := outriggerv1connect.NewToolServiceClient(w.client(t, 2), m.url, connect.WithGRPC()).CallToolStream(t.Context(),
		connect.NewRequest(&outriggerv1.ToolCall{ToolName: o.tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}}))
	if err != nil {
		return ofRPC(err), true
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
	}
	return ofRPC(stream.Err()), true
}

// ofRPC is how an RPC ended.
func ofRPC(err error) outcome {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return outcome{}
	}
	out := outcome{code: "? " + err.Error(), body: failed.Code().String()}
	if connect.IsWireError(err) {
		out.code = "TOOL_EXECUTION_FAILED" // a status without a canonical code is the backend's own
	}
	// A client that asks for the error of a stream again repeats its metadata.
	out.challenge = strings.Join(slices.Compact(failed.Meta().Values("www-authenticate")), " AND ")
	for _, d := range failed.Details() {
		if v, err := d.Value(); err == nil {
			if info, ok := v.(*errdetails.ErrorInfo); ok {
				out.code = info.GetReason()
			}
		}
	}
	return out
}
