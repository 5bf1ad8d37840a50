// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// TestOptionsAndTheirRulesAreEqual: the options come from a file that imports nothing, and are decoded as messages that
// have rules and use the contract's types. What one has and the other lacks would be lost without an error.
func TestOptionsAndTheirRulesAreEqual(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]protoreflect.ProtoMessage{
		{&optionsv1.ToolOptions{}, &configv1.ToolOptions{}}, {&optionsv1.ResourceOptions{}, &configv1.ResourceOptions{}},
	} {
		plain, ruled := pair[0].ProtoReflect().Descriptor(), pair[1].ProtoReflect().Descriptor()
		for _, fault := range unlike(plain, ruled) {
			t.Error(fault)
		}
	}
}

// unlike names every difference in what two message types can hold, on the wire and as text, at every depth.
func unlike(a, b protoreflect.MessageDescriptor) (faults []string) {
	for _, fd := range fieldsOf(b) {
		if a.Fields().ByNumber(fd.Number()) == nil {
			faults = append(faults, fmt.Sprintf("%s has no field %s = %d", a.FullName(), fd.Name(), fd.Number()))
		}
	}
	for _, fa := range fieldsOf(a) {
		fb := b.Fields().ByNumber(fa.Number())
		if fb == nil {
			faults = append(faults, fmt.Sprintf("%s has no field %s = %d", b.FullName(), fa.Name(), fa.Number()))
			continue
		}
		if got, want := shapeOf(fa), shapeOf(fb); got != want {
			faults = append(faults, fmt.Sprintf("%s is %q, %s is %q", fa.FullName(), got, fb.FullName(), want))
			continue
		}
		switch {
		case fa.Message() != nil:
			faults = append(faults, unlike(fa.Message(), fb.Message())...)
		case fa.Enum() != nil:
			faults = append(faults, unlikeEnums(fa.Enum(), fb.Enum())...)
		}
	}
	return faults
}

func unlikeEnums(a, b protoreflect.EnumDescriptor) (faults []string) {
	for i := range max(a.Values().Len(), b.Values().Len()) {
		if i >= a.Values().Len() || i >= b.Values().Len() {
			return append(faults, fmt.Sprintf("%s has %d values, %s has %d", a.FullName(), a.Values().Len(), b.FullName(), b.Values().Len()))
		}
		if va, vb := a.Values().Get(i), b.Values().Get(i); va.Name() != vb.Name() || va.Number() != vb.Number() {
			faults = append(faults, fmt.Sprintf("%s = %d, %s = %d", va.FullName(), va.Number(), vb.FullName(), vb.Number()))
		}
	}
	return faults
}

// shapeOf is what encoding and text format depend on.
func shapeOf(fd protoreflect.FieldDescriptor) string {
	return fmt.Sprintf("%s, JSON %q, %s %s, presence %t, packed %t, oneof %t", fd.Name(), fd.JSONName(), fd.Cardinality(), fd.Kind(), fd.HasPresence(), fd.IsPacked(),
		fd.ContainingOneof() != nil && !fd.ContainingOneof().IsSynthetic())
}

func fieldsOf(md protoreflect.MessageDescriptor) (all []protoreflect.FieldDescriptor) {
	for i := range md.Fields().Len() {
		all = append(all, md.Fields().Get(i))
	}
	return all
}

// TestOptionsImportOnlyDescriptorProto, so that a file with annotations brings 3 files along and not a contract.
func TestOptionsImportOnlyDescriptorProto(t *testing.T) {
	t.Parallel()
	file := optionsv1.File_outrigger_v1_options_proto
	if n := file.Imports().Len(); n != 1 || file.Imports().Get(0).Path() != "google/protobuf/descriptor.proto" {
		t.Errorf("%d imports", n)
	}
	if n := file.Services().Len(); n != 0 {
		t.Errorf("%d services", n)
	}
	for _, name := range []protoreflect.Name{"tool", "resource", "field"} {
		if file.Extensions().ByName(name) == nil {
			t.Errorf("no extension %s", name)
		}
	}
}
