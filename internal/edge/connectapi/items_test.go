// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestAConversationOnExchange: items follow as notifications, and each answer is one before the result.
func TestAConversationOnExchange(t *testing.T) {
	t.Parallel()
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{}), p.options...)
			answer := func(want string) {
				t.Helper()
				e, err := s.Receive()
				if err != nil {
					t.Fatal(err)
				}
				if n := e.GetNotification(); n.GetMethod() != "notifications/item" || !strings.Contains(string(n.GetParamsJson()), want) {
					t.Errorf("got %v, want an item with %s", e, want)
				}
			}
			send(t, s, request(text("c"), "tools/call", `{"name":"lab.relay","arguments":{"items":[{"nonce":"one"}]},"_meta":{"dev.outrigger/items":true}}`))
			answer(`{"requestId":"c","item":{"nonce":"one"`)
			send(t, s, notification("notifications/items", `{"requestId":"c","items":[{"nonce":"two"}]}`))
			answer(`"two"`)
			send(t, s, notification("notifications/items", `{"requestId":"c","last":true}`))
			id, code, body := nextReply(t, s)
			if !sameID(id, text("c")) || code != "" || !strings.Contains(body, `"truncated":false`) || !strings.Contains(body, `"two"`) {
				t.Errorf("got %v %s %s", id, code, body)
			}
			// A half-close without the last item ends no input.
			send(t, s, request(text("d"), "tools/call", `{"name":"fleet.report_positions","_meta":{"dev.outrigger/items":true}}`))
			if err := s.CloseRequest(); err != nil {
				t.Fatal(err)
			}
			if id, code, body := nextReply(t, s); !sameID(id, text("d")) || code != "INVALID_PARAMS" {
				t.Errorf("after the half-close: %v %s %s", id, code, body)
			}
		})
	}
}
