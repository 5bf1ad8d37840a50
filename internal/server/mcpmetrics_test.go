// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// metricsPage is what a scrape of a sidecar gets.
func metricsPage(t *testing.T, operators string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operators+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	return string(page)
}

// sent is one message to send.
type sent struct {
	path, body string
	header     http.Header
}

func (s sent) post(t *testing.T, client *http.Client, url string) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+s.path, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, s.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.Header
}

// newest is a message of the modern era with its headers.
func newest(method, name, params string) sent {
	header := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
	if name != "" {
		header.Set("Mcp-Name", name)
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	return sent{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + meta + `}}`, header}
}

var operationCount = regexp.MustCompile(`(?m)^mcp_server_operation_duration_seconds_count\{(.*)\} (\d+)$`)

// countOf is the number of requests whose labels have a text, and of all.
func countOf(t *testing.T, operators, labels string) (some, all int) {
	t.Helper()
	for _, line := range operationCount.FindAllStringSubmatch(metricsPage(t, operators), -1) {
		n, err := strconv.Atoi(line[2])
		if err != nil {
			t.Fatal(err)
		}
		if all += n; strings.Contains(line[1], labels) {
			some += n
		}
	}
	return some, all
}

// TestMCPMetricsOfEveryEnd sends requests that end in different ways, and looks for the series of each.
func TestMCPMetricsOfEveryEnd(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk()})
	url, operators, client := rig.Serve(t), rig.Operators(t), mcptest.Client(t, 1)
	call := func(name, arguments string) sent {
		return newest("tools/call", name, `"name":"`+name+`","arguments":`+arguments+`,`)
	}
	legacy := http.Header{}
	legacy.Set("Mcp-Session-Id", sent{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil}.
		post(t, client, url).Get("Mcp-Session-Id"))
	legacy.Set("Mcp-Protocol-Version", "2025-06-18")
	for _, tt := range []struct {
		name    string
		message sent
		want    string
	}{
		{"success", call("lab_echo", `{"nonce":"n"}`), `gen_ai_operation_name="execute_tool",gen_ai_tool_name="lab.echo",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code=""`},
		{"the tool fails", call("lab_fail", `{"code":"FAIL_CODE_INTERNAL"}`), `error_type="tool_error",gen_ai_operation_name="execute_tool",gen_ai_tool_name="lab.fail",mcp_method_name="tools/call"`},
		{"a native tool answers with a failure", call("write", `{}`), `error_type="tool_error",gen_ai_operation_name="execute_tool",gen_ai_tool_name="desk.write",mcp_method_name="tools/call"`},
		{"invalid input is a result with isError", call("lab_echo", `{"nope":1}`), `error_type="tool_error",gen_ai_operation_name="execute_tool",gen_ai_tool_name="lab.echo"`},
		{"an unknown tool blames the caller", call("no_such", `{}`), `error_type="",gen_ai_operation_name="execute_tool",gen_ai_tool_name="",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code="-32602"`},
		{"an unknown method", newest("made/up", "", ""), `error_type="",gen_ai_operation_name="",gen_ai_tool_name="",mcp_method_name="_OTHER",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code="-32601"`},
		{"params that do not fit", newest("tools/call", "x", `"name":"x","arguments":3,`), `error_type="",gen_ai_operation_name="execute_tool",gen_ai_tool_name="",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code="-32602"`},
		{"a listing", newest("tools/list", "", ""), `gen_ai_operation_name="",gen_ai_tool_name="",mcp_method_name="tools/list",mcp_protocol_version="2026-07-28",network_transport="tcp",rpc_response_status_code=""`},
		{"a legacy session", sent{"/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, legacy}, `mcp_method_name="tools/list",mcp_protocol_version="2025-06-18",network_transport="tcp"`},
		{"the canonical dialect has no revision", sent{"/rpc", `{"jsonrpc":"2.0","id":"2","method":"tools/list","params":{}}`, nil}, `mcp_method_name="tools/list",mcp_protocol_version="",network_transport="tcp"`},
	} {
		before, all := countOf(t, operators, tt.want)
		tt.message.post(t, client, url)
		if after, allAfter := countOf(t, operators, tt.want); after != before+1 || allAfter != all+1 {
			t.Errorf("%s: %d requests with %s, had %d; %d of all kinds, had %d among\n%s", tt.name, after, tt.want, before, allAfter, all,
				strings.Join(operationCount.FindAllString(metricsPage(t, operators), -1), "\n"))
		}
	}
	if n, _ := countOf(t, operators, `mcp_method_name="initialize",mcp_protocol_version="2025-06-18"`); n != 1 {
		t.Errorf("%d initialize with the revision that it has agreed on", n)
	}
	if page := metricsPage(t, operators); strings.Contains(page, "mcp_server_session_duration_seconds_count") {
		t.Error("a session has a duration before its end")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = legacy
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if want := `mcp_server_session_duration_seconds_count{error_type="",mcp_protocol_version="2025-06-18",network_transport="tcp"} 1`; !strings.Contains(metricsPage(t, operators), want) {
		t.Errorf("no %s after status %d", want, resp.StatusCode)
	}
}

// manyTools is a backend with more tools than have their own series, and one that fails with what its arguments say.
func manyTools(n int) *mcptest.Native {
	backend := &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: mcptest.JSONTool("fail", "Fail.", `{"type":"object"}`, ""),
		Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			text := fmt.Sprintf("%x", call.GetArgumentsJson())
			return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
				Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "E" + text, ErrorMessage: text},
			}}}, nil
		},
	}}}
	for i := range n {
		backend.Tools = append(backend.Tools, mcptest.NativeTool{
			Declared: mcptest.JSONTool(fmt.Sprintf("tool%d", i), "Do nothing.", `{"type":"object"}`, ""), Outcome: mcptest.Success("{}"),
		})
	}
	return backend
}

