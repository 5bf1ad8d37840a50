// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
)

// TestLargeIDsAreEchoed sends ids that a double cannot hold, and pairs of ids
// that a careless comparison would take for one.
func TestLargeIDsAreEchoed(t *testing.T) {
	t.Parallel()
	demo := peer.Demo(t)
	args := []string{"--backend", demo.URL, "--canonical-ids", "any"}
	server := serve(t, args...)
	ids := []string{
		"9223372036854775807", "-9223372036854775808", "9007199254740993", "18446744073709551615",
		"0", "7", `"7"`, `""`, `"9223372036854775807"`, `"a \"quoted\" id, 100 \u20ac"`,
	}
	for _, edge := range caller.Edges() {
		if edge.IDs == caller.NoIDs {
			continue
		}
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			agent := edge.Dial(t, target(server, args...))
			defer agent.Close()
			calls := make([]caller.Call, len(ids))
			for i, id := range ids {
				nonce, _ := json.Marshal(map[string]string{"nonce": "for " + id})
				calls[i] = caller.Call{ID: wireID(edge, id), Tool: toolEcho, Args: string(nonce)}
			}
			for i, answer := range agent.CallAll(t.Context(), calls) {
				var got struct{ Nonce string }
				if answer.Err != nil || answer.Fault != nil || json.Unmarshal(answer.Data, &got) != nil {
					t.Errorf("%s: %v %v", ids[i], answer.Err, answer.Fault)
				} else if answer.ID != calls[i].ID || got.Nonce != "for "+ids[i] {
					t.Errorf("sent %s, got the answer %q to %s", ids[i], got.Nonce, answer.ID)
				}
			}
		})
	}
}

// wireID is the id as the edge sends it back. A stream of Protobuf envelopes
// keeps the value of a string, not its escapes.
func wireID(edge caller.Edge, id string) string {
	var text string
	if !strings.HasPrefix(edge.Name, "exchange") || json.Unmarshal([]byte(id), &text) != nil {
		return id
	}
	plain, _ := json.Marshal(text)
	return string(plain)
}

// TestUint64Survives sends the largest uint64 and the smallest int64 over every
// edge, as JSON strings and as JSON numbers.
func TestUint64Survives(t *testing.T) {
	t.Parallel()
	demo := peer.Demo(t)
	server := serve(t, "--backend", demo.URL)
	forms := map[string]string{
		"string": `{"unsigned":"18446744073709551615","signed":"-9223372036854775808"}`,
		"number": `{"unsigned":18446744073709551615,"signed":-9223372036854775808}`,
	}
	for _, edge := range caller.Edges() {
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			agent := edge.Dial(t, target(server, "--backend", demo.URL))
			defer agent.Close()
			for form, args := range forms {
				answer := caller.One(t.Context(), agent, caller.Call{ID: `"u"`, Tool: toolEcho, Procedure: procEcho, Args: args})
				var got echoed
				switch {
				case answer.Err != nil || answer.Fault != nil:
					t.Errorf("as %s: %v; %v", form, answer.Err, answer.Fault)
				case json.Unmarshal(answer.Data, &got) != nil:
					t.Errorf("as %s: %s", form, answer.Data)
				case got.Unsigned != "18446744073709551615" || got.Signed != "-9223372036854775808":
					t.Errorf("as %s: came back as %s", form, answer.Data)
				}
			}
		})
	}
}
