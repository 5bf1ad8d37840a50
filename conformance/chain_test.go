// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestSidecarsInARow: a sidecar whose backend is another sidecar offers what that one does. The list of the inner one is
// compact for agents, but the outer one gets all of it.
func TestSidecarsInARow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"guide/SKILL.md":       "---\nname: guide\ndescription: How to order.\n---\n# Guide\n",
		"guide/refs/prices.md": "# Prices\n",
	} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	backend := startFixture(t)
	alone := serve(t, "--backend", backend, "--skills", dir)
	inner := serve(t, "--backend", backend, "--skills", dir, "--catalog-mode", "compact")
	outer := serve(t, "--backend", inner.URL(""))
	front := serve(t, "--config", manyFile(t, []string{
		fmt.Sprintf("name: lab, url: %q, prefix: lab", peer.GRPC(t).URL), fmt.Sprintf("name: inner, url: %q", inner.URL("")),
		fmt.Sprintf("name: away, url: %q", "grpc://"+testkit.Reserved(t)),
	}))
	testkit.Until(t, "the front has the tools of both", func() bool { return slices.Contains(toolsOf(t, front), "lab.lab.echo") && len(toolsOf(t, front)) > 10 })
	for _, tc := range []struct{ method, name, params string }{
		{"tools/list", "", `{}`},
		{"prompts/list", "", `{}`},
		{"resources/list", "", `{}`},
		{"skills/list", "", `{}`},
		{"skills/get", "skill://guide/SKILL.md", `{"uri":"skill://guide/SKILL.md"}`},
		{"resources/directory/read", "skill://guide", `{"uri":"skill://guide"}`},
		{"resources/read", "skill://guide/refs/prices.md", `{"uri":"skill://guide/refs/prices.md"}`},
		{"tools/call", "test_simple_text", `{"name":"test_simple_text","arguments":{}}`},
		{"tools/call", "test_error_handling", `{"name":"test_error_handling","arguments":{}}`},
	} {
		want, got := modernBody(t, alone.URL("/mcp"), tc.method, tc.name, tc.params), modernBody(t, outer.URL("/mcp"), tc.method, tc.name, tc.params)
		if a, b := essence(t, want), essence(t, got); !cmp.Equal(a, b) {
			t.Errorf("%s %s through two sidecars (-one +two):\n%s", tc.method, tc.name, cmp.Diff(a, b))
		}
		if tc.method == "tools/list" {
			continue // it has the other backend's tools too
		}
		fronted := modernBody(t, front.URL("/mcp"), tc.method, tc.name, tc.params)
		if a, b := essence(t, want), essence(t, fronted); !cmp.Equal(a, b) {
			t.Errorf("%s %s through a front with three backends (-one +front):\n%s", tc.method, tc.name, cmp.Diff(a, b))
		}
	}
	var compact struct {
		Result struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(modernBody(t, inner.URL("/mcp"), "tools/list", "", `{}`), &compact); err != nil || len(compact.Result.Tools) != 3 {
		t.Errorf("the inner sidecar lists %d tools to agents: %v", len(compact.Result.Tools), err)
	}
}

// essence is a reply without what may differ between two sidecars: how long to keep it, and metadata.
func essence(t *testing.T, raw []byte) any {
	t.Helper()
	var reply struct {
		Result, Error any
	}
	if err := json.Unmarshal(raw, &reply); err != nil || reply.Result == nil && reply.Error == nil {
		t.Fatalf("no reply: %v: %.300s", err, raw)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range []string{"_meta", "ttlMs", "cacheScope", "nextCursor"} {
				delete(v, name)
			}
			for _, member := range v {
				strip(member)
			}
		case []any:
			for _, item := range v {
				strip(item)
			}
		}
	}
	strip(reply.Result)
	strip(reply.Error)
	return []any{reply.Result, reply.Error}
}
