// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// namedFields are string fields in the form "name" or "name=json_name".
func namedFields(fields ...string) []*descriptorpb.FieldDescriptorProto {
	var out []*descriptorpb.FieldDescriptorProto
	for i, text := range fields {
		name, json, isSet := strings.Cut(text, "=")
		f := field(name, int32(i+1), "", descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL)
		if isSet {
			f.JsonName = new(json)
		}
		out = append(out, f)
	}
	return out
}

func TestFieldsHaveDistinctNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ fields, want, renamed []string }{
		"distinct":                          {[]string{"a", "b_c", "d=e"}, []string{"a", "bC", "e"}, nil},
		"the second goes by its name":       {[]string{"a=x", "b=x", "c=x"}, []string{"x", "b", "c"}, []string{"In.b", "In.c"}},
		"its own name stays":                {[]string{"foo_bar", "fooBar"}, []string{"foo_bar", "fooBar"}, []string{"In.foo_bar"}},
		"a name that another one has":       {[]string{"a=x", "b=x", "c=b"}, []string{"x", "b", "c"}, []string{"In.b", "In.c"}},
		"a chain":                           {[]string{"x=y", "y=z", "z=x", "w=x"}, []string{"y", "z", "x", "w"}, []string{"In.w"}},
		"the type of an Any":                {[]string{"kind=@type", "other"}, []string{"kind", "other"}, []string{"In.kind"}},
		"two with that name, and its own":   {[]string{"a=@type", "b=@type", "c=a"}, []string{"a", "b", "c"}, []string{"In.a", "In.b", "In.c"}},
		"a name that follows from the name": {[]string{"a_b", "other=aB"}, []string{"aB", "other"}, []string{"In.other"}},
	} {
		file := rpcFile("odd.proto", "odd", "Odd/M")
		file.Syntax = new("proto2")
		file.MessageType[0].NestedType = []*descriptorpb.DescriptorProto{{Name: new("In"), Field: namedFields(tc.fields...)}}
		before := proto.CloneOf(file)
		distinct, renamed := distinctNames(file)
		var got, want []string
		for _, f := range distinct.GetMessageType()[0].GetNestedType()[0].GetField() {
			got = append(got, jsonName(f))
		}
		for _, r := range tc.renamed {
			want = append(want, "odd.In."+r)
		}
		slices.Sort(renamed)
		slices.Sort(want)
		if diff := cmp.Diff(tc.want, got) + cmp.Diff(want, renamed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !proto.Equal(before, file) {
			t.Errorf("%s: the file of the source was changed", name)
		}
	}
}

// The name is one and the same on input, on output, in the schema and in an Any, and a warning says so.
func TestEqualJSONNamesAreTold(t *testing.T) {
	t.Parallel()
	file := rpcFile("odd.proto", "odd", "Odd/M")
	file.Dependency = []string{"google/protobuf/any.proto"}
	for _, m := range file.MessageType {
		m.Field = append(namedFields("first=same", "second=same", "kind=@type"), field("content", 9, ".google.protobuf.Any", descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL))
	}
	c, err := Build([]*source.Loaded{filesOf(file)}, BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := c.Lookup("odd.m")
	const doc = `{"same":"a","second":"b","kind":"c","content":{"@type":"type.googleapis.com/odd.Out","same":"d","second":"e","kind":"f"}}`
	wire, err := tool.In.ToWire(nil, []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tool.Out.ToJSON(nil, wire); err != nil || string(got) != doc {
		t.Errorf("got %s, %v\nwant %s", got, err, doc)
	}
	if s := string(tool.Input.Advertised()); !strings.Contains(s, `"same"`) || !strings.Contains(s, `"second"`) || !strings.Contains(s, `"kind"`) {
		t.Errorf("the schema is %s", s)
	}
	if n := len(c.Warnings()); n != 4 {
		t.Errorf("%d warnings: %v", n, c.Warnings())
	}
}
