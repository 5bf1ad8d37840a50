// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func compactBridge(t *testing.T) *mcptest.Rig {
	t.Helper()
	return fake(t, mcptest.Echo, both(trusted, compacted))
}

// replyTo is the reply to a request.
func replyTo(ctx context.Context, t *testing.T, b *mcptest.Rig, d mcptest.Dialect, method, params string) []byte {
	t.Helper()
	reply := say(ctx, t, b, d, `{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":{`+params+`}}`)
	return bytes.Clone(reply.Bytes())
}

// maxSummary is the size of a tool's summary in characters.
const maxSummary = 120

// found are the names that a search finds, as the caller of a dialect knows them.
func found(t *testing.T, reply []byte) []string {
	t.Helper()
	result, _ := lookup(reply, "result")
	content, ok := lookup(result, "structuredContent")
	if !ok {
		t.Fatalf("no result: %s", reply)
	}
	var got struct {
		Tools []struct{ Name, Summary string }
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range got.Tools {
		names = append(names, tool.Name)
		if tool.Summary == "" || len([]rune(tool.Summary)) > maxSummary {
			t.Errorf("the summary of %s: %q", tool.Name, tool.Summary)
		}
	}
	return names
}

const modernParams = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// In every dialect four tools are listed, and search, describe and call lead to any other.
func TestTheCompactCatalogInEveryDialect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		dialect mcptest.Dialect
		meta    string
		name    func(string) string
		wrong   string // how a wrong name in an argument is answered
	}{
		{mcptest.Canonical, "", func(name string) string { return name }, `"error":{"code":-32602`},
		{mcptest.Modern, "," + modernParams, mcpName, `"isError":true`},
		{mcptest.Legacy, "", mcpName, `"isError":true`},
	} {
		t.Run(tc.dialect.String(), func(t *testing.T) {
			t.Parallel()
			b := compactBridge(t)
			send := func(method, params string) []byte {
				return replyTo(t.Context(), t, b, tc.dialect, method, params)
			}
			list := send("tools/list", strings.TrimPrefix(tc.meta, ","))
			result, _ := lookup(list, "result")
			tools, _ := lookup(result, "tools")
			var names []string
			for _, entry := range elements(tools) {
				raw, _ := lookup(entry, "name")
				name, _ := jsonText(raw)
				names = append(names, name)
			}
			if want := []string{tc.name(callName), tc.name(describeName), tc.name(runName), tc.name(searchName)}; !slices.Equal(names, want) {
				t.Errorf("listed %v, want %v", names, want)
			}
			if text := string(list); !strings.Contains(text, "Fleet (") || !strings.Contains(text, "Lab (") {
				t.Errorf("the list does not say what there is: %s", text)
			}
			names = found(t, send("tools/call", `"name":"`+tc.name(searchName)+`","arguments":{"query":"cancel an order","limit":2}`+tc.meta))
			if len(names) != 2 || names[0] != tc.name("fleet.cancel_order") {
				t.Errorf("found %v", names)
			}
			shown := string(send("tools/call", `"name":"`+tc.name(describeName)+`","arguments":{"name":"`+names[0]+`"}`+tc.meta))
			for _, want := range []string{`"inputSchema":{`, `"orderId"`, `"examples":[`, `"destructiveHint":true`, `"name":"` + names[0] + `"`} {
				if !strings.Contains(shown, want) {
					t.Errorf("the description has no %s: %s", want, shown)
				}
			}
			shown = string(send("tools/call", `"name":"`+tc.name(describeName)+`","arguments":{"names":["`+names[0]+`","`+tc.name("lab.echo")+`"]}`+tc.meta))
			for _, want := range []string{`fleet.cancel_order(\n order_id: uint!`, `Destructive: asks the user.\n`, `lab.echo(\n nonce: str`, `\nOrder:\n`} {
				if !strings.Contains(shown, want) {
					t.Errorf("the signatures have no %s: %s", want, shown)
				}
			}
			called := string(send("tools/call", `"name":"`+tc.name(callName)+`","arguments":{"name":"`+tc.name("lab.echo")+`","arguments":{"signed":"5"}}`+tc.meta))
			if !strings.Contains(called, `"structuredContent":{`) || !strings.Contains(called, `"signed":"5"`) {
				t.Errorf("called: %s", called)
			}
			if direct := string(send("tools/call", `"name":"`+tc.name("lab.echo")+`","arguments":{"signed":"5"}`+tc.meta)); direct != called {
				t.Errorf("by name %s\nthrough  %s", direct, called)
			}
			called = string(send("tools/call", `"name":"`+tc.name(callName)+`","arguments":{"name":"`+tc.name("lab.echo")+`","arguments":{"signed":"5"},"fields":"signed","stream_time":"5s"}`+tc.meta))
			if !strings.Contains(called, `"structuredContent":{"signed":"5"}`) {
				t.Errorf("called for one field: %s", called)
			}
			for argument, says := range map[string]string{
				`"fields":"sined"`: `"path":"/fields"`, `"fields":""`: `"path":"/fields"`, `"fields":7`: `"path":"/fields"`,
				`"stream_time":"0s"`: `"path":"/stream_time"`, `"stream_time":5`: `"path":"/stream_time"`, `"stream_time":"5m"`: `"path":"/stream_time"`,
			} {
				wrong := string(send("tools/call", `"name":"`+tc.name(callName)+`","arguments":{"name":"`+tc.name("lab.echo")+`",`+argument+`}`+tc.meta))
				if !strings.Contains(wrong, `"code":"INVALID_TOOL_INPUT"`) || !strings.Contains(wrong, says) || !strings.Contains(wrong, `"tool":"`+tc.name(callName)+`"`) {
					t.Errorf("%s: %s", argument, wrong)
				}
			}
			for _, outer := range []string{describeName, callName} {
				wrong := replyTo(t.Context(), t, b, tc.dialect, "tools/call", `"name":"`+tc.name(outer)+`","arguments":{"name":"lab.eco"}`+tc.meta)
				for _, want := range []string{tc.wrong, `"code":"INVALID_TOOL_INPUT"`, `"tool":"` + tc.name(outer) + `"`, `"path":"/name"`, "the nearest names are " + tc.name("lab.echo")} {
					if !strings.Contains(string(wrong), want) {
						t.Errorf("a wrong name: no %s: %s", want, wrong)
					}
				}
			}
		})
	}
}

