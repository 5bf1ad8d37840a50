// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// doubling is a schema of few bytes that puts 2^n schemas to one value.
func doubling(n int, member string) string {
	var defs strings.Builder
	defs.WriteString(`"d0":{"type":"object"}`)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&defs, `,"d%d":{%s}`, i, strings.ReplaceAll(member, "REF", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i-1)))
	}
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d%d","$defs":{%s}}`, n, defs.String())
}

func manyProperties(n int) string {
	var properties strings.Builder
	for i := range n {
		fmt.Fprintf(&properties, `,"p%d":{"type":"string"}`, i)
	}
	return `{"type":"object","properties":{` + properties.String()[1:] + `}}`
}

func TestPrepareRefusesCostlySchemas(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw, want string }{
		{"allOf doubles", doubling(20, `"allOf":[REF,REF]`), "#/$defs/d13 puts more than 16384 schemas to one value"},
		{"anyOf doubles", doubling(25, `"anyOf":[REF,REF]`), "puts more than 16384 schemas"},
		{"dependentSchemas double", doubling(25, `"dependentSchemas":{"a":REF,"b":REF}`), "puts more than 16384 schemas"},
		{"if and then", doubling(25, `"if":REF,"then":REF`), "puts more than 16384 schemas"},
		{"a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"object"},{"$ref":"#/$defs/a"}]}}}`, "refers to itself"},
		{"properties", manyProperties(30000), "30002 schemas within it; at most 10000"},
		{"patterns", `{"anyOf":[{"pattern":"` + strings.Repeat(`"},{"pattern":"[a-z]{999}`, 600) + `"}]}`, "patterns of the schema are too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Prepare(json.RawMessage(tt.raw))
			if !errors.Is(err, schema.ErrInvalidSchema) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	for name, raw := range map[string]string{
		"few doublings": doubling(10, `"allOf":[REF,REF]`), "a tree": `{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, "properties": manyProperties(2000),
	} {
		if v, err := schema.Prepare(json.RawMessage(raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if found, err := v.Validate([]byte(`{}`)); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// email is a pattern that is followed in many ways at once, from every character.
const email = `([A-Za-z0-9]+[._%+-]?)+@([A-Za-z0-9]+[.-])+(com|org|net|edu|gov|mil|info|biz|name|museum|aero|coop)`

// nested is an object within an object, n deep.
func nested(n int, innermost string) string {
	return strings.Repeat(`{"a":`, n) + innermost + strings.Repeat("}", n)
}

func TestValidateWork(t *testing.T) {
	t.Parallel()
	// Each level asks twice about the next one; below not, nothing is said about what fails.
	twice := `{"properties":{"a":{"$ref":"#/$defs/x"}},"patternProperties":{"^a":{"$ref":"#/$defs/x"}},"type":"object"}`
	tests := []struct{ name, schema, doc, want string }{
		{"a pattern over megabytes", `{"pattern":"` + email + `"}`, `"` + strings.Repeat("a", 3900000) + `"`, "maxWork"},
		{"length before pattern", `{"maxLength":254,"pattern":"` + email + `"}`, `"` + strings.Repeat("a", 3900000) + `"`, "maxLength"},
		{"length before pattern, and the pattern again", `{"items":{"maxLength":3,"pattern":"^b"}}`, `["aaaa","a"]`, "maxLength pattern"},
		{"a text in base64", `{"pattern":"^[A-Za-z0-9+/]*={0,2}$"}`, `"` + strings.Repeat("Zm9v", 1000000) + `"`, ""},
		{"many texts with a pattern", `{"items":{"pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}`,
			"[" + strings.Repeat(`"0190163d-8694-739b-aea5-966c26f8ad91",`, 99999) + `"0190163d-8694-739b-aea5-966c26f8ad91"]`, ""},
		{"two ways down at every level", `{"$ref":"#/$defs/x","$defs":{"x":` + twice + `}}`, nested(40, "{}"), "maxWork"},
		{"two ways down below not", `{"not":{"$ref":"#/$defs/x"},"$defs":{"x":` + twice + `}}`, nested(40, "1"), "maxWork"},
		{"the same, not as deep", `{"$ref":"#/$defs/x","$defs":{"x":` + twice + `}}`, nested(10, "{}"), ""},
		{"alternatives for many items", `{"items":{"anyOf":[` + strings.Repeat(`{"const":1},`, 200) + `{"type":"null"}]}}`,
			"[" + strings.Repeat(`2,`, 99999) + `2]`, "maxWork"},
		{"names by pattern", `{"propertyNames":{"pattern":"` + email + `"}}`, `{"` + strings.Repeat("a", 3900000) + `":1}`, "maxWork"},
		{"a pattern of names", `{"patternProperties":{"` + email + `":{}}}`, `{"` + strings.Repeat("a", 3900000) + `":1}`, "maxWork"},
		{"format regex asserts nothing", `{"format":"regex"}`, `"("`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := schema.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(tt.want, "Work") {
				v.SetWork(1 << 17) // the bound takes seconds
			}
			found, err := v.Validate([]byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			var keywords []string
			for _, f := range found {
				keywords = append(keywords, f.Keyword)
			}
			if got := strings.Join(keywords, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// endingContext ends after it has been looked at so many times.
type endingContext struct {
	context.Context //nolint:containedctx // it is one
	looks           int
}

func (c *endingContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestValidateHearsTheContext(t *testing.T) {
	t.Parallel()
	const big = 3000000
	for name, tt := range map[string]struct{ schema, doc string }{
		"in a pattern":             {`{"pattern":"` + email + `"}`, `"` + strings.Repeat("a", big) + `"`},
		"between schemas":          {`{"items":{"anyOf":[{"const":1},{"type":"integer"}]}}`, "[" + strings.Repeat(`2,`, 99999) + `2]`},
		"where nothing is checked": {`{}`, `{}`},
		"in a small pattern":       {`{"items":{"pattern":"` + email + `"}}`, `["` + strings.Repeat("a", 4096) + `"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := schema.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			looks := 3
			if len(tt.doc) < 10000 {
				looks = 0
			}
			if found, err := v.ValidateContext(&endingContext{t.Context(), looks}, []byte(tt.doc)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, %v", found, err)
			}
			// The machine that was unwound is as good as new.
			if found, err := v.Validate([]byte(`"a@b.com"`)); err != nil || len(found) > 0 {
				t.Errorf("afterwards: %v, %v", found, err)
			}
		})
	}
}

// BenchmarkValidate is what checking a small call against a declared schema costs.
func BenchmarkValidate(b *testing.B) {
	v, err := schema.Prepare(json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","maxLength":64,"pattern":"^[a-z-]+$"},
		"count":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string"}}},"required":["name"],"additionalProperties":false}`))
	if err != nil {
		b.Fatal(err)
	}
	doc := []byte(`{"name":"an-order","count":3,"tags":["a","b","c"]}`)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := v.Validate(doc); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}
