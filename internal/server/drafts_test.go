// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// replyAs reads a reply of a method.
func replyAs[T any](t *testing.T, url, revision, method, params string) (out T) {
	t.Helper()
	at := modernAt
	if revision < today {
		at = legacyAt
	}
	_, raw := at(t, url, revision, method, params)
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

type listOfTools struct {
	Result struct {
		Tools []json.RawMessage
		TTLMs int `json:"ttlMs"`
	}
	Error struct {
		Code int
		Data struct {
			UnknownNames []string
			MaxNames     int
			Reason, Code string
			Violations   []struct{ Path, Keyword string }
		}
	}
}

// canonicalSum is the SHA-256 of a document whose numbers are integers and whose names are ASCII, in the form of RFC 8785.
func canonicalSum(t *testing.T, raw []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TestToolManifest: it has the tools of the list with the digests of their entries, and tools/describe has these entries.
func TestToolManifest(t *testing.T) {
	t.Parallel()
	url := experimental(t, config.ToolManifest, config.ResultVariants)
	for _, revision := range []string{someday, today, "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			testToolManifest(t, url, revision)
		})
	}
}

func testToolManifest(t *testing.T, url, revision string) {
	t.Helper()
	isModern := revision >= today
	_, offered := modernAt(t, url, revision, "server/discover", "")
	if !isModern {
		_, offered = legacyAt(t, url, revision, "initialize", `"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"a","version":"1"}`)
	}
	if !strings.Contains(offered, `"tools":{"listChanged":true,"manifest":true}`) {
		t.Errorf("capability: %s", offered)
	}
	listed := replyAs[listOfTools](t, url, revision, "tools/list", "").Result.Tools
	manifest := replyAs[struct {
		Result struct {
			Entries []struct {
				Name, Digest string
				Annotations  json.RawMessage
			}
			TTLMs                  int `json:"ttlMs"`
			CacheScope, ResultType string
		}
	}](t, url, revision, "tools/manifest", "").Result
	if len(manifest.Entries) != len(listed) || len(listed) < 5 ||
		isModern && (manifest.TTLMs != 300_000 || manifest.CacheScope == "" || manifest.ResultType != "complete") ||
		!isModern && (manifest.TTLMs != 0 || manifest.CacheScope != "" || manifest.ResultType != "") {
		t.Fatalf("%d entries for %d tools: %+v", len(manifest.Entries), len(listed), manifest)
	}
	names := make([]string, len(listed))
	for i, entry := range manifest.Entries {
		var tool struct {
			Name        string
			Annotations json.RawMessage
		}
		if err := json.Unmarshal(listed[i], &tool); err != nil {
			t.Fatal(err)
		}
		if names[i] = entry.Name; entry.Name != tool.Name || !bytes.Equal(entry.Annotations, tool.Annotations) || entry.Digest != canonicalSum(t, listed[i]) {
			t.Errorf("%+v is not of %s", entry, listed[i])
		}
	}
	slices.Reverse(names)
	asked, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	described := replyAs[listOfTools](t, url, revision, "tools/describe", `"names":`+string(asked)).Result.Tools
	slices.Reverse(described)
	if !slices.EqualFunc(listed, described, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		t.Errorf("described: %s", described)
	}
	for params, check := range map[string]func(got listOfTools) bool{
		`"names":["fleet_get_order","x","y","x"]`: func(got listOfTools) bool { return slices.Equal(got.Error.Data.UnknownNames, []string{"x", "y"}) },
		`"names":[]`: func(got listOfTools) bool { return got.Error.Data.Reason == "empty" },
		`"names":["a"` + strings.Repeat(`,"a"`, 128) + `]`: func(got listOfTools) bool { return got.Error.Data.MaxNames == 128 },
		`"names":"a"`: func(got listOfTools) bool { return len(got.Error.Data.Violations) == 1 },
		`"names":["a",7]`: func(got listOfTools) bool {
			return len(got.Error.Data.Violations) == 1 && got.Error.Data.Violations[0].Path == "/params/names/1"
		},
		``: func(got listOfTools) bool { return len(got.Error.Data.Violations) == 1 },
	} {
		if got := replyAs[listOfTools](t, url, revision, "tools/describe", params); got.Error.Code != -32602 || got.Error.Data.Code != "INVALID_PARAMS" || !check(got) {
			t.Errorf("%.60s: %+v", params, got)
		}
	}
}

