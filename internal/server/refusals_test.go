// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// refusal is a request that is refused before it is a request of the pipeline, and the line that it leaves.
type refusal struct {
	name, path string
	// headers are pairs, beside the traceparent. A GET has no body.
	headers []string
	body    string
	// aborted: the body breaks off. version is that of HTTP, 1 by default.
	aborted, get bool
	version      int
	// operation, tool, target and code are the line; none without an operation.
	operation, tool, target, code string
}

const (
	asJSON    = "application/json"
	duplicate = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"a":1,"a":2}}}`
	cutShort  = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"a`
	modernMet = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	callAPI   = "/outrigger.v1.ToolService/CallTool"
	streamAPI = "/outrigger.v1.ToolService/CallToolStream"
	typedEcho = "/outrigger.demo.v1.Lab/Echo"
)

// jsonRefusals are those of the JSON-RPC edges.
func jsonRefusals() []refusal {
	kind := []string{"Content-Type", asJSON}
	modern := func(more ...string) []string {
		return append([]string{"Content-Type", asJSON, "MCP-Protocol-Version", "2026-07-28"}, more...)
	}
	named := modern("Mcp-Method", "tools/call", "Mcp-Name", "lab.echo")
	callOf := func(params string) string {
		return `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{` + params + `}}`
	}
	large := callOf(`"name":"lab.echo","arguments":{"nonce":"` + strings.Repeat("x", 4096) + `"}`)
	const unread, call = "unknown", "call_tool"
	out := []refusal{
		{name: "batch too large", path: "/rpc", headers: kind, body: "[" + strings.Repeat("1,", 200) + "1]", operation: unread, code: "PAYLOAD_TOO_LARGE"},
		{name: "without params", path: "/rpc", headers: kind, body: `{"jsonrpc":"2.0","id":"1","method":"tools/call"}`, operation: call, code: "INVALID_ENVELOPE"},
		{name: "a list is no invocation", path: "/rpc", headers: kind, body: `{"jsonrpc":"2.0","id":"1","method":"tools/list"}`},
		{name: "a broken list is none", path: "/rpc", headers: kind, body: `{"jsonrpc":"2.0","id":"1","method":"tools/list",`},
		{name: "a notification is none", path: "/rpc", headers: kind, body: `{"jsonrpc":"2.0","method":"tools/call","params":[]}`},
		{name: "GET", path: "/rpc", get: true},
		{name: "without jsonrpc", path: "/rpc", headers: kind, body: `{"id":"1","method":"tools/call","params":{"name":"lab.echo"}}`, operation: call, tool: "lab.echo", code: "INVALID_ENVELOPE"},
		{name: "an array of calls", path: "/mcp", headers: named, body: "[" + callOf("") + "]", operation: call, tool: "lab.echo", code: "INVALID_ENVELOPE"},
		{name: "no Mcp-Name", path: "/mcp", headers: modern("Mcp-Method", "tools/call"), body: callOf(`"name":"lab.echo",` + modernMet), operation: call, tool: "lab.echo", code: "HEADER_MISMATCH"},
		{name: "another Mcp-Name", path: "/mcp", headers: modern("Mcp-Method", "tools/call", "Mcp-Name", "lab.sleep"), body: callOf(`"name":"lab.echo",` + modernMet), operation: call, tool: "lab.echo", code: "HEADER_MISMATCH"},
		{name: "another Mcp-Method", path: "/mcp", headers: modern("Mcp-Method", "tools/list"), body: callOf(`"name":"lab.none",` + modernMet), operation: call, target: "lab.none", code: "HEADER_MISMATCH"},
		{name: "no _meta", path: "/mcp", headers: named, body: callOf(`"name":"lab.echo"`), operation: call, tool: "lab.echo", code: "INVALID_PARAMS"},
		{name: "no name", path: "/mcp", headers: modern("Mcp-Method", "tools/call"), body: callOf(modernMet), operation: call, code: "HEADER_MISMATCH"},
		{name: "arguments of the wrong type", path: "/mcp", headers: named, body: callOf(`"name":"lab.echo","arguments":[],` + modernMet), operation: call, tool: "lab.echo", code: "INVALID_PARAMS"},
		{name: "a resource without Mcp-Name", path: "/mcp", headers: modern("Mcp-Method", "resources/read"), body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"desk://x",` + modernMet + `}}`, operation: "read_resource", target: "desk://x", code: "HEADER_MISMATCH"},
		{name: "media type with headers", path: "/mcp", headers: []string{"Content-Type", "text/plain", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "lab.echo"}, body: "x", operation: call, tool: "lab.echo", code: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "media type of a list", path: "/mcp", headers: []string{"Content-Type", "text/plain", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, body: "x"},
		{name: "not acceptable", path: "/mcp", headers: append([]string{"Accept", "text/html"}, named...), body: callOf(`"name":"lab.echo",` + modernMet), operation: call, tool: "lab.echo", code: "NOT_ACCEPTABLE"},
		{name: "no session", path: "/mcp", headers: append([]string{"Mcp-Session-Id", "none"}, kind...), body: callOf(`"name":"lab.echo"`), operation: call, tool: "lab.echo", code: "SESSION_NOT_FOUND"},
	}
	for _, path := range []string{"/rpc", "/mcp"} {
		out = append(out,
			refusal{name: "duplicate name", path: path, headers: kind, body: duplicate, operation: call, tool: "lab.echo", code: "PARSE_ERROR"},
			refusal{name: "cut short", path: path, headers: kind, body: cutShort, operation: call, tool: "lab.echo", code: "PARSE_ERROR"},
			refusal{name: "no JSON", path: path, headers: kind, body: "x", operation: unread, code: "PARSE_ERROR"},
			refusal{name: "too large", path: path, headers: kind, body: large, operation: unread, code: "PAYLOAD_TOO_LARGE"},
			refusal{name: "media type", path: path, headers: []string{"Content-Type", "text/plain"}, body: callOf(`"name":"lab.echo"`), operation: unread, code: "UNSUPPORTED_MEDIA_TYPE"},
			refusal{name: "compression", path: path, headers: append([]string{"Content-Encoding", "br"}, kind...), body: "x", operation: unread, code: "UNSUPPORTED_MEDIA_TYPE"},
			refusal{name: "no gzip", path: path, headers: append([]string{"Content-Encoding", "gzip"}, kind...), body: "x", operation: unread, code: "PARSE_ERROR"},
			refusal{name: "broken off", path: path, headers: kind, body: cutShort, aborted: true, operation: unread, code: "PARSE_ERROR"},
		)
	}
	return out
}

// rpcRefusals are those of the tool API and of typed calls.
func rpcRefusals() []refusal {
	const call = "call_tool"
	frame := func(size byte, text string) string { return string([]byte{0, 0, 0, 0, size}) + text }
	out := []refusal{
		{name: "timeout of a task", path: "/outrigger.v1.ToolService/GetTask", headers: []string{"Content-Type", asJSON, "Connect-Timeout-Ms", "x"}, body: "{}", operation: "get_task", code: "PARSE_ERROR"},
		{name: "a broken list is none", path: "/outrigger.v1.ToolService/ListTools", headers: []string{"Content-Type", asJSON, "Connect-Timeout-Ms", "x"}, body: "{}"},
		{name: "cut frame", path: streamAPI, headers: []string{"Content-Type", "application/connect+json"}, body: frame(100, "{"), operation: call, code: "PARSE_ERROR"},
		{name: "cut prefix", path: streamAPI, headers: []string{"Content-Type", "application/connect+proto"}, body: "\x00", operation: call, code: "PARSE_ERROR"},
		{name: "timeout", path: streamAPI, headers: []string{"Content-Type", "application/connect+json", "Connect-Timeout-Ms", "x"}, body: frame(2, "{}"), operation: call, code: "PARSE_ERROR"},
		{name: "GET, base64", path: typedEcho + "?connect=v1&encoding=proto&base64=1&message=%25%25", get: true, operation: call, tool: "lab.echo", code: "PARSE_ERROR"},
		{name: "GET, no message", path: typedEcho + "?connect=v1&encoding=proto", get: true, operation: call, tool: "lab.echo", code: "PARSE_ERROR"},
		{name: "GET, encoding", path: typedEcho + "?connect=v1&encoding=text&message=x", get: true, operation: call, tool: "lab.echo", code: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "GET, no gzip", path: typedEcho + "?connect=v1&encoding=json&compression=gzip&message=x", get: true, operation: call, tool: "lab.echo", code: "PARSE_ERROR"},
		{name: "cut frame", path: "/outrigger.v1.ToolService/Exchange", headers: []string{"Content-Type", "application/connect+json"}, version: 2, body: frame(100, "{"), operation: "unknown", code: "PARSE_ERROR"},
	}
	for path, tool := range map[string]string{callAPI: "", typedEcho: "lab.echo"} {
		for _, kind := range []string{asJSON, "application/proto"} {
			one := func(name, code, body string, headers ...string) refusal {
				return refusal{name: name + ", " + kind, path: path, headers: append([]string{"Content-Type", kind}, headers...), body: body, operation: call, tool: tool, code: code}
			}
			broken := one("broken off", "CANCELLED", "{")
			broken.aborted = true
			out = append(out, broken, one("timeout", "PARSE_ERROR", "{}", "Connect-Timeout-Ms", "x"), one("no gzip", "PARSE_ERROR", "x", "Content-Encoding", "gzip"),
				one("compression", "INVALID_ENVELOPE", "x", "Content-Encoding", "br"), one("too large", "PAYLOAD_TOO_LARGE", strings.Repeat("x", 8192)))
		}
		grpc := func(name, code, body string, headers ...string) refusal {
			return refusal{name: name, path: path, version: 2, headers: append([]string{"Content-Type", "application/grpc", "Te", "trailers"}, headers...), body: body, operation: call, tool: tool, code: code}
		}
		out = append(out,
			refusal{name: "media type", path: path, headers: []string{"Content-Type", "text/plain"}, body: "x", operation: call, tool: tool, code: "UNSUPPORTED_MEDIA_TYPE"},
			grpc("gRPC, cut frame", "PARSE_ERROR", frame(100, "x")), grpc("gRPC, timeout", "PARSE_ERROR", frame(0, ""), "Grpc-Timeout", "x"),
			grpc("gRPC, compression", "INVALID_ENVELOPE", frame(0, ""), "Grpc-Encoding", "br"), grpc("gRPC, no gzip", "PARSE_ERROR", "\x01\x00\x00\x00\x01x", "Grpc-Encoding", "gzip"),
			grpc("gRPC, too large", "PAYLOAD_TOO_LARGE", "\x00\x00\x01\x00\x00"+strings.Repeat("x", 65536)))
	}
	return out
}

// TestRefusalsAreAudited: each request that asks for an invocation leaves one line, also where its message could not be read,
// with all that could be; and what its caller did wrong is no failure of the server.
func TestRefusalsAreAudited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		withTrail(path)(c)
		c.Limits.MaxMessageBytes = proto.Int64(4096)
	}})
	url := rig.Serve(t)
	clients := map[int]*http.Client{1: mcptest.Client(t, 1), 2: mcptest.Client(t, 2)}
	asked := map[string]refusal{}
	for _, one := range slices.Concat(jsonRefusals(), rpcRefusals()) {
		t.Run(one.path+"/"+one.name, func(t *testing.T) {
			trace := traceOf(t)
			asked[trace] = one
			if status, body := one.send(t, clients[max(one.version, 1)], url, trace); status >= 500 && status != http.StatusNotImplemented { // which Connect prescribes for compression
				t.Errorf("%d %s", status, body)
			}
		})
	}
	lines := awaitEntries(t, path, asked)
	for trace, one := range asked {
		var want []entry
		if one.operation != "" {
			want = []entry{{Operation: one.operation, Tool: one.tool, Target: one.target, Code: one.code}}
		}
		if got := lines[trace]; !slices.Equal(got, want) {
			t.Errorf("%s, %s: left\n%+v, want\n%+v", one.path, one.name, got, want)
		}
	}
}

// awaitEntries reads the trail once it has a line for each request that wants one: callers who break off do not wait for it.
func awaitEntries(t *testing.T, path string, asked map[string]refusal) map[string][]entry {
	t.Helper()
	var lines map[string][]entry
	testkit.Try(t, "a line for each request", func() error {
		lines = entriesOf(t, path)
		for trace, one := range asked {
			if one.operation != "" && len(lines[trace]) == 0 {
				return fmt.Errorf("%s, %s: left nothing", one.path, one.name)
			}
		}
		return nil
	})
	return lines
}

// errBroken ends a body that breaks off.
var errBroken = errors.New("broken off")

func (o refusal) send(t *testing.T, client *http.Client, url, trace string) (status int, body string) {
	t.Helper()
	method, text := http.MethodPost, io.Reader(strings.NewReader(o.body))
	switch {
	case o.get:
		method, text = http.MethodGet, nil
	case o.aborted:
		text = io.MultiReader(text, failing{})
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url+o.path, text)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(o.headers); i += 2 {
		r.Header.Set(o.headers[i], o.headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		if !o.aborted {
			t.Fatal(err)
		}
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	var all bytes.Buffer
	if _, err := all.ReadFrom(resp.Body); err != nil && !o.aborted {
		t.Error(err)
	}
	return resp.StatusCode, all.String()
}

// failing is a body that fails.
type failing struct{}

// Read implements [io.Reader].
func (failing) Read([]byte) (int, error) { return 0, errBroken }
