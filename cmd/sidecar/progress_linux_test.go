// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestProgressOnATerminal: while a call runs, a person sees how far it is, in one line that is gone at the end, and nothing in a report
// moves the cursor elsewhere. A file gets the result alone.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	total := 2.0
	report := func(done float64, message string) *outriggerv1.ToolEvent {
		return &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{Progress: done, Total: &total, Message: message}}}
	}
	native := &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: &outriggerv1.Tool{Name: "report", Description: "Writes a report.", InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)}},
		Events:   []*outriggerv1.ToolEvent{report(0.5, "reads\x1b[2J the\nbooks"), report(2, "writes")},
		Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
			Status: "success", DataForm: &outriggerv1.ToolResult_DataJson{DataJson: []byte(`{"pages":9007199254740993}`)},
		}}},
	}}}
	base := mcptest.Start(t, mcptest.Options{Native: native, NoDemo: true}).Serve(t)
	for _, path := range []string{"", "/mcp"} {
		person, process := openTerminal(t)
		s := watch(person)
		var stdout bytes.Buffer
		if code := run(t.Context(), []string{"call", "report", "--server", base + path, "--output", "raw"}, strings.NewReader(""), &stdout, process, nil); code != exitOK {
			t.Errorf("%s: exit code %d", path, code)
		}
		fmt.Fprintln(process, "END")
		s.until(t, "END")
		seen := s.seen.String()
		if !strings.Contains(seen, "\r0.5/2 reads?[2J the books") || !strings.Contains(seen, "\r2/2 writes ") || !strings.HasSuffix(seen, " \rEND\n") || strings.ContainsRune(seen, '\x1b') {
			t.Errorf("%s: the person saw %q", path, seen)
		}
		if got := stdout.String(); got != `{"pages":9007199254740993}`+"\n" {
			t.Errorf("%s: the result is %q", path, got)
		}
	}
}