// What is wrong with the arguments of these tools is said as of any tool, and none of them can be called by way of
// another.
func TestTheArgumentsOfTheCompactCatalog(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	for _, tc := range []struct {
		tool, arguments string
		want            errmap.Code
		path            string
	}{
		{searchName, `{}`, errmap.InvalidToolInput, ""},
		{searchName, `{"query":""}`, errmap.InvalidToolInput, "/query"},
		{searchName, `{"query":"` + strings.Repeat("x", 257) + `"}`, errmap.InvalidToolInput, "/query"},
		{searchName, `{"query":"x","limit":0}`, errmap.InvalidToolInput, "/limit"},
		{searchName, `{"query":"x","limit":11}`, errmap.InvalidToolInput, "/limit"},
		{searchName, `{"query":"x","limit":10.0}`, "", ""},
		{describeName, `{"name":"lab.eco"}`, errmap.InvalidToolInput, "/name"},
		{describeName, `{"name":"catalog.search"}`, errmap.InvalidToolInput, "/name"},
		{describeName, `{}`, errmap.InvalidToolInput, "/name"},
		{describeName, `{"name":"lab.echo","names":["lab.echo"]}`, errmap.InvalidToolInput, "/name"},
		{describeName, `{"names":[]}`, errmap.InvalidToolInput, "/names"},
		{describeName, `{"names":["lab.echo","lab.eco"]}`, errmap.InvalidToolInput, "/names/1"},
		{describeName, `{"names":["lab.echo","catalog.search"]}`, errmap.InvalidToolInput, "/names/1"},
		{describeName, `{"names":["lab.echo#Ech"]}`, errmap.InvalidToolInput, "/names/0"},
		{describeName, `{"names":["lab.echo","lab.relay#EchoRequest","lab.echo"]}`, "", ""},
		{callName, `{}`, errmap.InvalidToolInput, ""},
		{callName, `{"name":7}`, errmap.InvalidToolInput, "/name"},
		{callName, `{"name":"lab.echo","arguments":7}`, errmap.InvalidToolInput, "/arguments"},
		{callName, `{"name":"lab.echo","arguments":"{}"}`, errmap.InvalidToolInput, "/arguments"},
		{callName, `{"name":"lab.echo","more":1}`, errmap.InvalidToolInput, "/more"},
		{callName, `{"name":"lab.eco"}`, errmap.InvalidToolInput, "/name"},
		{callName, `{"name":"catalog.call","arguments":{"name":"lab.echo"}}`, errmap.InvalidToolInput, "/name"},
		{callName, `{"name":"catalog_search","arguments":{"query":"x"}}`, errmap.InvalidToolInput, "/name"},
	} {
		resp := b.Handle(t.Context(), toolCall(b, tc.tool, tc.arguments))
		if codeOf(resp) != tc.want {
			t.Errorf("%s %s: %v, want %q", tc.tool, tc.arguments, resp.Err, tc.want)
			continue
		}
		if tc.path != "" && (len(resp.Err.Violations) == 0 || resp.Err.Violations[0].Path != tc.path) {
			t.Errorf("%s %s: %+v, want %s", tc.tool, tc.arguments, resp.Err.Violations, tc.path)
		}
	}
}

