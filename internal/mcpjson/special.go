// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// special appends a member that is MCP's own, or another one in each revision.
func (w *writer) special(m *member, message, v reflect.Value) {
	switch m.kind {
	case kindToolName:
		t, _ := reflect.TypeAssert[*outriggerv1.Tool](message.Addr())
		name := t.GetMcpName()
		if name == "" {
			name = t.GetName()
		}
		w.text(m, name)
	case kindInputSchema, kindOutputSchema:
		w.toolSchema(m, v)
	case kindStructured:
		field, raw, message := m.forms(v)
		w.enter(field)
		data := w.freeForm(raw, message)
		w.leave()
		if data != nil {
			w.structured(data)
		}
	case kindConversation:
		s, _ := reflect.TypeAssert[*outriggerv1.Sampling](message.Addr())
		w.conversation(m, s.GetMessages())
	case kindExtensions:
		c, _ := reflect.TypeAssert[*outriggerv1.ClientCapabilities](message.Addr())
		w.extensions(m, v, c.GetTasks())
	default: // what only clients send
	}
}
