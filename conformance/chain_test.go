// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
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
	if err := json.Unmarshal(modernBody(t, inner.URL("/mcp"), "tools/list", "", `{}`), &compact); err != nil || len(compact.Result.Tools) != 4 {
		t.Errorf("the inner sidecar lists %d tools to agents: %v", len(compact.Result.Tools), err)
	}
}

// TestArgumentsThroughTwoSidecars: the inner sidecar has the tool's message, and checks by it. So the outer one takes every
// spelling that the inner one takes, and callers get the errors of the inner one, word for word. Where a rule of the outer
// one reads the arguments, it takes the spelling of the schema alone, so that no other leads around the rule.
func TestArgumentsThroughTwoSidecars(t *testing.T) {
	t.Parallel()
	inner := serve(t, "--demo", "--repair-arguments")
	outer := serve(t, "--backend", inner.URL(""))
	config := filepath.Join(t.TempDir(), "rules.yaml")
	const rules = "access:\n  policy:\n    rules:\n      - name: not-101\n        tools: [fleet.get_vehicle]\n        effect: deny\n        when: args.vehicleId == \"101\"\n"
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	ruled := serve(t, "--backend", inner.URL(""), "--config", config)
	call := func(s *sidecar.Server, arguments string) (reply string, refused bool) {
		raw := modernBody(t, s.URL("/mcp"), "tools/call", "fleet_get_vehicle", `{"name":"fleet_get_vehicle","arguments":`+arguments+`}`)
		var body struct {
			Result struct {
				IsError bool `json:"isError"`
			} `json:"result"`
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		return string(raw), body.Result.IsError
	}
	for arguments, ok := range map[string]bool{
		`{"vehicleId":"102"}`: true, `{"vehicleId":102}`: true, `{"vehicle_id":"102"}`: true, `{"vehicleId":1.02e2}`: true,
		`{"vehicleId":"102","readMask":"callSign"}`: true,
		`{}`: false, `{"vehicleId":-1}`: false, `{"vehicleId":"x"}`: false, `{"vehicleId":[]}`: false, `{"vehicleId":1.5}`: false,
		`{"vehicleId":"102","nope":1}`: false, `{"vehicleId":"102","vehicle_id":"102"}`: false, `{"vehicleId":18446744073709551616}`: false,
		`{"vehicleId":"102","readMask":"nope"}`: false,
	} {
		want, refused := call(inner, arguments)
		if refused == ok {
			t.Errorf("%s alone: %s", arguments, want)
		}
		if got, _ := call(outer, arguments); got != want {
			t.Errorf("%s through two sidecars (-one +two):\n%s", arguments, cmp.Diff(want, got))
		}
	}
	for arguments, want := range map[string]string{
		`{"vehicleId":"102"}`: `"Tern"`, `{"vehicleId":"101"}`: "not-101", `{"vehicleId":101}`: "wanted string", `{"vehicle_id":"101"}`: "unknown field",
	} {
		if got, _ := call(ruled, arguments); !strings.Contains(got, want) {
			t.Errorf("%s with a rule about arguments: %s", arguments, got)
		}
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
