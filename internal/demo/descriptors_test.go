// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// reflected asks the running service for its files, as a caller without its .proto files does.
func reflected(t *testing.T) *protoregistry.Files {
	t.Helper()
	p := dial(t, start(t, demo.Options{}).URL(), true)
	stream := grpcreflect.NewClient(p.http, p.url).NewStream(t.Context())
	defer func() {
		if _, err := stream.Close(); err != nil {
			t.Error(err)
		}
	}()
	services, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]protoreflect.FullName{demov1connect.FleetName, demov1connect.LabName}, services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	set := new(descriptorpb.FileDescriptorSet)
	for _, service := range services {
		files, err := stream.FileContainingSymbol(service)
		if err != nil {
			t.Fatal(err)
		}
		set.File = append(set.File, files...)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.FileByFilename("google/api/http.proto"); err == nil {
		t.Error("reflection shows files that the service does not use")
	}
	return files
}

func TestReflectionTellsEverythingWithComments(t *testing.T) {
	t.Parallel()
	files := reflected(t)
	described := func(d protoreflect.Descriptor) {
		comment := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
		if strings.TrimSpace(comment) == "" {
			t.Errorf("%s has no comment", d.FullName())
		}
	}
	methods, streams := 0, 0
	files.RangeFilesByPackage("outrigger.demo.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			described(service)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				described(method)
				methods++
				if method.IsStreamingClient() || method.IsStreamingServer() {
					streams++
				}
			}
		}
		for i := range file.Messages().Len() {
			message := file.Messages().Get(i)
			described(message)
			for j := range message.Fields().Len() {
				described(message.Fields().Get(j))
			}
			for j := range message.Oneofs().Len() {
				if oneof := message.Oneofs().Get(j); !oneof.IsSynthetic() {
					described(oneof)
				}
			}
		}
		for i := range file.Enums().Len() {
			enum := file.Enums().Get(i)
			described(enum)
			for j := range enum.Values().Len() {
				described(enum.Values().Get(j))
			}
		}
		return true
	})
	if methods != 18 || streams != 3 {
		t.Errorf("%d methods, %d of them streams, want 18 and 3", methods, streams)
	}

	get, err := files.FindDescriptorByName(demov1connect.FleetName + ".GetVehicle")
	if err != nil {
		t.Fatal(err)
	}
	title, _, _ := strings.Cut(get.ParentFile().SourceLocations().ByDescriptor(get).LeadingComments, "\n\n")
	if title != " Get one vehicle by id." {
		t.Errorf("title %q", title)
	}
}

func TestReflectionSpeaksV1Alpha(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, demo.Options{}).URL(), true, connect.WithGRPC())
	// The messages of both versions are the same on the wire; an empty request is refused by name, an unknown path is not.
	for path, want := range map[string]connect.Code{
		grpcreflect.ReflectV1AlphaServiceName: connect.CodeInvalidArgument,
		"grpc.reflection.v1beta.Nothing":      connect.CodeUnimplemented,
	} {
		client := connect.NewClient[descriptorpb.FileDescriptorSet, descriptorpb.FileDescriptorSet](
			p.http, p.url+"/"+path+"/ServerReflectionInfo", connect.WithGRPC())
		stream := client.CallBidiStream(t.Context())
		_ = stream.Send(&descriptorpb.FileDescriptorSet{}) // the answer tells what is wrong
		_, err := stream.Receive()
		failureOf(t, err, want)
		_ = stream.CloseRequest()
		_ = stream.CloseResponse()
	}
}

func TestMethodsAreMarked(t *testing.T) {
	t.Parallel()
	files := reflected(t)
	for name, want := range map[protoreflect.FullName]struct {
		level       descriptorpb.MethodOptions_IdempotencyLevel
		destructive string
	}{
		"Fleet.GetVehicle":    {descriptorpb.MethodOptions_NO_SIDE_EFFECTS, "not said"},
		"Fleet.UpdateVehicle": {descriptorpb.MethodOptions_IDEMPOTENT, "no"},
		"Fleet.AssignOrder":   {descriptorpb.MethodOptions_IDEMPOTENT, "no"},
		"Fleet.PlaceOrder":    {descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN, "no"},
		"Fleet.CancelOrder":   {descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN, "yes"},
		"Lab.Echo":            {descriptorpb.MethodOptions_NO_SIDE_EFFECTS, "not said"},
	} {
		method, err := files.FindDescriptorByName("outrigger.demo.v1." + name)
		if err != nil {
			t.Fatal(err)
		}
		options := method.Options().(*descriptorpb.MethodOptions)
		destructive := "not said"
		if tool := toolOptions(t, options); tool.GetDestructive() {
			destructive = "yes"
		} else if tool != nil && tool.Destructive != nil {
			destructive = "no"
		}
		if options.GetIdempotencyLevel() != want.level || destructive != want.destructive {
			t.Errorf("%s is %v, destructive: %s", name, options.GetIdempotencyLevel(), destructive)
		}
	}
}

