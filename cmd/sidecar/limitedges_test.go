// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// small are the limits of the sidecar that this file fills.
func small() []string {
	return []string{
		"--max-message-bytes", "2048", "--max-depth", "10", "--max-id-bytes", "64", "--max-batch", "2", "--max-result-bytes", "1024", "--max-items", "1",
	}
}

// sender sends what meets a limit to one edge.
type sender struct {
	t *testing.T
	p *process
}

// refused sends a message to /rpc, and looks at what is said; the other edges say it in other tests.
func (s sender) refused(body string, status int, part string) {
	s.t.Helper()
	if got, text := s.post("/rpc", body); got != status || !strings.Contains(text, part) {
		s.t.Errorf("%d %s, want %d %s", got, text, status, part)
	}
}

// post sends JSON to a path; zipped and chunked are how.
func (s sender) post(path, body string, headers ...string) (status int, text string) {
	s.t.Helper()
	var from io.Reader = strings.NewReader(body)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Content-Encoding" {
			var buf bytes.Buffer
			w := gzip.NewWriter(&buf)
			_, err := io.WriteString(w, body)
			if err := errors.Join(err, w.Close()); err != nil {
				s.t.Fatal(err)
			}
			from = &buf
		}
		if headers[i] == "Transfer-Encoding" {
			from = io.MultiReader(from) // of unknown length
		}
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.p.main+path, from)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return fetch(s.t, req)
}

// session opens a session, and returns its id.
func (s sender) session(open string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.p.main+"/mcp", strings.NewReader(open))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header.Get("Mcp-Session-Id")
}

// line sends one line to standard input, and waits for the answer.
func (s sender) line(text string) {
	s.t.Helper()
	answers := func() int { return strings.Count(s.p.stdout.String(), "\n") }
	before := answers()
	if _, err := io.WriteString(s.p.stdin, text+"\n"); err != nil {
		s.t.Fatal(err)
	}
	testkit.Until(s.t, "an answer", func() bool { return answers() > before })
}

// mustFail is for calls that have to be refused.
func (s sender) mustFail(err error) {
	s.t.Helper()
	if err == nil {
		s.t.Error("it was not refused")
	}
}

func (s sender) call(arguments string, options ...connect.ClientOption) {
	s.t.Helper()
	api := outriggerv1connect.NewToolServiceClient(webClient(2), s.p.main, options...)
	_, err := api.CallTool(s.t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)},
	}))
	s.mustFail(err)
}

func (s sender) stream(arguments string, options ...connect.ClientOption) {
	s.t.Helper()
	api := outriggerv1connect.NewToolServiceClient(webClient(2), s.p.main, options...)
	stream, err := api.CallToolStream(s.t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)},
	}))
	for err == nil && stream.Receive() {
		continue
	}
	if err == nil {
		err = errors.Join(stream.Err(), stream.Close())
	}
	s.mustFail(err)
}

func (s sender) typed(text string, options ...connect.ClientOption) {
	s.t.Helper()
	_, err := demov1connect.NewLabClient(webClient(2), s.p.main, options...).Echo(s.t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "n", Payload: []byte(text)}))
	s.mustFail(err)
}

// exchange sends one request and waits for the end of the stream.
func (s sender) exchange(id, params string, options ...connect.ClientOption) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	stream := outriggerv1connect.NewToolServiceClient(webClient(2), s.p.main, options...).Exchange(ctx)
	_ = stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
		Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: id}}, Method: "ping", ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(params)},
	}}})
	_ = stream.CloseRequest()
	for {
		if _, err := stream.Receive(); err != nil {
			break
		}
	}
	_ = stream.CloseResponse()
}

