// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// manyMethods are methods with messages of their own and shared ones, of which every fifth streams.
func manyMethods(t *testing.T, n int) (*descriptorpb.FileDescriptorProto, []protoreflect.MethodDescriptor) {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("many.proto"), Package: proto.String("many.v1"), Syntax: proto.String("proto3"),
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Many")}},
	}
	for i := range n {
		name := fmt.Sprintf("M%d", i)
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{
			Name: proto.String(name), Field: []*descriptorpb.FieldDescriptorProto{
				{
					Name: proto.String(fmt.Sprintf("count_%d", i)), Number: proto.Int32(1),
					Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
				},
				{
					Name: proto.String("next"), Number: proto.Int32(2), TypeName: proto.String(fmt.Sprintf(".many.v1.M%d", (i+1)%n)),
					Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
				},
			},
		})
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(fmt.Sprintf("Do%d", i)), InputType: proto.String(".many.v1." + name),
			OutputType: proto.String(fmt.Sprintf(".many.v1.M%d", i%3)), ServerStreaming: proto.Bool(i%5 == 4),
		})
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var methods []protoreflect.MethodDescriptor
	for i := range n {
		methods = append(methods, fd.Services().Get(0).Methods().Get(i))
	}
	return file, methods
}

// What is made ahead, on all processors, is what is made one after the other, and there is no more to do for it.
func TestWhatIsMadeAheadIsWhatIsBound(t *testing.T) {
	t.Parallel()
	_, methods := manyMethods(t, 3*leastAhead)
	types, _ := newTypes(linkFiles(mergeFiles(nil)).registry, nil)
	ahead, after := newBinder(types, BuildOptions{}), newBinder(types, BuildOptions{})
	ahead.prefetch(methods)
	plain := 0
	for _, md := range methods {
		got, want := unboundTool(md), unboundTool(md)
		if err := ahead.bind(got); err != nil {
			t.Fatal(err)
		}
		if err := after.bind(want); err != nil {
			t.Fatal(err)
		}
		if got.Fingerprint != want.Fingerprint || len(got.Fingerprint) != 64 {
			t.Errorf("%s: fingerprint %s, want %s", md.FullName(), got.Fingerprint, want.Fingerprint)
		}
		if string(got.Input.Canonical) != string(want.Input.Canonical) || string(got.Input.Advertised) != string(want.Input.Advertised) ||
			string(got.Output.Canonical) != string(want.Output.Canonical) || !slices.Equal(got.Input.Warnings, want.Input.Warnings) {
			t.Errorf("%s: other schemas", md.FullName())
		}
		if _, made := ahead.fingerprints[schemaPair{got.Input, got.Output}]; made {
			plain++
		}
	}
	if want := len(methods) - len(methods)/5; plain != want {
		t.Errorf("%d fingerprints were made ahead, want %d", plain, want)
	}
}

func unboundTool(md protoreflect.MethodDescriptor) *Tool {
	return &Tool{Method: &Method{Descriptor: md, ClientStreaming: md.IsStreamingClient(), ServerStreaming: md.IsStreamingServer()}}
}

// What is not selected is not derived.
func TestOnlyWhatIsSelectedIsMadeAhead(t *testing.T) {
	t.Parallel()
	file, _ := manyMethods(t, 3*leastAhead)
	selection, err := NewSelection([]string{"many.v1.Many/Do1*"}, []string{"many.v1.Many/Do12"})
	if err != nil {
		t.Fatal(err)
	}
	loads := []*source.Loaded{{Source: "test", Files: []*descriptorpb.FileDescriptorProto{file}}}
	b := &builder{linked: linkFiles(mergeFiles(loads)), selection: selection}
	var names []string
	for _, md := range b.likely(b.offered(loads)) {
		names = append(names, string(md.Name()))
	}
	if want := []string{"Do1", "Do10", "Do11", "Do13", "Do14", "Do15", "Do16", "Do17", "Do18", "Do19"}; !slices.Equal(names, want) {
		t.Errorf("ahead: %v, want %v", names, want)
	}
}

// Every one of them is made once, and a panic costs the one that it is about.
func TestSharedWork(t *testing.T) {
	t.Parallel()
	var made [1000]atomic.Int32
	out := shared(len(made), func(i int) int {
		made[i].Add(1)
		if i%100 == 7 {
			panic("a bad one")
		}
		return i
	})
	for i, got := range out {
		if made[i].Load() != 1 || (got == nil) != (i%100 == 7) || got != nil && *got != i {
			t.Errorf("%d was made %d times: %v", i, made[i].Load(), got)
		}
	}
	if got := shared(0, func(int) int { return 1 }); len(got) != 0 {
		t.Errorf("nothing to do: %v", got)
	}
}