// A caller finds, is shown and calls only what it may see.
func TestTheCompactCatalogOfACallerWithFewTools(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	ctx := mcptest.As(t, outrigger.Grant{Name: "planner", Tools: []string{"lab.*"}, Trust: mcptest.Trusted})
	call := func(tool, arguments string) *mcptest.Outcome { return b.Handle(ctx, toolCall(b, tool, arguments)) }
	for _, query := range []string{"cancel order", "vehicle", "echo", "sleep"} {
		resp := call(searchName, `{"query":"`+query+`","limit":10}`)
		if resp.Err != nil {
			t.Fatal(resp.Err)
		}
		if text := string(resp.Outcome.GetResult().GetDataJson()); strings.Contains(text, "fleet.") {
			t.Errorf("%s finds what the caller may not see: %s", query, text)
		}
	}
	for _, tool := range []string{describeName, callName} {
		if resp := call(tool, `{"name":"fleet.cancel_order"}`); codeOf(resp) != errmap.PermissionDenied {
			t.Errorf("%s: %v", tool, resp.Err)
		}
		if resp := call(tool, `{"name":"lab.echo"}`); resp.Err != nil {
			t.Errorf("%s: %v", tool, resp.Err)
		}
	}
	if resp := call(describeName, `{"names":["lab.echo","fleet.cancel_order"]}`); codeOf(resp) != errmap.PermissionDenied {
		t.Errorf("signatures of what the caller may not call: %v", resp.Err)
	}
	list := string(replyTo(ctx, t, b, mcptest.Canonical, "tools/list", ""))
	if strings.Contains(list, "Fleet") || !strings.Contains(list, "Lab (") {
		t.Errorf("the list names what the caller may not see: %s", list)
	}
}

