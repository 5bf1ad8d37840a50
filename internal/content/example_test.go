// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func TestTheExampleIsAFieldThatIsThere(t *testing.T) {
	t.Parallel()
	rows := func(row string) string { return "[" + strings.TrimSuffix(strings.Repeat(row+",", 30), ",") + "]" }
	fixed := `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","minProperties":1,"properties":{"id":{"type":"string"},"note":{"type":"string"}}}},"total":{"type":"integer"}}}`
	for _, tc := range []struct{ name, schema, document, want string }{
		{"a name comes first", "", `{"rows":` + rows(`{"id":"1","size":2,"name":"one"}`) + `}`, "rows.name"},
		{"a name of the element before that of its parts", "", `{"rows":` + rows(`{"owner":{"name":"ann"},"order_id":"1"}`) + `}`, "rows.order_id"},
		{"a part's name before a number", "", `{"rows":` + rows(`{"size":1,"owner":{"name":"ann"}}`) + `}`, "rows.owner.name"},
		{"no long value", "", `{"rows":` + rows(`{"name":"`+strings.Repeat("n", 300)+`","size":1}`) + `}`, "rows.size"},
		{"lists of lists", "", `{"rows":[` + rows(`{"note":"x","id":1}`) + `]}`, "rows.id"},
		{"a field of later elements", "", `{"rows":[{"size":1},` + rows(`{"size":1,"id":"x"}`)[1:] + `}`, "rows.id"},
		{"what is beside a list of scalars", "", `{"rows":` + rows(`"scalar"`) + `,"total":30}`, "total"},
		{"an Any", "", `{"rows":` + rows(`{"@type":"x.y/Z","value":"v"}`) + `,"total":1}`, "total"},
		{"a list at the root", "", rows(`{"id":"1","note":"note"}`), "id"},
		{"a document with one field", "", `{"rows":` + rows(`{"note":"x"}`) + `}`, ""},
		{"a document with null", "", `{"rows":` + rows(`{"id":null}`) + `}`, ""},
		{"names that have to be quoted", "", `{"rows":` + rows("{\"a`id\":1,\"an id\":2}") + `}`, "rows.`an id`"},
		{"a name that is too long", "", `{"rows":` + rows(`{"`+strings.Repeat("n", 300)+`":1,"x":2}`) + `}`, "rows.x"},
		{"rules about the members", fixed, `{"rows":` + rows(`{"id":"1","note":"x"}`) + `,"total":30}`, "total"},
		{"a schema that does not know it", `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","additionalProperties":false}}}}`, `{"rows":` + rows(`{"id":"1"}`) + `}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if !json.Valid([]byte(tc.document)) {
				t.Fatal("the document is no JSON")
			}
			of := schema.ViewOf([]byte(tc.schema))
			_, report, _ := content.AppendCut(nil, []byte(tc.document), len(tc.document)/2, schema.View{})
			if len(report.Cuts) == 0 {
				report.Cuts = []content.Cut{{Path: "/rows", Of: 1}}
			}
			got := content.ReductionExample(of, []byte(tc.document), report.Cuts)
			if got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			mask, faults := content.NewMask(got, of)
			if len(faults) > 0 || got != "" && len(mask.Append(nil, []byte(tc.document))) >= len(tc.document) {
				t.Errorf("%s: %v", got, faults)
			}
		})
	}
}

// Cuts that are of no document have no example.
func TestNoExample(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/rows/1/x", "/rows/x", "/other", "/rows/0/id/0"} {
		if got := content.ReductionExample(schema.View{}, []byte(`{"rows":[{"id":1}]}`), []content.Cut{{Path: path}}); got != "" {
			t.Errorf("%s: got %q", path, got)
		}
	}
	if got := content.ReductionExample(schema.View{}, []byte(`{"a":1,"b":2}`), nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// An example takes no longer for a large document.
func TestAnExampleIsFoundInAFewMembers(t *testing.T) {
	t.Parallel()
	wide := `{"rows":[{` + strings.TrimSuffix(strings.Repeat(`"n":[],`, 5000), ",") + `,"id":1}]}`
	if got := content.ReductionExample(schema.View{}, []byte(wide), []content.Cut{{Path: "/rows", Of: 1}}); got != "" {
		t.Errorf("got %q", got)
	}
}

func FuzzExample(f *testing.F) {
	f.Add(`{"rows":[{"id":1,"name":"x"},{"id":2}],"map":{"a.b":{"c":[1,2,3]}}}`, 20)
	f.Add("[{\"a`b\":{\"\":{\"*\":1}}},\"\\u0000\"]", 3)
	f.Fuzz(func(t *testing.T, document string, budget int) {
		raw := []byte(document)
		if jsontext.Check(raw, 100) != nil {
			return
		}
		whole := jsontext.Compact(nil, raw)
		_, report, _ := content.AppendCut(nil, whole, budget, schema.View{})
		got := content.ReductionExample(schema.View{}, whole, report.Cuts)
		mask, faults := content.NewMask(got, schema.View{})
		if len(faults) > 0 || got != "" && len(mask.Append(nil, whole)) >= len(whole) {
			t.Errorf("%q: %v", got, faults)
		}
	})
}
