// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestVersionsThatACallerTakes(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	// fleet.find_orders has version 1.1.0.
	for _, tc := range []struct {
		name, version string
		want          errmap.Code
	}{
		{"the version", `"1.1.0"`, ""},
		{"a caret", `"^1.0"`, ""},
		{"a range", `">=1.1 <2"`, ""},
		{"a part", `"1.1"`, ""},
		{"alternatives", `"2.x || 1.x"`, ""},
		{"any", `"*"`, ""},
		{"an older one", `"1.0.0"`, errmap.ToolNotFound},
		{"a newer one", `">=1.2"`, errmap.ToolNotFound},
		{"a tilde", `"~1.0.0"`, errmap.ToolNotFound},
		{"no constraint", `"latest and greatest"`, errmap.InvalidParams},
		{"empty", `""`, errmap.InvalidParams},
		{"a number", `1.1`, errmap.InvalidParams},
		{"null", `null`, errmap.InvalidParams},
		{"too long", `"` + strings.Repeat("1.1.0 || ", 40) + `1.1.0"`, errmap.InvalidParams},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{"tools/call", "tools/get"} {
				got := answer(t, b, dialect.Canonical,
					`{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":{"name":"fleet.find_orders","version":`+tc.version+`}}`)
				if got.code() != tc.want {
					t.Errorf("%s: got %+v, want %q", method, got, tc.want)
				}
				if tc.want != "" && (len(got.data().Violations) != 1 || got.data().Violations[0].Path != "/params/version") {
					t.Errorf("%s: violations %+v, want one at /params/version", method, got.data().Violations)
				}
			}
		})
	}
}

// Only JSON-RPC has params to be pointed into.
func TestViolationsPointIntoWhatTheCallerWrote(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	unknown := b.Handle(t.Context(), toolCall(b, "lab.ecko", `{}`))
	wrong := toolCall(b, "lab.echo", `{}`)
	wrong.Version = "^9"
	version := b.Handle(t.Context(), wrong)
	for want, resp := range map[string]*bridge.Response{"/tool_name": unknown, "/version": version} {
		if codeOf(resp) != errmap.ToolNotFound || len(resp.Err.Violations) != 1 || resp.Err.Violations[0].Path != want {
			t.Errorf("got %v %+v, want TOOL_NOT_FOUND at %s", resp.Err, resp.Err.Violations, want)
		}
	}
	for want, params := range map[string]string{
		"/params/name":      `{"name":"lab.ecko"}`,
		"/params/tool_name": `{"tool_name":"lab.ecko","arguments":{}}`,
	} {
		got := answer(t, b, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":`+params+`}`)
		if v := got.data().Violations; len(v) != 1 || v[0].Path != want || !strings.Contains(v[0].Message, "lab.echo") {
			t.Errorf("got %+v, want the nearest name at %s", v, want)
		}
	}
}

// hiding is a catalog in which lab.echo is there and not shown.
func hiding(t *testing.T) *catalog.Live {
	t.Helper()
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{Build: catalog.BuildOptions{
		Overlay: []catalog.Override{{Match: "*/Echo", Options: &configv1.ToolOptions{Hidden: proto.Bool(true)}}},
	}})
	if err := live.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return live
}

func TestAHiddenToolIsAnUnknownOne(t *testing.T) {
	t.Parallel()
	b := dialect.New(bridge.New(hiding(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"NAME"}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"NAME"}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"NAME","arguments":{}}}`,
	} {
		hidden := b.HandleMessage(t.Context(), inbound(t, 1, dialect.Canonical, strings.Replace(raw, "NAME", "lab.echo", 1)))
		unknown := b.HandleMessage(t.Context(), inbound(t, 1, dialect.Canonical, strings.Replace(raw, "NAME", "lab.ecko", 1)))
		if got := decode(t, hidden); got.code() != errmap.ToolNotFound {
			t.Errorf("got %s", hidden.Bytes())
		}
		if want := strings.ReplaceAll(string(unknown.Bytes()), "lab.ecko", "lab.echo"); string(hidden.Bytes()) != want {
			t.Errorf("a hidden tool can be told from an unknown one:\n%s\n%s", hidden.Bytes(), want)
		}
	}
	resp := b.Handle(t.Context(), &bridge.Request{Op: bridge.OpCall, Procedure: "/outrigger.demo.v1.Lab/Echo"})
	if codeOf(resp) != errmap.ToolNotFound {
		t.Errorf("by procedure: %v", resp.Err)
	}
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
		list := answer(t, b, d, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`)
		for _, tool := range list.Result.Tools {
			if strings.HasSuffix(tool.Name, "echo") {
				t.Errorf("%v lists %s", d, tool.Name)
			}
		}
	}
}

func TestTheMessageFormTakesCanonicalNamesOnly(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	for name, want := range map[string]errmap.Code{"lab.echo": "", "lab_echo": errmap.InvalidParams, "lab.ecko": errmap.ToolNotFound} {
		got := answer(t, b, dialect.Canonical,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"`+name+`","arguments":{}}}`)
		if got.code() != want {
			t.Errorf("%s: got %+v, want %q", name, got, want)
		}
	}
}

func TestToolsThatTakeAStreamAreListedAndCalled(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	for _, tool := range []string{"fleet.report_positions", "lab.relay"} {
		if !slices.ContainsFunc(b.Catalogs().Current().Tools(), func(t *catalog.Tool) bool { return t.Name == tool }) {
			t.Errorf("%s is not listed", tool)
		}
		for arguments, want := range map[string]errmap.Code{`{}`: errmap.InvalidToolInput, `{"items":[]}`: ""} {
			got := answer(t, b, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
			if got.code() != want {
				t.Errorf("%s %s: got %+v, want %q", tool, arguments, got, want)
			}
		}
	}
}

func TestAnOperationThatDoesNotExist(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	if resp := b.Handle(t.Context(), &bridge.Request{}); codeOf(resp) != errmap.MethodNotFound {
		t.Errorf("got %v", resp.Err)
	}
}

func TestToolJSONIsWhatToolsGetShows(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	tool, _ := b.Catalogs().Current().Lookup("lab.echo")
	var got struct {
		Result json.RawMessage `json:"result"`
	}
	reply := b.HandleMessage(t.Context(), inbound(t, 1, dialect.Canonical,
		`{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"lab_echo"}}`))
	if err := json.Unmarshal(reply.Bytes(), &got); err != nil || string(got.Result) != string(dialect.ToolJSON(tool)) {
		t.Errorf("%v: they differ:\n%s\n%s", err, got.Result, dialect.ToolJSON(tool))
	}
}
