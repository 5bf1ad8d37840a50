// SPDX-License-Identifier: Apache-2.0

package errmap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// Details have what a program had run, up to a bound, and not what a stream had sent.
func TestDetailsSayWhatAProgramHadRun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, is, partial string
		want              bool
	}{
		{"a program", "These calls had run", `{"ran":[]}`, true},
		{"a stream", "", `{"items":[]}`, false},
		{"too much", "These calls had run", `{"ran":["` + strings.Repeat("x", 4096) + `"]}`, false},
	} {
		err := errmap.New(errmap.ResourceExhausted)
		err.Partial, err.PartialIs = []byte(tc.partial), tc.is
		got := string(err.Detail(errmap.About{}).GetErrorDetailsJson())
		if strings.HasSuffix(got, `,"partial":`+tc.partial+`}`) != tc.want || !tc.want && strings.Contains(got, "partial") {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}

// The error of a call of a program has the code and the words of the tool's error on every edge, with the tool and its place.
func TestTheErrorOfACallOfAProgram(t *testing.T) {
	t.Parallel()
	for _, code := range errmap.Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			row, err := errmap.Lookup(code)
			if err != nil {
				t.Fatal(err)
			}
			called := errmap.New(code, errmap.WithViolations(errmap.Violation{Path: "/orderId", Keyword: "type", Message: "want a number"}))
			placed := called.InProgram("fleet.get_order", 3, 9)
			if called.Line != 0 || called.Violations[0].Message != "want a number" {
				t.Error("the error of the call was changed")
			}
			about := errmap.About{ToolCall: true}
			const place, tool = "line 3, column 9", "fleet.get_order"
			texts := map[string]string{
				"Connect": errmap.ToConnect(placed, about).Message(), "ToolResult": fmt.Sprint(placed.Detail(about)), "models": placed.ModelText(about), "data": string(placed.Data(about)),
			}
			for era, reply := range map[string]errmap.Reply{"modern": placed.MCP(errmap.Modern, about), "legacy": placed.MCP(errmap.Legacy, about)} {
				if texts[era] = reply.Text; reply.Form != errmap.ToolResult {
					texts[era] = reply.Message
				}
				if plain := called.MCP(errmap.Modern, about); era == "modern" && (reply.Code != plain.Code || reply.HTTPStatus != plain.HTTPStatus) {
					t.Errorf("the code is %d, that of the call %d", reply.Code, plain.Code)
				}
			}
			canonical := placed.JSONRPC(about)
			if texts["/rpc"] = canonical.Message + string(canonical.Data); row.Fixed && canonical.Message != row.Message {
				t.Errorf("the fixed message is %q", canonical.Message)
			}
			for edge, text := range texts {
				if !strings.Contains(text, place) || !strings.Contains(text, tool) {
					t.Errorf("%s: %s", edge, text)
				}
				if edge != "data" && !strings.Contains(text, row.Message) {
					t.Errorf("%s has no %q: %s", edge, row.Message, text)
				}
				if edge != "Connect" && code != errmap.InternalError && !strings.Contains(text, "want a number") && !strings.Contains(text, "orderId") {
					t.Errorf("%s has no argument: %s", edge, text)
				}
			}
		})
	}
}
