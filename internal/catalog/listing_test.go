// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// answering is a catalog of three derived tools and a native one: the answers of derived.large and of the native tool have
// schemas of more than catalog.MaxListedOutput bytes, and that of derived.tree contains itself.
func answering(t *testing.T, form catalog.ListForm) *catalog.Catalog {
	t.Helper()
	large := &descriptorpb.DescriptorProto{Name: proto.String("Large")}
	declared := []string{}
	for i := range 100 {
		name := fmt.Sprintf("a_rather_long_name_of_a_field_%d", i)
		large.Field = append(large.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(i + 1)),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
		declared = append(declared, fmt.Sprintf(`%q:{"type":"string"}`, name))
	}
	method := func(name, out string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: proto.String(name), InputType: proto.String(".a.v1.Empty"), OutputType: proto.String(".a.v1." + out)}
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Empty")}, large, {Name: proto.String("Tree"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("below"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String(".a.v1.Tree"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
		}}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Derived"), Method: []*descriptorpb.MethodDescriptorProto{method("Large", "Large"), method("Small", "Empty"), method("Tree", "Tree")},
		}},
	}
	load, err := source.NewDescriptors("a", &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}, "a.v1.Derived").Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	native := &source.Loaded{Source: "tools of shop", Services: []string{}, Static: true, Native: &source.Native{
		Description: &outriggerv1.ServerDescription{Name: "shop", Version: "1", ContractVersion: "1.0.0", Capabilities: &outriggerv1.ServerCapabilities{}},
		Tools: []*outriggerv1.Tool{{
			Name: "declared", Description: "Declares its schemas.",
			InputSchemaForm:  &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)},
			OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(`{"type":"object","properties":{` + strings.Join(declared, ",") + `}}`)},
		}}}}
	c, err := catalog.Build([]*source.Loaded{load, native}, catalog.BuildOptions{Listed: form})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestListForms(t *testing.T) {
	t.Parallel()
	whole := answering(t, catalog.ListForm{})
	for _, tt := range []struct {
		form   catalog.ListForm
		listed string
	}{
		{catalog.ListForm{}, "derived.large derived.small derived.tree shop.declared"},
		{catalog.ListForm{SharedRefs: true}, "derived.large derived.small derived.tree shop.declared"},
		{catalog.ListForm{Outputs: catalog.BoundedOutputSchemas}, "derived.small"},
		{catalog.ListForm{Outputs: catalog.BoundedOutputSchemas, SharedRefs: true}, "derived.small"},
		{catalog.ListForm{Outputs: catalog.NoOutputSchemas}, ""},
	} {
		c := answering(t, tt.form)
		if c.Fingerprint() != whole.Fingerprint() {
			t.Errorf("%+v: the fingerprint of the catalog depends on the form of lists", tt.form)
		}
		views := map[string]*catalog.Catalog{"whole": c, "a view": c.Only(func(*catalog.Tool) bool { return true })}
		for name, view := range views {
			if view.ListForm() != tt.form {
				t.Errorf("%s lists as %+v", name, view.ListForm())
			}
			for _, tool := range view.Tools() {
				before, ok := whole.Lookup(tool.Name)
				if !ok {
					t.Fatal(tool.Name)
				}
				isListed := slices.Contains(strings.Fields(tt.listed), tool.Name)
				if got := view.ListForm().Output(tool); (len(got) > 0) != isListed {
					t.Errorf("%+v: %s is listed with the output schema %.80s", tt.form, tool.Name, got)
				}
				if tool.Digest() != before.Digest() || tool.Digest() == "" || tool.Fingerprint() != before.Fingerprint() {
					t.Errorf("%+v: the digest of %s depends on the form of lists", tt.form, tool.Name)
				}
				if !bytes.Equal(tool.Output.Advertised(), before.Output.Advertised()) {
					t.Errorf("%+v: %s has lost its output schema", tt.form, tool.Name)
				}
			}
		}
	}
}

func TestParseOutputSchemas(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]catalog.OutputSchemas{"all": catalog.AllOutputSchemas, "bounded": catalog.BoundedOutputSchemas, "none": catalog.NoOutputSchemas} {
		if got, err := catalog.ParseOutputSchemas(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := catalog.ParseOutputSchemas("some"); err == nil || !strings.Contains(err.Error(), "use all, bounded or none") {
		t.Errorf("some: %v", err)
	}
}

// TestTheSizeOfAListIsOfItsForm: a list that is small enough without output schemas need not be compact.
func TestTheSizeOfAListIsOfItsForm(t *testing.T) {
	t.Parallel()
	const limit = 6000
	if !answering(t, catalog.ListForm{}).ListExceeds(limit) {
		t.Error("the whole list is small")
	}
	if answering(t, catalog.ListForm{Outputs: catalog.BoundedOutputSchemas}).ListExceeds(limit) {
		t.Error("the bounded list is large")
	}
}

func TestTitlesThatRepeatTheName(t *testing.T) {
	t.Parallel()
	yes := true
	for _, tt := range []struct {
		name, title, want string
		readOnly          *bool
	}{
		{"route_guide.get_feature", "Get feature", `{}`, nil},
		{"route_guide.get_feature", "Get Feature!", `{"readOnlyHint":true}`, &yes},
		{"route_guide.get_feature", "Route guide: get feature", `{}`, nil},
		{"route_guide.get_feature", "Gets the feature at a point", `{"title":"Gets the feature at a point"}`, nil},
		{"route_guide.get_feature", "Gets the feature at a point", `{"title":"Gets the feature at a point","readOnlyHint":true}`, &yes},
		{"route_guide.get_feature", "?", `{}`, nil},
	} {
		tool := &catalog.Tool{Name: tt.name, Title: tt.title, Annotations: catalog.Annotations{ReadOnly: tt.readOnly}}
		if got := string(tool.AppendAnnotations([]byte("x"))); got != "x"+tt.want {
			t.Errorf("%s, %q: %s", tt.name, tt.title, got)
		}
	}
}
