// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// TestAnAgentWritesAProgram: an agent with a compact list searches, describes, and asks one question by a program: with a fault, which is
// found before any call, then for its plan, then for its result. docs/conversations.md has what they say. It is not parallel, because
// -update has other tests write that page.
func TestAnAgentWritesAProgram(t *testing.T) {
	const program = `delivered = fleet.find_orders(filter={"status": "ORDER_STATUS_DELIVERED"}).orders
proofs = parallel([fleet.get_delivery_proof(order_id=o.id) for o in delivered])
result = [{"order": o.id, "signed_by": p.signed_by, "bytes": len(p.image)} for o, p in zip(delivered, proofs)]
`
	s := sidecar.ServeReady(t, built.binary, "--demo", "--catalog-mode", "compact", "--tokens", callersFile(t, "fleet.*", "agent"))
	r := &talk{stable: strings.NewReplacer()}
	r.writes("`sidecar serve --demo --catalog-mode compact`; the agent is asked who signed for the orders that were delivered.", "", "")
	asks := func(tool, arguments string) string {
		_, answer := askMCP(t, s, "agent", "tools/call", tool, `"name":"`+tool+`","arguments":`+arguments+`,`, "")
		return answer
	}
	says := func(who, tool, arguments, root string, paths ...string) {
		r.answers(t, who, `tools/call {"name": "`+tool+`", "arguments": `+arguments+`}`, asks(tool, arguments), root, paths...)
	}
	says("Search", "catalog_search", `{"query": "proof of delivery", "limit": 2}`, "result structuredContent", "tools")
	says("Search", "catalog_search", `{"query": "find orders by status", "limit": 2}`, "result structuredContent", "tools")
	var described struct {
		Result struct{ StructuredContent struct{ Signatures string } }
	}
	const both = `{"names": ["fleet_find_orders", "fleet_get_delivery_proof"]}`
	if err := json.Unmarshal([]byte(asks("catalog_describe", both)), &described); err != nil || described.Result.StructuredContent.Signatures == "" {
		t.Fatalf("no signatures: %v", err)
	}
	r.writes("The signatures of both tools, as text: `tools/call {\"name\": \"catalog_describe\", \"arguments\": "+both+"}`", "python", described.Result.StructuredContent.Signatures)

	runs := func(who, text, more, root string, paths ...string) string {
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		answer := asks("catalog_run", `{"program":`+string(encoded)+more+`}`)
		r.answers(t, who, `tools/call {"name": "catalog_run", "arguments": {"program": PROGRAM`+more+`}}`, answer, root, paths...)
		return answer
	}
	wrong := strings.Replace(program, "p.signed_by", "p.signature", 1)
	r.writes("The program has a fault in its last line:", "python", wrong)
	if refused := runs("Run", wrong, "", "result", "isError", "content 0 text"); !strings.Contains(refused, "Nothing was called") {
		t.Errorf("the fault is found late: %s", refused)
	}
	r.writes("With `p.signed_by` in its place:", "python", program)
	runs("The plan", program, `, "dry_run": true`, "result structuredContent", "findings", "plan")
	if answer := runs("Run", program, "", "result structuredContent", "result", "ran"); !strings.Contains(answer, "Pearl farm") || strings.Contains(answer, "iVBOR") {
		t.Errorf("the answer has no name, or an image: %s", answer)
	}
	r.writes("Three calls ran. Neither the orders nor the images came to the agent.", "", "")
	r.compare(t, "TestAnAgentWritesAProgram")
}
