// SPDX-License-Identifier: Apache-2.0

package jsonrpc_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// TestIsText holds IsText to what Text decodes.
func TestIsText(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`""`, `"a"`, `"tools/call"`, `"tools\/call"`, `"\u0061"`, `"\ud83d\ude00"`, `"😀"`, `"\""`, `"\\"`, `1`, `null`, `{}`, `[]`, `"`, ``} {
		text, ok := jsontext.Text([]byte(raw))
		for _, want := range []string{"", "a", "b", "tools/call", "😀", `"`, `\`, `tools\/call`, `\u0061`} {
			if got := jsontext.IsText([]byte(raw), want); got != (ok && text == want) {
				t.Errorf("IsText(%s, %q) is %t, Text says %q, %t", raw, want, got, text, ok)
			}
		}
	}
}

// TestLoopsOverMembersStayOnTheStack guards what makes looking through a message
// cheap: a loop's body that changes what is around it is not moved to the heap.
func TestLoopsOverMembersStayOnTheStack(t *testing.T) {
	object, array := []byte(`{"a":1,"b":{"c":"d"},"e":[2]}`), []byte(`[1,"b",{}]`)
	message := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	for name, loop := range map[string]func() int{
		"Fields": func() (n int) {
			for field, value := range jsontext.Fields(object) {
				n += len(field) + len(value)
			}
			return n
		},
		"Elements": func() (n int) {
			for value := range jsontext.Elements(array) {
				n += len(value)
			}
			return n
		},
		"ParamFields": func() (n int) {
			for field, value := range message.ParamFields() {
				n += len(field) + len(value)
			}
			return n
		},
	} {
		if got := testing.AllocsPerRun(100, func() {
			if loop() == 0 {
				t.Errorf("%s: nothing was read", name)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
