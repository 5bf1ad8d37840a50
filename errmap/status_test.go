// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"testing"

	"connectrpc.com/connect"
)

func TestStatusForTelemetry(t *testing.T) {
	t.Parallel()
	call, other := About{ToolCall: true}, About{}
	for _, tc := range []struct {
		name  string
		err   *Error
		on    Protocol
		about About
		want  Status
	}{
		{"a fault of the sidecar", New(InternalError), CanonicalJSONRPC, call, Status{"-32603", "-32603"}},
		{"a code that is the caller's by the conventions", New(InvalidEnvelope), ModernMCP, other, Status{Code: "-32600"}},
		{"the code of the legacy era", New(ResourceNotFound), LegacyMCP, other, Status{Code: "-32002"}},
		{"a code of our own that blames the caller", New(RateLimited), CanonicalJSONRPC, call, Status{Code: "-32009"}},
		{"the same outside of a call", New(RateLimited), ModernMCP, other, Status{Code: "-31009"}},
		{"the same as a tool result", New(RateLimited), ModernMCP, call, Status{"-31009", "tool_error"}},
		{"a missing scope", New(PermissionDenied, Challenge("Bearer")), ModernMCP, call, Status{Code: "-31007"}},
		{"a timeout", New(Timeout), LegacyMCP, call, Status{"-31012", "tool_error"}},
		{"a timeout over gRPC", New(Timeout), ConnectRPC, other, Status{"DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"}},
		{"wrong input over gRPC", New(InvalidToolInput), ConnectRPC, other, Status{Code: "INVALID_ARGUMENT"}},
		{"cancelled", New(Cancelled), ConnectRPC, other, Status{Code: "CANCELLED"}},
		{"the backend's own", FromBackendStatus(connect.CodeNotFound, "", nil), ConnectRPC, other, Status{Code: "NOT_FOUND"}},
		{"the backend's own fault", FromBackendStatus(connect.CodeDataLoss, "", nil), ConnectRPC, other, Status{"DATA_LOSS", "DATA_LOSS"}},
		{"the backend's own as JSON-RPC", FromBackendStatus(connect.CodeNotFound, "", nil), CanonicalJSONRPC, call, Status{Code: "-32019"}},
		{"nothing", nil, CanonicalJSONRPC, other, Status{"-32603", "-32603"}},
	} {
		if got := tc.err.Status(tc.on, tc.about); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestStatusAgreesWithWhatIsShown holds the code of telemetry against the reply, for every row.
func TestStatusAgreesWithWhatIsShown(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		for _, about := range []About{{}, {ToolCall: true}} {
			e := New(code)
			for on, reply := range map[Protocol]Reply{CanonicalJSONRPC: e.JSONRPC(about), ModernMCP: e.MCP(Modern, about), LegacyMCP: e.MCP(Legacy, about)} {
				got := e.Status(on, about)
				if (got.Type == TypeToolError) != (reply.Form == ToolResult) || got.Type != "" && got.Type != TypeToolError && got.Type != got.Code {
					t.Errorf("%s on %d: %+v, shown as %s", code, on, got, reply.Form)
				}
			}
		}
	}
}
