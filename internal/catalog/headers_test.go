// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeadersAreMadeOfProperties(t *testing.T) {
	t.Parallel()
	d, faults := compileDeclared(json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"x-mcp-header":{"type":"string","description":"a property like any other"},
		"filter":{"type":"object","properties":{"a/b":{"type":"integer","x-mcp-header":"Method"},
			"deep":{"properties":{"dry":{"type":"boolean","x-mcp-header":"X!#$%&'*+-.^_` + "`" + `|~9"}}}}},
		"data":{"const":{"x-mcp-header":1},"enum":[{"x-mcp-header":1}],"default":{"x-mcp-header":1},"examples":[{"x-mcp-header":1}]}
	}}`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := []HeaderParam{
		{Header: "Method", Path: []string{"filter", "a/b"}, Pointer: "/filter/a~1b", Type: "integer"},
		{Header: "X!#$%&'*+-.^_`|~9", Path: []string{"filter", "deep", "dry"}, Pointer: "/filter/deep/dry", Type: "boolean"},
		{Header: "Region", Path: []string{"region"}, Pointer: "/region", Type: "string"},
	}
	if diff := cmp.Diff(want, d.headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// TestMisplacedHeadersAreFaults has every place and value that MCP does not allow.
func TestMisplacedHeadersAreFaults(t *testing.T) {
	t.Parallel()
	const good = `{"type":"string","x-mcp-header":"A"}`
	below := func(schema string) string { return `{"type":"object","properties":{"p":` + schema + `}}` }
	for name, tc := range map[string]struct{ schema, path, message string }{
		"an empty name":      {below(`{"type":"string","x-mcp-header":""}`), "/properties/p/x-mcp-header", "wanted the name of a header"},
		"a space":            {below(`{"type":"string","x-mcp-header":"A B"}`), "/properties/p/x-mcp-header", "wanted the name of a header"},
		"a colon":            {below(`{"type":"string","x-mcp-header":"A:B"}`), "/properties/p/x-mcp-header", "wanted the name of a header"},
		"a line break":       {below(`{"type":"string","x-mcp-header":"A\r\nB"}`), "/properties/p/x-mcp-header", "wanted the name of a header"},
		"another script":     {below(`{"type":"string","x-mcp-header":"Ä"}`), "/properties/p/x-mcp-header", "wanted the name of a header"},
		"a number as name":   {below(`{"type":"string","x-mcp-header":1}`), "/properties/p/x-mcp-header", "wanted the name of a header"},
		"a number":           {below(`{"type":"number","x-mcp-header":"A"}`), "/properties/p/x-mcp-header", `"type": "string"`},
		"a list":             {below(`{"type":"array","x-mcp-header":"A"}`), "/properties/p/x-mcp-header", `"type": "string"`},
		"an object":          {below(`{"type":"object","x-mcp-header":"A"}`), "/properties/p/x-mcp-header", `"type": "string"`},
		"null":               {below(`{"type":"null","x-mcp-header":"A"}`), "/properties/p/x-mcp-header", `"type": "string"`},
		"two types":          {below(`{"type":["string","null"],"x-mcp-header":"A"}`), "/properties/p/x-mcp-header", `"type": "string"`},
		"no type":            {below(`{"x-mcp-header":"A"}`), "/properties/p/x-mcp-header", `"type": "string"`},
		"the root":           {`{"type":"object","x-mcp-header":"A"}`, "/x-mcp-header", "this is the root"},
		"one name twice":     {`{"type":"object","properties":{"p":` + good + `,"q":{"type":"integer","x-mcp-header":"a"}}}`, "/properties/q/x-mcp-header", `"a" is made of /p already`},
		"a property's items": {below(`{"type":"array","items":` + good + `}`), "/properties/p/items/x-mcp-header", `below "items"`},
		"a tuple":            {below(`{"type":"array","prefixItems":[` + good + `]}`), "/properties/p/prefixItems/0/x-mcp-header", `below "prefixItems"`},
		"an old tuple":       {`{"$schema":"http://json-schema.org/draft-07/schema#",` + below(`{"type":"array","items":[` + good + `]}`)[1:], "/properties/p/items/0/x-mcp-header", `below "items"`},
		"a branch":           {`{"type":"object","oneOf":[{"properties":{"p":` + good + `}}]}`, "/oneOf/0/properties/p/x-mcp-header", `below "oneOf"`},
		"a condition":        {`{"type":"object","if":{"properties":{"p":` + good + `}}}`, "/if/properties/p/x-mcp-header", `below "if"`},
		"a consequence":      {below(`{"type":"object","then":{"properties":{"q":` + good + `}}}`), "/properties/p/then/properties/q/x-mcp-header", `below "then"`},
		"an else":            {`{"type":"object","else":{"properties":{"p":` + good + `}}}`, "/else/properties/p/x-mcp-header", `below "else"`},
		"a negation":         {`{"type":"object","not":{"properties":{"p":` + good + `}}}`, "/not/properties/p/x-mcp-header", `below "not"`},
		"a definition":       {`{"type":"object","$defs":{"p":` + good + `}}`, "/$defs/p/x-mcp-header", `below "$defs"`},
		"an old definition":  {`{"type":"object","definitions":{"p":` + good + `}}`, "/definitions/p/x-mcp-header", `below "definitions"`},
		"a pattern":          {`{"type":"object","patternProperties":{"^p":` + good + `}}`, "/patternProperties/^p/x-mcp-header", `below "patternProperties"`},
		"any other property": {`{"type":"object","additionalProperties":` + good + `}`, "/additionalProperties/x-mcp-header", `below "additionalProperties"`},
		"a dependency":       {`{"type":"object","dependentSchemas":{"p":{"properties":{"q":` + good + `}}}}`, "/dependentSchemas/p/properties/q/x-mcp-header", `below "dependentSchemas"`},
		"something unknown":  {`{"type":"object","x-ui":[[{"deep":` + good + `}]]}`, "/x-ui/0/0/deep/x-mcp-header", `below "x-ui"`},
	} {
		_, found := compileDeclared(json.RawMessage(tc.schema))
		if len(found) != 1 || found[0].Path != tc.path || found[0].Keyword != headerKeyword || !strings.Contains(found[0].Message, tc.message) {
			t.Errorf("%s: %v, want %s at %s", name, found, tc.message, tc.path)
		}
	}
	for _, branch := range []string{"allOf", "anyOf"} {
		_, found := compileDeclared(json.RawMessage(fmt.Sprintf(`{"type":"object","%s":[{"properties":{"p":%s}}]}`, branch, good)))
		if len(found) != 1 || !strings.Contains(found[0].Message, branch) {
			t.Errorf("%s: %v", branch, found)
		}
	}
}

func TestOverlaidAndRegisteredToolsHaveHeaders(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"n":{"type":"string","x-mcp-header":"N"}}}`
	want := []HeaderParam{{Header: "N", Path: []string{"n"}, Pointer: "/n", Type: "string"}}
	if diff := cmp.Diff(want, overlaidShop(t, schema, "").HeaderParams); diff != "" {
		t.Errorf("overlay (-want +got):\n%s", diff)
	}
	live, _ := shop(t, BuildOptions{})
	if diff := cmp.Diff(want, mustRegister(t, live, registration(taking(schema))).HeaderParams); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}
	if got := toolOf(t, live.Current(), "shop.get").HeaderParams; got != nil {
		t.Errorf("the RPC's own tool has %v", got)
	}
	// A second name with its own schema does not take over the first one's headers.
	live, _ = shop(t, BuildOptions{Overlay: []Override{{Match: "shop.v1.Shop/Get", InputSchema: json.RawMessage(schema)}}})
	if got := mustRegister(t, live, registration()).HeaderParams; got != nil {
		t.Errorf("the second name has %v", got)
	}
}

// FuzzHeaders holds that every header that is found can be looked up, and none is found twice.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte(richSchema))
	f.Add([]byte(`{"type":"object","properties":{"a":{"properties":{"b":{"type":"integer","x-mcp-header":"B"}}}},"x-mcp-header":{}}`))
	f.Add([]byte(`{"type":"object","allOf":[{"x-mcp-header":"A"}],"properties":{"":{"type":"string","x-mcp-header":"a"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, faults := compileDeclared(raw)
		if len(faults) > 0 {
			return
		}
		seen := map[string]bool{}
		for _, h := range d.headers {
			at := any(nil)
			if err := json.Unmarshal(raw, &at); err != nil {
				t.Fatal(err)
			}
			for _, step := range h.Path {
				properties, _ := at.(map[string]any)["properties"].(map[string]any)
				at = properties[step]
			}
			found, _ := at.(map[string]any)
			if found[headerKeyword] != h.Header || found["type"] != h.Type || seen[strings.ToLower(h.Header)] || len(h.Path) == 0 {
				t.Errorf("header %+v of %v", h, at)
			}
			seen[strings.ToLower(h.Header)] = true
		}
		if n := strings.Count(string(d.text), `"x-mcp-header":`); n < len(d.headers) {
			t.Errorf("%d headers of %d keywords", len(d.headers), n)
		}
	})
}
