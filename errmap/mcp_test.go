// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/anypb"
)

// The cases in which one code shows in more than one way.
func TestMCPCases(t *testing.T) {
	t.Parallel()
	call, other := About{ToolCall: true}, About{}
	tests := []struct {
		name  string
		e     *Error
		era   Era
		about About
		form  Form
		http  int
		code  int
	}{
		{"params", New(InvalidParams), Modern, call, ProtocolError, 200, -32602},
		{"params, _meta", New(InvalidParams, MissingMeta()), Modern, other, ProtocolError, 400, -32602},
		{"params, _meta, legacy", New(InvalidParams, MissingMeta()), Legacy, other, ProtocolError, 200, -32602},
		{"session gone", New(SessionNotFound), Legacy, other, ProtocolError, 404, -32600},
		{"no session id", New(SessionNotFound, NoSession()), Legacy, other, ProtocolError, 400, -32600},
		{"method", New(MethodNotFound), Modern, other, ProtocolError, 404, -32601},
		{"method, legacy", New(MethodNotFound), Legacy, other, ProtocolError, 200, -32601},
		{"input", New(InvalidToolInput), Modern, call, ToolResult, 200, -32602},
		{"tool", UnknownTool("x"), Modern, call, ProtocolError, 200, -32602},
		{"resource", UnknownResource("a:b"), Modern, other, ProtocolError, 200, -32602},
		{"resource, legacy", UnknownResource("a:b"), Legacy, other, ProtocolError, 200, -32002},
		{"capability", MissingCapability("x", nil), Modern, call, ProtocolError, 400, -32021},
		{"capability, legacy", MissingCapability("x", nil), Legacy, call, ToolResult, 200, -32600},
		{"permission", New(PermissionDenied), Modern, call, ToolResult, 200, -31007},
		{"permission, no call", New(PermissionDenied), Modern, other, ProtocolError, 403, -31007},
		{"scope", New(PermissionDenied, Challenge("Bearer")), Modern, call, ProtocolError, 403, -31007},
		{"scope, legacy", New(PermissionDenied, Challenge("Bearer")), Legacy, call, ProtocolError, 403, -31007},
		{"authentication", New(Unauthenticated), Legacy, call, ProtocolError, 401, -31006},
		{"rate", New(RateLimited), Modern, call, ToolResult, 200, -31009},
		{"rate, no call", New(RateLimited), Modern, other, ProtocolError, 429, -31009},
		{"unavailable", New(Unavailable), Legacy, call, ToolResult, 200, -31014},
		{"unavailable, no call", New(Unavailable), Legacy, other, ProtocolError, 503, -31014},
		{"payload", New(PayloadTooLarge), Modern, call, ProtocolError, 413, -31011},
		{"payload, legacy", New(PayloadTooLarge), Legacy, call, ProtocolError, 413, -32600},
		{"cancelled", New(Cancelled), Modern, call, Silent, 499, -31013},
		{"cancelled, no call", New(Cancelled), Legacy, other, Silent, 499, -31013},
		{"backend", New(ToolExecutionFailed, BackendCode("not_found")), Modern, call, ToolResult, 200, -31019},
		{"backend, no call", New(ToolExecutionFailed, BackendCode("not_found")), Modern, other, ProtocolError, 200, -31019},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := tt.e.MCP(tt.era, tt.about)
			if r.Form != tt.form || r.HTTPStatus != tt.http || r.Code != tt.code {
				t.Errorf("%v %d %d, want %v %d %d", r.Form, r.HTTPStatus, r.Code, tt.form, tt.http, tt.code)
			}
		})
	}
}

