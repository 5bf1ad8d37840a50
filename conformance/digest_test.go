// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// clientDigest computes the digest of a tool as a client does, by docs/catalog-lock.md: from an entry of a list, with a
// canonical form that is not ours.
func clientDigest(t *testing.T, name string, entry map[string]json.RawMessage) string {
	t.Helper()
	quoted, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]json.RawMessage{"name": quoted}
	for _, member := range []string{"description", "inputSchema", "outputSchema", "annotations"} {
		if value := entry[member]; len(value) > 0 && string(value) != "null" {
			covered[member] = value
		}
	}
	raw, err := json.Marshal(covered)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// result sends a JSON-RPC request and returns its result.
func result(t *testing.T, url, method, params string, into any, headers ...string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(`{"jsonrpc":"2.0","id":"d","method":"`+method+`","params":`+params+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct{ Result json.RawMessage }
	if err := json.Unmarshal(body, &envelope); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if err := json.Unmarshal(envelope.Result, into); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}

// TestClientsComputeTheDigest compares four sources: what a client computes from tools/list over MCP, what it computes from
// tools/get over JSON-RPC, what tools/get says, and the lock file.
func TestClientsComputeTheDigest(t *testing.T) {
	t.Parallel()
	reviewed := filepath.Join(t.TempDir(), "catalog.lock.json")
	for _, command := range []string{"update", "check"} {
		cmd := exec.CommandContext(t.Context(), built.binary, "lock", command, "--demo", "--catalog-lock", reviewed)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("lock %s: %v\n%s", command, err, out)
		}
	}
	raw, err := os.ReadFile(reviewed)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tools []struct{ Name, Digest string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	inLock := map[string]string{}
	for _, tool := range file.Tools {
		inLock[tool.Name] = tool.Digest
	}

	server := serve(t, "--demo", "--catalog-lock", reviewed, "--catalog-lock-mode", "refuse")
	var listed struct {
		Tools []map[string]json.RawMessage
	}
	result(t, server.URL("/mcp"), "tools/list",
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+caller.ModernVersion+`","io.modelcontextprotocol/clientCapabilities":{}}}`, &listed,
		"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", caller.ModernVersion, "Mcp-Method", "tools/list")
	if len(listed.Tools) != len(inLock) || len(inLock) == 0 {
		t.Fatalf("%d tools are listed, %d are in the lock", len(listed.Tools), len(inLock))
	}
	for _, entry := range listed.Tools {
		var meta struct {
			Tool struct{ Name string } `json:"dev.outrigger/tool"`
		}
		if err := json.Unmarshal(entry["_meta"], &meta); err != nil {
			t.Fatal(err)
		}
		name := meta.Tool.Name
		var got map[string]json.RawMessage
		result(t, server.URL("/rpc"), "tools/get", `{"name":"`+name+`"}`, &got)
		var said string
		if err := json.Unmarshal(got["digest"], &said); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(said) != 64 || said != inLock[name] {
			t.Errorf("%s: tools/get says %q, the lock %q", name, said, inLock[name])
		}
		if computed := clientDigest(t, name, got); computed != said {
			t.Errorf("%s: a client computes %s from tools/get, which says %s", name, computed, said)
		}
		if _, isShown := entry["outputSchema"]; !isShown && string(got["outputSchema"]) != "null" {
			continue // a list may leave out a large schema, which tools/get has
		}
		if computed := clientDigest(t, name, entry); computed != said {
			t.Errorf("%s: a client computes %s from tools/list, tools/get says %s", name, computed, said)
		}
	}
}