// invented is the nth message that is unlike all others.
func invented(n int) (dialect.Dialect, string, http.Header) {
	modern := func(method, params, version string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, n, method, params, version)
	}
	const version = "2026-07-28"
	header := http.Header{}
	switch n % 7 {
	case 0:
		return dialect.Modern, modern("tools/call", fmt.Sprintf(`"name":"tool%d","arguments":{},`, n), version), nil
	case 1:
		return dialect.Modern, modern(fmt.Sprintf("made/up%d", n), "", version), nil
	case 2:
		return dialect.Modern, modern("tools/list", "", fmt.Sprintf("2026-%05d", n%100000)), nil
	case 3:
		header.Set("Mcp-Protocol-Version", fmt.Sprintf("2025-%05d", n%100000))
		header.Set("Mcp-Session-Id", fmt.Sprintf("session-%d", n))
		return dialect.Legacy, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, n), header
	case 4:
		return dialect.Modern, modern("prompts/get", fmt.Sprintf(`"name":"prompt%d",`, n), version), nil
	case 5:
		return dialect.Canonical, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m%d"}`, n, n), nil
	}
	return dialect.Modern, modern("tools/call", fmt.Sprintf(`"name":"fail","arguments":{"n":%d},`, n), version), nil
}

// TestSeriesAreBounded invents tools, methods, revisions, session ids, prompts and texts of errors.
func TestSeriesAreBounded(t *testing.T) { //nolint:paralleltest // it measures the heap
	total := 20_000
	if testing.Short() {
		total = 10_000
	}
	rig := mcptest.Start(t, mcptest.Options{
		Native: manyTools(2 * telemetry.DefaultMaxTools), NoDemo: true,
		Configure: func(c *configv1.Config) { c.Timeout = durationpb.New(time.Minute) },
	})
	operators := rig.Operators(t)
	origin := rig.Bridge.Flights().NewOrigin()
	send := func(d dialect.Dialect, raw string, header http.Header) {
		profile := jsonrpc.ProfileMCP
		if d == dialect.Canonical {
			profile = jsonrpc.ProfileCanonical
		}
		msg := jsonrpc.Parse([]byte(raw), profile, jsonrpc.Limits{})
		rig.Bridge.HandleMessage(t.Context(), &dialect.Inbound{
			Dialect: d, Origin: origin, Message: &msg, Transport: "http", Route: "/mcp", Caller: "c", Peer: "127.0.0.1:1", Header: header,
		})
	}
	flood := func(from, to int) (series int, heap uint64) {
		for n := from; n < to; n++ {
			send(invented(n))
		}
		page := metricsPage(t, operators)
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return len(regexp.MustCompile(`(?m)^[a-z]`).FindAllString(page, -1)), m.HeapAlloc
	}
	before, heapBefore := flood(0, total/2)
	after, heapAfter := flood(total/2, total)
	t.Logf("after %d messages: %d lines on the page, heap %d KiB; after %d: %d, %d KiB", total/2, before, heapBefore>>10, total, after, heapAfter>>10)
	if after > before+50 { // of limits and the runtime
		t.Errorf("%d lines on the page have become %d", before, after)
	}
	const room = 4 << 20
	if heapAfter > heapBefore+room {
		t.Errorf("the heap has grown from %d to %d", heapBefore, heapAfter)
	}

	for n := range 2 * telemetry.DefaultMaxTools {
		send(dialect.Modern, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool%d","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, n), nil)
	}
	page := metricsPage(t, operators)
	tools := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^mcp_server_operation_duration_seconds_count\{.*gen_ai_tool_name="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		tools[found[1]] = true
	}
	if most := telemetry.DefaultMaxTools + 2; len(tools) > most || !tools[telemetry.Other] { // "other" and ""
		t.Errorf("%d tools have series, at most %d may", len(tools), most)
	}
	for _, text := range []string{"made/up", "session-", "prompt1", "2026-0000"} {
		if strings.Contains(page, text) {
			t.Errorf("the page repeats %q of a caller", text)
		}
	}
}
