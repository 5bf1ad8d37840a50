// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEveryRevisionLoads looks at what each one says of its requests, since
// results are found by names.
func TestEveryRevisionLoads(t *testing.T) {
	t.Parallel()
	core := []string{"completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read", "resources/templates/list", "tools/call", "tools/list"}
	sessions := []string{"initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"}
	tests := []struct {
		revision       string
		client, server []string
	}{
		{Revision20241105, slices.Concat(core, sessions), []string{"ping", "roots/list", "sampling/createMessage"}},
		{Revision20250326, slices.Concat(core, sessions), []string{"ping", "roots/list", "sampling/createMessage"}},
		{Revision20250618, slices.Concat(core, sessions), []string{"elicitation/create", "ping", "roots/list", "sampling/createMessage"}},
		{
			Revision20251125,
			slices.Concat(core, sessions, []string{"tasks/cancel", "tasks/get", "tasks/list", "tasks/result"}),
			[]string{"elicitation/create", "ping", "roots/list", "sampling/createMessage", "tasks/cancel", "tasks/get", "tasks/list", "tasks/result"},
		},
		{Revision20260728, slices.Concat(core, []string{"server/discover", "subscriptions/listen", "tasks/cancel", "tasks/get", "tasks/update"}), nil},
	}
	// These alone are answered with nothing.
	empty := []string{"logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"}
	for i, tt := range tests {
		if Revisions()[i] != tt.revision {
			t.Errorf("revision %d is %s, want %s", i, Revisions()[i], tt.revision)
		}
		s := Load(t, tt.revision)
		slices.Sort(tt.client)
		if diff := cmp.Diff(tt.client, sortedKeys(s.requests[FromClient])); diff != "" {
			t.Errorf("%s: requests of the client (-want +got) %s", tt.revision, diff)
		}
		if diff := cmp.Diff(tt.server, sortedKeys(s.requests[FromServer])); diff != "" {
			t.Errorf("%s: requests of the server (-want +got) %s", tt.revision, diff)
		}
		for method, result := range s.results {
			if s.defs[result] == nil || slices.Contains(empty, method) != (result == emptyResult) {
				t.Errorf("%s: %s is answered with %s", tt.revision, method, result)
			}
		}
		for d := range directions {
			if names := sortedKeys(s.notifications[d]); !slices.Contains(names, "notifications/cancelled") || slices.Contains(names, "") {
				t.Errorf("%s: notifications of the %s: %q", tt.revision, d, names)
			}
		}
	}
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := Load(t, Revision20260728)
	digits := strings.Repeat("9", maxNumberBytes+1)
	tests := []struct{ name, def, doc, want string }{
		{"valid", "RequestId", `"a"`, ""},
		{"a large integer", "RequestId", `9223372036854775808`, ""},
		{"no definition", "RequestID", `1`, "MCP 2026-07-28: there is no definition RequestID"},
		{"not JSON", "RequestId", `1 2`, "RequestId: not JSON"},
		{"a name twice", "JSONObject", `{"a":1,"a":2}`, "not JSON"},
		{"wrong", "RequestId", `null`, "MCP 2026-07-28: RequestId:\n\tat '': got null, want integer or string"},
		{"a number that panics", "PaginatedResult", `{"ttlMs":1e1000001}`, "beyond what can be checked"},
		{"a negative exponent", "PaginatedResult", `[{"ttlMs":1E-401}]`, "beyond what can be checked"},
		{"an exponent of many digits", "PaginatedResult", `{"ttlMs":1e+99999999999999999999}`, "beyond what can be checked"},
		{"a long number", "RequestId", digits, "a number of 401 bytes"},
		{"a large number", "CacheableResult", `{"resultType":"complete","cacheScope":"public","ttlMs":1e+400}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			err := s.Check(tt.def, []byte(tt.doc))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if took := time.Since(start); took > 30*time.Second { // many times what it takes on a busy machine
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestErrorsDoNotVary compares what several checks of one document say.
func TestErrorsDoNotVary(t *testing.T) {
	t.Parallel()
	s := Load(t, Revision20260728)
	doc := []byte(`{"content":[{"type":"x"},{"type":"text"},7],"isError":"no","_meta":[]}`)
	want := s.Check("CallToolResult", doc).Error()
	for range 20 {
		if got := s.Check("CallToolResult", doc).Error(); got != want {
			t.Fatalf("once:\n%s\nthen:\n%s", want, got)
		}
	}
	for _, part := range []string{"'/content/2'", "'/isError'", "'/_meta'", "missing property 'resultType'"} {
		if !strings.Contains(want, part) {
			t.Errorf("it does not say %s:\n%s", part, want)
		}
	}
}

func TestSchemasThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `[]`, `{"$defs":[]}`, `{"$defs":{"A":{"type":"no type"}}}`, `{"$defs":{"A":{"$ref":"#/$defs/B"}}}`,
		`{"$defs":{"A":{"$ref":"file:///etc/hostname"}}}`, `{"$defs":{"A":{"$ref":"https://example.com/schema.json"}}}`,
	} {
		if _, err := compile(Revision20251125, []byte(text)); err == nil {
			t.Errorf("compiled %s", text)
		}
	}
	if _, err := compile(Revision20260728, []byte(`{"$defs":{}}`)); err == nil || !strings.Contains(err.Error(), "tasks:") {
		t.Errorf("the tasks without their core: %v", err)
	}
}

func TestFolderIsFoundUpwards(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	deep := filepath.Join(root, "project", "a", "b")
	for _, dir := range []string{deep, filepath.Join(root, "shared", "mcp-schema"), filepath.Join(root, "project", "a", "shared")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(root, "shared", "mcp-schema")
	for _, start := range []string{deep, filepath.Join(root, "project")} {
		if got, ok := findFolder(start); !ok || got != want {
			t.Errorf("from %s: %s, %v; want %s", start, got, ok, want)
		}
	}
	if got, ok := findFolder(filepath.Join(root, "elsewhere")); !ok || got != want {
		t.Errorf("from a folder that is not there: %s, %v", got, ok)
	}
	if got, ok := findFolder(string(filepath.Separator)); ok {
		t.Errorf("from the root: %s", got)
	}
}

// TestMissingFolderSkips reads the schemas where there are none.
func TestMissingFolderSkips(t *testing.T) {
	outside := t.TempDir()
	if _, ok := findFolder(outside); ok {
		t.Skip("there are schemas above the temporary folder")
	}
	t.Chdir(outside)
	skipped := false
	t.Run("reader", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Load(t, Revision20260728)
		t.Error("it went on")
	})
	if !skipped {
		t.Error("the test was not skipped")
	}
}
