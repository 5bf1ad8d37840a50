// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// deferred is the schema of a message as a catalog has it.
func deferred(md protoreflect.MessageDescriptor, dir schema.Direction, opts schema.Options) *schema.Lazy {
	return schema.Defer(md, dir, &opts, [sha256.Size]byte{}, nil)
}

// expanded is a schema with every reference replaced by what it names. One that leads into itself is a mark.
func expanded(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	defs, _ := root["$defs"].(map[string]any)
	delete(root, "$defs")
	var expand func(v any, within []string) any
	expand = func(v any, within []string) any {
		switch v := v.(type) {
		case []any:
			out := make([]any, len(v))
			for i, e := range v {
				out[i] = expand(e, within)
			}
			return out
		case map[string]any:
			ref, isRef := v["$ref"].(string)
			if !isRef {
				out := map[string]any{}
				for name, member := range v {
					out[name] = expand(member, within)
				}
				return out
			}
			target, ok := defs[strings.TrimPrefix(ref, "#/$defs/")]
			if ref == "#" {
				target, ok = root, true
			}
			if !ok {
				t.Fatalf("%s leads nowhere: %s", ref, raw)
			}
			if slices.Contains(within, ref) {
				return "itself"
			}
			out, _ := expand(target, append(slices.Clip(within), ref)).(map[string]any)
			out = maps.Clone(out)
			for name, member := range v { // what is beside a reference says more of the place
				if name == "description" && out[name] != nil {
					member = member.(string) + "\n" + out[name].(string)
				}
				if name != "$ref" {
					out[name] = member
				}
			}
			return out
		}
		return v
	}
	return expand(root, []string{"#"})
}

// TestSharedSaysTheSame: with its references followed, the shared form is the advertised one, and never larger.
func TestSharedSaysTheSame(t *testing.T) {
	t.Parallel()
	messages := append(goldens(t), repeating(t), lattice(t, 4, 3), lattice(t, 12, 3))
	for _, md := range messages {
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
				l := deferred(md, dir, schema.Options{Profile: profile})
				shared, advertised := l.Shared(), l.Advertised()
				if len(shared) > len(advertised) || len(shared) == 0 {
					t.Errorf("%s: %d bytes shared, %d advertised", md.FullName(), len(shared), len(advertised))
				}
				if _, err := schema.Compile(shared); err != nil {
					t.Errorf("%s: %v", md.FullName(), err)
				}
				if string(l.Shared()) != string(shared) {
					t.Errorf("%s: a second derivation differs", md.FullName())
				}
				if md.FullName() == "lattice.Level0" && strings.Contains(string(advertised), "$defs") {
					continue // expanded, it would have millions of members
				}
				if diff := cmp.Diff(expanded(t, advertised), expanded(t, shared)); diff != "" {
					t.Errorf("%s (-advertised +shared):\n%s", md.FullName(), diff)
				}
			}
		}
	}
}

// repeating has a large message three times, a small one twice, two messages of one short name, and one with the comment of
// its field.
func repeating(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	text := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	large := &descriptorpb.DescriptorProto{Name: proto.String("Large")}
	for i, name := range []string{"first_name", "second_name", "street", "city", "country", "telephone"} {
		large.Field = append(large.Field, text(name, int32(i+1)))
	}
	other := proto.CloneOf(large)
	other.Field = append(other.Field, text("other", 7))
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("repeating.proto"), Package: proto.String("repeating.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Root"), Field: []*descriptorpb.FieldDescriptorProto{
				messageField("one", 1, ".repeating.v1.Large"), messageField("two", 2, ".repeating.v1.Large"), messageField("three", 3, ".repeating.v1.Large"),
				messageField("four", 4, ".repeating.v1.SmallOneWithALongName"), messageField("five", 5, ".repeating.v1.SmallOneWithALongName"),
				messageField("six", 6, ".repeating.v1.Scope.Large"), messageField("seven", 7, ".repeating.v1.Scope.Large"),
			}},
			large,
			{Name: proto.String("SmallOneWithALongName")},
			{Name: proto.String("Scope"), NestedType: []*descriptorpb.DescriptorProto{other}},
		},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: []int32{4, 0, 2, 1}, Span: []int32{0, 0, 0}, LeadingComments: proto.String("The second of them.")},
		}},
	}
	fd, err := protodesc.NewFile(file, &protoregistry.Files{})
	if err != nil {
		t.Fatal(err)
	}
	return fd.Messages().Get(0)
}

func TestSharedSharesWhatIsSmallerSo(t *testing.T) {
	t.Parallel()
	shared := string(deferred(repeating(t), schema.Input, schema.Options{}).Shared())
	for _, want := range []string{
		`"one":{"$ref":"#/$defs/Large"}`, `"two":{"$ref":"#/$defs/Large","description":"The second of them."}`,
		`"six":{"$ref":"#/$defs/repeating.v1.Scope.Large"}`, `"four":{"type":"object","properties":{},"additionalProperties":false}`,
	} {
		if !strings.Contains(shared, want) {
			t.Errorf("%s is not in %s", want, shared)
		}
	}
	if strings.Contains(shared, "Small") {
		t.Errorf("a small message is shared: %s", shared)
	}
}

// TestADeclaredSchemaIsSharedAsItIs: the sidecar does not write down again what others wrote.
func TestADeclaredSchemaIsSharedAsItIs(t *testing.T) {
	t.Parallel()
	const text = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`
	if got := schema.Fixed(&schema.Schema{Canonical: json.RawMessage(text), Advertised: json.RawMessage(text)}).Shared(); string(got) != text {
		t.Errorf("%s", got)
	}
	var none *schema.Lazy
	if got := none.Shared(); got != nil {
		t.Errorf("%s", got)
	}
}
