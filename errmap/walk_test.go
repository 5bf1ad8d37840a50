// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"slices"
	"testing"
)

// Every code, in every era, in a call or not, shows as something whose numbers may be sent.
func TestWalkMCP(t *testing.T) {
	t.Parallel()
	standard := []int{rpcParse, rpcInvalidRequest, rpcMethodNotFound, rpcInvalidParams, rpcInternal}
	allowed := map[Era][]int{
		Modern: append([]int{rpcHeaderMismatch, rpcMissingCap, rpcUnsupportedProto}, standard...),
		Legacy: append([]int{rpcLegacyNoResource}, standard...),
	}
	for _, code := range Codes() {
		for _, era := range []Era{Modern, Legacy, 0} {
			for _, call := range []bool{true, false} {
				r := New(code).MCP(era, About{RequestID: json.RawMessage("7"), ToolCall: call})
				set := allowed[era]
				if era == 0 {
					set = allowed[Modern]
				}
				own := r.Code <= -31006 && r.Code >= -31019
				if !own && !slices.Contains(set, r.Code) {
					t.Errorf("%s era %d call %v: code %d may not be sent", code, era, call, r.Code)
				}
				if r.HTTPStatus < 200 || r.HTTPStatus > 599 || r.Message == "" || !json.Valid(r.Data) {
					t.Errorf("%s era %d call %v: incomplete reply %+v", code, era, call, r)
				}
				if !call && r.Form == ToolResult {
					t.Errorf("%s era %d: a tool result outside of a call", code, era)
				}
				if r.Form == ToolResult && (r.HTTPStatus != 200 || r.Text == "") {
					t.Errorf("%s era %d: tool result with status %d and text %q", code, era, r.HTTPStatus, r.Text)
				}
				if (r.Form == Silent) != (code == Cancelled) {
					t.Errorf("%s era %d: form %v", code, era, r.Form)
				}
			}
		}
	}
}

func TestRoundTripConnect(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		back := FromConnect(ToConnect(New(code), About{}))
		if back.Code != code {
			t.Errorf("%s came back as %s", code, back.Code)
		}
	}
}
