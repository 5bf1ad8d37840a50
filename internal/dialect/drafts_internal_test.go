// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// FuzzDrafts: whatever params have, a reader of a draft's members refuses them or keeps to their bounds.
func FuzzDrafts(f *testing.F) {
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-12-01"}`
	for _, seed := range []string{
		`{"name":"a","requestedOutputs":[{"audience":"assistant","format":"content"}]` + meta + `}`, `{"name":"a"` + meta + `}`,
		`{"name":"a","requestedOutputs":null` + meta + `}`, `{"name":"a","requestedOutputs":[]}`, `{"name":"a","requestedOutputs":[[],{"audience":1}]` + meta + `}`,
		`{"names":["a","b"]}`, `{"names":[]}`, `{"names":[[]]}`, `{"names":7}`, `{}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, params string) {
		message := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":`+params+`}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
		if message.Fault != nil {
			return // it never gets here
		}
		fresh := func(op bridge.Op) *exchange {
			return &exchange{
				handler: &Handler{opts: Options{Variants: true, ToolManifest: true}}, in: &Inbound{Dialect: Modern, Message: &message}, req: &bridge.Request{Op: op},
			}
		}
		if call := fresh(bridge.OpCall); readMCPCall(call) == nil && call.draft != nil && (len(call.draft.outputs) == 0 || len(call.draft.outputs) > maxOutputs) {
			t.Errorf("%d outputs of %s", len(call.draft.outputs), params)
		}
		if call := fresh(bridge.OpList); readDescribe(call) == nil && (len(call.draft.names) == 0 || len(call.draft.names) > maxDescribed) {
			t.Errorf("%d names of %s", len(call.draft.names), params)
		}
	})
}

// TestBlocksForTheirAudience: a content output has the blocks that are for its audience, and that of the assistant is never empty.
func TestBlocksForTheirAudience(t *testing.T) {
	t.Parallel()
	const all, model, user, both = `{"type":"text","text":"a"}`, `{"text":"m","annotations":{"audience":["assistant"]}}`, `{"text":"u","annotations":{"audience":["user"]}}`,
		`{"text":"b","annotations":{"priority":1,"audience":["user","assistant"]}}`
	for _, tt := range []struct{ blocks, assistant, user string }{
		{all, all, all},
		{all + "," + model + "," + user + "," + both, all + "," + model + "," + both, all + "," + user + "," + both},
		{user, user, user},
		{model, model, ""},
		{`{"annotations":{"audience":[]}}`, `{"annotations":{"audience":[]}}`, `{"annotations":{"audience":[]}}`},
		{"", "", ""},
	} {
		for audience, want := range map[string]string{"assistant": tt.assistant, "user": tt.user} {
			if got := string(appendBlocks([]byte("x"), []byte("["+tt.blocks+"]"), audience)); got != "x["+want+"]" {
				t.Errorf("%s of [%s]: %s", audience, tt.blocks, got)
			}
		}
	}
}
