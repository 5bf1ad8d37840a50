// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw string }{
		{"not JSON", `{"type":`},
		{"a name twice", `{"type":"object","type":"string"}`},
		{"a number that kills arithmetic", `{"minimum":1e1000001}`},
		{"no schema", `{"type":"nothing"}`},
		{"a string", `"object"`},
		{"a pattern that does not compile", `{"pattern":"("}`},
		{"a file", `{"$ref":"file:///etc/passwd"}`},
		{"the network", `{"$ref":"http://127.0.0.1:1/schema.json"}`},
		{"a relative reference", `{"$ref":"other.json"}`},
		{"a dangling reference", `{"$ref":"#/$defs/none"}`},
		{"a foreign draft", `{"$schema":"http://127.0.0.1:1/draft"}`},
		{"a reference in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"mem:///none.json"}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if v, err := schema.Compile(json.RawMessage(tt.raw)); !errors.Is(err, schema.ErrInvalidSchema) || v != nil {
				t.Errorf("got %v, %v", v, err)
			}
		})
	}
}

func TestValidateForeignSchemas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, schema, doc string
		want              []schema.Violation
	}{
		{"2020-12 by default", `{"prefixItems":[{"type":"string"}]}`, `[1]`, []schema.Violation{{Path: "/0", Keyword: "type", Message: "wanted string, found 1"}}},
		{"draft-07 where it is named", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `[1,2]`,
			[]schema.Violation{{Path: "", Keyword: "additionalItems", Message: "wanted a value for which additionalItems holds, found an array of length 2"}, {Path: "/0", Keyword: "type", Message: "wanted string, found 1"}}},
		{"formats are annotations", `{"format":"email"}`, `"no address"`, nil},
		{"but for Protobuf's", `{"format":"date-time"}`, `"yesterday"`, []schema.Violation{{Keyword: "format", Message: `wanted an RFC 3339 timestamp such as 2006-01-02T15:04:05Z, found the string "yesterday"`}}},
		{"not JSON", `{}`, `{`, []schema.Violation{{Keyword: "syntax", Message: "wanted a member name at byte 1, found the end of the text"}}},
		{"the panic on exponents", `{"multipleOf":3}`, `1e1000001`, []schema.Violation{{Keyword: "range", Message: `wanted a number that a double can hold, found "1e1000001"`}}},
		{"constants and ranges", `{"properties":{"a":{"const":1},"b":{"exclusiveMinimum":1.5},"c":{"multipleOf":2},"d":{"maxLength":1},"e":{"uniqueItems":true},"f":false}}`,
			`{"a":2,"b":1,"c":3,"d":"xy","e":[1,1],"f":0}`, []schema.Violation{
				{Path: "/a", Keyword: "const", Message: "wanted 1, found 2"},
				{Path: "/b", Keyword: "exclusiveMinimum", Message: "wanted more than 1.5, found 1"},
				{Path: "/c", Keyword: "multipleOf", Message: "wanted a multiple of 2, found 3"},
				{Path: "/d", Keyword: "maxLength", Message: `wanted at most 1 characters, found the string "xy"`},
				{Path: "/e", Keyword: "uniqueItems", Message: "wanted every item once (0 and 1 are equal), found an array of length 2"},
				{Path: "/f", Keyword: "schema", Message: "wanted no value here, found 0"},
			}},
		{"alternatives by type", `{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`, `true`, []schema.Violation{{Keyword: "type", Message: "wanted integer or string, found true"}}},
		{"the alternative that was meant", `{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}`, `{}`, []schema.Violation{{Path: "/a", Keyword: "required", Message: "wanted this field, found nothing"}}},
		{"escaped names", `{"properties":{"a/b":{"properties":{"c~d":{"type":"string"}}}}}`, `{"a/b":{"c~d":1}}`, []schema.Violation{{Path: "/a~1b/c~0d", Keyword: "type", Message: "wanted string, found 1"}}},
		{"the nearest name", `{"properties":{"displayName":{},"size":{}},"additionalProperties":false}`, `{"display_nam":1}`,
			[]schema.Violation{{Path: "/display_nam", Keyword: "additionalProperties", Message: `wanted a known field, found unknown field "display_nam"; did you mean "displayName"?`}}},
		{"no near name", `{"properties":{"displayName":{},"size":{}},"additionalProperties":false}`, `{"zzz":1}`,
			[]schema.Violation{{Path: "/zzz", Keyword: "additionalProperties", Message: `wanted one of "displayName", "size", found unknown field "zzz"`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := schema.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Validate([]byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// The order is the same on every run, and a document of faults gives a bounded answer, from many callers at once.
func TestValidateIsBoundedAndStable(t *testing.T) {
	t.Parallel()
	v, err := schema.Compile(json.RawMessage(`{"additionalProperties":{"type":"string"},"propertyNames":{"maxLength":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	var doc strings.Builder
	doc.WriteString(`{"first":"x"`)
	for i := range 300 {
		doc.WriteString(`,"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":1`)
	}
	doc.WriteString(`}`)
	want, err := v.Validate([]byte(doc.String()))
	if err != nil || len(want) != schema.DefaultMaxViolations {
		t.Fatalf("%d violations, %v", len(want), err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := v.Validate([]byte(doc.String()))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("another run differs: %v\n%s", err, diff)
			}
		})
	}
	wg.Wait()
}

// The library's location of this keyword is overwritten by siblings; the report has to name the right object anyway.
func TestPropertyNamesLocation(t *testing.T) {
	t.Parallel()
	numbers := `{"type":"object","propertyNames":{"pattern":"^[0-9]+$"}}`
	v, err := schema.Compile(json.RawMessage(`{"properties":{"one":` + numbers + `,"two":{"type":"object"},"list":{"items":{"properties":{"deep":` + numbers + `}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Validate([]byte(`{"one":{"x":1,"7":1},"two":{"x":1},"list":[{"deep":{"1":1}},{"deep":{"y":1}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range got {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([]string{"/list/1/deep/y", "/one/x"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`{}`, `true`, `{"$ref":"#"}`, `{"type":["string","null"],"pattern":"^a"}`, `{"$schema":"http://json-schema.org/draft-04/schema#","id":"x"}`, `{"anyOf":[{"$dynamicRef":"#a"}]}`, `{"multipleOf":0.1,"format":"int32"}`} {
		f.Add([]byte(seed), []byte(`{"a":[1,"x",null,1e5]}`))
	}
	f.Fuzz(func(t *testing.T, raw, doc []byte) {
		v, err := schema.Compile(raw)
		if err != nil {
			if !errors.Is(err, schema.ErrInvalidSchema) {
				t.Fatalf("error is %T", err)
			}
			return
		}
		found, _ := v.Validate(doc)
		if len(found) > schema.DefaultMaxViolations {
			t.Fatalf("%d violations", len(found))
		}
	})
}
