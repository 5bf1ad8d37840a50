// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func list(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(100+i))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func TestTruncateAppend(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, document string
		schema         string
		budget         int
		want           string
		cuts           []content.Cut
	}{
		{name: "it fits", document: `{"a":[1,2,3]}`, budget: 13, want: `{"a":[1,2,3]}`},
		{name: "the end of a list", document: `{"a":` + list(10) + `,"next":"t"}`, budget: 30, want: `{"a":[100,101,102],"next":"t"}`,
			cuts: []content.Cut{{Path: "/a", Kept: 3, Of: 10}}},
		{name: "the largest list", document: `{"a":` + list(3) + `,"b":` + list(20) + `}`, budget: 40, want: `{"a":[100,101,102],"b":[100,101,102]}`,
			cuts: []content.Cut{{Path: "/b", Kept: 3, Of: 20}}},
		{name: "two large lists", document: `{"a":` + list(20) + `,"b":` + list(20) + `}`, budget: 40, want: `{"a":[100,101,102],"b":[100,101,102]}`,
			cuts: []content.Cut{{Path: "/a", Kept: 3, Of: 20}, {Path: "/b", Kept: 3, Of: 20}}},
		{name: "an element larger than the budget is cut itself", document: `{"a":[{"b":` + list(10) + `},{"b":[]}]}`, budget: 24, want: `{"a":[{"b":[100,101]}]}`,
			cuts: []content.Cut{{Path: "/a/0/b", Kept: 2, Of: 10}, {Path: "/a", Kept: 1, Of: 2}}},
		{name: "a long text", document: `{"id":1,"text":"` + strings.Repeat("x", 100) + `"}`, budget: 50, want: `{"id":1}`, cuts: []content.Cut{{Path: "/text", IsMember: true}}},
		{name: "a name with a slash", document: `{"a/b~c":` + list(10) + `}`, budget: 20, want: `{"a/b~c":[100,101]}`, cuts: []content.Cut{{Path: "/a~1b~0c", Kept: 2, Of: 10}}},
		{name: "the entries of a map", document: `{"m":{"k1":100,"k2":100,"k3":100,"k4":100}}`, budget: 30, want: `{"m":{"k1":100,"k2":100}}`,
			schema: `{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"integer"}}}}`,
			cuts:   []content.Cut{{Path: "/m", Kept: 2, Of: 4}}},
		{name: "what is required stays", document: `{"items":` + list(20) + `,"truncated":false}`, budget: 40, want: `{"items":[100,101],"truncated":false}`,
			schema: `{"type":"object","properties":{"items":{"type":"array","items":{"type":"integer"}},"truncated":{"type":"boolean"}},"required":["items","truncated"]}`,
			cuts:   []content.Cut{{Path: "/items", Kept: 2, Of: 20}}},
		{name: "a type stays", document: `{"any":{"@type":"type.googleapis.com/a.B","text":"` + strings.Repeat("x", 100) + `"}}`, budget: 60, want: `{"any":{"@type":"type.googleapis.com/a.B"}}`,
			cuts: []content.Cut{{Path: "/any/text", IsMember: true}}},
		{name: "numbers as they are", document: `{"n":1e400,"m":9007199254740993,"a":` + list(9) + `}`, budget: 40, want: `{"n":1e400,"m":9007199254740993,"a":[]}`,
			cuts: []content.Cut{{Path: "/a", Kept: 0, Of: 9}}},
	} {
		got, report, ok := content.AppendCut([]byte("before "), []byte(tc.document), tc.budget, schema.ViewOf([]byte(tc.schema)))
		if !ok || string(got) != "before "+tc.want || !reflect.DeepEqual(report.Cuts, tc.cuts) || report.More != 0 {
			t.Errorf("%s: %v\ngot  %s %+v\nwant %s %+v", tc.name, ok, got, report, tc.want, tc.cuts)
		}
	}
}

func TestWhatCannotBeCut(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", 100) + `"`
	for _, tc := range []struct{ document, schema string }{
		{long, ""},
		{`{"a":` + long + `}`, `{"required":["a"]}`},
		{`{"a":` + list(50) + `}`, `{"required":["a"],"properties":{"a":{"type":"array","minItems":1}}}`},
		{`{"a":` + list(50) + `}`, `{"minProperties":1}`},
		{`{"a":` + list(50) + `}`, `{"$ref":"https://example.com/other"}`},
		{`{"a":` + list(50) + `}`, `{"$ref":"#"}`},
	} {
		if got, report, ok := content.AppendCut(nil, []byte(tc.document), 50, schema.ViewOf([]byte(tc.schema))); ok || got != nil || len(report.Cuts) > 0 {
			t.Errorf("%s: got %s %+v", tc.schema, got, report)
		}
	}
}

func TestTheReportIsBounded(t *testing.T) {
	t.Parallel()
	var members []string
	for i := range 40 {
		members = append(members, fmt.Sprintf(`"m%d":%s`, i, list(20)))
	}
	got, report, ok := content.AppendCut(nil, []byte("{"+strings.Join(members, ",")+"}"), 600, schema.View{})
	if !ok || len(report.Cuts) != content.MaxCuts || report.More == 0 {
		t.Errorf("%v, %d and %d more: %s", ok, len(report.Cuts), report.More, got)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add(`{"a":[1,2,{"b":[true,null]}],"c":"text","d":{"e":1e400}}`, 20)
	f.Add(`[[[[1]]],[2]]`, 6)
	f.Add(`{"a":{"b":{"c":[{"d":"e"}]}}}`, 10)
	f.Fuzz(func(t *testing.T, document string, budget int) {
		raw := []byte(document)
		if jsontext.Check(raw, 64) != nil {
			t.Skip()
		}
		raw = jsontext.Compact(nil, raw)
		got, report, ok := content.AppendCut(nil, raw, budget, schema.View{})
		if !ok {
			if got != nil {
				t.Fatalf("%s: %s", raw, got)
			}
			return
		}
		if len(got) > budget || !json.Valid(got) {
			t.Fatalf("%d bytes of %s: %s", budget, raw, got)
		}
		if len(report.Cuts) > 0 && len(raw) <= budget {
			t.Fatalf("%d bytes of %s: %+v", budget, raw, report)
		}
		if !isPart(got, raw) {
			t.Fatalf("%s is no part of %s", got, raw)
		}
	})
}

// isPart reports whether a document is another one with less in it.
func isPart(part, whole []byte) bool {
	switch {
	case string(part) == string(whole):
		return true
	case part[0] != whole[0]:
		return false
	case part[0] == '[':
		var all []json.RawMessage
		for element := range jsontext.Elements(whole) {
			all = append(all, element)
		}
		n := 0
		for element := range jsontext.Elements(part) {
			if n == len(all) || !isPart(element, all[n]) {
				return false
			}
			n++
		}
		return true
	case part[0] == '{':
		for name, value := range jsontext.Members(part) {
			before, ok := jsontext.Lookup(whole, name)
			if !ok || !isPart(value, before) {
				return false
			}
		}
		return true
	}
	return false
}
