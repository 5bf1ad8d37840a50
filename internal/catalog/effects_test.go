// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// orders is a service whose requests can be previewed, and have ids.
func orders() *descriptorpb.FileDescriptorProto {
	field := func(name string, number int32, typ descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &typ, Label: new(descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL)}
	}
	text, flag := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BOOL
	// google.api.field_info {format: UUID4}, google.api.field_behavior REQUIRED
	marked := func(f *descriptorpb.FieldDescriptorProto) *descriptorpb.FieldDescriptorProto {
		raw := protowire.AppendBytes(protowire.AppendTag(nil, 291403980, protowire.BytesType), []byte{8, 1})
		raw = protowire.AppendVarint(protowire.AppendTag(raw, 1052, protowire.VarintType), 2)
		f.Options = &descriptorpb.FieldOptions{}
		f.Options.ProtoReflect().SetUnknown(raw)
		return f
	}
	many := field("tags", 5, text)
	many.Label = new(descriptorpb.FieldDescriptorProto_LABEL_REPEATED)
	method := func(name, in string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: new(".shop.v1." + in), OutputType: new(".shop.v1.Said")}
	}
	streams, reads := method("Follow", "Delete"), method("Get", "Delete")
	streams.ServerStreaming = new(true)
	reads.Options = &descriptorpb.MethodOptions{IdempotencyLevel: new(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)}
	return &descriptorpb.FileDescriptorProto{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("Delete"), Field: []*descriptorpb.FieldDescriptorProto{
				field("name", 1, text), field("validate_only", 2, flag), marked(field("request_id", 3, text)), field("dry_run", 4, flag), many,
			}},
			{Name: new("Plain"), Field: []*descriptorpb.FieldDescriptorProto{field("name", 1, text), field("validate_only", 2, text), field("request_id", 3, text)}},
			{Name: new("Said"), Field: []*descriptorpb.FieldDescriptorProto{field("text", 1, text)}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Delete", "Delete"), method("PreviewDelete", "Delete"), method("Other", "Plain"), streams, reads,
		}}},
	}
}

func previewOf(match, field, method, id string) BuildOptions {
	o := &configv1.ToolOptions{RequestId: id}
	if field+method != "" {
		o.Preview = &configv1.ToolPreview{Field: field, Method: method}
	}
	return BuildOptions{Overlay: []Override{{Match: match, Options: o}}}
}

func TestPreviewsAndRequestIDs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name              string
		o                 BuildOptions
		tool, preview, id string
	}{
		{"by AIP-163 and AIP-155", BuildOptions{}, "shop.delete", "validate_only", "request_id"},
		{"of other types", BuildOptions{}, "shop.other", "", ""},
		{"that reads", BuildOptions{}, "shop.get", "", "request_id"},
		{"that streams", BuildOptions{}, "shop.follow", "", "request_id"},
		{"by the overlay", previewOf("shop.v1.Shop/Delete", "dry_run", "", "name"), "shop.delete", "dry_run", "name"},
		{"by a method", previewOf("shop.v1.Shop/Delete", "", "PreviewDelete", ""), "shop.delete", "/shop.v1.Shop/PreviewDelete", "request_id"},
		{"without the format", previewOf("shop.v1.Shop/Other", "", "", "request_id"), "shop.other", "", "request_id"},
	} {
		tool := toolOf(t, mustBuild(t, tc.o, filesOf(orders())), tc.tool)
		preview, id := "", ""
		if p := tool.Preview; p != nil && p.Tool != nil {
			preview = p.Tool.Method.Procedure
		} else if p != nil {
			preview = string(p.Field.Name())
		}
		if tool.RequestID != nil {
			id = string(tool.RequestID.Name())
		}
		if preview != tc.preview || id != tc.id {
			t.Errorf("%s: preview %q and id %q, want %q and %q", tc.name, preview, id, tc.preview, tc.id)
		}
		if tool.IsRepeatable() != (tc.id != "" || tool.IsIdempotent()) {
			t.Errorf("%s: it is repeatable: %t", tc.name, tool.IsRepeatable())
		}
	}
}

