// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	many := `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"r":0,"c":1}`
	tests := []struct {
		name, doc string
		want      []string // path and keyword
	}{
		{"in order", ` {"a":[1,-0.5e+3,"\u00e9\ud83d\ude00\n",true,false,null,{}]} `, nil},
		{"empty", ``, []string{" syntax"}},
		{"byte order mark", "\ufeff1", []string{" syntax"}},
		{"trailing data", `1 2`, []string{" syntax"}},
		{"single quotes", `{'a':1}`, []string{" syntax"}},
		{"trailing comma", `{"a":[1,]}`, []string{"/a/1 syntax"}},
		{"leading zero", `{"a":01}`, []string{"/a syntax"}},
		{"bare point", `[1.]`, []string{"/0 syntax"}},
		{"bare exponent", `[1e]`, []string{"/0 syntax"}},
		{"plus", `[+1]`, []string{"/0 syntax"}},
		{"NaN", `[NaN]`, []string{"/0 syntax"}},
		{"half a word", `[tru]`, []string{"/0 syntax"}},
		{"control character", "[\"\x01\"]", []string{"/0 syntax"}},
		{"invalid UTF-8", "[\"\xc3\"]", []string{"/0 syntax"}},
		{"overlong UTF-8", "[\"\xc0\xaf\"]", []string{"/0 syntax"}},
		{"lone high surrogate", `["\ud800"]`, []string{"/0 syntax"}},
		{"lone low surrogate", `["\udc00"]`, []string{"/0 syntax"}},
		{"high and high", `["\ud800\ud800"]`, []string{"/0 syntax"}},
		{"bad escape", `["\x"]`, []string{"/0 syntax"}},
		{"bad hexadecimal", `["\u+123"]`, []string{"/0 syntax"}},
		{"cut escape", `["\u00`, []string{"/0 syntax"}},
		{"name twice", `{"a":1,"a":2}`, []string{"/a duplicate"}},
		{"name twice, escaped", `{"b":{"a/":1,"\u0061/":2}}`, []string{"/b/a~1 duplicate"}},
		{"name twice among many", many, []string{"/c duplicate"}},
		{"name in two objects", `{"a":{"a":1}}`, nil},
		{"too large", `{"a":1e309,"b":-1e309}`, []string{"/a range", "/b range"}},
		{"too small is zero", `1e-400`, nil},
		{"zero of any size", `0e400`, nil},
		{"exponent", `[1e2001]`, []string{"/0 range"}},
		{"long exponent", `[1e99999999999999999999]`, []string{"/0 range"}},
		{"long number", `[` + strings.Repeat("1", 1025) + `]`, []string{"/0 maxNumberLength"}},
		{"large number without exponent", `[` + strings.Repeat("9", 310) + `]`, []string{"/0 range"}},
		{"largest double", `17976931348623157` + strings.Repeat("0", 292), nil},
		{"64 levels", strings.Repeat("[", 64) + strings.Repeat("]", 64), nil},
		{"65 levels", strings.Repeat("[", 65) + strings.Repeat("]", 65), []string{strings.Repeat("/0", 64) + " maxDepth"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, v := range schema.Inspect([]byte(tt.doc), schema.Bounds{}) {
				got = append(got, v.Path+" "+v.Keyword)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInspectBounds(t *testing.T) {
	t.Parallel()
	doc := []byte(`[[1,2,3],{"a":1234567}]`)
	if got := schema.Inspect(doc, schema.Bounds{}); got != nil {
		t.Fatalf("default bounds: %v", got)
	}
	tests := []struct {
		name   string
		bounds schema.Bounds
		want   string
	}{
		{"depth", schema.Bounds{MaxDepth: 1}, "/0 maxDepth"},
		{"values", schema.Bounds{MaxValues: 4}, "/0/2 maxValues"},
		{"number length", schema.Bounds{MaxNumberLength: 6}, "/1/a maxNumberLength"},
	}
	for _, tt := range tests {
		got := schema.Inspect(doc, tt.bounds)
		if len(got) != 1 || got[0].Path+" "+got[0].Keyword != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if got := schema.Inspect([]byte(`[1e999,1e999,1e999]`), schema.Bounds{MaxViolations: 2}); len(got) != 2 {
		t.Errorf("violations: %v", got)
	}
}

func TestPointerAt(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"a":[1,{"b/c":"x"}]}`)
	for at, want := range map[int]string{0: "", 1: "/a", 5: "/a", 8: "/a/1", 9: "/a/1/b~1c", 15: "/a/1/b~1c", 2: "", 999: ""} {
		if got := schema.PointerAt(doc, at); got != want {
			t.Errorf("at %d: %q, want %q", at, got, want)
		}
	}
}

// FuzzInspect: what is in order is JSON and UTF-8, and what encoding/json refuses is not in order.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"\u00e9"],"b":null}`, `[true,false]`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00"`, `1e400`, `[01]`, "\"\xff\"", `{"":{"":[]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got := schema.Inspect(doc, schema.Bounds{})
		if got == nil && (!json.Valid(doc) || !utf8.Valid(doc)) {
			t.Fatalf("%q is in order, but not JSON", doc)
		}
		if json.Valid(doc) {
			for _, v := range got {
				if v.Keyword == "syntax" && utf8.Valid(doc) && !strings.Contains(v.Message, "surrogate") {
					t.Fatalf("%q is JSON: %v", doc, v)
				}
			}
		}
	})
}