func TestCatalogModes(t *testing.T) {
	t.Parallel()
	listed := func(configure func(*configv1.Config), form *outriggerv1.ListToolsRequest) (int, errmap.Code) {
		b := fake(t, mcptest.Echo, configure)
		if form == nil {
			return len(answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`).Result.Tools), ""
		}
		got, err := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 1), b.Serve(t)).ListTools(t.Context(), connect.NewRequest(form))
		if err != nil {
			return 0, codeOfRPC(t, err)
		}
		return len(got.Msg.GetTools()), ""
	}
	every, few := &outriggerv1.ListToolsRequest{}, &outriggerv1.ListToolsRequest{Compact: true}
	above := func(bytes int) func(*configv1.Config) {
		return func(c *configv1.Config) {
			c.Catalog.Mode, c.Catalog.CompactAboveBytes = proto.String("auto"), proto.Int32(int32(bytes))
		}
	}
	size := listSize(t)
	all := len(mcptest.Memory(t).Current().Tools())
	for _, tc := range []struct {
		name      string
		configure func(*configv1.Config)
		form      *outriggerv1.ListToolsRequest
		want      int
	}{
		{"full", nil, nil, all},
		{"compact", compacted, nil, 4},
		{"compact, all asked for", compacted, every, all},
		{"auto, at the budget", above(size), nil, all},
		{"auto, above it", above(size - 1), nil, 4},
		{"auto, compact asked for", above(size), few, 4},
	} {
		if got, code := listed(tc.configure, tc.form); code != "" || got != tc.want {
			t.Errorf("%s: %d tools, %v, want %d", tc.name, got, code, tc.want)
		}
	}
	if _, code := listed(nil, few); code != errmap.MethodNotFound {
		t.Errorf("compact asked for where there is none: %v", code)
	}
	b := fake(t, mcptest.Echo, nil)
	if resp := b.Handle(t.Context(), toolCall(b, searchName, `{"query":"x"}`)); codeOf(resp) != errmap.ToolNotFound {
		t.Errorf("a search where there is none: %v", resp.Err)
	}
}

// listSize is the smallest number of bytes that the list does not exceed.
func listSize(t *testing.T) int {
	t.Helper()
	cat := mcptest.Memory(t).Current()
	return sort.Search(1<<24, func(n int) bool { return !cat.ListExceeds(n) })
}

// The measure is near the size of the list that clients get.
func TestTheMeasureOfAList(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Legacy} {
		list := replyTo(t.Context(), t, b, d, "tools/list", "")
		got := listSize(t)
		if off := float64(got)/float64(len(list)) - 1; off < -0.1 || off > 0.1 {
			t.Errorf("%v: measured %d bytes, the list has %d", d, got, len(list))
		}
	}
}

// Headers that repeat arguments: what a client was not shown it need not send; what it sends has to be right.
func TestHeadersOfACallByWayOfTheCompactCatalog(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{
		Native: &mcptest.Native{Tools: []mcptest.NativeTool{{
			Declared: mcptest.JSONTool("ship", "Ships.", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`, ""),
			Outcome:  mcptest.Success(`{}`),
		}}},
		NoDemo: true, Configure: func(c *configv1.Config) { c.Catalog.Mode = proto.String("compact") },
	})
	for _, tc := range []struct {
		through bool
		header  http.Header
		want    bool
	}{
		{false, http.Header{"Mcp-Name": {"ship"}, "Mcp-Param-Region": {"north"}}, true},
		{false, http.Header{"Mcp-Name": {"ship"}}, false},
		{true, http.Header{"Mcp-Name": {"catalog_call"}}, true},
		{true, http.Header{"Mcp-Name": {"catalog_call"}, "Mcp-Param-Region": {"north"}}, true},
		{true, http.Header{"Mcp-Name": {"catalog_call"}, "Mcp-Param-Region": {"south"}}, false},
		{true, http.Header{"Mcp-Name": {"ship"}}, false},
		{true, http.Header{}, false},
	} {
		params := `"name":"ship","arguments":{"region":"north"}`
		if tc.through {
			params = `"name":"catalog_call","arguments":{` + params + `}`
		}
		in := inbound(rig.NewOrigin(), mcptest.Modern, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`,`+modernParams+`}}`)
		in.Header = tc.header
		in.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		in.Header.Set("Mcp-Method", "tools/call")
		reply := rig.Send(t.Context(), in)
		if got := bytes.Contains(reply.Bytes(), []byte(`"structuredContent"`)); got != tc.want {
			t.Errorf("through the catalog: %v, %v: %s", tc.through, tc.header, reply.Bytes())
		}
	}
}

// TestTheCompactCatalogOfTheStrictProfile: what its schemas show can be sent, also where strings are not repaired. The other
// forms can be sent too, and limits that only the descriptions name hold.
func TestTheCompactCatalogOfTheStrictProfile(t *testing.T) {
	t.Parallel()
	for _, isRepairing := range []bool{false, true} {
		b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source(), Backend: mcptest.Upstream(mcptest.Echo), Configure: both(trusted, compacted, func(c *configv1.Config) {
			c.SchemaProfile, c.RepairArguments = proto.String("strict"), isRepairing
		})})
		for _, tc := range []struct {
			tool, arguments string
			want            errmap.Code
			path            string
		}{
			{searchName, `{"query":"cancel an order","limit":null}`, "", ""},
			{searchName, `{"query":"cancel an order","limit":2}`, "", ""},
			{searchName, `{"query":"cancel an order"}`, "", ""},
			{searchName, `{"query":"x","limit":11}`, errmap.InvalidToolInput, "/limit"},
			{searchName, `{"query":"","limit":null}`, errmap.InvalidToolInput, "/query"},
			{describeName, `{"name":"lab.echo"}`, "", ""},
			{describeName, `{"name":"lab.echo","names":null}`, "", ""},
			{describeName, `{"name":null,"names":["lab.echo"]}`, "", ""},
			{callName, `{"name":"lab.echo","arguments":"{\"signed\":\"5\"}"}`, "", ""},
			{callName, `{"name":"lab.echo","arguments":" {} "}`, "", ""},
			{callName, `{"name":"lab.echo","arguments":{"signed":"5"}}`, "", ""},
			{callName, `{"name":"lab.echo"}`, "", ""},
			{callName, `{"name":"lab.echo","arguments":""}`, errmap.InvalidToolInput, "/arguments"},
			{callName, `{"name":"lab.echo","arguments":"{"}`, errmap.InvalidToolInput, "/arguments"},
			{callName, `{"name":"lab.echo","arguments":"[]"}`, errmap.InvalidToolInput, "/arguments"},
			{callName, `{"name":"lab.echo","arguments":null}`, errmap.InvalidToolInput, "/arguments"},
			{callName, `{"name":"lab.echo","arguments":"{\"nothing\":1}"}`, errmap.InvalidToolInput, "/nothing"},
			{callName, `{"name":"catalog.call","arguments":"{}"}`, errmap.InvalidToolInput, "/name"},
		} {
			resp := b.Handle(t.Context(), toolCall(b, tc.tool, tc.arguments))
			if codeOf(resp) != tc.want {
				t.Errorf("repairs %t: %s %s: %v, want %q", isRepairing, tc.tool, tc.arguments, resp.Err, tc.want)
				continue
			}
			if tc.path != "" && (len(resp.Err.Violations) == 0 || resp.Err.Violations[0].Path != tc.path) {
				t.Errorf("repairs %t: %s %s: %+v, want %s", isRepairing, tc.tool, tc.arguments, resp.Err.Violations, tc.path)
			}
		}
		if n := b.Repaired(); n != 0 {
			t.Errorf("repairs %t: what the schema asks for counts as repaired %d times", isRepairing, n)
		}
	}
}