// TestLimitsCountOnEveryEdge meets the limits of messages and results wherever a
// message can come in. Each time the count goes up by one before the answer is there, and no other does.
func TestLimitsCountOnEveryEdge(t *testing.T) {
	t.Parallel()
	p := startProcess(t, append([]string{"stdio", "--demo"}, small()...)...)
	large := strings.Repeat("x", 4096)
	deep := strings.Repeat("[", 12) + strings.Repeat("]", 12)
	longID := strings.Repeat("i", 65)
	echo := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n","payload":"` + strings.Repeat("AAAA", 300) + `"}}}`
	watch := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.watch_vehicles","arguments":{"vehicleIds":["101"],"rounds":3,"interval":"0s"}}}`
	batch, open := "["+ping+","+ping+","+ping+"]", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	message := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":"` + id + `","method":"ping","params":` + params + `}`
	}
	modern := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "ping"}
	legacy := []string{"MCP-Protocol-Version", "2025-06-18"}
	grpc, web, asJSON := connect.WithGRPC(), connect.WithGRPCWeb(), connect.WithProtoJSON()
	want := limitCounts(t, p)
	page, _ := get(t, oneShot(), p.admin+"/metrics")
	for _, tt := range []struct {
		edge, limit string
		send        func(sender)
	}{
		{"/rpc", "max_message_bytes", func(s sender) { s.refused(message("1", `{"a":"`+large+`"}`), 413, `"code":"PAYLOAD_TOO_LARGE"`) }},
		{"/rpc, chunked", "max_message_bytes", func(s sender) { s.post("/rpc", message("1", `{"a":"`+large+`"}`), "Transfer-Encoding", "chunked") }},
		{"/rpc, gzip", "max_message_bytes", func(s sender) { s.post("/rpc", message("1", `{"a":"`+large+`"}`), "Content-Encoding", "gzip") }},
		{"/mcp modern", "max_message_bytes", func(s sender) { s.post("/mcp", message("1", `{"a":"`+large+`"}`), modern...) }},
		{"/mcp legacy", "max_message_bytes", func(s sender) { s.post("/mcp", message("1", `{"a":"`+large+`"}`), legacy...) }},
		{"stdio", "max_message_bytes", func(s sender) { s.line(message("1", `{"a":"`+large+`"}`)) }},
		{"Connect", "max_message_bytes", func(s sender) { s.call(`{"nonce":"` + large + `"}`) }},
		{"Connect as JSON", "max_message_bytes", func(s sender) { s.call(`{"nonce":"`+large+`"}`, asJSON) }},
		{"Connect, gzip", "max_message_bytes", func(s sender) { s.call(`{"nonce":"`+large+`"}`, connect.WithSendGzip()) }},
		{"Connect, chunked", "max_message_bytes", func(s sender) {
			s.post("/outrigger.v1.ToolService/CallTool", `{"tool_name":"`+large+`"}`, "Transfer-Encoding", "chunked")
		}},
		{"gRPC", "max_message_bytes", func(s sender) { s.call(`{"nonce":"`+large+`"}`, grpc) }},
		{"gRPC, gzip", "max_message_bytes", func(s sender) { s.call(`{"nonce":"`+large+`"}`, grpc, connect.WithSendGzip()) }},
		{"gRPC-Web", "max_message_bytes", func(s sender) { s.call(`{"nonce":"`+large+`"}`, web) }},
		{"a Connect stream", "max_message_bytes", func(s sender) { s.stream(`{"nonce":"` + large + `"}`) }},
		{"a gRPC stream", "max_message_bytes", func(s sender) { s.stream(`{"nonce":"`+large+`"}`, grpc) }},
		{"typed, Connect", "max_message_bytes", func(s sender) { s.typed(large) }},
		{"typed, Connect as JSON", "max_message_bytes", func(s sender) { s.typed(large, asJSON) }},
		{"typed, gRPC", "max_message_bytes", func(s sender) { s.typed(large, grpc) }},
		{"typed, gRPC-Web", "max_message_bytes", func(s sender) { s.typed(large, web) }},
		{"exchange, Connect", "max_message_bytes", func(s sender) { s.exchange("1", `{"a":"`+large+`"}`) }},
		{"exchange, gRPC", "max_message_bytes", func(s sender) { s.exchange("1", `{"a":"`+large+`"}`, grpc) }},

		{"/rpc", "max_json_depth", func(s sender) { s.refused(message("1", `{"a":`+deep+`}`), 400, `"code":"PARSE_ERROR"`) }},
		{"/rpc, batch", "max_json_depth", func(s sender) { s.post("/rpc", "["+message("1", `{"a":`+deep+`}`)+"]") }},
		{"/mcp modern", "max_json_depth", func(s sender) { s.post("/mcp", message("1", `{"a":`+deep+`}`), modern...) }},
		{"/mcp legacy", "max_json_depth", func(s sender) { s.post("/mcp", message("1", `{"a":`+deep+`}`), legacy...) }},
		{"stdio", "max_json_depth", func(s sender) { s.line(message("1", `{"a":`+deep+`}`)) }},
		{"Connect", "max_json_depth", func(s sender) { s.call(`{"nonce":` + deep + `}`) }},
		{"gRPC", "max_json_depth", func(s sender) { s.call(`{"nonce":`+deep+`}`, grpc) }},
		{"a gRPC stream", "max_json_depth", func(s sender) { s.stream(`{"nonce":`+deep+`}`, grpc) }},
		{"typed, Connect as JSON", "max_json_depth", func(s sender) { s.post("/outrigger.demo.v1.Lab/Echo", `{"nonce":`+deep+`}`) }},
		{"exchange", "max_json_depth", func(s sender) { s.exchange("1", `{"a":`+deep+`}`, grpc) }},

		{"/rpc", "max_id_bytes", func(s sender) { s.refused(message(longID, `{}`), 400, `"code":"INVALID_ENVELOPE"`) }},
		{"/mcp modern", "max_id_bytes", func(s sender) { s.post("/mcp", message(longID, `{}`), modern...) }},
		{"/mcp legacy", "max_id_bytes", func(s sender) { s.post("/mcp", message(longID, `{}`), legacy...) }},
		{"stdio", "max_id_bytes", func(s sender) { s.line(message(longID, `{}`)) }},
		{"exchange", "max_id_bytes", func(s sender) { s.exchange(longID, `{}`, grpc) }},

		{"/rpc", "max_batch_entries", func(s sender) { s.refused(batch, 413, `"code":"PAYLOAD_TOO_LARGE"`) }},
		{"/mcp with batches", "max_batch_entries", func(s sender) { s.post("/mcp", batch, "Mcp-Session-Id", s.session(open)) }},

		{"/rpc", "max_result_bytes", func(s sender) { s.refused(echo, 502, `"code":"RESOURCE_EXHAUSTED"`) }},
		{"/mcp legacy", "max_result_bytes", func(s sender) { s.post("/mcp", strings.Replace(echo, "lab.echo", "lab_echo", 1), legacy...) }},
		{"stdio", "max_result_bytes", func(s sender) { s.line(echo) }},
		{"Connect", "max_result_bytes", func(s sender) { s.call(`{"nonce":"n","payload":"` + strings.Repeat("AAAA", 300) + `"}`) }},
		{"gRPC", "max_result_bytes", func(s sender) { s.call(`{"nonce":"n","payload":"`+strings.Repeat("AAAA", 300)+`"}`, grpc) }},
		{"typed, gRPC", "max_result_bytes", func(s sender) { s.typed(strings.Repeat("x", 1200), grpc) }},

		{"/rpc", "max_result_items", func(s sender) { s.refused(watch, 200, `"truncated":true`) }},
		{"stdio", "max_result_items", func(s sender) { s.line(watch) }},
		{"stdio with batches", "max_batch_entries", func(s sender) { s.line(open); s.line(batch) }}, // the last: its session has no canonical messages
	} {
		t.Run(tt.edge+": "+tt.limit, func(t *testing.T) {
			if before, ok := want[tt.limit]; !ok || !strings.Contains(page, `outrigger_limit_max{limit="`+tt.limit+`"} `) {
				t.Fatalf("it is not in the metrics from the start, or its maximum is not: %d", before)
			}
			tt.send(sender{t, p})
			want[tt.limit]++
			got := limitCounts(t, p)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refusals by limit, after this one (-want +got):\n%s", diff)
			}
			want = got
		})
	}
}

