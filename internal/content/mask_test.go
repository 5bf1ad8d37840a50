// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// shop is an output schema with a list, a map, a recursive message, an Any and a free form.
const shop = `{"type":"object","properties":{
	"items":{"type":"array","items":{"$ref":"#/$defs/Item"}},
	"byKey":{"type":"object","additionalProperties":{"$ref":"#/$defs/Item"}},
	"nextPageToken":{"type":"string"},
	"any":{"type":"object","properties":{"@type":{"type":"string"}}},
	"free":{"type":"object"},
	"none":{"type":"object","properties":{},"additionalProperties":false}
},"additionalProperties":false,"$defs":{"Item":{"type":"object","properties":{
	"id":{"type":"string"},"displayName":{"type":"string"},"parent":{"$ref":"#/$defs/Item"},"tags":{"type":"array","items":{"type":"string"}}
},"additionalProperties":false}}}`

const stock = `{"items":[{"id":"1","displayName":"one","parent":{"id":"0","displayName":"zero"},"tags":["a"]},{"id":"2","tags":[]}],` +
	`"byKey":{"a.b":{"id":"3","displayName":"three"},"c":{"id":"4"}},"nextPageToken":"t","any":{"@type":"x","id":9007199254740993,"b":1},"free":{"k":{"l":[{"m":1,"n":2}]},"o":null}}`

func TestAppend(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mask, want string }{
		{"", stock},
		{"*", stock},
		{"nextPageToken", `{"nextPageToken":"t"}`},
		{"next_page_token", `{"nextPageToken":"t"}`},
		{"items.id", `{"items":[{"id":"1"},{"id":"2"}]}`},
		{"items.*.id", `{"items":[{"id":"1"},{"id":"2"}]}`},
		{"items.id,items", `{"items":[{"id":"1","displayName":"one","parent":{"id":"0","displayName":"zero"},"tags":["a"]},{"id":"2","tags":[]}]}`},
		{"items,items.id", `{"items":[{"id":"1","displayName":"one","parent":{"id":"0","displayName":"zero"},"tags":["a"]},{"id":"2","tags":[]}]}`},
		{"items.parent.display_name", `{"items":[{"parent":{"displayName":"zero"}},{}]}`},
		{"items.parent.parent.parent", `{"items":[{"parent":{}},{}]}`},
		{"by_key.*.id", `{"byKey":{"a.b":{"id":"3"},"c":{"id":"4"}}}`},
		{"byKey.`a.b`.displayName, byKey.c", `{"byKey":{"a.b":{"displayName":"three"},"c":{"id":"4"}}}`},
		// A mask is the union of its paths, in any order.
		{"byKey.*.id,byKey.c.displayName,byKey.`a.b`.displayName", `{"byKey":{"a.b":{"id":"3","displayName":"three"},"c":{"id":"4"}}}`},
		{"byKey.`a.b`.displayName,byKey.*.id", `{"byKey":{"a.b":{"id":"3","displayName":"three"},"c":{"id":"4"}}}`},
		{"byKey.c,byKey.*.id", `{"byKey":{"a.b":{"id":"3"},"c":{"id":"4"}}}`},
		{"any.id", `{"any":{"@type":"x","id":9007199254740993}}`},
		{"free.k.l.m", `{"free":{"k":{"l":[{"m":1}]}}}`},
		{"free.*.l", `{"free":{"k":{"l":[{"m":1,"n":2}]},"o":null}}`},
	} {
		mask, faults := content.NewMask(tc.mask, schema.ViewOf([]byte(shop)))
		if len(faults) > 0 {
			t.Errorf("%s: %v", tc.mask, faults)
			continue
		}
		if got := string(mask.Append(nil, []byte(stock))); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.mask, got, tc.want)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mask, says string }{
		{"itms", `did you mean "items"?`},
		{"items.idd", `did you mean "items.id"?`},
		{"items.id.x", `"items.id" has no fields`},
		{"zzzzzzzzzz", "there are items, byKey, nextPageToken, any, free, none"},
		{"none.x", `has no field "none.x"`},
		{"items.tags.x", `"items.tags" has no fields`},
		{"any.*", ""},
		{"items.parent.*", ""},
		{"*.id", "is not a map"},
		{"items.*.*.id", "is not a map"},
		{"items,", "is empty"},
		{",items", "is empty"},
		{"items..id", "is empty"},
		{"items.", "is empty"},
		{".", "is empty"},
		{"byKey.`a", "not closed"},
		{"byKey.`a`b", "followed by"},
		{"items`a`", "followed by"},
		{strings.Repeat("a", content.MaxBytes+1), "bytes; at most"},
		{strings.Repeat("items,", content.MaxPaths-1) + "items", ""},
		{strings.Repeat("items,", content.MaxPaths) + "items", "more than 256 paths"},
		{strings.Repeat("free.", content.MaxDepth) + "x", "more than 32 names"},
	} {
		_, faults := content.NewMask(tc.mask, schema.ViewOf([]byte(shop)))
		got := strings.Join(faults, "\n")
		if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%.80s: got %q, want %q", tc.mask, got, tc.says)
		}
	}
	if _, faults := content.NewMask("itms,items,idd", schema.ViewOf([]byte(shop))); len(faults) != 2 {
		t.Errorf("got %q, want all faults", faults)
	}
}

