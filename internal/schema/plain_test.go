// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Most of what is declared for a tool is plain. What is not is no worse for it: the compiler is asked at once.
func TestPlainSchemas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw string
		want      bool
	}{
		{"nothing", `{}`, true},
		{"arguments of a tool", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","title":"T","description":"D",
			"properties":{"n":{"type":["integer","null"],"minimum":-1,"exclusiveMaximum":1e3,"default":0,"examples":[1]},
			"s":{"type":"string","minLength":1,"maxLength":999999999,"pattern":"^a+$","format":"date-time"},
			"l":{"type":"array","items":{"enum":[1,"a",null]},"minItems":0,"maxItems":3,"uniqueItems":true},
			"o":{"type":"object","propertyNames":{"maxLength":3},"additionalProperties":false,"maxProperties":2,"minProperties":1},
			"e":{"anyOf":[{"const":1},true],"not":{"oneOf":[{}]},"allOf":[{"deprecated":true}],"readOnly":true,"writeOnly":false,"x-any":{"$ref":"?"}}},
			"required":["n","s"],"additionalProperties":false,"$defs":{"a":{}},"$comment":""}`, true},
		{"another draft", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, false},
		{"a draft below the root", `{"items":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}`, false},
		{"a reference", `{"$ref":"#"}`, false},
		{"a name for references", `{"items":{"$id":"x"}}`, false},
		{"an unknown keyword", `{"maximun":1}`, false},
		{"no schema", `1`, false},
		{"any value", `true`, false},
		{"no type", `{"type":"thing"}`, false},
		{"no types", `{"type":[]}`, false},
		{"a type twice", `{"type":["null","null"]}`, false},
		{"types of another type", `{"type":[1]}`, false},
		{"a name twice", `{"required":["a","a"]}`, false},
		{"a name that is none", `{"required":[1]}`, false},
		{"no alternatives", `{"anyOf":[]}`, false},
		{"an alternative that is none", `{"anyOf":[1]}`, false},
		{"properties as a list", `{"properties":[]}`, false},
		{"a property that is none", `{"properties":{"a":1}}`, false},
		{"items of before", `{"items":[{}]}`, false},
		{"a pattern that is none", `{"pattern":"("}`, false},
		{"a pattern of another type", `{"pattern":1}`, false},
		{"a limit as a text", `{"minimum":"1"}`, false},
		{"a negative count", `{"minLength":-1}`, false},
		{"a count with a fraction", `{"minLength":1.0}`, false},
		{"a count of ten digits", `{"maxLength":1000000000}`, false},
		{"a title that is none", `{"title":1}`, false},
		{"a switch that is none", `{"uniqueItems":1}`, false},
		{"values as a text", `{"enum":"a"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			source, err := readSchema([]byte(tt.raw))
			if err != nil {
				t.Fatal(err)
			}
			if got := isPlain(source); got != tt.want {
				t.Errorf("plain: %v", got)
			}
		})
	}
}

// drawSchema draws a schema that is mostly right.
func drawSchema(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 || rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			return rapid.SampledFrom([]any{true, false, map[string]any{}, 1, nil}).Draw(t, "leaf")
		}
		out := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			keyword := rapid.SampledFrom([]string{
				"type", "properties", "$defs", "additionalProperties", "items", "propertyNames", "not", "anyOf", "oneOf", "allOf", "required",
				"minimum", "exclusiveMaximum", "minLength", "maxItems", "minProperties", "pattern", "title", "$comment", "format", "uniqueItems",
				"deprecated", "enum", "examples", "const", "default", "x-note", "$schema", "$ref", "$id", "$anchor", "multipleOf", "prefixItems",
				"contains", "if", "then", "dependentRequired", "patternProperties", "other",
			}).Draw(t, "keyword")
			out[keyword] = drawValue(keyword, depth-1).Draw(t, "value")
		}
		return out
	})
}