// limitCounts are all counts of refusals.
func limitCounts(t *testing.T, p *process) map[string]int {
	t.Helper()
	page, _ := get(t, oneShot(), p.admin+"/metrics")
	out := map[string]int{}
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, `outrigger_limit_refused_total{limit="`)
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	return out
}

// TestRefusedHTTPRequestsAreCounted sends what is no request of any edge, and
// reads how it is counted.
func TestRefusedHTTPRequestsAreCounted(t *testing.T) {
	t.Parallel()
	p := startProcess(t, append([]string{"serve", "--demo"}, small()...)...)
	send := func(method, url, body string, headers ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
			if headers[i] == "Host" {
				req.Host = headers[i+1]
			}
		}
		if status, text := fetch(t, req); status < 400 && !strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc") {
			t.Errorf("%s %s: %d %s", method, url, status, text)
		}
	}
	json, tools := []string{"Content-Type", "application/json"}, "/outrigger.v1.ToolService/CallTool"
	foreign := []string{"Content-Type", "application/json", "Origin", "https://evil.example"}
	send("POST", p.main+"/rpc", "{}", foreign...)
	send("POST", p.main+"/mcp", "{}", foreign...)
	send("POST", p.main+tools, "{}", foreign...)
	send("POST", p.main+"/any", "{}", foreign...)
	send("POST", p.main+tools, "", "Content-Type", "application/grpc", "Origin", "https://evil.example")
	send("GET", p.admin+"/livez", "", "Host", "evil.example")
	send("GET", p.main+"/rpc", "")
	send("PUT", p.main+"/mcp", "", "Mcp-Protocol-Version", "2026-07-28")
	send("PUT", p.main+tools, "")
	send("PUT", p.main+"/outrigger.demo.v1.Lab/Echo", "")
	send("POST", p.main+"/rpc", "{}", "Content-Type", "text/plain")
	send("POST", p.main+"/mcp", "{}", "Content-Type", "text/plain")
	send("POST", p.main+tools, "{}", "Content-Type", "text/plain")
	send("POST", p.main+"/outrigger.demo.v1.Lab/Echo", "{}", "Content-Type", "text/plain")
	send("POST", p.main+"/mcp", "{}", "Content-Type", "application/json", "Accept", "text/html")
	send("POST", p.main+"/rpc", strings.Repeat(" ", 4096), json...)
	send("POST", p.main+tools, `{"tool_name":"`+strings.Repeat("x", 4096)+`"}`, json...)
	send("POST", p.main+"/outrigger.demo.v1.Lab/Echo", `{"nonce":"`+strings.Repeat("x", 4096)+`"}`, json...)
	send("GET", p.main+"/no/such", "")
	send("POST", p.main+"/no.such.Service/Method", "", "Content-Type", "application/grpc+proto")
	wantSample(t, p,
		`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="rpc"} 1`,
		`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="mcp"} 1`,
		`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="connect"} 1`,
		`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="grpc"} 1`,
		`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="other"} 1`,
		`outrigger_http_refused_total{code="ORIGIN_FORBIDDEN",edge="admin"} 1`,
		`outrigger_http_refused_total{code="METHOD_NOT_ALLOWED",edge="rpc"} 1`,
		`outrigger_http_refused_total{code="METHOD_NOT_ALLOWED",edge="mcp"} 1`,
		`outrigger_http_refused_total{code="METHOD_NOT_ALLOWED",edge="connect"} 1`,
		`outrigger_http_refused_total{code="METHOD_NOT_ALLOWED",edge="typed"} 1`,
		`outrigger_http_refused_total{code="UNSUPPORTED_MEDIA_TYPE",edge="rpc"} 1`,
		`outrigger_http_refused_total{code="UNSUPPORTED_MEDIA_TYPE",edge="mcp"} 1`,
		`outrigger_http_refused_total{code="UNSUPPORTED_MEDIA_TYPE",edge="connect"} 1`,
		`outrigger_http_refused_total{code="UNSUPPORTED_MEDIA_TYPE",edge="typed"} 1`,
		`outrigger_http_refused_total{code="NOT_ACCEPTABLE",edge="mcp"} 1`,
		`outrigger_http_refused_total{code="PAYLOAD_TOO_LARGE",edge="rpc"} 1`,
		`outrigger_http_refused_total{code="PAYLOAD_TOO_LARGE",edge="connect"} 1`,
		`outrigger_http_refused_total{code="PAYLOAD_TOO_LARGE",edge="typed"} 1`,
		`outrigger_http_refused_total{code="METHOD_NOT_FOUND",edge="other"} 1`,
		`outrigger_http_refused_total{code="METHOD_NOT_FOUND",edge="grpc"} 1`,
		`outrigger_limit_refused_total{limit="max_message_bytes"} 3`,
	)
}