// wayOfRow is one row of the matrix: calls that are made by name and by way of the compact catalog, of a sidecar each.
type wayOfRow struct {
	name      string
	configure func(*configv1.Config)
	// capabilities are those of the client, meta further members of _meta, header further headers.
	capabilities, meta string
	header             http.Header
	calls              []rowCall
	// want is in the reply to the last call.
	want string
	// audited is the decision about it.
	audited string
}

// rowCall is one call. says is the answer to the question that the call before it was answered with.
type rowCall struct {
	tool, arguments string
	says            string
	// getsTask asks for the task of the call before it until it has ended.
	getsTask bool
}

// ran is in the reply of the tool that cancels an order.
const ran = "there is no order 1001"

const asksForm = `{"elicitation":{"form":{}}}`

func rowsOfBothWays() []wayOfRow {
	cancel := rowCall{tool: "fleet_cancel_order", arguments: `{"orderId":"1001"}`}
	yes, no := cancel, cancel
	yes.says, no.says = `{"action":"accept","content":{"confirm":true}}`, `{"action":"decline"}`
	noGoods := rule("no-nonce", "deny", `args.nonce == "bad"`, "lab.*")
	listed := rule("named", "allow", `args.order_id > 0u`, "fleet.cancel_order")
	slow := func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
			TaskSupport: "optional", TaskAfter: durationpb.New(10 * time.Millisecond),
		}})
	}
	timed := func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
			Timeout: durationpb.New(20 * time.Millisecond),
		}})
	}
	rare := func(c *configv1.Config) {
		c.Limits.ToolRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}
	}
	return []wayOfRow{
		{name: "plain", calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"n","signed":"5"}`}}, want: `"signed":"5"`, audited: "allowed"},
		{name: "without arguments", calls: []rowCall{{tool: "lab_echo"}}, want: `"nonce":""`, audited: "allowed"},
		{name: "canonical name", calls: []rowCall{{tool: "lab.echo", arguments: `{"nonce":"n"}`}}, want: `"nonce":"n"`, audited: "allowed"},
		{name: "invalid arguments", calls: []rowCall{{tool: "lab_echo", arguments: `{"signed":"x"}`}}, want: string(errmap.InvalidToolInput), audited: "allowed"},
		{name: "repaired arguments", configure: func(c *configv1.Config) { c.RepairArguments = true }, calls: []rowCall{{tool: "lab_echo", arguments: `"{\"nonce\":\"n\"}"`}},
			want: `"dev.outrigger/repaired":[""]`, audited: "allowed"},
		{name: "field mask", meta: `,"dev.outrigger/fields":"nonce"`, calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"n","signed":"5"}`}},
			want: `"structuredContent":{"nonce":"n"}`, audited: "allowed"},
		{name: "result budget", configure: budgetOf(300), calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"` + strings.Repeat("n", 500) + `","signed":"5"}`}},
			want: `"cut":[{"path":"/nonce"}]`, audited: "allowed"},
		{name: "tool that fails", calls: []rowCall{{tool: "lab_fail", arguments: `{"code":5}`}}, want: string(errmap.ToolExecutionFailed), audited: "allowed"},
		{name: "policy, denied", configure: ruled(noGoods), calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"bad"}`}}, want: string(errmap.PermissionDenied), audited: "denied"},
		{name: "policy, allowed", configure: ruled(noGoods), calls: []rowCall{{tool: "lab_echo", arguments: `{"nonce":"good"}`}}, want: `"nonce":"good"`, audited: "allowed"},
		{name: "policy, allowed by name, destructive", configure: ruled(listed), calls: []rowCall{cancel}, want: ran, audited: "allowed"},
		{name: "gate", calls: []rowCall{cancel}, want: string(errmap.DestructiveBlocked), audited: "denied"},
		{name: "gate of writes", configure: func(c *configv1.Config) { c.Gate = proto.String("writes") },
			calls: []rowCall{{tool: "fleet_update_vehicle", arguments: `{"vehicleId":"101","patch":{"driver":"A"},"updateMask":"driver"}`}}, want: string(errmap.DestructiveBlocked), audited: "denied"},
		{name: "confirm, asks", configure: asks, capabilities: asksForm, calls: []rowCall{cancel}, want: `"resultType":"input_required"`},
		{name: "confirm, yes", configure: asks, capabilities: asksForm, calls: []rowCall{cancel, yes}, want: ran, audited: "consented"},
		{name: "confirm, no", configure: asks, capabilities: asksForm, calls: []rowCall{cancel, no}, want: string(errmap.DestructiveBlocked), audited: "denied"},
		{name: "confirm, twice", configure: asks, capabilities: asksForm, calls: []rowCall{cancel, yes, cancel}, want: `"resultType":"input_required"`},
		{name: "rate of a tool", configure: rare, calls: []rowCall{{tool: "lab_echo"}, {tool: "lab_echo"}}, want: string(errmap.RateLimited)},
		{name: "progress of a stream", configure: func(c *configv1.Config) { c.Limits.MaxResultItems = proto.Int32(3) }, meta: `,"progressToken":"p"`,
			calls: []rowCall{{tool: "lab_relay", arguments: `{"items":[{"nonce":"a"},{"nonce":"b"}]}`}}, want: `"nonce":"b"`, audited: "allowed"},
		{name: "task", configure: slow, capabilities: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
			calls: []rowCall{{tool: "lab_sleep", arguments: `{"duration":"0.05s"}`}, {getsTask: true}}, want: `"status":"completed"`},
		{name: "timeout of a tool", configure: timed, calls: []rowCall{{tool: "lab_sleep", arguments: `{"duration":"20s"}`}}, want: string(errmap.Timeout), audited: "allowed"},
		{name: "headers", header: http.Header{"X-Request-Id": {"r-1"}, "Cookie": {"secret"}}, calls: []rowCall{{tool: "lab_inspect", arguments: `{}`}}, want: "r-1", audited: "allowed"},
		{name: "idempotency key", header: http.Header{"Idempotency-Key": {"\x01"}}, calls: []rowCall{{tool: "lab_echo"}}, want: string(errmap.InvalidParams)},
	}
}

