// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// TestModernClient uses the Go SDK's client in front of the fixture, over HTTP
// and stdio. The SDK has no words for tasks; the suite and the TypeScript
// client see to those.
func TestModernClient(t *testing.T) {
	t.Parallel()
	everyTransport(t, caller.ModernVersion, map[string]func(*testing.T, *sdkClient){
		"no capabilities": modernPlain,
		"log level":       modernLogLevel,
		"resume": func(t *testing.T, _ *sdkClient) {
			absent(t, "MCP 2026-07-28 has no streams that can be resumed")
		},
		"end session": func(t *testing.T, _ *sdkClient) { absent(t, "MCP 2026-07-28 has no sessions") },
		"tasks":       modernTasks,
	})
}

// modernPlain is a client that can do nothing, and learns what it would need.
func modernPlain(t *testing.T, c *sdkClient) {
	plain := c.plain(t)
	for _, name := range []string{"test_missing_capability", "test_input_required_result_elicitation", "failing_job"} {
		_, err := plain.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		if code := wireCode(err); code != -32021 {
			t.Errorf("%s: %v, want code -32021", name, err)
		}
	}
}

// modernLogLevel asks for logs with every request: who does not ask gets none.
func modernLogLevel(t *testing.T, c *sdkClient) {
	s := c.open(t)
	s.text(t, "test_tool_with_logging", "{}")
	for _, level := range []string{"error", "info"} {
		params := &mcp.CallToolParams{Name: "test_tool_with_logging", Meta: mcp.Meta{mcp.MetaKeyLogLevel: level}} //nolint:staticcheck // deprecated and to be served
		if _, err := s.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	s.hasLogs(t)
}

// modernTasks finds a result that the SDK cannot read: a task's.
func modernTasks(t *testing.T, c *sdkClient) {
	caps := &mcp.ClientCapabilities{}
	caps.AddExtension("io.modelcontextprotocol/tasks", nil)
	s := c.dial(t, &mcp.ClientOptions{Capabilities: caps})
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "slow_compute", Arguments: map[string]any{"seconds": 0.01}})
	if err == nil && len(result.Content) > 0 {
		t.Fatalf("the SDK follows tasks now: %+v", result)
	}
	unsupported(t, "does not support the extension")
}