func TestFaultsOfPreviewsAndRequestIDs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		o    BuildOptions
		want string
	}{
		{previewOf("shop.v1.Shop/Delete", "nothing", "", ""), "preview: field: shop.v1.Delete has no field nothing; name one of its fields of type bool"},
		{previewOf("shop.v1.Shop/Delete", "name", "", ""), "preview: field: shop.v1.Delete.name is no single bool; name a field of type bool"},
		{previewOf("shop.v1.Shop/Follow", "dry_run", "", ""), "preview: the RPC streams, and only calls of unary RPCs can be previewed; remove it"},
		{previewOf("shop.v1.Shop/Delete", "", "Nothing", ""), "preview: method: shop.v1.Shop has no other method Nothing; name the method that previews"},
		{previewOf("shop.v1.Shop/Delete", "", "Delete", ""), "preview: method: shop.v1.Shop has no other method Delete; name the method that previews"},
		{previewOf("shop.v1.Shop/Delete", "", "Other", ""), "preview: method: shop.v1.Shop.Other takes shop.v1.Plain; name a method that takes shop.v1.Delete"},
		{previewOf("shop.v1.Shop/Delete", "", "Follow", ""), "preview: method: shop.v1.Shop.Follow streams; name a unary method"},
		{previewOf("shop.v1.Shop/Delete", "", "", "nothing"), "request_id: shop.v1.Delete has no field nothing; name one of its fields of type string"},
		{previewOf("shop.v1.Shop/Delete", "", "", "tags"), "request_id: shop.v1.Delete.tags is no single string; name a field of type string"},
		{previewOf("shop.v1.Shop/Delete", "a", "B", ""), "set field or method"},
	} {
		_, err := Build([]*source.Loaded{filesOf(orders())}, tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// TestARequestIDNeedNotBeSent in any form of the schema, though the field is required of callers of the service.
func TestARequestIDNeedNotBeSent(t *testing.T) {
	t.Parallel()
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		tool := toolOf(t, mustBuild(t, BuildOptions{Profile: profile}, filesOf(orders())), "shop.delete")
		if found, err := compiles(t, tool.Input.Canonical()).Validate([]byte(`{"name":"a"}`)); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", profile, found, err)
		}
		if said := string(tool.Input.Advertised()); !strings.Contains(said, "Filled by the sidecar where it is left out.") {
			t.Errorf("%s: %s", profile, said)
		}
	}
}

func TestRequestsOfPreviews(t *testing.T) {
	t.Parallel()
	tool := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(orders())), "shop.delete")
	plain := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a")
	no := protowire.AppendVarint(protowire.AppendTag(plain, 2, protowire.VarintType), 0)
	for _, request := range [][]byte{nil, plain, no} {
		if tool.Preview.Is(request) {
			t.Errorf("%x is a preview", request)
		}
		if got := tool.Preview.Request(nil, request); !tool.Preview.Is(got) || len(got) > len(plain)+2 {
			t.Errorf("the preview of %x is %x", request, got)
		}
	}
	withID := tool.WithRequestID(nil, tool.WithRequestID(nil, plain, "one"), "two")
	if got := tool.RequestIDOf(withID); got != "two" || len(withID) != len(plain)+5 {
		t.Errorf("the id of %x is %q", withID, got)
	}
	var none *Preview
	if none.Is(plain) || tool.RequestIDOf(plain) != "" {
		t.Error("what is not there is found")
	}
}

// FuzzRequestsOfPreviews: nothing panics, and what can be read is a preview afterwards.
func FuzzRequestsOfPreviews(f *testing.F) {
	c, err := Build([]*source.Loaded{filesOf(orders())}, BuildOptions{})
	if err != nil {
		f.Fatal(err)
	}
	tool, _ := c.Lookup("shop.delete")
	f.Add([]byte{10, 1, 'a', 16, 0, 26, 1, 'b'})
	f.Add([]byte{16})
	f.Fuzz(func(t *testing.T, request []byte) {
		got := tool.WithRequestID(nil, tool.Preview.Request(nil, request), "id")
		if proto.Unmarshal(request, &descriptorpb.FileOptions{}) == nil && (!tool.Preview.Is(got) || tool.RequestIDOf(got) != "id") {
			t.Errorf("the preview of %x is %x", request, got)
		}
	})
}