// observed is what becomes of the calls of a row.
type observed struct {
	Replies  []string
	Statuses []int
	Heard    []string
	Audited  []entryOfTrail
	Logged   []string
	Counted  []string
	Spans    string
}

type entryOfTrail struct {
	Operation, Tool string
	Destructive     bool
	Decision        string
	Rule, Code      string
}

// TestACallByWayOfTheCompactCatalogIsACallByName: policy, gate, consent, rates, progress, tasks, headers, audit, log, metrics
// and spans are the same, to the last byte of the reply. But a text says where the fields of a result are named: not in _meta,
// which models cannot set.
func TestACallByWayOfTheCompactCatalogIsACallByName(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOfBothWays() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			byName, through := row.run(t, byItsName), row.run(t, byTheCatalog)
			for i, reply := range through.Replies {
				through.Replies[i] = strings.ReplaceAll(reply, `in the argument fields, such as \"fields\": `, `in _meta, such as \"dev.outrigger/fields\": `)
			}
			if diff := cmp.Diff(byName, through); diff != "" {
				t.Errorf("(-by name +through the catalog):\n%s", diff)
			}
			if last := byName.Replies[len(byName.Replies)-1]; !strings.Contains(last, row.want) {
				t.Errorf("the last reply has no %s: %s", row.want, last)
			}
			if strings.Contains(row.meta, "progressToken") && len(byName.Heard) == 0 {
				t.Error("no progress was heard")
			}
			if len(byName.Counted) == 0 {
				t.Error("no metric counts the calls")
			}
			if n := len(through.Audited); row.audited != "" && (n == 0 || through.Audited[n-1].Decision != row.audited) {
				t.Errorf("audited as %v, want %s", through.Audited, row.audited)
			}
		})
	}
}

