// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func compactBridge(t *testing.T) *dialect.Handler {
	t.Helper()
	return fake(t, mcptest.Echo, bridge.Options{Gate: policy.NewGate(policy.Trusted), Compact: compact.Options{Mode: compact.Always}})
}

// replyTo is the reply to a request.
func replyTo(ctx context.Context, t *testing.T, b *dialect.Handler, d dialect.Dialect, method, params string) []byte {
	t.Helper()
	reply := say(ctx, t, b, d, `{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":{`+params+`}}`)
	return bytes.Clone(reply.Bytes())
}

// found are the names that a search finds, as the caller of a dialect knows them.
func found(t *testing.T, reply []byte) []string {
	t.Helper()
	result, _ := jsontext.Lookup(reply, "result")
	content, ok := jsontext.Lookup(result, "structuredContent")
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
		if tool.Summary == "" || len([]rune(tool.Summary)) > catalog.MaxSummary {
			t.Errorf("the summary of %s: %q", tool.Name, tool.Summary)
		}
	}
	return names
}

const modernParams = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// In every dialect three tools are listed, and search, describe and call lead to any other.
func TestTheCompactCatalogInEveryDialect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		dialect dialect.Dialect
		meta    string
		name    func(string) string
		wrong   string // how a wrong name in an argument is answered
	}{
		{dialect.Canonical, "", func(name string) string { return name }, `"error":{"code":-32602`},
		{dialect.Modern, "," + modernParams, catalog.MCPName, `"isError":true`},
		{dialect.Legacy, "", catalog.MCPName, `"isError":true`},
	} {
		t.Run(tc.dialect.String(), func(t *testing.T) {
			t.Parallel()
			b := compactBridge(t)
			send := func(method, params string) []byte {
				return replyTo(t.Context(), t, b, tc.dialect, method, params)
			}
			list := send("tools/list", strings.TrimPrefix(tc.meta, ","))
			result, _ := jsontext.Lookup(list, "result")
			tools, _ := jsontext.Lookup(result, "tools")
			var names []string
			for entry := range jsontext.Elements(tools) {
				raw, _ := jsontext.Lookup(entry, "name")
				name, _ := jsontext.Text(raw)
				names = append(names, name)
			}
			if want := []string{tc.name(catalog.CallName), tc.name(catalog.DescribeName), tc.name(catalog.SearchName)}; !slices.Equal(names, want) {
				t.Errorf("listed %v, want %v", names, want)
			}
			if text := string(list); !strings.Contains(text, "Fleet (") || !strings.Contains(text, "Lab (") {
				t.Errorf("the list does not say what there is: %s", text)
			}
			names = found(t, send("tools/call", `"name":"`+tc.name(catalog.SearchName)+`","arguments":{"query":"cancel an order","limit":2}`+tc.meta))
			if len(names) != 2 || names[0] != tc.name("fleet.cancel_order") {
				t.Errorf("found %v", names)
			}
			shown := string(send("tools/call", `"name":"`+tc.name(catalog.DescribeName)+`","arguments":{"name":"`+names[0]+`"}`+tc.meta))
			for _, want := range []string{`"inputSchema":{`, `"orderId"`, `"examples":[`, `"destructiveHint":true`, `"name":"` + names[0] + `"`} {
				if !strings.Contains(shown, want) {
					t.Errorf("the description has no %s: %s", want, shown)
				}
			}
			called := string(send("tools/call", `"name":"`+tc.name(catalog.CallName)+`","arguments":{"name":"`+tc.name("lab.echo")+`","arguments":{"signed":"5"}}`+tc.meta))
			if !strings.Contains(called, `"structuredContent":{`) || !strings.Contains(called, `"signed":"5"`) {
				t.Errorf("called: %s", called)
			}
			if direct := string(send("tools/call", `"name":"`+tc.name("lab.echo")+`","arguments":{"signed":"5"}`+tc.meta)); direct != called {
				t.Errorf("by name %s\nthrough  %s", direct, called)
			}
			called = string(send("tools/call", `"name":"`+tc.name(catalog.CallName)+`","arguments":{"name":"`+tc.name("lab.echo")+`","arguments":{"signed":"5"},"fields":"signed","stream_time":"5s"}`+tc.meta))
			if !strings.Contains(called, `"structuredContent":{"signed":"5"}`) {
				t.Errorf("called for one field: %s", called)
			}
			for argument, says := range map[string]string{
				`"fields":"sined"`: `"path":"/fields"`, `"fields":""`: `"path":"/fields"`, `"fields":7`: `"path":"/fields"`,
				`"stream_time":"0s"`: `"path":"/stream_time"`, `"stream_time":5`: `"path":"/stream_time"`, `"stream_time":"5m"`: `"path":"/stream_time"`,
			} {
				wrong := string(send("tools/call", `"name":"`+tc.name(catalog.CallName)+`","arguments":{"name":"`+tc.name("lab.echo")+`",`+argument+`}`+tc.meta))
				if !strings.Contains(wrong, `"code":"INVALID_TOOL_INPUT"`) || !strings.Contains(wrong, says) || !strings.Contains(wrong, `"tool":"`+tc.name(catalog.CallName)+`"`) {
					t.Errorf("%s: %s", argument, wrong)
				}
			}
			for _, outer := range []string{catalog.DescribeName, catalog.CallName} {
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

// What is wrong with the arguments of the three tools is said as of any tool, and none of them can be called by way of
// another.
func TestTheArgumentsOfTheCompactCatalog(t *testing.T) {
	t.Parallel()
	b := compactBridge(t)
	for _, tc := range []struct {
		tool, arguments string
		want            errmap.Code
		path            string
	}{
		{catalog.SearchName, `{}`, errmap.InvalidToolInput, ""},
		{catalog.SearchName, `{"query":""}`, errmap.InvalidToolInput, "/query"},
		{catalog.SearchName, `{"query":"` + strings.Repeat("x", 257) + `"}`, errmap.InvalidToolInput, "/query"},
		{catalog.SearchName, `{"query":"x","limit":0}`, errmap.InvalidToolInput, "/limit"},
		{catalog.SearchName, `{"query":"x","limit":11}`, errmap.InvalidToolInput, "/limit"},
		{catalog.SearchName, `{"query":"x","limit":10.0}`, "", ""},
		{catalog.DescribeName, `{"name":"lab.eco"}`, errmap.InvalidToolInput, "/name"},
		{catalog.DescribeName, `{"name":"catalog.search"}`, errmap.InvalidToolInput, "/name"},
		{catalog.CallName, `{}`, errmap.InvalidToolInput, ""},
		{catalog.CallName, `{"name":7}`, errmap.InvalidToolInput, "/name"},
		{catalog.CallName, `{"name":"lab.echo","arguments":7}`, errmap.InvalidToolInput, "/arguments"},
		{catalog.CallName, `{"name":"lab.echo","arguments":"{}"}`, errmap.InvalidToolInput, "/arguments"},
		{catalog.CallName, `{"name":"lab.echo","more":1}`, errmap.InvalidToolInput, "/more"},
		{catalog.CallName, `{"name":"lab.eco"}`, errmap.InvalidToolInput, "/name"},
		{catalog.CallName, `{"name":"catalog.call","arguments":{"name":"lab.echo"}}`, errmap.InvalidToolInput, "/name"},
		{catalog.CallName, `{"name":"catalog_search","arguments":{"query":"x"}}`, errmap.InvalidToolInput, "/name"},
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
	ctx := as(t, access.Grant{Name: "planner", Tools: []string{"lab.*"}, Trust: access.Trusted})
	call := func(tool, arguments string) *bridge.Response { return b.Handle(ctx, toolCall(b, tool, arguments)) }
	for _, query := range []string{"cancel order", "vehicle", "echo", "sleep"} {
		resp := call(catalog.SearchName, `{"query":"`+query+`","limit":10}`)
		if resp.Err != nil {
			t.Fatal(resp.Err)
		}
		if text := string(resp.Outcome.GetResult().GetDataJson()); strings.Contains(text, "fleet.") {
			t.Errorf("%s finds what the caller may not see: %s", query, text)
		}
	}
	for _, tool := range []string{catalog.DescribeName, catalog.CallName} {
		if resp := call(tool, `{"name":"fleet.cancel_order"}`); codeOf(resp) != errmap.PermissionDenied {
			t.Errorf("%s: %v", tool, resp.Err)
		}
		if resp := call(tool, `{"name":"lab.echo"}`); resp.Err != nil {
			t.Errorf("%s: %v", tool, resp.Err)
		}
	}
	list := string(replyTo(ctx, t, b, dialect.Canonical, "tools/list", ""))
	if strings.Contains(list, "Fleet") || !strings.Contains(list, "Lab (") {
		t.Errorf("the list names what the caller may not see: %s", list)
	}
}

func TestCatalogModes(t *testing.T) {
	t.Parallel()
	listed := func(o compact.Options, form compact.List) (int, *errmap.Error) {
		b := fake(t, mcptest.Echo, bridge.Options{Compact: o})
		resp := b.Handle(t.Context(), &bridge.Request{Op: bridge.OpList, Origin: b.Flights().NewOrigin(), List: form})
		if resp.Err != nil {
			return 0, resp.Err
		}
		return len(resp.Catalog.Tools()), nil
	}
	size := listSize(mcptest.Memory(t).Current())
	all := len(mcptest.Memory(t).Current().Tools())
	for _, tc := range []struct {
		name    string
		options compact.Options
		form    compact.List
		want    int
	}{
		{"full", compact.Options{}, compact.ListByMode, all},
		{"compact", compact.Options{Mode: compact.Always}, compact.ListByMode, 3},
		{"compact, all asked for", compact.Options{Mode: compact.Always}, compact.ListAll, all},
		{"auto, at the budget", compact.Options{Mode: compact.Auto, AboveBytes: size}, compact.ListByMode, all},
		{"auto, above it", compact.Options{Mode: compact.Auto, AboveBytes: size - 1}, compact.ListByMode, 3},
		{"auto, compact asked for", compact.Options{Mode: compact.Auto, AboveBytes: size}, compact.ListCompact, 3},
	} {
		if got, err := listed(tc.options, tc.form); err != nil || got != tc.want {
			t.Errorf("%s: %d tools, %v, want %d", tc.name, got, err, tc.want)
		}
	}
	if _, err := listed(compact.Options{}, compact.ListCompact); err == nil || err.Code != errmap.MethodNotFound {
		t.Errorf("compact asked for where there is none: %v", err)
	}
	b := fake(t, mcptest.Echo, bridge.Options{})
	if resp := b.Handle(t.Context(), toolCall(b, catalog.SearchName, `{"query":"x"}`)); codeOf(resp) != errmap.ToolNotFound {
		t.Errorf("a search where there is none: %v", resp.Err)
	}
}

// listSize is the smallest number of bytes that the list does not exceed.
func listSize(cat *catalog.Catalog) int {
	return sort.Search(1<<24, func(n int) bool { return !cat.ListExceeds(n) })
}

// The measure is near the size of the list that clients get.
func TestTheMeasureOfAList(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Legacy} {
		list := replyTo(t.Context(), t, b, d, "tools/list", "")
		got := listSize(mcptest.Memory(t).Current())
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
		in := inbound(t, rig.Bridge.Flights().NewOrigin(), dialect.Modern, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`,`+modernParams+`}}`)
		in.Header = tc.header
		in.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		in.Header.Set("Mcp-Method", "tools/call")
		reply := rig.Bridge.HandleMessage(t.Context(), in)
		if got := bytes.Contains(reply.Bytes(), []byte(`"structuredContent"`)); got != tc.want {
			t.Errorf("through the catalog: %v, %v: %s", tc.through, tc.header, reply.Bytes())
		}
	}
}
