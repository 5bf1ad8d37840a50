// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestVersionsThatACallerTakes(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
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
				got := answer(t, b, mcptest.Canonical,
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
	b := fake(t, mcptest.Echo, nil)
	unknown := b.Handle(t.Context(), toolCall(b, "lab.ecko", `{}`))
	wrong := toolCall(b, "lab.echo", `{}`)
	wrong.Version = "^9"
	version := b.Handle(t.Context(), wrong)
	for want, resp := range map[string]*mcptest.Outcome{"/tool_name": unknown, "/version": version} {
		if codeOf(resp) != errmap.ToolNotFound || len(resp.Err.Violations) != 1 || resp.Err.Violations[0].Path != want {
			t.Errorf("got %v %+v, want TOOL_NOT_FOUND at %s", resp.Err, resp.Err.Violations, want)
		}
	}
	for want, params := range map[string]string{
		"/params/name":      `{"name":"lab.ecko"}`,
		"/params/tool_name": `{"tool_name":"lab.ecko","arguments":{}}`,
	} {
		got := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":`+params+`}`)
		if v := got.data().Violations; len(v) != 1 || v[0].Path != want || !strings.Contains(v[0].Message, "lab.echo") {
			t.Errorf("got %+v, want the nearest name at %s", v, want)
		}
	}
}

func TestAHiddenToolIsAnUnknownOne(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{
		From: mcptest.Source(), Backend: mcptest.Upstream(mcptest.Echo), Configure: overlaid("*/Echo", &configv1.ToolOptions{Hidden: proto.Bool(true)}),
	})
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"NAME"}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"NAME"}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"NAME","arguments":{}}}`,
	} {
		hidden := b.Send(t.Context(), inbound(1, mcptest.Canonical, strings.Replace(raw, "NAME", "lab.echo", 1)))
		unknown := b.Send(t.Context(), inbound(1, mcptest.Canonical, strings.Replace(raw, "NAME", "lab.ecko", 1)))
		if got := decode(t, hidden); got.code() != errmap.ToolNotFound {
			t.Errorf("got %s", hidden.Bytes())
		}
		if want := strings.ReplaceAll(string(unknown.Bytes()), "lab.ecko", "lab.echo"); string(hidden.Bytes()) != want {
			t.Errorf("a hidden tool can be told from an unknown one:\n%s\n%s", hidden.Bytes(), want)
		}
	}
	resp := b.Handle(t.Context(), &mcptest.Call{Procedure: "/outrigger.demo.v1.Lab/Echo"})
	if codeOf(resp) != errmap.ToolNotFound {
		t.Errorf("by procedure: %v", resp.Err)
	}
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
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
	b := fake(t, mcptest.Echo, nil)
	for name, want := range map[string]errmap.Code{"lab.echo": "", "lab_echo": errmap.InvalidParams, "lab.ecko": errmap.ToolNotFound} {
		got := answer(t, b, mcptest.Canonical,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"`+name+`","arguments":{}}}`)
		if got.code() != want {
			t.Errorf("%s: got %+v, want %q", name, got, want)
		}
	}
}

func TestToolsThatTakeAStreamAreListedAndCalled(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	for _, tool := range []string{"fleet.report_positions", "lab.relay"} {
		if !slices.Contains(b.ToolsFor(t.Context()), tool) {
			t.Errorf("%s is not listed", tool)
		}
		for arguments, want := range map[string]errmap.Code{`{}`: errmap.InvalidToolInput, `{"items":[]}`: ""} {
			got := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
			if got.code() != want {
				t.Errorf("%s %s: got %+v, want %q", tool, arguments, got, want)
			}
		}
	}
}

func TestAnOperationThatDoesNotExist(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	if resp := b.Handle(t.Context(), &mcptest.Call{Question: &outriggerv1.Notification{}}); codeOf(resp) != errmap.MethodNotFound {
		t.Errorf("got %v", resp.Err)
	}
}

// suffixed is a catalog of schema.read and schema.drop, which SchemaService has.
func suffixed() *descriptorpb.FileDescriptorSet {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("SchemaService")}},
	}
	for _, name := range []string{"Read", "Drop"} {
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".a.v1.M"), OutputType: proto.String(".a.v1.M"),
		})
	}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}
}

// TestTheNameWithTheServiceSuffixIsUnderstood in every dialect, in both forms and by grants.
func TestTheNameWithTheServiceSuffixIsUnderstood(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(suffixed()), Backend: mcptest.Upstream(mcptest.Echo)})
	for _, name := range []string{"schema.read", "schema_read", "schema_service.read", "schema_service_read"} {
		for _, pattern := range []string{"schema.read", "schema_service.read", "schema_service.*", "schema*"} {
			ctx := mcptest.As(t, outrigger.Grant{Name: "planner", Tools: []string{pattern}})
			for spoken, raw := range map[mcptest.Dialect]string{
				mcptest.Canonical: `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"NAME"}}`,
				mcptest.Modern:    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME",` + modernMeta + `}}`,
				mcptest.Legacy:    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME"}}`,
			} {
				reply := say(ctx, t, b, spoken, strings.Replace(raw, "NAME", name, 1))
				if !strings.Contains(string(reply.Bytes()), `"isError":false`) {
					t.Errorf("%v, %s for a caller of %s: %s", spoken, name, pattern, reply.Bytes())
				}
			}
		}
	}
	for name, want := range map[string]errmap.Code{"schema.read": "", "schema_service.read": "", "schema_service_read": errmap.InvalidParams} {
		got := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"`+name+`","arguments":{}}}`)
		if got.code() != want {
			t.Errorf("the message form with %s: %+v, want %q", name, got, want)
		}
	}
	// A grant of one tool by its old name is no grant of its neighbour.
	ctx := mcptest.As(t, outrigger.Grant{Name: "planner", Tools: []string{"schema_service.read"}})
	if got := codeOf(b.Handle(ctx, toolCall(b, "schema_service.drop", `{}`))); got != errmap.PermissionDenied {
		t.Errorf("the other tool: %q", got)
	}
}
