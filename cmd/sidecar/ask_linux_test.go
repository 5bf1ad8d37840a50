// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// asking serves a tool that asks for a form, and answers with what the user said.
func asking(t *testing.T) (base string) {
	t.Helper()
	const form = `{"type":"object","properties":{
		"amount":{"type":"integer","minimum":1,"maximum":5,"description":"How many\u001b[2J boxes"},
		"reason":{"type":"string","oneOf":[{"const":"L","title":"Late"},{"const":"D","title":"Damaged"}],"default":"L"},
		"days":{"type":"array","items":{"type":"string","enum":["mon","tue"]}},
		"gift":{"type":"boolean"},"note":{"type":"string","maxLength":5}},"required":["amount","gift"]}`
	native := &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: &outriggerv1.Tool{Name: "order", Description: "Orders.", InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)}},
		Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			said := call.GetInputResponses()["q"].GetElicitation()
			if said == nil {
				return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{
					InputRequests: map[string]*outriggerv1.InputRequest{"q": mcptest.AskForm("Order what?\x1b[2J", form)},
				}}}, nil
			}
			data := said.GetContentJson()
			if len(data) == 0 {
				data = []byte(`{"action":"` + said.GetAction().String() + `"}`)
			}
			return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
				Status: "success", DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data},
			}}}, nil
		},
	}}}
	return mcptest.Start(t, mcptest.Options{Native: native, NoDemo: true}).Serve(t)
}

// TestQuestionsOnATerminal: the real binary asks a person field by field, again where a value does not fit, and sends what the schema
// allows, over each edge and in each era that has questions. Ctrl-D dismisses the question, Ctrl-C ends the call.
func TestQuestionsOnATerminal(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := asking(t)
	type step struct{ prompt, keys string }
	whole := []step{
		{"amount (integer, 1 to 5, required): ", "six\r"},
		{"want integer", "\r"},
		{"amount is required", "6\r"},
		{"amount (integer, 1 to 5, required): ", "5\r"},
		{"reason (one of L (Late), D (Damaged), default L): ", "damaged\r"},
		{"days (any of mon, tue, separated by commas): ", "tue, mon\r"},
		{"gift (yes or no, required): ", "maybe\r"},
		{"want yes or no", "y\r"},
		{"note (text, at most 5 characters): ", "\"\\\" x\r"},
		{"Send this? [y/N] ", "y\r"},
	}
	for name, tt := range map[string]struct {
		args   []string
		steps  []step
		code   int
		stdout string
	}{
		"ToolService": {[]string{base}, whole, 0, `{"amount":5,"reason":"D","days":["tue","mon"],"gift":true,"note":"\"\\\" x"}`},
		"2026-07-28":  {[]string{base + "/mcp"}, whole, 0, `{"amount":5,"reason":"D","days":["tue","mon"],"gift":true,"note":"\"\\\" x"}`},
		"2025-11-25":  {[]string{base + "/mcp", "--mcp-version", "2025-11-25"}, whole, 0, `{"amount":5,"reason":"D","days":["tue","mon"],"gift":true,"note":"\"\\\" x"}`},
		"2025-06-18":  {[]string{base + "/mcp", "--mcp-version", "2025-06-18"}, whole, 0, `{"amount":5,"reason":"D","days":["tue","mon"],"gift":true,"note":"\"\\\" x"}`},
		"declined": {[]string{base}, []step{
			{"amount (", "1\r"}, {"reason (", "\r"}, {"days (", "\r"}, {"gift (", "n\r"}, {"note (", "\r"}, {"Send this? [y/N] ", "\r"},
		}, 0, `{"action":"ELICITATION_ACTION_DECLINE"}`},
		"dismissed":     {[]string{base}, []step{{"amount (", "\x04"}}, 0, `{"action":"ELICITATION_ACTION_CANCEL"}`},
		"Ctrl-C":        {[]string{base}, []step{{"amount (", "\x03"}}, 35, ""},
		"Ctrl-C legacy": {[]string{base + "/mcp", "--mcp-version", "2025-11-25"}, []step{{"amount (", "\x03"}}, 35, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := openGlass(t, 100, 30)
			var stdout bytes.Buffer
			cmd := exec.CommandContext(t.Context(), exe, append([]string{"call", "order", "--output", "raw", "--server"}, tt.args...)...)
			cmd.Args[0] = "sidecar" // by which the test binary knows what to be
			cmd.Stdin, cmd.Stdout, cmd.Stderr = g.process, &stdout, g.process
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			testkit.Says(t, g, "Order what??[2J") // nothing in it moves the cursor
			for _, s := range tt.steps {
				testkit.Says(t, g, s.prompt)
				g.press(t, s.keys)
			}
			_ = cmd.Wait() // its code says what came of it
			if code, out := cmd.ProcessState.ExitCode(), strings.TrimSpace(stdout.String()); code != tt.code || out != tt.stdout {
				t.Errorf("exit code %d, want %d; result %s, want %s; the person saw %q", code, tt.code, out, tt.stdout, g)
			}
		})
	}
}

// TestAnswersWithoutATerminal: --answer answers, what does not fit is not sent, and each failure says what to pass.
func TestAnswersWithoutATerminal(t *testing.T) {
	t.Parallel()
	base := asking(t)
	consent := mcptest.Start(t, mcptest.Options{}).Again(t, func(c *configv1.Config) { c.Destructive = new("confirm") }).Serve(t)
	order, cancel := []string{"order"}, []string{"fleet.cancel_order", `{"orderId":"1"}`} // the service has no such order
	for _, tt := range []struct {
		base    string
		call    []string
		answers []string
		code    int
		stdout  string
		stderr  string
	}{
		{base, order, nil, 19, "", "--answer: show prints the question"},
		{base, order, []string{"show"}, 19, "", "- amount: integer, 1 to 5, required. How many"},
		{base, order, []string{"show"}, 19, "", `Pass --answer '{"amount":1,"gift":true}', or --answer decline`},
		{base, order, []string{`{"amount":6,"gift":true}`}, 19, "", "--answer does not fit (/amount "},
		{base, order, []string{"accept"}, 19, "", "--answer does not fit (/amount "},
		{base, order, []string{`{"amount":2,"gift":false}`}, 0, `{"amount":2,"gift":false}`, ""},
		{base, order, []string{"decline"}, 0, `{"action":"ELICITATION_ACTION_DECLINE"}`, ""},
		{base, order, []string{`[1]`}, 2, "", "--answer: must be accept, decline, cancel, show or a JSON object"},
		{consent, cancel, nil, 30, "", "--answer: show prints the question"},
		{consent, cancel, []string{"show"}, 19, "", "Pass --answer accept, or --answer decline"},
		{consent, cancel, []string{"decline"}, 30, "", "the user did not consent"},
		{consent, cancel, []string{"accept"}, 1, "", "there is no order 1"},
	} {
		for _, at := range [][]string{{tt.base}, {tt.base + "/mcp"}, {tt.base + "/mcp", "--mcp-version", "2025-06-18"}} {
			args := append(append([]string{"call"}, tt.call...), "--output", "raw", "--server")
			args = append(args, at...)
			for _, a := range tt.answers {
				args = append(args, "--answer", a)
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, nil)
			if code != tt.code || strings.TrimSpace(stdout.String()) != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("%q: exit code %d, want %d; %s\n%s", args, code, tt.code, stdout.String(), stderr.String())
			}
		}
	}
}