// drawValue draws a value for a keyword, now and then one for another.
func drawValue(keyword string, depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := keyword
		if rapid.IntRange(0, 19).Draw(t, "mistake") == 0 {
			kind = rapid.SampledFrom([]string{"type", "properties", "items", "anyOf", "required", "minimum", "title", "enum"}).Draw(t, "kind")
		}
		names := rapid.SampledFrom([]any{"", "a", "b/c", "~", "%25", "$id", "a b", 1})
		switch kind {
		case "type":
			return rapid.SampledFrom([]any{"object", "null", "no", []any{"string", "null"}, []any{"string", "string"}, []any{}}).Draw(t, "type")
		case "properties", "$defs", "patternProperties":
			out := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				name, _ := names.Draw(t, "name").(string)
				out[name] = drawSchema(depth).Draw(t, "schema")
			}
			return out
		case "anyOf", "oneOf", "allOf", "prefixItems":
			return rapid.SliceOfN(drawSchema(depth), 0, 3).Draw(t, "schemas")
		case "required":
			return rapid.SliceOfN(names, 0, 3).Draw(t, "names")
		case "minimum", "exclusiveMaximum", "minLength", "maxItems", "minProperties", "multipleOf":
			return json.Number(rapid.SampledFrom([]string{"0", "-1", "1.5", "3", "1e3", "1e2000", "12345678901234567890"}).Draw(t, "number"))
		case "pattern", "title", "$comment", "format", "$ref", "$id", "$anchor":
			return rapid.SampledFrom([]any{"", "a", "(", "(?=a)", "\\d", "#", "#/$defs/a", "date-time", "regex", "x y", "é", 1, nil}).Draw(t, "text")
		case "$schema":
			return rapid.SampledFrom([]any{draft2020, draft2020 + "#", "x", 1}).Draw(t, "draft")
		case "uniqueItems", "deprecated":
			return rapid.SampledFrom([]any{true, false, "true"}).Draw(t, "switch")
		case "enum", "examples":
			return rapid.SampledFrom([]any{[]any{}, []any{1, 1, nil}, "a"}).Draw(t, "values")
		case "const", "default", "x-note":
			return rapid.SampledFrom([]any{1, nil, map[string]any{"$ref": "?", "$id": 1}, []any{}}).Draw(t, "any")
		}
		return drawSchema(depth).Draw(t, "schema")
	})
}

// Prepare refuses what Compile refuses, and what it postpones gives the same answers.
func TestPrepareAgreesWithCompile(t *testing.T) {
	t.Parallel()
	plain, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(drawSchema(3).Draw(t, "schema"))
		if err != nil {
			t.Fatal(err)
		}
		isPlain, isRefused := comparePrepared(t, raw, []byte(`{"a":[1,"x",null,{"b/c":1.5}],"":"a"}`))
		if isPlain {
			plain++
		}
		if isRefused {
			refused++
		}
	})
	if plain == 0 || refused == 0 {
		t.Errorf("%d plain schemas, %d refused ones: the draw says nothing", plain, refused)
	}
}

// comparePrepared compares Prepare with Compile on one schema and one document.
func comparePrepared(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, raw, doc []byte,
) (plain, refused bool) {
	t.Helper()
	compiled, want := Compile(raw)
	prepared, got := Prepare(raw)
	if errors.Is(got, errCostlySchema) {
		return false, want != nil // Compile has no such bound
	}
	if (want == nil) != (got == nil) {
		t.Fatalf("%s\nCompile says %v\nPrepare says %v", raw, want, got)
	}
	if want != nil {
		return false, true
	}
	found, got := prepared.Validate(doc)
	same, want := compiled.Validate(doc)
	if diff := cmp.Diff(same, found); diff != "" || (want == nil) != (got == nil) {
		t.Fatalf("%s\nthe answers differ: errors %v and %v, violations (-compiled +prepared):\n%s", raw, want, got, diff)
	}
	return isPlain(prepared.Document()), false
}

func FuzzPrepare(f *testing.F) {
	for _, seed := range []string{
		`{}`, `true`, `{"$ref":"#"}`, `{"type":["string","null"],"pattern":"^a"}`, `{"properties":{"a/b":{"items":{"format":"int32"}}},"required":["a"]}`,
		`{"anyOf":[{"const":1},{"minimum":1e300}],"x-note":{"$id":1}}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"":{}}}`,
		`{"maxLength":1e2,"minItems":0,"enum":[1,1.0],"not":{"type":[]}}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":[1,"x",null,1e5]}`))
	}
	f.Fuzz(func(t *testing.T, raw, doc []byte) { comparePrepared(t, raw, doc) })
}
