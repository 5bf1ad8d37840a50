// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
)

// askModern sends a request of a modern client that has tasks, and returns the result.
func askModern(t *testing.T, addr, method, name, params string) (result map[string]json.RawMessage, raw string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(key, value)
	}
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var reply struct{ Result map[string]json.RawMessage }
	_ = json.Unmarshal(text, &reply) // an error has no result
	return reply.Result, string(text)
}

// TestAKilledReplicaLosesNoOperation: an operation that was begun at a process that is killed is followed, and ended, at
// another one with the same key.
func TestAKilledReplicaLosesNoOperation(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "state.key")
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := operationtest.Start(t)
	args := []string{"serve", "--backend", backend.URL, "--state-key", key, "--record-dir", "off"}
	first, second := startBinary(t, args...), startBinary(t, args...)

	begun, raw := askModern(t, first.main, "tools/call", "studio_import_video", `"name":"studio_import_video","arguments":{"uri":"x"}`)
	var id string
	if err := json.Unmarshal(begun["taskId"], &id); err != nil || id == "" {
		t.Fatalf("no task: %s", raw)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	backend.Report(backend.Last(), backend.Progress("halfway", 50))
	if _, raw := askModern(t, second.main, "tasks/get", id, `"taskId":"`+id+`"`); !strings.Contains(raw, `"status":"working"`) || !strings.Contains(raw, "halfway") {
		t.Errorf("while it runs: %s", raw)
	}
	backend.Finish(backend.Last(), backend.Video("videos/1", 12))
	if _, raw := askModern(t, second.main, "tasks/get", id, `"taskId":"`+id+`"`); !strings.Contains(raw, `"status":"completed"`) || !strings.Contains(raw, "videos/1") {
		t.Errorf("at its end: %s", raw)
	}
}
