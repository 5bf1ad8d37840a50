// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// nativeTool is a tool of a native backend that answers with its arguments.
func nativeTool(description, input string) []mcptest.NativeTool {
	rows := manyTools([]string{"desk.note"})
	declared := mcptest.JSONTool("desk.note", description, input, `{"type":"object"}`)
	declared.Metadata = rows[0].Declared.GetMetadata()
	rows[0].Declared = declared
	return rows
}

// TestACallOfAToolThatHasChanged is refused with what changed, and reaches no backend; the same call without a digest, or with that of
// now, runs.
func TestACallOfAToolThatHasChanged(t *testing.T) {
	t.Parallel()
	const plain, more = `{"type":"object"}`, `{"type":"object","properties":{"text":{"type":"string"}}}`
	backend := &mcptest.Native{Tools: nativeTool("Notes.", plain)}
	rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true, Configure: func(c *configv1.Config) {
		c.Experimental = []string{"tool-digest"}
	}})
	url := rig.Serve(t)
	client := modernClient{t: t, bridge: rig}
	listed := func() string {
		var tools []struct {
			Meta map[string]struct{ Digest string } `json:"_meta"`
		}
		if err := json.Unmarshal(client.send("tools/list", "").Result["tools"], &tools); err != nil || len(tools) != 1 {
			t.Fatal(tools, err)
		}
		return tools[0].Meta["dev.outrigger/tool"].Digest
	}
	got := func() string {
		_, raw := send(t, mcptest.Client(t, 1), http.MethodPost, url+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"desk.note"}}`)
		var reply struct{ Result struct{ Digest string } }
		if err := json.Unmarshal(raw, &reply); err != nil {
			t.Fatal(err)
		}
		return reply.Result.Digest
	}
	ask := func(digest string) string {
		_, raw := send(t, mcptest.Client(t, 1), http.MethodPost, url+"/rpc",
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"desk.note","arguments":{},"_meta":{"dev.outrigger/digest":"`+digest+`"}}}`)
		return string(raw)
	}
	change := func(description, input string) {
		backend.SetTools(nativeTool(description, input))
		if err := rig.Live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := listed()
	if first == "" || first != got() {
		t.Fatalf("list %q, get %q", first, got())
	}
	if text := ask(first); !strings.Contains(text, `"result":`) {
		t.Errorf("the same: %s", text)
	}
	if text := ask("sha256:" + first); !strings.Contains(text, `"result":`) {
		t.Errorf("with its algorithm: %s", text)
	}
	for _, bad := range []string{"", "x", strings.ToUpper(first), first + "0"} {
		if text := ask(bad); !strings.Contains(text, `"keyword":"pattern"`) {
			t.Errorf("%q: %s", bad, text)
		}
	}
	change("Other notes.", more)
	second := listed()
	if second == first {
		t.Fatal("the digest is the same")
	}
	text := ask(first)
	for _, want := range []string{
		`"code":-32602`, `"code":"INVALID_PARAMS"`, "its digest is " + second + ", not " + first, "changed: description, inputSchema",
		`{"path":"/params/_meta/dev.outrigger~1digest","keyword":"digest","message":"dev.outrigger/digest: description has changed"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if text := ask(strings.Repeat("0", 64)); !strings.Contains(text, "what changed is not known here") {
		t.Errorf("never seen: %s", text)
	}
	if text := ask(second); !strings.Contains(text, `"result":`) {
		t.Errorf("the new one: %s", text)
	}
	// No client has called the tool while it was like that, and it is known all the same.
	change("Third notes.", more)
	third := listed()
	change("Third notes.", plain)
	if text := ask(third); !strings.Contains(text, "changed: inputSchema.") {
		t.Errorf("a tool that was replaced: %s", text)
	}
	for i := range 5 {
		change("Notes "+strings.Repeat("i", i), more)
	}
	if text := ask(first); !strings.Contains(text, "what changed is not known here") {
		t.Errorf("more than 4 ago: %s", text)
	}
}

// TestDigestsThroughCompactTools: what runs is the tool that catalog.call names, so the digest is of that.
func TestDigestsThroughCompactTools(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: &mcptest.Native{Tools: nativeTool("Notes.", `{"type":"object"}`)}, NoDemo: true, Configure: func(c *configv1.Config) {
		c.Experimental, c.Catalog.Mode = []string{"tool-digest"}, proto.String("compact")
	}})
	tool, ok := rig.Live.Current().Lookup("desk.note")
	if !ok {
		t.Fatal("no tool")
	}
	for digest, want := range map[string]string{tool.Digest(): `"isError":false`, strings.Repeat("1", 64): "tool desk.note has changed since its client read it"} {
		client := modernClient{t: t, bridge: rig, capabilities: `{},"dev.outrigger/digest":"` + digest + `"`}
		if got := client.send("tools/call", `"name":"catalog_call","arguments":{"name":"desk.note","arguments":{}}`).raw; !strings.Contains(got, want) {
			t.Errorf("%s: %s", digest, got)
		}
	}
}