// Of a document that is a member of what its reader gets, paths and errors name that member.
func TestUnderAMember(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mask, like, says string }{
		{"response.items.id,response.nextPageToken", "items.id,nextPageToken", ""},
		{"response.next_page_token", "nextPageToken", ""},
		{"response", "", ""},
		{"response.*", "", ""},
		{" ", "", ""},
		{"items.id", "", `"items.id" does not begin with response; write paths such as "response.items.id"`},
		{"done", "", `"done" does not begin with response; write paths such as "response.items"`},
		{"response.itms", "", `the result has no field "response.itms"; did you mean "response.items"?`},
		{"response.items.id.x", "", `"response.items.id" has no fields`},
	} {
		mask, faults := content.NewMaskUnder(tc.mask, schema.ViewOf([]byte(shop)), "response")
		if got := strings.Join(faults, "\n"); !strings.HasPrefix(got, tc.says) || (got == "") != (tc.says == "") {
			t.Errorf("%s: got %q, want %q", tc.mask, got, tc.says)
		}
		if tc.says != "" {
			continue
		}
		like, _ := content.NewMask(tc.like, schema.ViewOf([]byte(shop)))
		if got, want := mask.Append(nil, []byte(stock)), like.Append(nil, []byte(stock)); !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.mask, got, want)
		}
	}
}

// What a schema requires stays, and so does an object whose rules depend on its members.
func TestRequiredMembersStay(t *testing.T) {
	t.Parallel()
	const declared = `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{},"a":{},"b":{}},"required":["id"]}},
		"count":{"type":"integer"},"one":{"type":"object","properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}},"required":["rows","count"]}`
	const document = `{"rows":[{"id":1,"a":2,"b":3}],"count":1,"one":{"a":1},"more":true}`
	for _, tc := range []struct{ mask, want string }{
		{"count", `{"rows":[{"id":1,"a":2,"b":3}],"count":1}`},
		{"rows.a", `{"rows":[{"id":1,"a":2}],"count":1}`},
		{"rows.id,more", `{"rows":[{"id":1}],"count":1,"more":true}`},
		{"one.b", `{"rows":[{"id":1,"a":2,"b":3}],"count":1,"one":{"a":1}}`},
	} {
		mask, faults := content.NewMask(tc.mask, schema.ViewOf([]byte(declared)))
		if got := string(mask.Append(nil, []byte(document))); len(faults) > 0 || got != tc.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", tc.mask, faults, got, tc.want)
		}
	}
	// Without a schema every name is one.
	mask, faults := content.NewMask("rows.a,x.y", schema.View{})
	if got := string(mask.Append(nil, []byte(document))); len(faults) > 0 || got != `{"rows":[{"a":2}]}` {
		t.Errorf("%v, %s", faults, got)
	}
}

// JSON Schema has lists that contain themselves. A mask for one ends, and selects what it names.
func TestAListThatContainsItself(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schema, mask, document, want string }{
		{`{"type":"object","properties":{"tree":{"$ref":"#/$defs/T"}},"$defs":{"T":{"type":"array","items":{"$ref":"#/$defs/T"}}}}`, "tree", `{"tree":[[[]]],"a":1}`, `{"tree":[[[]]]}`},
		{`{"type":"object","properties":{"tree":{"$ref":"#/$defs/T"}},"$defs":{"T":{"type":"array","items":{"$ref":"#/$defs/T"}}}}`, "tree.a", `{"tree":[[{"a":1,"b":2}]],"a":1}`, `{"tree":[[{"a":1}]]}`},
		{`{"type":"array","items":{"$ref":"#"}}`, "a", `[[{"a":1,"b":2}]]`, `[[{"a":1}]]`},
	} {
		mask, faults := content.NewMask(tc.mask, schema.ViewOf([]byte(tc.schema)))
		if got := string(mask.Append(nil, []byte(tc.document))); len(faults) > 0 || got != tc.want {
			t.Errorf("%s: %v, %s, want %s", tc.mask, faults, got, tc.want)
		}
	}
}