func TestMCPData(t *testing.T) {
	t.Parallel()
	head := func(code, kind string) string {
		return `{"code":"` + code + `","errorType":"` + kind + `","retryable":false,"requestId":null`
	}
	caps := &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}}
	tests := []struct {
		name    string
		e       *Error
		era     Era
		message string
		data    string
	}{
		{"version", UnsupportedVersion("2027-03-01", []string{"2026-07-28", "2025-11-25"}), Modern,
			"Unsupported protocol version", `{"supported":["2026-07-28","2025-11-25"],"requested":"2027-03-01"}`},
		{"version, none known", UnsupportedVersion("", nil), Modern, "Unsupported protocol version", `{"supported":[],"requested":""}`},
		{"version, legacy", UnsupportedVersion("x", []string{"y"}), Legacy, "Unsupported protocol version",
			head("UNSUPPORTED_PROTOCOL_VERSION", "ValidationError") + `,"supported":["y"],"requested":"x"}`},
		{"capability", MissingCapability("", caps), Modern, "Missing required client capability",
			`{"requiredCapabilities":{"elicitation":{"form":{}}}}`},
		{"every capability", MissingCapability("", &outriggerv1.ClientCapabilities{
			Elicitation: &outriggerv1.ElicitationCapability{Form: true, Url: true}, Roots: new(outriggerv1.RootsCapability),
			Sampling: &outriggerv1.SamplingCapability{Tools: true, Context: true}, Tasks: true,
		}), Modern, "Missing required client capability", `{"requiredCapabilities":{"elicitation":{"form":{},"url":{}},` +
			`"sampling":{"tools":{},"context":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`},
		{"sampling alone", MissingCapability("", &outriggerv1.ClientCapabilities{Sampling: new(outriggerv1.SamplingCapability)}), Modern,
			"Missing required client capability", `{"requiredCapabilities":{"sampling":{}}}`},
		{"no capability", MissingCapability("", nil), Modern, "Missing required client capability", `{"requiredCapabilities":{}}`},
		{"settings that are no JSON", MissingCapability("", &outriggerv1.ClientCapabilities{
			ExtensionsForm: &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: []byte(`{"a"`)},
		}), Modern, "Missing required client capability", `{"requiredCapabilities":{}}`},
		{"capability, legacy", MissingCapability("", caps), Legacy, "Missing required client capability",
			head("MISSING_CLIENT_CAPABILITY", "ValidationError") + `,"requiredCapabilities":{"elicitation":{"form":{}}}}`},
		{"resource", UnknownResource(`file:///a"b`), Modern, "Resource not found",
			head("RESOURCE_NOT_FOUND", "ResourceNotFound") + `,"uri":"file:///a\"b"}`},
		{"tool", UnknownTool("shop.gett", "shop.get", "shop.set"), Modern, "Unknown tool: shop.gett",
			head("TOOL_NOT_FOUND", "ToolNotFoundError") + `,"tool":"shop.gett","nearest":["shop.get","shop.set"]}`},
		{"tool, nothing near", UnknownTool("x"), Legacy, "Unknown tool: x",
			head("TOOL_NOT_FOUND", "ToolNotFoundError") + `,"tool":"x"}`},
		{"tool of several lines", UnknownTool("a\nb\x1b"), Modern, "Unknown tool: a b",
			head("TOOL_NOT_FOUND", "ToolNotFoundError") + `,"tool":"a b"}`},
		{"header", New(HeaderMismatch, Message("Header mismatch: Mcp-Name is 'a', body has 'b'")), Modern,
			"Header mismatch: Mcp-Name is 'a', body has 'b'", head("HEADER_MISMATCH", "ValidationError") + `}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := tt.e.MCP(tt.era, About{})
			if r.Message != tt.message {
				t.Errorf("message %q, want %q", r.Message, tt.message)
			}
			if diff := cmp.Diff(tt.data, string(r.Data)); diff != "" {
				t.Errorf("data, -want +got:\n%s", diff)
			}
		})
	}
}

// What a model reads: what went wrong, where, and what to do next.
func TestModelText(t *testing.T) {
	t.Parallel()
	bad := mustAny(t, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "items[0].count", Description: "must be positive"},
	}})
	many := make([]Violation, maxTextViolations+3)
	for i := range many {
		many[i] = Violation{Path: "/x", Message: "is wrong"}
	}
	tests := []struct {
		name       string
		e          *Error
		idempotent bool
		want       string
	}{
		{"input", InvalidInput("shop.add", true, Violation{"/count", "minimum", "must be at least 1"}, Violation{"", "required", "lacks id"}), false,
			"Invalid tool input (shop.add)\n- /count: must be at least 1\n- lacks id\nCorrect the arguments and call again."},
		{"input with a message", New(InvalidToolInput, Tool("a"), Message("arguments is a string")), false,
			"Invalid tool input (a): arguments is a string\nCorrect the arguments and call again."},
		{"more faults than help", InvalidInput("", true, many...), false,
			"Invalid tool input" + strings.Repeat("\n- /x: is wrong", maxTextViolations) + "\n- and 3 more\nCorrect the arguments and call again."},
		{"timeout", New(Timeout, Tool("a")), false,
			"Tool execution timed out (a)\nThe tool may or may not have run. Check before you call it again."},
		{"timeout, idempotent", New(Timeout, Tool("a")), true, "Tool execution timed out (a)\nThe same call may be retried."},
		{"rate", New(RateLimited, RetryAfter(2500*time.Millisecond)), false, "Rate limit exceeded\nTry again in 3 s."},
		{"backend", New(ToolExecutionFailed, BackendCode("not_found"), Tool("a"), Message("no order 7")), false, "a: no order 7"},
		{"backend without a message", New(ToolExecutionFailed, BackendCode("internal"), Tool("a")), false, "Tool execution failed (a)"},
		{"backend's fields", New(ToolExecutionFailed, BackendCode("invalid_argument"), Message("bad order"), Details(bad)), false,
			"bad order\n- items[0].count: must be positive"},
		{"fields by their names in the .proto file", &Error{
			Code: ToolExecutionFailed, BackendCode: "invalid_argument", Tool: "a", Document: (&demov1.PlaceOrderRequest{}).ProtoReflect().Descriptor(),
			Message: "weight_kg, `stop_id`, weight_kg and not_a_field: weight_kgs, the customer of an_hand_to, value_cents for valueCents",
			Details: []*anypb.Any{mustAny(t, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
				{Field: "parcels[0].weight_kg", Description: "weight_kg is too much"}, {Field: "customer", Description: "unknown"},
			}})},
		}, false, "a: weight_kg (argument weightKg), `stop_id` (argument stopId), weight_kg and not_a_field: weight_kgs, the customer of an_hand_to, value_cents for valueCents\n" +
			"- parcels[0].weight_kg (argument parcels[0].weightKg): weight_kg (argument weightKg) is too much\n- customer: unknown"},
		{"own advice", New(DestructiveBlocked, Tool("a"), Advice("Ask for trust.")), false, "Destructive tool blocked (a)\nAsk for trust."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := tt.e.MCP(Modern, About{ToolCall: true, Idempotent: tt.idempotent})
			if diff := cmp.Diff(tt.want, r.Text); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if legacy := tt.e.MCP(Legacy, About{ToolCall: true, Idempotent: tt.idempotent}); legacy.Text != r.Text {
				t.Errorf("legacy reads %q", legacy.Text)
			}
			if string(r.Data) != string(tt.e.Data(About{Idempotent: tt.idempotent})) {
				t.Errorf("_meta holds %s", r.Data)
			}
		})
	}
}
