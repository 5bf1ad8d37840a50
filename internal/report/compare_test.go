// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tool is a tool with the given canonical schemas.
func tool(input, output string) Tool {
	return Tool{
		Name: "shop.buy", Version: "1.0.0",
		InputSchema: json.RawMessage(`{"type":"object"}`), CanonicalInputSchema: json.RawMessage(input),
		OutputSchema: json.RawMessage(`{"type":"object"}`), CanonicalOutputSchema: json.RawMessage(output),
	}
}

// short writes changes as "! kind field" lines; "!" for breaking ones, "?" for those that may break. Texts are left out.
func short(changes []Change) []string {
	out := []string{}
	for _, c := range changes {
		if c.Kind == kindText {
			continue
		}
		mark := [...]string{"  ", "? ", "! "}[c.alarm()]
		out = append(out, strings.TrimRight(mark+string(c.Kind)+" "+c.Where(), " "))
	}
	return out
}

// TestSchemas goes both ways through each pair of schemas, as input and as output.
func TestSchemas(t *testing.T) {
	t.Parallel()
	object := func(properties string, more ...string) string {
		return `{"type":"object","properties":{` + properties + `}` + strings.Join(more, "") + `,"additionalProperties":false}`
	}
	prop := func(schema string) string { return object(`"x":` + schema) }
	tests := []struct {
		name string
		a, b string
		// What a to b and b to a are, as input (in, inBack) and as output (out, outBack).
		in, inBack, out, outBack []string
	}{
		{
			"optional field", object(``), object(`"x":{"type":"string"}`),
			[]string{"  added_optional_parameter input x"}, []string{"! removed_parameter input x"},
			[]string{"  added_output_field output x"}, []string{"! incompatible_output output x"},
		},
		{
			"required field", object(``), object(`"x":{"type":"string"}`, `,"required":["x"]`),
			[]string{"! added_required_parameter input x"}, []string{"! removed_parameter input x"},
			[]string{"  added_output_field output x"}, []string{"! incompatible_output output x"},
		},
		{
			"optional becomes required",
			object(`"x":{"type":["string","null"]}`), object(`"x":{"type":"string"}`, `,"required":["x"]`),
			[]string{"! added_required_parameter input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x", "  narrowed output x"}, []string{"! incompatible_output output x", "! incompatible_output output x"},
		},
		{
			"another type", prop(`{"type":"string"}`), prop(`{"type":"integer"}`),
			[]string{"! changed_type input x"}, []string{"! changed_type input x"},
			[]string{"! incompatible_output output x"}, []string{"! incompatible_output output x"},
		},
		{
			"a wider type", prop(`{"type":"integer"}`), prop(`{"type":"number"}`),
			[]string{"  widened input x"}, []string{"! changed_type input x"},
			[]string{"! incompatible_output output x"}, []string{"  narrowed output x"},
		},
		{
			"null", prop(`{"type":"string"}`), prop(`{"type":["string","null"]}`),
			[]string{"  widened input x"}, []string{"! narrowed input x"},
			[]string{"! incompatible_output output x"}, []string{"  narrowed output x"},
		},
		{
			"null as an alternative", prop(`{"type":["string","null"]}`), prop(`{"anyOf":[{"type":"string"},{"type":"null"}]}`),
			nil, nil, nil, nil,
		},
		{
			"enum value", prop(`{"enum":["a","b"]}`), prop(`{"type":"string","enum":["a","b","c"]}`),
			[]string{"  widened input x"}, []string{"! narrowed input x"},
			[]string{"  widened output x"}, []string{"  narrowed output x"},
		},
		{
			"enum order and const", prop(`{"enum":["a"]}`), prop(`{"const":"a"}`), nil, nil, nil, nil,
		},
		{
			"any value to some", prop(`{"type":"string"}`), prop(`{"type":"string","enum":["a"]}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"range", prop(`{"type":"integer","minimum":1,"maximum":10}`), prop(`{"type":"integer","minimum":0,"maximum":20}`),
			[]string{"  widened input x", "  widened input x"}, []string{"! narrowed input x", "! narrowed input x"},
			[]string{"  widened output x", "  widened output x"}, []string{"  narrowed output x", "  narrowed output x"},
		},
		{
			"a bound that is not part of the range", prop(`{"type":"number","minimum":1}`), prop(`{"type":"number","exclusiveMinimum":1}`),
			[]string{"? changed input x", "? changed input x"}, []string{"? changed input x", "? changed input x"},
			[]string{"? changed output x", "? changed output x"}, []string{"? changed output x", "? changed output x"},
		},
		{
			"64-bit bounds are exact",
			prop(`{"type":"integer","maximum":9223372036854775807}`), prop(`{"type":"integer","maximum":9223372036854775806}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"equal numbers", prop(`{"type":"number","maximum":1.0}`), prop(`{"type":"number","maximum":1}`), nil, nil, nil, nil,
		},
		{
			"a number beyond the bounds", prop(`{"type":"number","maximum":1e999999999}`), prop(`{"type":"number","maximum":1e999999998}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"multipleOf", prop(`{"type":"integer","multipleOf":4}`), prop(`{"type":"integer","multipleOf":2}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"length", prop(`{"type":"string","maxLength":10}`), prop(`{"type":"string","maxLength":5}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"pattern within another", prop(`{"type":"string","pattern":"^[a-z]{1,3}$"}`), prop(`{"type":"string","pattern":"^[a-z0-9]*$"}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"pattern beside another", prop(`{"type":"string","pattern":"^a"}`), prop(`{"type":"string","pattern":"^b"}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"bytes", prop(`{"type":"string","maxLength":4}`), prop(`{"type":"string","contentEncoding":"base64","format":"byte"}`),
			[]string{"! changed_type input x"}, []string{"! changed_type input x"},
			[]string{"! incompatible_output output x"}, []string{"! incompatible_output output x"},
		},
		{
			"format", prop(`{"type":"string"}`), prop(`{"type":"string","format":"date-time"}`),
			[]string{"! changed_type input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"! incompatible_output output x"},
		},
		{
			"32 to 64 bits", prop(`{"type":["integer","string"],"format":"int32"}`), prop(`{"type":["integer","string"],"format":"int64"}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"float to double", prop(`{"type":"number","format":"float"}`), prop(`{"type":"number","format":"double"}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"items", prop(`{"type":"array","items":{"type":"string"}}`), prop(`{"type":"array","items":{"type":"string","maxLength":3},"maxItems":2}`),
			[]string{"! narrowed input x", "! narrowed input x[]"}, []string{"  widened input x", "  widened input x[]"},
			[]string{"  narrowed output x", "  narrowed output x[]"}, []string{"  widened output x", "  widened output x[]"},
		},
		{
			"unique entries", prop(`{"type":"array","items":{}}`), prop(`{"type":"array","uniqueItems":true}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"map values", prop(`{"type":"object","additionalProperties":{"type":"string"}}`), prop(`{"type":"object","additionalProperties":{"type":"boolean"}}`),
			[]string{"! changed_type input x.*"}, []string{"! changed_type input x.*"},
			[]string{"! incompatible_output output x.*"}, []string{"! incompatible_output output x.*"},
		},
		{
			"map keys", prop(`{"type":"object"}`), prop(`{"type":"object","propertyNames":{"pattern":"^x-"}}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"open to closed", prop(`{"type":"object"}`), prop(`{"type":"object","additionalProperties":false}`),
			[]string{"! narrowed input x.*"}, []string{"  widened input x.*"},
			[]string{"  narrowed output x.*"}, []string{"  widened output x.*"},
		},
		{
			"a reference for what stood there", prop(`{"type":"object","properties":{"y":{"type":"string"}}}`),
			`{"type":"object","properties":{"x":{"$ref":"#/$defs/a~1b"}},"additionalProperties":false,"$defs":{"a/b":{"type":"object","properties":{"y":{"type":"string"}}}}}`,
			nil, nil, nil, nil,
		},
		{
			"a second name", prop(`{"type":"string"}`),
			object(`"x":{"type":"string"},"xOld":{"$ref":"#/properties/x"}`, `,"dependentSchemas":{"x":{"properties":{"xOld":{"not":{}}}}}`),
			nil, []string{"! removed_parameter input x"},
			nil, []string{"! incompatible_output output x"},
		},
		{
			"required under one of two names",
			object(`"x":{"type":"string"},"y":{"$ref":"#/properties/x"}`, `,"allOf":[{"anyOf":[{"required":["x"]},{"required":["y"]}]}]`),
			object(`"x":{"type":"string"},"y":{"$ref":"#/properties/x"}`),
			[]string{"  widened input x"}, []string{"! added_required_parameter input x"},
			[]string{"! incompatible_output output x"}, []string{"  narrowed output x"},
		},
		{
			"one more member of a oneof",
			object(`"a":{"type":"string"},"b":{"type":"string"}`, `,"allOf":[{"oneOf":[{"required":["a"]},{"required":["b"]},{"properties":{"a":{"type":"null"},"b":{"type":"null"}}}]}]`),
			object(`"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}`,
				`,"allOf":[{"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]},{"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}}}]}]`),
			[]string{"? changed input", "  added_optional_parameter input c"}, []string{"! removed_parameter input c", "? changed input"},
			[]string{"? changed output", "  added_output_field output c"}, []string{"! incompatible_output output c", "? changed output"},
		},
		{
			"fields join a oneof",
			object(`"a":{"type":"string"},"b":{"type":"string"}`),
			object(`"a":{"type":"string"},"b":{"type":"string"}`, `,"if":{"oneOf":[{"required":["a"]},{"required":["b"]}]},"else":{"not":{}}`),
			[]string{"! narrowed input"}, []string{"  widened input"},
			[]string{"  narrowed output"}, []string{"  widened output"},
		},
		{
			"a oneof may be empty",
			object(`"a":{},"b":{}`, `,"allOf":[{"oneOf":[{"required":["a"]},{"required":["b"]}]}]`),
			object(`"a":{},"b":{}`, `,"allOf":[{"oneOf":[{"required":["a"]},{"required":["b"]},{"properties":{"a":false,"b":false}}]}]`),
			[]string{"? changed input"}, []string{"? changed input"},
			[]string{"? changed output"}, []string{"? changed output"},
		},
		{
			"a form of a value", prop(`{"anyOf":[{"enum":["A"]},{"type":"integer"}]}`), prop(`{"anyOf":[{"type":"integer"},{"enum":["A","B"]},{"type":"boolean"}]}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"one more value of an enum that may come as a number", prop(`{"anyOf":[{"enum":["A"]},{"type":"integer"}]}`), prop(`{"anyOf":[{"type":"integer"},{"enum":["A","B"]}]}`),
			[]string{"  widened input x"}, []string{"! narrowed input x"},
			[]string{"  widened output x"}, []string{"  narrowed output x"},
		},
		{
			"one more form", prop(`{"anyOf":[{"type":"string"},{"type":"integer"}]}`), prop(`{"anyOf":[{"type":"integer"},{"type":"string"},{"type":"boolean"}]}`),
			[]string{"  widened input x"}, []string{"! changed_type input x"},
			[]string{"! incompatible_output output x"}, []string{"  narrowed output x"},
		},
		{
			"one type or two alternatives", prop(`{"type":["integer","string"]}`), prop(`{"anyOf":[{"type":"integer"},{"type":"string"}]}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"a tagged union", prop(`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]}]}`),
			prop(`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"alternatives that may overlap", prop(`{"oneOf":[{"type":"string","maxLength":1}]}`),
			prop(`{"oneOf":[{"type":"string","maxLength":1},{"type":"string","minLength":1}]}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"a condition", prop(`{"type":"string"}`), prop(`{"type":"string","allOf":[{"maxLength":3}]}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"an exclusion", prop(`{"type":"integer","not":{"enum":[0]}}`), prop(`{"type":"integer","not":{"enum":[0,1]}}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"a new exclusion", prop(`{"type":"integer"}`), prop(`{"type":"integer","not":{"enum":[0]}}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"nothing at all", prop(`{"type":"integer"}`), prop(`{"not":{}}`),
			[]string{"! narrowed input x"}, []string{"  widened input x"},
			[]string{"  narrowed output x"}, []string{"  widened output x"},
		},
		{
			"a keyword that is not understood", prop(`{"type":"array","unevaluatedItems":{}}`), prop(`{"type":"array"}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"a keyword of the wrong form", prop(`{"type":"string","contentEncoding":{"a":1},"format":{},"pattern":7}`), prop(`{"type":"string","contentEncoding":{"a":1},"format":{},"pattern":8}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"recursion",
			`{"type":"object","properties":{"x":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"y":{"type":"string"}}}`,
			`{"type":"object","properties":{"x":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"y":{"type":"integer"}}}`,
			[]string{"! changed_type input y"}, []string{"! changed_type input y"},
			[]string{"! incompatible_output output y"}, []string{"! incompatible_output output y"},
		},
		{
			"deprecated", prop(`{"type":"string"}`), prop(`{"type":"string","deprecated":true}`),
			[]string{"  deprecated input x"}, []string{"  deprecated input x"},
			[]string{"  deprecated output x"}, []string{"  deprecated output x"},
		},
		{
			"a default", prop(`{"type":"string"}`), prop(`{"type":"string","default":"a"}`),
			[]string{"  metadata input x"}, []string{"  metadata input x"},
			[]string{"  metadata output x"}, []string{"  metadata output x"},
		},
		{
			"a reference that leads nowhere", prop(`{"$ref":"#/nowhere"}`), prop(`{"$ref":"https://example.com/s"}`),
			[]string{"? changed input x"}, []string{"? changed input x"},
			[]string{"? changed output x"}, []string{"? changed output x"},
		},
		{
			"references in a circle", prop(`{"$ref":"#/properties/x"}`), prop(`{"type":"string"}`),
			[]string{"! changed_type input x", "! narrowed input x", "? changed input x"}, []string{"? changed input x", "  widened input x", "  widened input x"},
			[]string{"? changed output x", "  narrowed output x", "  narrowed output x"}, []string{"! incompatible_output output x", "! incompatible_output output x", "? changed output x"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			closed := `{"type":"object"}`
			for _, step := range []struct {
				way      string
				from, to Tool
				want     []string
			}{
				{"input, there", tool(tt.a, closed), tool(tt.b, closed), tt.in},
				{"input, back", tool(tt.b, closed), tool(tt.a, closed), tt.inBack},
				{"output, there", tool(closed, tt.a), tool(closed, tt.b), tt.out},
				{"output, back", tool(closed, tt.b), tool(closed, tt.a), tt.outBack},
			} {
				got := changesOf([]Tool{step.from}, []Tool{step.to}, DiffLimits{})
				want := step.want
				if want == nil {
					want = []string{}
				}
				if diff := cmp.Diff(want, short(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s%s", step.way, diff, dump(got))
				}
				for _, c := range got {
					if c.alarm() > 0 && c.Action == "" {
						t.Errorf("%s: no action for %+v", step.way, c)
					}
				}
			}
		})
	}
}

func dump(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s: %s\n", c.Kind, c.Path, c.Message)
	}
	return b.String()
}

// changesOf says what changed between two lists of tools.
func changesOf(before, after []Tool, l DiffLimits) []Change { return Compare(before, after, l).Changes }

// mayBreak reports whether one of the changes breaks, or may.
func mayBreak(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.alarm() > 0 })
}