// The ways of a call.
const (
	byItsName = iota
	byTheCatalog
	inAProgram
)

// run makes the calls of a row one way.
func (row *wayOfRow) run(t *testing.T, through int) observed {
	t.Helper()
	core, logged := observer.New(zap.InfoLevel)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	recorded, options := traced(mcptest.Options{Log: zap.New(core), Configure: func(c *configv1.Config) {
		c.Catalog.Mode = proto.String("compact")
		c.Audit = &configv1.Audit{Path: &path, Fsync: proto.String("never")}
		if row.configure != nil {
			row.configure(c)
		}
	}}, time.Hour)
	rig := mcptest.Start(t, options)
	var out observed
	polls := false
	var last []byte
	for _, call := range row.calls {
		var status int
		polls = polls || call.getsTask
		for {
			last, status = row.call(t, rig, call, through, last, &out.Heard)
			if !call.getsTask || !bytes.Contains(last, []byte(`"status":"working"`)) {
				break
			}
		}
		out.Replies, out.Statuses = append(out.Replies, withoutSecrets(last)), append(out.Statuses, status)
	}
	_, page := send(t, mcptest.Client(t, 1), http.MethodGet, rig.Operators(t)+"/metrics", "")
	for line := range strings.Lines(string(page)) {
		if ofCalls.MatchString(line) && !strings.Contains(line, `"tasks/get"`) { // as often as the task takes
			out.Counted = append(out.Counted, line)
		}
	}
	rig.End()
	if !polls { // a task is asked for as often as it takes
		out.Spans = withoutSecrets([]byte(recorded.tree()))
	}
	for _, line := range logged.FilterMessage("call").All() {
		fields := line.ContextMap()
		text, err := json.Marshal([]any{fields["outrigger.tool.name"], fields["outrigger.error.code"]})
		if err != nil {
			t.Fatal(err)
		}
		out.Logged = append(out.Logged, string(text))
	}
	out.Audited = trailOf(t, path)
	return out
}

// ofCalls are the metrics that count calls by tool, and the decisions of rules.
var ofCalls = regexp.MustCompile(`^outrigger_policy_decisions_total\{|^(outrigger_(calls|calls_refused|queue_rejected)_total|outrigger_call_duration_seconds_count|mcp_server_operation_duration_seconds_count)\{.*tool.*="`)

func trailOf(t *testing.T, path string) []entryOfTrail {
	t.Helper()
	text := func(line map[string]any, member string) string {
		s, _ := line[member].(string)
		return s
	}
	var out []entryOfTrail
	for _, l := range trail(t, path) {
		if l["phase"] == "change" || l["operation"] == "get_task" { // of which there are as many as the task takes
			continue
		}
		out = append(out, entryOfTrail{
			text(l, "operation"), text(l, "tool"), l["destructive"] == true, text(l, "decision"), text(l, "rule"), text(l, "code"),
		})
	}
	return out
}

// call makes one call as a modern client over HTTP does. before is the reply to the one before it.
func (row *wayOfRow) call(t *testing.T, b *mcptest.Rig, call rowCall, through int, before []byte, heard *[]string) ([]byte, int) {
	t.Helper()
	capabilities := row.capabilities
	if capabilities == "" {
		capabilities = `{}`
	}
	method, name, params := "tools/call", call.tool, `"taskId":`
	switch {
	case call.getsTask:
		method, name = "tasks/get", memberOf(t, before, "taskId")
		params += quoted(name)
	default:
		inner := `"name":` + quoted(call.tool)
		if call.arguments != "" {
			inner += `,"arguments":` + call.arguments
		}
		switch params = inner; through {
		case byTheCatalog:
			name = "catalog_call"
			params = `"name":"catalog_call","arguments":{` + inner + `}`
		case inAProgram:
			name = "catalog_run"
			params = `"name":"catalog_run","arguments":` + call.inProgram(t)
		}
	}
	if call.says != "" {
		key := "outrigger_confirm"
		if through == inAProgram {
			key = "1." + key
		}
		params += `,"inputResponses":{` + quoted(key) + `:` + call.says + `},"requestState":` + quoted(memberOf(t, before, "requestState"))
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities + row.meta + `}}}`
	header := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name}}
	maps.Copy(header, row.header)
	reply := b.Send(t.Context(), &mcptest.Message{
		Dialect: mcptest.Modern, Origin: b.NewOrigin(), Text: body, Header: header, Caller: "10.0.0.1", Transport: "http", Route: "/mcp",
		Send: func(message []byte) error {
			*heard = append(*heard, string(message))
			return nil
		},
	})
	return bytes.Clone(reply.Bytes()), reply.Status
}