// Places that are written alike are not one place.
func TestPlacesOfTheSameLength(t *testing.T) {
	t.Parallel()
	place := func(name string) string {
		return `{"type":"object","properties":{"` + name + `":{"type":"string"}},"required":["` + name + `"],"additionalProperties":false}`
	}
	of := schema.ViewOf([]byte(`{"type":"object","properties":{"a":` + place("x") + `,"b":` + place("y") + `,"c":` + place("z") + `},"additionalProperties":false}`))
	mask, faults := content.NewMask("a.x,b.y", of)
	if got, want := string(mask.Append(nil, []byte(`{"a":{"x":"1"},"b":{"y":"2"},"c":{"z":"3"}}`))), `{"a":{"x":"1"},"b":{"y":"2"}}`; len(faults) > 0 || got != want {
		t.Errorf("%v, %s, want %s", faults, got, want)
	}
	if _, faults := content.NewMask("a.y", of); len(faults) != 1 {
		t.Errorf("got %q", faults)
	}
}

// However long a mask is, the schema is read once at each place.
func TestALargeSchemaIsReadOnce(t *testing.T) {
	t.Parallel()
	var properties strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&properties, `"field%d":{"type":"string","description":"x"},`, i)
	}
	of := schema.ViewOf([]byte(`{"type":"object","properties":{` + properties.String() + `"a":{"$ref":"#"}},"additionalProperties":false}`))
	deep := strings.TrimSuffix(strings.Repeat("a.", content.MaxDepth), ".")
	paths := content.MaxNames / content.MaxDepth
	for _, tc := range []struct{ mask, says string }{
		{strings.TrimSuffix(strings.Repeat(deep+",", paths), ","), ""},
		{strings.Repeat(deep+",", paths) + "a", "names; at most 1024"},
		{strings.Repeat("feild,", 100) + "a", "more paths are wrong"},
	} {
		begin := time.Now()
		_, faults := content.NewMask(tc.mask, of)
		got := strings.Join(faults, "; ")
		if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%.20s: %q, want %q", tc.mask, got, tc.says)
		}
		// It takes 20 ms, and 300 ms with the race detector. When each name read the schema it took 8 s, and over a minute.
		if took := time.Since(begin); took > testkit.Limit() {
			t.Errorf("%.20s: %v", tc.mask, took)
		}
	}
}

func FuzzNew(f *testing.F) {
	for _, text := range []string{"items.id,nextPageToken", "by_key.`a.b`.id", "*", "free.*.x", "items.*", " a , b ", "`", "a.`", "items.tags.x", "byKey.*.id,byKey.c.tags"} {
		f.Add(text, stock)
	}
	f.Add("a.*.b", `{"type":"array","items":{"$ref":"#"}}`)
	f.Fuzz(func(t *testing.T, text, document string) {
		raw := []byte(document)
		if jsontext.Check(raw, 64) != nil {
			raw = []byte(stock)
		}
		for _, of := range []schema.View{schema.ViewOf([]byte(shop)), {}, schema.ViewOf(raw)} {
			mask, faults := content.NewMask(text, of)
			if len(faults) > 0 {
				if mask != nil {
					t.Fatalf("%q: a mask beside %q", text, faults)
				}
				continue
			}
			got := mask.Append(nil, raw)
			if !json.Valid(got) || len(got) > len(raw) && jsontext.IsCompact(raw) && bytes.IndexByte(raw, '\\') < 0 {
				t.Fatalf("%q of %s: %s", text, raw, got)
			}
			if again := mask.Append(nil, got); !bytes.Equal(again, got) {
				t.Fatalf("%q of %s: %s, and again: %s", text, raw, got, again)
			}
		}
	})
}

// What Join writes is read as the same path.
func TestJoin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		path []string
		want string
	}{
		{[]string{"items", "id"}, "items.id"},
		{[]string{"byKey", "*", "display_name"}, "byKey.*.display_name"},
		{[]string{"byKey", "a.b", "c,d", " e", "1", ""}, "byKey.`a.b`.`c,d`.` e`.`1`.``"},
		{[]string{"byKey", "é\"x"}, "byKey.`é\"x`"},
		{[]string{"byKey", "a`b"}, ""},
		{nil, ""},
		{make([]string, content.MaxDepth+1), ""},
	} {
		got, ok := content.JoinPath(tc.path)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%q: got %q, %v", tc.path, got, ok)
		}
		if _, faults := content.NewMask(got, schema.View{}); len(faults) > 0 {
			t.Errorf("%q: %v", got, faults)
		}
	}
}