func TestExamplesAreArgumentsThatTheRulesAccept(t *testing.T) {
	t.Parallel()
	examples := 0
	reflected(t).RangeFilesByPackage("outrigger.demo.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				tool := toolOptions(t, method.Options().(*descriptorpb.MethodOptions))
				if tool == nil {
					continue
				}
				if err := protovalidate.Validate(tool); err != nil {
					t.Errorf("%s: options: %v", method.FullName(), err)
				}
				for _, example := range tool.GetExamples() {
					examples++
					arguments := []json.RawMessage{json.RawMessage(example.GetArgumentsJson())}
					if method.IsStreamingClient() {
						var stream struct{ Items []json.RawMessage }
						if err := json.Unmarshal(arguments[0], &stream); err != nil || len(stream.Items) == 0 {
							t.Errorf("%s: %s: no items: %v", method.FullName(), example.GetName(), err)
						}
						arguments = stream.Items
					}
					for _, raw := range arguments {
						message := dynamicpb.NewMessage(method.Input())
						if err := protojson.Unmarshal(raw, message); err != nil {
							t.Errorf("%s: %s: %v", method.FullName(), example.GetName(), err)
							continue
						}
						if err := protovalidate.Validate(message); err != nil {
							t.Errorf("%s: %s: %v", method.FullName(), example.GetName(), err)
						}
					}
				}
			}
		}
		return true
	})
	if examples < 4 {
		t.Errorf("%d examples", examples)
	}
}

func toolOptions(t *testing.T, options *descriptorpb.MethodOptions) *optionsv1.ToolOptions {
	t.Helper()
	if !proto.HasExtension(options, optionsv1.E_Tool) {
		return nil
	}
	tool, ok := proto.GetExtension(options, optionsv1.E_Tool).(*optionsv1.ToolOptions)
	if !ok {
		t.Fatal("the extension is not ToolOptions")
	}
	return tool
}

// TestEmbeddedDescriptorsAreThoseOfTheProtoFiles fails when a .proto file has changed and `make generate` has not run.
func TestEmbeddedDescriptorsAreThoseOfTheProtoFiles(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("demo.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../../proto/outrigger/demo/v1/*.proto")
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) != len(set.GetFile()) {
		t.Errorf("%d files embedded, %d in the folder", len(set.GetFile()), len(sources))
	}
	for _, embedded := range set.GetFile() {
		linked, err := protoregistry.GlobalFiles.FindFileByPath(embedded.GetName())
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile("../../proto/" + embedded.GetName())
		if err != nil {
			t.Fatal(err)
		}
		if err := sameComments(embedded.GetSourceCodeInfo(), string(source)); err != nil {
			t.Errorf("%s: %v", embedded.GetName(), err)
		}
		bare := proto.CloneOf(embedded)
		bare.SourceCodeInfo = nil
		generated := protodesc.ToFileDescriptorProto(linked)
		// Managed mode sets Go options in generated code only.
		bare.Options, generated.Options = nil, nil
		if diff := cmp.Diff(generated, bare, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-generated +embedded):\n%s", embedded.GetName(), diff)
		}
	}
}

// sameComments compares the comments of a descriptor with the lines of its file, both ways: each comment is right above
// what it describes, and no comment line is left over.
func sameComments(info *descriptorpb.SourceCodeInfo, source string) error {
	lines := strings.Split(source, "\n")
	left := 0
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "//") {
			left++
		}
	}
	for _, location := range info.GetLocation() {
		for _, detached := range location.GetLeadingDetachedComments() {
			left -= strings.Count(detached, "\n")
		}
		comment := location.GetLeadingComments()
		if comment == "" {
			continue
		}
		want := strings.Split(strings.TrimSuffix(comment, "\n"), "\n")
		begin := int(location.GetSpan()[0])
		if begin >= len(lines) || begin < len(want) {
			return errors.New("the descriptor speaks of lines that are not there")
		}
		for i, got := range lines[begin-len(want) : begin] {
			if strings.TrimSpace(got) != "//"+want[i] {
				return errors.New("stale comment: " + want[i])
			}
		}
		left -= len(want)
	}
	if left != 0 {
		return errors.New("comments differ in number")
	}
	return nil
}
