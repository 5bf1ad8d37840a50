// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// seesAs is a Sight of a native tool's data.
func seesAs(by map[string]Seen, varies bool) *Sight {
	var paths []string
	for path := range by {
		paths = append(paths, path)
	}
	return NewSight(func(path string, _ protoreflect.FieldDescriptor) (Seen, bool) {
		return by[path], varies && by[path] != SeenWhole
	}, paths)
}

func TestDeclaredSchemasAsTheyAreSeen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		schema, want string
		seen         map[string]Seen
		varies       bool
	}{
		"nothing is hidden": {
			schema: `{"type": "object", "properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string","not":{"const":"x"}}}}`,
			seen:   map[string]Seen{"b": SeenNot},
			want:   `{"type": "object", "properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string","not":{"const":"x"}}}}`,
		},
		"hidden, with the keywords that may need it": {
			schema: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","maxLength":3}},"required":["a","b"],"minProperties":2,"dependentRequired":{"b":["a"]},"additionalProperties":false,"examples":[{"a":"x"}]}`,
			seen:   map[string]Seen{"a": SeenNot},
			want:   `{"type":"object","properties":{"b":{"type":"string","maxLength":3}},"required":["b"],"additionalProperties":false}`,
		},
		"below a list and a reference, and not elsewhere": {
			schema: `{"type":"object","properties":{"list":{"type":"array","items":{"$ref":"#/$defs/P"}},"one":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"mail":{"type":"string"},"id":{"type":"integer"}},"required":["id","mail"]}}}`,
			seen:   map[string]Seen{"list.mail": SeenNot},
			want: `{"type":"object","properties":{"list":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}},` +
				`"one":{"type":"object","properties":{"mail":{"type":"string"},"id":{"type":"integer"}},"required":["id","mail"]}}}`,
		},
		"masked": {
			schema: `{"type":"object","properties":{"n":{"type":"integer","minimum":5,"description":"A number."}},"required":["n"]}`,
			seen:   map[string]Seen{"n": SeenMasked},
			want:   `{"type":"object","properties":{"n":{"type":"integer","description":"A number.\nMasked for this caller."}},"required":["n"]}`,
		},
		"varies": {
			schema: `{"type":"object","properties":{"n":{"type":"integer","minimum":5}},"required":["n"]}`,
			seen:   map[string]Seen{"n": SeenNot}, varies: true,
			want: `{"type":"object","properties":{"n":{"type":"integer","description":"May be masked or absent for this caller."}}}`,
		},
		"branches that differ by what is hidden": {
			schema: `{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
			seen:   map[string]Seen{"a": SeenNot},
			want:   `{"type":"object","anyOf":[{},{"required":["b"]}],"properties":{"b":{"type":"string"}}}`,
		},
		"members that are not named": {
			schema: `{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string","pattern":"^x"}}}}`,
			seen:   map[string]Seen{"m.*": SeenHashed},
			want:   `{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string","description":"Masked for this caller."}}}}`,
		},
		"a name and any member: the strictest holds": {
			schema: `{"type":"object","properties":{"a":{"type":"string","minLength":5},"b":{"type":"string","minLength":5}},"required":["a","b"]}`,
			seen:   map[string]Seen{"a": SeenMasked, "*": SeenNot},
			want:   `{"type":"object","properties":{}}`,
		},
		"a name leads on, and any member too": {
			schema: `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"string","minLength":5},"y":{"type":"string","minLength":5},"z":{"type":"string"}},"required":["x","y","z"]}}}`,
			seen:   map[string]Seen{"a.x": SeenNot, "*.y": SeenMasked},
			want:   `{"type":"object","properties":{"a":{"type":"object","properties":{"y":{"type":"string","description":"Masked for this caller."},"z":{"type":"string"}},"required":["y","z"]}}}`,
		},
		"a member among those that are not named": {
			schema: `{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":{"type":"string","minLength":5}}`,
			seen:   map[string]Seen{"a": SeenMasked},
			want:   `{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":{}}`,
		},
		"a schema that holds itself": {
			schema: `{"type":"object","properties":{"next":{"$ref":"#"},"mail":{"type":"string"}}}`,
			seen:   map[string]Seen{"mail": SeenNot, "next.mail": SeenNot},
			want:   `{"type":"object","properties":{"next":{"type":"object","properties":{"next":{}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := string(seesAs(tc.seen, tc.varies).Declared([]byte(tc.schema), nil, false))
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if _, err := Compile([]byte(got)); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is said of all members of a message that a schema does not name does not hold for one that is masked.
func TestMembersOfAMessageThatAreNotNamed(t *testing.T) {
	t.Parallel()
	md := (&descriptorpb.EnumValueDescriptorProto{}).ProtoReflect().Descriptor()
	sight := NewSight(func(_ string, fd protoreflect.FieldDescriptor) (Seen, bool) {
		if fd.Name() == "name" {
			return SeenMasked, false
		}
		return SeenWhole, false
	}, nil)
	for text, want := range map[string]string{
		`{"type":"object","additionalProperties":{"minLength":9}}`: `{"type":"object","additionalProperties":{}}`,
		`{"type":"object","additionalProperties":false}`:           `{"type":"object","additionalProperties":false}`,
	} {
		if got := string(sight.Declared([]byte(text), md, false)); got != want {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	for _, md := range []protoreflect.MessageDescriptor{(&descriptorpb.SourceCodeInfo{}).ProtoReflect().Descriptor(), nil} {
		text := `{"type":"object","additionalProperties":{"minLength":9}}`
		if got := string(sight.Declared([]byte(text), md, false)); got != text {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// A schema that grows without end where references are replaced is an open object.
func TestADeclaredSchemaThatGrowsIsOpen(t *testing.T) {
	t.Parallel()
	var defs []string
	for name := range strings.SplitSeq("abcdefghijklmnopqrstuvwxy", "") {
		next := string(name[0] + 1)
		defs = append(defs, `"`+name+`":{"properties":{"l":{"$ref":"#/$defs/`+next+`"},"r":{"$ref":"#/$defs/`+next+`"}}}`)
	}
	text := `{"type":"object","properties":{"mail":{"type":"string"},"x":{"$ref":"#/$defs/a"}},"$defs":{"z":{},` + strings.Join(defs, ",") + `}}`
	if got := string(seesAs(map[string]Seen{"mail": SeenNot}, false).Declared([]byte(text), nil, false)); got != `{"type":"object"}` {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}