// TestResultVariants: the revision of the draft has outputs in place of content, exactly those that were asked for.
func TestResultVariants(t *testing.T) {
	t.Parallel()
	url := experimental(t, config.ResultVariants)
	if _, got := modernAt(t, url, today, "server/discover", ""); !strings.Contains(got, `"supportedVersions":["2026-12-01","2026-07-28",`) {
		t.Errorf("discover: %s", got)
	}
	if _, got := modernAt(t, url, "2027-01-01", "tools/list", ""); !strings.Contains(got, `-32022`) || !strings.Contains(got, `["2026-12-01","2026-07-28",`) {
		t.Errorf("another revision: %s", got)
	}
	for _, revision := range []string{today, someday, today} {
		for _, raw := range replyAs[listOfTools](t, url, revision, "tools/list", "").Result.Tools {
			var tool struct {
				OutputSchema   json.RawMessage
				OutputVariants []struct {
					Audience, Format string
					Schema           json.RawMessage
				}
			}
			if err := json.Unmarshal(raw, &tool); err != nil {
				t.Fatal(err)
			}
			if (tool.OutputVariants != nil) != (revision == someday) || revision == someday && tool.OutputSchema != nil {
				t.Errorf("%s: %s", revision, raw)
			}
			if revision == someday && fmt.Sprint(tool.OutputVariants[0]) != "{assistant content []}" {
				t.Errorf("%s", raw)
			}
			if revision == someday && fmt.Sprint(tool.OutputVariants[1]) != "{user content []}" {
				t.Errorf("%s", raw)
			}
			if len(tool.OutputVariants) == 5 && (tool.OutputVariants[3].Audience != "programmatic" || tool.OutputVariants[4].Audience != "user" ||
				!bytes.Equal(tool.OutputVariants[2].Schema, tool.OutputVariants[3].Schema) || !bytes.Equal(tool.OutputVariants[2].Schema, tool.OutputVariants[4].Schema)) {
				t.Errorf("%s", raw)
			}
		}
	}
	type called struct {
		Result struct {
			Outputs []struct {
				Audience, Format  string
				Content           []struct{ Type, Text string }
				StructuredContent map[string]any
			}
			Content, StructuredContent json.RawMessage
			IsError                    bool
			ResultType                 string
			Meta                       map[string]any `json:"_meta"`
		}
		Error struct{ Code int }
	}
	const text, model, code = `{"audience":"assistant","format":"content"}`, `{"audience":"assistant","format":"structured"}`, `{"audience":"programmatic","format":"structured"}`
	const seen, table = `{"audience":"user","format":"content"}`, `{"audience":"user","format":"structured"}`
	const found = `"name":"fleet_find_orders","arguments":{}`
	const wrong = `"name":"fleet_get_order","arguments":{"nope":1}`
	for _, tt := range []struct {
		name, params, requested, want string
		isError                       bool
	}{
		{"no choice", found, "", "assistant/content", false},
		{"text", found, text, "assistant/content", false},
		{"code", found, code, "programmatic/structured", false},
		{"all, in the caller's order", found, code + "," + text + "," + model, "programmatic/structured assistant/content assistant/structured", false},
		{"for the user", found, seen, "user/content", false},
		{"data for the user", found, table + "," + text, "user/structured assistant/content", false},
		{"an error", wrong, "", "assistant/content", true},
		{"an error for code", wrong, code, "programmatic/structured", true},
	} {
		params := tt.params
		if tt.requested != "" {
			params += `,"requestedOutputs":[` + tt.requested + `]`
		}
		got := replyAs[called](t, url, someday, "tools/call", params).Result
		var have []string
		for _, o := range got.Outputs {
			have = append(have, o.Audience+"/"+o.Format)
			if (o.Format == "content") != (len(o.Content) > 0) || (o.Format == "structured") != (o.StructuredContent != nil) {
				t.Errorf("%s: %+v", tt.name, o)
			}
		}
		if strings.Join(have, " ") != tt.want || got.Content != nil || got.StructuredContent != nil || got.IsError != tt.isError || got.ResultType != "complete" || len(got.Meta) == 0 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	many := `[` + text
	for i := range 8 {
		many += fmt.Sprintf(`,{"audience":"a%d","format":"x"}`, i)
	}
	for name, requested := range map[string]string{
		"an audience that there is not": `[{"audience":"io.example/view","format":"structured"}]`, "a pair that there is not": `[{"audience":"programmatic","format":"content"}]`,
		"twice": `[` + code + `,` + code + `]`, "none": `[]`, "no array": `{}`, "no object": `[1]`, "no format": `[{"audience":"assistant"}]`, "null": `null`,
		"many": many + `]`,
	} {
		if got := replyAs[called](t, url, someday, "tools/call", anOrder+`,"requestedOutputs":`+requested); got.Error.Code != -32602 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, got := modernAt(t, url, today, "tools/call", anOrder+`,"requestedOutputs":[`+text+`]`); !strings.Contains(got, "is a member of revision 2026-12-01") {
		t.Errorf("in an older revision: %s", got)
	}
	if _, got := modernAt(t, url, today, "tools/call", anOrder); !strings.Contains(got, `"result":{"content":[`) {
		t.Errorf("in an older revision: %s", got)
	}
}
