// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strings"
	"testing"
)

// Whatever form an error has in an era of MCP, its text names what is wrong, because a client may show a model the text alone. In the
// canonical dialect the contract fixes the message of a JSON-RPC error; its results have the same text.
func TestViolationsAreInTheText(t *testing.T) {
	t.Parallel()
	violations := []Violation{
		{Path: "/a/0", Keyword: "minimum", Message: "must be at least 1"},
		{Keyword: "required", Message: "lacks id"},
	}
	for _, code := range Codes() {
		if code == InternalError {
			continue // says nothing of the inside
		}
		for _, e := range []*Error{
			New(code, WithViolations(violations...)), New(code, Message("own words"), Tool("shop.add"), WithViolations(violations...)),
		} {
			texts := map[string]string{"text": e.ModelText(About{})}
			for name, era := range map[string]Era{"modern": Modern, "legacy": Legacy} {
				for _, isCall := range []bool{true, false} {
					switch r := e.MCP(era, About{ToolCall: isCall}); r.Form {
					case ToolResult:
						texts[name+", result"] = r.Text
					case ProtocolError:
						texts[name+", error"] = r.Message
					case Silent:
					}
				}
			}
			for name, text := range texts {
				if !strings.Contains(text, "/a/0: must be at least 1") || !strings.Contains(text, "lacks id") {
					t.Errorf("%s, %s: %q", code, name, text)
				}
			}
		}
	}
	many := make([]Violation, maxMessageViolations+3)
	for i := range many {
		many[i] = Violation{Message: "is wrong"}
	}
	if got := New(InvalidParams, WithViolations(many...)).MCP(Modern, About{}).Message; got != "Invalid params"+": is wrong"+strings.Repeat("; is wrong", maxMessageViolations-1)+"; and 3 more" {
		t.Errorf("got %q", got)
	}
	if got := New(InvalidParams, Message("Invalid params: is wrong"), WithViolations(many...)).MCP(Modern, About{}).Message; got != "Invalid params: is wrong" {
		t.Errorf("said twice: %q", got)
	}
}
