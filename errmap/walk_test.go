// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Every code in every dialect, in a call or not, with everything set or nothing, shows as something that may be sent.
func TestWalk(t *testing.T) {
	t.Parallel()
	standard := []int{rpcParse, rpcInvalidRequest, rpcMethodNotFound, rpcInvalidParams, rpcInternal}
	allowed := map[Era][]int{
		Modern: append([]int{rpcHeaderMismatch, rpcMissingCap, rpcUnsupportedProto}, standard...),
		Legacy: append([]int{rpcLegacyNoResource}, standard...),
	}
	for _, number := range []int{-31005, -31006, -31007, -31008, -31009, -31010, -31011, -31012, -31013, -31014, -31015, -31016, -31017, -31018, -31019} {
		allowed[Modern] = append(allowed[Modern], number)
		allowed[Legacy] = append(allowed[Legacy], number)
	}
	full := func(code Code) *Error {
		return &Error{
			Code: code, Message: "m", Tool: "t", Violations: []Violation{{"/p", "k", "v"}}, Nearest: []string{"n"}, URI: "u:v",
			Requested: "r", Supported: []string{"s"}, RequiredCapabilities: new(outriggerv1.ClientCapabilities), Challenge: "Bearer",
			MissingMeta: true, NoSession: true, BackendCode: "aborted", RetryAfter: 1,
		}
	}
	for _, code := range Codes() {
		for kind, e := range map[string]*Error{"bare": New(code), "full": full(code)} {
			for _, about := range []About{{}, {ToolCall: true}, {RequestID: json.RawMessage(`"i"`), Idempotent: true}} {
				canonical := e.JSONRPC(about)
				where := fmt.Sprintf("%s, %s, %+v", code, kind, about)
				checkReply(t, where+", canonical", canonical)
				if canonical.Form != ProtocolError || canonical.Code > -32001 {
					t.Errorf("%s: canonical %v %d", where, canonical.Form, canonical.Code)
				}
				for _, era := range []Era{Modern, Legacy} {
					r := e.MCP(era, about)
					where := fmt.Sprintf("%s, era %d", where, era)
					checkReply(t, where, r)
					if !slices.Contains(allowed[era], r.Code) {
						t.Errorf("%s: the number %d may not be sent", where, r.Code)
					}
					if r.Form == ToolResult && (r.HTTPStatus != 200 || r.Text == "" || !about.ToolCall) {
						t.Errorf("%s: tool result with status %d and text %q", where, r.HTTPStatus, r.Text)
					}
					if (r.Form == Silent) != (code == Cancelled) {
						t.Errorf("%s: form %v", where, r.Form)
					}
					if era == Legacy && r.HTTPStatus == 404 && code != SessionNotFound {
						t.Errorf("%s: a 404 in a legacy session means that it is gone", where)
					}
				}
			}
		}
	}
}

func checkReply(t *testing.T, where string, r Reply) {
	t.Helper()
	if r.Code >= 0 || r.HTTPStatus < 200 || r.HTTPStatus > 599 || r.Message == "" || r.Form == 0 || r.Form.String() == "unknown form" {
		t.Errorf("%s: incomplete reply %+v", where, r)
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(r.Data, &data); err != nil || len(data) == 0 {
		t.Errorf("%s: data %s: %v", where, r.Data, err)
	}
}

// An era that is neither of the two gets the narrower numbers.
func TestUnknownEra(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		if a, b := New(code).MCP(0, About{}), New(code).MCP(Modern, About{}); a.Code != b.Code || a.HTTPStatus != b.HTTPStatus {
			t.Errorf("%s: %+v", code, a)
		}
	}
}
