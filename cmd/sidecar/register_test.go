// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// auditLine is what the log says about listeners and registrations.
type auditLine struct {
	Msg, Listener, Addr string
	Tool                string `json:"outrigger.tool.name"`
	Caller              string `json:"outrigger.caller"`
	Code                string `json:"outrigger.error.code"`
	Created             bool
}

// TestRegistrationOverTheAdminListener runs the sidecar as it is, registers a
// tool where operators do, and calls it where callers do.
func TestRegistrationOverTheAdminListener(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	logged, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--record-dir", "off"},
			strings.NewReader(""), io.Discard, stderr, nil)
		_ = stderr.Close()
	}()
	lines := make(chan auditLine, 100)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(logged); scan.Scan(); {
			var line auditLine
			if json.Unmarshal(scan.Bytes(), &line) == nil {
				lines <- line
			}
		}
	}()
	until := func(message string) auditLine {
		t.Helper()
		for line := range lines {
			if line.Msg == message {
				return line
			}
		}
		t.Fatalf("the log never says %q", message)
		return auditLine{}
	}
	addr := map[string]string{}
	for range 2 {
		line := until("listening")
		addr[line.Listener] = "http://" + line.Addr
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	request := connect.NewRequest(&outriggerv1.RegisterToolRequest{
		Name: "desk.repeat", Description: "Says a word again.",
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{
			InputSchemaJson: []byte(`{"type":"object","properties":{"nonce":{"type":"string","maxLength":5}}}`)},
		Binding: &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
	})
	// The first catalog may still be on its way; registration waits for it.
	resp, err := outriggerv1connect.NewToolServiceClient(client, addr["admin"]).RegisterTool(ctx, request)
	if err != nil || !resp.Msg.GetCreated() {
		t.Fatalf("register: %v", err)
	}
	if line := until("tool registered"); line.Tool != "desk.repeat" || !line.Created || !strings.HasPrefix(line.Caller, "127.0.0.1:") {
		t.Errorf("audit %+v", line)
	}
	if _, err := outriggerv1connect.NewToolServiceClient(client, addr["main"]).RegisterTool(ctx, request); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("the main listener says %v", err)
	}
	outcome, err := outriggerv1connect.NewToolServiceClient(client, addr["main"]).CallTool(ctx, connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: "desk.repeat", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"hello"}`)},
	}))
	if err != nil || !strings.Contains(string(outcome.Msg.GetResult().GetDataJson()), `"hello"`) {
		t.Errorf("call: %v, %v", outcome, err)
	}
	// A page of a browser is no operator.
	foreign, err := http.NewRequestWithContext(ctx, http.MethodPost, addr["admin"]+"/outrigger.v1.ToolService/RegisterTool", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	foreign.Header.Set("Content-Type", "application/json")
	foreign.Header.Set("Origin", "http://evil.example")
	refused, err := client.Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if refused.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign origin gets status %d", refused.StatusCode)
	}
	cancel()
	go func() {
		for range lines { // read to its end, so that its writer does not block
		}
	}()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
