// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// layered is a service whose request holds a message of another file, which holds an enum of a third one.
func layered() []*descriptorpb.FileDescriptorProto {
	field := func(name string, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: new(name), JsonName: new(name), Number: new(int32(1)), Type: kind.Enum(), TypeName: new(of),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	low := rpcFile("low.proto", "low")
	low.EnumType = []*descriptorpb.EnumDescriptorProto{{Name: new("Colour"), Value: []*descriptorpb.EnumValueDescriptorProto{
		{Name: new("NONE"), Number: new(int32(0))}, {Name: new("RED"), Number: new(int32(1))},
	}}}
	middle := rpcFile("middle.proto", "middle")
	middle.Dependency = []string{"low.proto"}
	middle.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{field("colour", descriptorpb.FieldDescriptorProto_TYPE_ENUM, ".low.Colour")}
	high := rpcFile("high.proto", "high", "S/One")
	high.Dependency = []string{"middle.proto"}
	const resourceReference = 1055
	high.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{
		field("paint", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".middle.In"),
		{
			Name: new("thing"), JsonName: new("thing"), Number: new(int32(2)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label:   descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Options: bytesOption(&descriptorpb.FieldOptions{}, resourceReference, "\x0a\x07x.com/T"),
		},
	}
	other := rpcFile("other.proto", "other", "O/Two")
	return []*descriptorpb.FileDescriptorProto{low, middle, high, other}
}

// bytesOption sets an option that this process does not know.
func bytesOption[M proto.Message](options M, number protowire.Number, value string) M {
	options.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
	return options
}

// TestDigestsFollowWhatSchemasAreMadeOf changes one thing after the other, and compares what the digests say with what the
// schemas are.
func TestDigestsFollowWhatSchemasAreMadeOf(t *testing.T) {
	t.Parallel()
	comment := func(f *descriptorpb.FileDescriptorProto, path ...int32) {
		f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: path, Span: []int32{1, 2, 3}, LeadingComments: new(" A word.")},
		}}
	}
	for name, tt := range map[string]struct {
		change  func(low, middle, high *descriptorpb.FileDescriptorProto)
		differs bool
	}{
		"nothing":                 {func(_, _, _ *descriptorpb.FileDescriptorProto) {}, false},
		"an enum two files below": {func(low, _, _ *descriptorpb.FileDescriptorProto) { low.EnumType[0].Value[1].Name = new("BLUE") }, true},
		"a comment a file below":  {func(_, middle, _ *descriptorpb.FileDescriptorProto) { comment(middle, 4, 0, 2, 0) }, true},
		"a field of a message below": {func(_, middle, _ *descriptorpb.FileDescriptorProto) {
			middle.MessageType[0].Field[0].JsonName = new("farbe")
		}, true},
		"a resource that an imported file declares": {func(_, middle, _ *descriptorpb.FileDescriptorProto) {
			middle.MessageType[1].Options = bytesOption(&descriptorpb.MessageOptions{}, resourceOption, "\x0a\x07x.com/T\x12\x06ts/{t}")
		}, true},
		"a message that none holds":    {func(low, _, _ *descriptorpb.FileDescriptorProto) { low.MessageType[0].Name = new("Unused") }, false},
		"a comment of another message": {func(_, middle, _ *descriptorpb.FileDescriptorProto) { comment(middle, 4, 1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := layered()
			changed := layered()
			tt.change(changed[0], changed[1], changed[2])
			slices.Reverse(changed)
			a, b := mustBuild(t, BuildOptions{}, filesOf(files...)), mustBuild(t, BuildOptions{}, filesOf(changed...))
			one, now := toolOf(t, a, "s.one"), toolOf(t, b, "s.one")
			isSame := string(one.Input.Advertised()) == string(now.Input.Advertised())
			if isSame == tt.differs || one.IsSame(now) == tt.differs || (a.Fingerprint() == b.Fingerprint()) == tt.differs {
				t.Errorf("schemas equal: %t, tools: %t, catalogs: %t", isSame, one.IsSame(now), a.Fingerprint() == b.Fingerprint())
			}
			if !toolOf(t, a, "o.two").IsSame(toolOf(t, b, "o.two")) {
				t.Error("a tool of another file differs")
			}
		})
	}
}

// TestDigestsFollowExtensions of a message that can be extended, and of no other.
func TestDigestsFollowExtensions(t *testing.T) {
	t.Parallel()
	base := rpcFile("a.proto", "a", "S/One")
	base.Syntax = new("proto2")
	base.MessageType[0].ExtensionRange = []*descriptorpb.DescriptorProto_ExtensionRange{{Start: new(int32(100)), End: new(int32(200))}}
	plain := rpcFile("b.proto", "b", "T/Two")
	more := rpcFile("c.proto", "c")
	more.Syntax, more.Dependency = new("proto2"), []string{"a.proto"}
	more.Extension = []*descriptorpb.FieldDescriptorProto{{
		Name: new("extra"), Number: new(int32(100)), Extendee: new(".a.In"), JsonName: new("extra"),
		Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}}
	a, b := mustBuild(t, BuildOptions{}, filesOf(base, plain)), mustBuild(t, BuildOptions{}, filesOf(proto.CloneOf(base), plain, more))
	if toolOf(t, a, "s.one").IsSame(toolOf(t, b, "s.one")) {
		t.Error("an extension leaves the tool as it was")
	}
	if !toolOf(t, a, "t.two").IsSame(toolOf(t, b, "t.two")) {
		t.Error("a tool differs whose messages cannot be extended")
	}
}