func memberOf(t *testing.T, reply []byte, member string) string {
	t.Helper()
	result, _ := lookup(reply, "result")
	raw, _ := lookup(result, member)
	text, ok := jsonText(raw)
	if !ok {
		t.Fatalf("no %s: %s", member, reply)
	}
	return text
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`"(requestState|taskId|createdAt|lastUpdatedAt)":"[^"]*"|"ttlMs":[0-9]+|\\?"slept\\?":\\?"[0-9.]+s|[0-9]+u\b|\\?"[a-z]*(trace|span|peer|time|port|retryAfter|retry_after)[A-Za-z_]*\\?":(\\?"[^"]*"|[0-9.]+|\[[^\]]*\])|127\.0\.0\.1:[0-9]+|00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9]|retry after [0-9a-z.]+|outrigger://results/[\w.-]+|20[0-9]{2}-[0-9-]+T[0-9:]+Z`)

// withoutSecrets is a reply without what differs from run to run, and without where the caller wrote the name of the tool.
func withoutSecrets(reply []byte) string {
	return changing.ReplaceAllString(strings.ReplaceAll(string(reply), "/params/arguments/name", "/params/name"), "~")
}

// TestADestructiveToolThroughTheCompactCatalogAsksAlways is what is not as by name: trust in a caller is no consent there,
// because a host that may always call the one tool may not for that call all.
func TestADestructiveToolThroughTheCompactCatalogAsksAlways(t *testing.T) {
	t.Parallel()
	trusted := func(c *configv1.Config) { c.Trust = proto.String("trusted") }
	call := rowCall{tool: "fleet_cancel_order", arguments: `{"orderId":"1001"}`}
	yes := call
	yes.says = `{"action":"accept","content":{"confirm":true}}`
	for _, tc := range []struct {
		name            string
		row             wayOfRow
		byName, through string
	}{
		{"a client that can be asked", wayOfRow{configure: trusted, capabilities: asksForm, calls: []rowCall{call}}, ran, `"resultType":"input_required"`},
		{"a client that cannot", wayOfRow{configure: trusted, calls: []rowCall{call}}, ran, string(errmap.DestructiveBlocked)},
		{"a rule with a pattern", wayOfRow{configure: ruled(rule("all", "allow", "true", "fleet.*")), calls: []rowCall{call}}, ran, string(errmap.DestructiveBlocked)},
		{"a deny rule that names the tool", wayOfRow{configure: ruled(rule("none", "deny", "false", "fleet.cancel_order")), calls: []rowCall{call}}, ran, string(errmap.DestructiveBlocked)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for through, want := range map[int]string{byItsName: tc.byName, byTheCatalog: tc.through, inAProgram: tc.through} {
				got := tc.row.run(t, through)
				if !strings.Contains(got.Replies[0], want) {
					t.Errorf("way %d: no %s: %s", through, want, got.Replies[0])
				}
			}
		})
	}
	t.Run("consent", func(t *testing.T) {
		t.Parallel()
		row := wayOfRow{configure: trusted, capabilities: asksForm, calls: []rowCall{call, yes, call}}
		got := row.run(t, byTheCatalog)
		for i, want := range []string{`"resultType":"input_required"`, ran, `"resultType":"input_required"`} {
			if !strings.Contains(got.Replies[i], want) {
				t.Errorf("reply %d has no %s: %s", i, want, got.Replies[i])
			}
		}
		for _, e := range got.Audited {
			if e.Tool != "fleet.cancel_order" || !e.Destructive {
				t.Errorf("audited as %+v", e)
			}
		}
	})
}
