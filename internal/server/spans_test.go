// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

var update = flag.Bool("update", false, "write the golden of spans")

// spanCase is something that callers do. What it leaves are its spans, those of the calls on the edge alone.
type spanCase struct {
	name string
	run  func(t *testing.T, r *spanRig)
}

// TestSpansOfEveryEdge compares the SERVER spans of every edge and era with a golden: names, parents, links, status, attributes.
func TestSpansOfEveryEdge(t *testing.T) {
	t.Parallel()
	plain := newSpanRig(t, nil, nil)
	piped := newSpanRig(t, nil, nil) // the end of a conversation ends the changes of its sidecar
	authenticated := newSpanRig(t, newDirectory(t, callers()), withOAuth)
	limited := newSpanRig(t, nil, func(c *configv1.Config) {
		c.Limits.CallerRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}
	})
	var out strings.Builder
	for _, group := range []struct {
		rig   *spanRig
		cases []spanCase
	}{
		{plain, modernSpans()}, {plain, legacySpans()}, {plain, canonicalSpans()}, {piped, stdioSpans()}, {plain, rpcSpans()},
		{plain, streamSpans()}, {plain, httpSpans()}, {authenticated, refusedSpans()}, {limited, limitedSpans()},
	} {
		for _, c := range group.cases {
			c.run(t, group.rig)
			out.WriteString("## " + c.name + "\n" + strings.Join(group.rig.lines(), "\n") + "\n\n")
		}
	}
	compareGolden(t, "spans.golden", out.String())
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./internal/server -run %s -update writes the golden (-want +got):\n%s", t.Name(), diff)
	}
}

// post sends a body with the trace context of its headers.
func (r *spanRig) post(t *testing.T, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	return r.send(t, http.MethodPost, path, body, append([]string{"Traceparent", inHeader}, headers...)...)
}

