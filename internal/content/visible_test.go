// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/content"
)

// TestVisible hides a field wherever its message occurs.
func TestVisible(t *testing.T) {
	t.Parallel()
	md := (&descriptorpb.FileDescriptorProto{}).ProtoReflect().Descriptor()
	hides := func(fd protoreflect.FieldDescriptor) bool {
		return fd.FullName() == "google.protobuf.DescriptorProto.name"
	}
	for in, want := range map[string]string{
		`{}`:                                    `{}`,
		`{"name":"a"}`:                          `{"name":"a"}`,
		`{"messageType":[{"name":"a"},{}]}`:     `{"messageType":[{},{}]}`,
		`{"message_type":[{"name":"a"}],"x":1}`: `{"message_type":[{}],"x":1}`,
		`{"messageType":[{"nestedType":[{"name":"a","field":[{"name":"f"}]}],"name":"b"}]}`: `{"messageType":[{"nestedType":[{"field":[{"name":"f"}]}]}]}`,
		`{"messageType":7}`: `{"messageType":7}`,
		`[1]`:               `[1]`,
	} {
		if got := string(content.Visible([]byte(in), md, hides)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestWorded(t *testing.T) {
	t.Parallel()
	const input = `{"properties":{"a":{"title":"The first"},"b":{"description":"What it is. More of it.\nAnd more."},"c":{},"d":{"description":"Never sent."}}}`
	if got, want := content.Worded([]byte(input), []byte(`{"b":1,"c":2,"a":3,"e":4}`)), "b: What it is; a: The first"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := content.Worded(nil, []byte(`{"a":1}`)); got != "" {
		t.Errorf("without a schema: %q", got)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	const object = `{"a":1,"b":{"a":2},"c":"\u00e9"}`
	if got, want := string(content.Without([]byte(object), "a", "x")), `{"b":{"a":2},"c":"\u00e9"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := string(content.WithText([]byte(object), "b", "\"", "b", "c")), `{"b":"\"","a":1}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := content.CutText("aéé", 4); got != "aé…" {
		t.Errorf("%q", got)
	}
}
