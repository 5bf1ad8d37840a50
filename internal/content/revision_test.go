// SPDX-License-Identifier: Apache-2.0

package content

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

func TestRevisions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]Revision{
		"2026-07-28": Rev20260728, "2025-11-25": Rev20251125, "2025-06-18": rev20250618, "2025-03-26": Rev20250326,
	} {
		if got, ok := ParseRevision(version); !ok || got != want || got.String() != version {
			t.Errorf("%s is %v, %v", version, got, ok)
		}
	}
	for _, version := range []string{"", "2024-11-05", "2026-07-29", "2025-11-25 "} {
		if got, ok := ParseRevision(version); ok {
			t.Errorf("%q is %v", version, got)
		}
	}
	if got := Revision(200).String(); got != "of an unknown revision" {
		t.Errorf("another revision is called %q", got)
	}
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	const most = `elicitation { form: true url: true } sampling { tools: true context: true } roots { list_changed: true } tasks: true extensions_json: '{"io.modelcontextprotocol/tasks":{}}'`
	const rest = `roots { list_changed: true } extensions_json: '{"io.modelcontextprotocol/tasks":{}}'`
	for _, c := range []struct {
		name, text, want string
		rev              Revision
	}{
		{"everything", most, most, Rev20260728},
		{"everything", most, rest + `elicitation { form: true url: true } sampling { tools: true context: true }`, Rev20251125},
		{"everything", most, rest + `elicitation { form: true } sampling {}`, rev20250618},
		{"everything", most, rest + `sampling {}`, Rev20250326},
		{"url", `elicitation { url: true }`, `elicitation { form: true }`, rev20250618},
		{"nothing", ``, ``, Rev20250326},
	} {
		given := parse(t, new(outriggerv1.ClientCapabilities), c.text)
		before := proto.CloneOf(given)
		got := c.rev.Narrow(given)
		if diff := cmp.Diff(parse(t, new(outriggerv1.ClientCapabilities), c.want), got, protocmp.Transform()); diff != "" {
			t.Errorf("%s in %s, -want +got:\n%s", c.name, c.rev, diff)
		}
		if !proto.Equal(given, before) {
			t.Errorf("%s in %s: the argument changed", c.name, c.rev)
		}
	}
	if got := Rev20250326.Narrow(nil); got != nil {
		t.Errorf("no declaration became %v", got)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	const tools = `sampling { messages { role: ROLE_USER content { text {} } } max_tokens: 1 tools { name: "a" } }`
	const choice = `sampling { tool_choice {} }`
	const context = `sampling { include_context: "allServers" }`
	const none = `sampling { include_context: "none" }`
	for _, c := range []struct {
		name, has, question, want string
	}{
		{"form", ``, askForm, `elicitation { form: true }`},
		{"form, has it", `elicitation { form: true }`, askForm, ``},
		{"form, has the other", `elicitation { url: true }`, askForm, `elicitation { form: true }`},
		{"url", `elicitation { form: true }`, askURL, `elicitation { url: true }`},
		{"url, has it", `elicitation { url: true }`, askURL, ``},
		{"sampling", ``, askLeast, `sampling {}`},
		{"sampling, has it", `sampling {}`, askLeast, ``},
		{"sampling, no context", `sampling {}`, none, ``},
		{"tools", ``, tools, `sampling { tools: true }`},
		{"tools, has sampling", `sampling { context: true }`, tools, `sampling { tools: true }`},
		{"tools, has it", `sampling { tools: true }`, tools, ``},
		{"choice of tools", `sampling {}`, choice, `sampling { tools: true }`},
		{"tools in the conversation", `sampling {}`, `sampling { messages { content { text {} } content { tool_use {} } } }`, `sampling { tools: true }`},
		{"context", ``, context, `sampling { context: true }`},
		{"context, has tools", `sampling { tools: true }`, context, `sampling { context: true }`},
		{"context, has it", `sampling { context: true }`, context, ``},
		{"roots", `elicitation { form: true } sampling {}`, askRoots, `roots {}`},
		{"roots, has it", `roots {}`, askRoots, ``},
		{"no question", ``, ``, ``},
	} {
		var has *outriggerv1.ClientCapabilities
		if c.has != "" {
			has = parse(t, new(outriggerv1.ClientCapabilities), c.has)
		}
		got := missing(has, parse(t, new(outriggerv1.InputRequest), c.question))
		checkMissing(t, c.name, got, c.want)
	}
}

func checkMissing(t *testing.T, name string, got *outriggerv1.ClientCapabilities, want string) {
	t.Helper()
	if want == "" {
		if got != nil {
			t.Errorf("%s: %v is missing", name, got)
		}
		return
	}
	if diff := cmp.Diff(parse(t, new(outriggerv1.ClientCapabilities), want), got, protocmp.Transform()); diff != "" {
		t.Errorf("%s, -want +got:\n%s", name, diff)
	}
}

func TestMissingAny(t *testing.T) {
	t.Parallel()
	const all = `input_requests { key: "a" value { ` + askForm + ` } } input_requests { key: "b" value { ` + askURL + ` } } input_requests { key: "c" value { ` + askMost + ` } }
		input_requests { key: "d" value { ` + askTools + ` } } input_requests { key: "e" value { ` + askRoots + ` } } input_requests { key: "f" value {} }`
	for _, c := range []struct{ name, has, questions, want string }{
		{"nothing asked", ``, ``, ``},
		{"everything", ``, all, `elicitation { form: true url: true } sampling { tools: true context: true } roots {}`},
		{"some", `elicitation { form: true } sampling { tools: true }`, all, `elicitation { url: true } sampling { context: true } roots {}`},
		{"none", `elicitation { form: true url: true } sampling { tools: true context: true } roots {}`, all, ``},
	} {
		for range 20 { // maps have no order
			has := parse(t, new(outriggerv1.ClientCapabilities), c.has)
			got := MissingAny(has, parse(t, new(outriggerv1.InputRequired), c.questions).GetInputRequests())
			checkMissing(t, c.name, got, c.want)
		}
	}
}