func (r *spanRig) send(t *testing.T, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

const (
	modernMeta = `"_meta":{"traceparent":"` + inMessage + `","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	plainMeta  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	tracedMeta = `"_meta":{"traceparent":"` + inMessage + `"}`
	echo       = `"arguments":{"nonce":"n"}`
)

func message(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

// modern is a request of MCP 2026-07-28.
func modernPost(method, name, params, meta string) func(*testing.T, *spanRig) {
	return func(t *testing.T, r *spanRig) {
		if params != "" {
			params += ","
		}
		r.post(t, "/mcp", message("1", method, params+meta), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	}
}

func modernSpans() []spanCase {
	raw := func(body string) func(*testing.T, *spanRig) {
		return func(t *testing.T, r *spanRig) {
			r.post(t, "/mcp", body, "Mcp-Protocol-Version", "2026-07-28")
		}
	}
	return []spanCase{
		{"modern: a call; context in the message and in the header", modernPost("tools/call", "lab_echo", `"name":"lab_echo",`+echo, modernMeta)},
		{"modern: a call; context in the header alone", modernPost("tools/call", "lab_echo", `"name":"lab_echo",`+echo, plainMeta)},
		{"modern: an unknown tool", modernPost("tools/call", "lab_nothing", `"name":"lab_nothing",`+echo, plainMeta)},
		{"modern: arguments that do not fit", modernPost("tools/call", "lab_echo", `"name":"lab_echo","arguments":{"nonce":5}`, plainMeta)},
		{"modern: params that do not fit", modernPost("tools/call", "lab_echo", `"name":"lab_echo","arguments":[]`, plainMeta)},
		{"modern: a tool that fails", modernPost("tools/call", "lab_fail", `"name":"lab_fail","arguments":{"code":"FAIL_CODE_INTERNAL","message":"m"}`, plainMeta)},
		{"modern: a prompt", modernPost("prompts/get", "greet", `"name":"greet","arguments":{"name":"Ann"}`, plainMeta)},
		{"modern: a resource", modernPost("resources/read", "desk://notes/1", `"uri":"desk://notes/1"`, plainMeta)},
		{"modern: a list", modernPost("tools/list", "", "", plainMeta)},
		{"modern: an unknown method", modernPost("secret/of the caller", "", "", plainMeta)},
		{"modern: a header that differs", modernPost("tools/call", "other", `"name":"lab_echo",`+echo, plainMeta)},
		{"modern: no valid message", raw(`{"jsonrpc":"2.0","id":7,"method":5}`)},
		{"modern: no JSON", raw(`{`)},
		{"modern: a notification", raw(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,` + modernMeta + `}}`)},
		{"modern: an unknown notification", raw(`{"jsonrpc":"2.0","method":"notifications/secret","params":{` + plainMeta + `}}`)},
		{"modern: a response to nothing", raw(`{"jsonrpc":"2.0","id":1,"result":{}}`)},
		{"modern: a subscription", func(t *testing.T, r *spanRig) {
			r.stream(t, http.MethodPost, "/mcp", message("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+plainMeta),
				"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
		}},
	}
}

// stream opens a stream, reads one line of it and leaves.
func (r *spanRig) stream(t *testing.T, method, path, body string, headers ...string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Traceparent", inHeader)
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// session opens a session, whose spans are taken already.
func (r *spanRig) session(t *testing.T, revision string) (headers []string) {
	t.Helper()
	_, header, _ := r.post(t, "/mcp", message("1", "initialize", `"protocolVersion":"`+revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`))
	r.taken()
	return []string{"Mcp-Session-Id", header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision}
}

func legacySpans() []spanCase {
	in := func(revision, body string) func(*testing.T, *spanRig) {
		return func(t *testing.T, r *spanRig) { r.post(t, "/mcp", body, r.session(t, revision)...) }
	}
	return []spanCase{
		{"legacy: initialize", func(t *testing.T, r *spanRig) {
			r.post(t, "/mcp", message("1", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
		}},
		{"legacy: a call in a session", in("2025-11-25", message(`"x"`, "tools/call", `"name":"lab_echo",`+echo+`,`+tracedMeta))},
		{"legacy: a call without a session", func(t *testing.T, r *spanRig) {
			r.post(t, "/mcp", message("1", "tools/call", `"name":"lab_echo",`+echo))
		}},
		{"legacy: arguments that do not fit", in("2025-06-18", message("1", "tools/call", `"name":"lab_echo","arguments":{"nonce":5}`))},
		{"legacy: an unknown tool", in("2025-06-18", message("1", "tools/call", `"name":"lab_nothing"`))},
		{"legacy: an unknown method", in("2025-06-18", message("1", "secret", ""))},
		{"legacy: a notification", in("2025-11-25", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)},
		{"legacy: a batch", in("2025-03-26", `[`+message("1", "tools/call", `"name":"lab_echo",`+echo+`,`+tracedMeta)+`,`+message("2", "ping", "")+`,{"jsonrpc":"2.0","method":"notifications/initialized"},5]`)},
		{"legacy: an unknown session", func(t *testing.T, r *spanRig) {
			r.post(t, "/mcp", message("1", "ping", ""), "Mcp-Session-Id", "none", "Mcp-Protocol-Version", "2025-11-25")
		}},
		{"legacy: the stream of a session", func(t *testing.T, r *spanRig) {
			r.stream(t, http.MethodGet, "/mcp", "", r.session(t, "2025-11-25")...)
		}},
		{"legacy: a resumed stream", resumed},
		{"legacy: the end of a session", func(t *testing.T, r *spanRig) {
			r.send(t, http.MethodDelete, "/mcp", "", r.session(t, "2025-11-25")...)
		}},
		{"legacy: the stream of no session", func(t *testing.T, r *spanRig) { r.send(t, http.MethodGet, "/mcp", "") }},
		{"legacy: the retired transport", func(t *testing.T, r *spanRig) { r.send(t, http.MethodGet, "/sse", "") }},
	}
}

// resumed reads the stream of a call again, from its first event on.
func resumed(t *testing.T, r *spanRig) {
	headers := r.session(t, "2025-11-25")
	_, _, text := r.post(t, "/mcp", message("1", "tools/call", `"name":"sort","arguments":{},"_meta":{"progressToken":"p"}`), headers...)
	_, id, _ := strings.Cut(text, "id: ")
	id, _, _ = strings.Cut(id, "\n")
	r.send(t, http.MethodGet, "/mcp", "", append(headers, "Last-Event-Id", strings.TrimSpace(id))...)
}

func canonicalSpans() []spanCase {
	rpc := func(body string) func(*testing.T, *spanRig) {
		return func(t *testing.T, r *spanRig) { r.post(t, "/rpc", body) }
	}
	return []spanCase{
		{"rpc: a call", rpc(message(`"1"`, "tools/call", `"name":"lab.echo",`+echo+`,`+tracedMeta))},
		{"rpc: the message form", rpc(message(`"1"`, "tools/call", `"tool_name":"lab.echo",`+echo))},
		{"rpc: arguments that do not fit", rpc(message(`"1"`, "tools/call", `"name":"lab.echo","arguments":{"nonce":5}`))},
		{"rpc: an unknown tool", rpc(message(`"1"`, "tools/call", `"name":"lab.nothing"`))},
		{"rpc: a tool that fails", rpc(message(`"1"`, "tools/call", `"name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND","message":"m"}`))},
		{"rpc: an unknown method", rpc(message(`"1"`, "secret", ""))},
		{"rpc: a batch", rpc(`[` + message(`"1"`, "tools/call", `"name":"lab.echo",`+echo+`,`+tracedMeta) + `,` + message(`"1"`, "ping", "") + `,` +
			`{"jsonrpc":"2.0","method":"secret/event","params":{}},7]`)},
		{"rpc: no JSON", rpc(`[{`)},
		{"rpc: an empty batch", rpc(`[]`)},
		{"rpc: a foreign method of HTTP", func(t *testing.T, r *spanRig) { r.send(t, http.MethodPut, "/rpc", "{}") }},
	}
}

// talk is a conversation over a pipe.
func (r *spanRig) talk(t *testing.T, lines ...string) []string {
	t.Helper()
	var out bytes.Buffer
	err := stdio.Serve(t.Context(), r.Bridge, strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, stdio.Options{Grace: time.Minute})
	if err != nil {
		t.Error(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func stdioSpans() []spanCase {
	says := func(lines ...string) func(*testing.T, *spanRig) {
		return func(t *testing.T, r *spanRig) { r.talk(t, lines...) }
	}
	return []spanCase{
		{"stdio: canonical", says(message(`"1"`, "tools/call", `"name":"lab.echo",`+echo+`,`+tracedMeta))},
		{"stdio: modern", says(message("1", "tools/call", `"name":"lab_echo",`+echo+`,`+modernMeta))},
		{"stdio: legacy", says(message("1", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`),
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, message("2", "tools/call", `"name":"lab_echo",`+echo+`,`+tracedMeta))},
		{"stdio: no JSON, an unknown method, an event", says(`{`, message(`"1"`, "secret", ""), `{"jsonrpc":"2.0","method":"secret/event"}`)},
		{"stdio: the same id twice, and a call that is cancelled", func(t *testing.T, r *spanRig) {
			sleep := message(`"1"`, "tools/call", `"name":"lab.sleep","arguments":{"duration":"20s"}`)
			r.talk(t, sleep, sleep, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
		}},
	}
}

func rpcSpans() []spanCase {
	var out []spanCase
	for _, p := range []struct {
		name string
		opts []connect.ClientOption
	}{{"connect", nil}, {"grpc", []connect.ClientOption{connect.WithGRPC()}}, {"grpc-web", []connect.ClientOption{connect.WithGRPCWeb()}}} {
		call := func(tool, arguments string) func(*testing.T, *spanRig) {
			return func(t *testing.T, r *spanRig) {
				req := connect.NewRequest(&outriggerv1.ToolCall{ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}})
				req.Header().Set("Traceparent", inHeader)
				_, _ = r.api(t, p.opts...).CallTool(t.Context(), req)
			}
		}
		typed := func(id int64) func(*testing.T, *spanRig) {
			return func(t *testing.T, r *spanRig) {
				req := connect.NewRequest(&demov1.GetVehicleRequest{VehicleId: id})
				req.Header().Set("Traceparent", inHeader)
				_, _ = demov1connect.NewFleetClient(mcptest.Client(t, 2), r.url, p.opts...).GetVehicle(t.Context(), req)
			}
		}
		out = append(out, spanCase{p.name + ": a call", call("lab.echo", `{"nonce":"n"}`)}, spanCase{p.name + ": an unknown tool", call("lab.nothing", `{}`)},
			spanCase{p.name + ": arguments that do not fit", call("lab.echo", `{"nonce":5}`)}, spanCase{p.name + ": a message that breaks a rule", call("", `{}`)},
			spanCase{p.name + ": a tool that fails", call("lab.fail", `{"code":"FAIL_CODE_INTERNAL","message":"m"}`)},
			spanCase{p.name + ": a typed call", typed(7)}, spanCase{p.name + ": a typed call that does not fit", typed(0)},
			spanCase{p.name + ": a list", func(t *testing.T, r *spanRig) {
				_, _ = r.api(t, p.opts...).ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
			}})
	}
	return out
}

func (r *spanRig) api(t *testing.T, o ...connect.ClientOption) outriggerv1connect.ToolServiceClient {
	t.Helper()
	return outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), r.url, o...)
}
