// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// shop is a file with a symbol of each kind.
func shop() *descriptorpb.FileDescriptorProto {
	str, num, enum := descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
	optional, repeated := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return &descriptorpb.FileDescriptorProto{
		Name: new("shop/v1/shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: new("Order"),
			Field: []*descriptorpb.FieldDescriptorProto{
				{Name: new("id"), Number: new(int32(1)), Type: str, Label: optional},
				{Name: new("tags"), Number: new(int32(2)), Type: str, Label: repeated},
				{Name: new("state"), Number: new(int32(3)), Type: enum, TypeName: new(".shop.v1.Order.State"), Label: optional},
				{Name: new("note"), Number: new(int32(4)), Type: str, Label: optional, OneofIndex: new(int32(0))},
				{Name: new("size"), Number: new(int32(5)), Type: num, Label: optional, OneofIndex: new(int32(1)), Proto3Optional: new(true)},
			},
			OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: new("more")}, {Name: new("_size")}},
			EnumType: []*descriptorpb.EnumDescriptorProto{{Name: new("State"), Value: []*descriptorpb.EnumValueDescriptorProto{
				{Name: new("NEW"), Number: new(int32(0))}, {Name: new("SENT"), Number: new(int32(1))},
			}}},
			NestedType: []*descriptorpb.DescriptorProto{{Name: new("Line")}},
		}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Get"), InputType: new(".shop.v1.Order"), OutputType: new(".shop.v1.Order")},
			{Name: new("Watch"), InputType: new(".shop.v1.Order"), OutputType: new(".shop.v1.Order"), ServerStreaming: new(true)},
		}}},
	}
}

// describedShop is a file in which each symbol has its own name as a comment.
func describedShop() *descriptorpb.FileDescriptorProto {
	f := shop()
	f.Name = new("elsewhere/shop.proto")
	f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{}
	symbolsOf(f, func(s symbol) {
		f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{
			Path: s.path, Span: []int32{1, 2, 3}, LeadingComments: new(" About " + s.name + ".\n"),
		})
	})
	return f
}

// served is a source of files that can be changed.
type served struct {
	name     string
	files    []*descriptorpb.FileDescriptorProto
	services []string
	failing  error
}

func (s *served) Name() string { return s.name }

func (s *served) Load(ctx context.Context) (*Loaded, error) { return s.LoadUnless(ctx, nil) }

func (s *served) LoadUnless(_ context.Context, before *Revision) (*Loaded, error) {
	if s.failing != nil {
		return nil, &Error{Source: s.name, Step: "load", Cause: s.failing}
	}
	sum := newSummer()
	for _, f := range s.files {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(f)
		if err != nil {
			return nil, err
		}
		sum.add(raw)
	}
	digest := sum.sum()
	if before.Is(digest) {
		return nil, nil
	}
	return &Loaded{Source: s.name, Files: s.files, Services: s.services, Revision: &Revision{Digest: digest}}, nil
}

// commentsIn are the comments of a file, by the name of what they are about.
func commentsIn(t *testing.T, f *descriptorpb.FileDescriptorProto) map[string]string {
	t.Helper()
	fd, err := protodesc.NewFile(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	note := func(d protoreflect.Descriptor) {
		if text := fd.SourceLocations().ByDescriptor(d).LeadingComments; text != "" {
			out[string(d.FullName())] = strings.TrimSpace(text)
		}
	}
	order := fd.Messages().Get(0)
	note(order)
	for i := range order.Fields().Len() {
		note(order.Fields().Get(i))
	}
	note(order.Oneofs().Get(0))
	note(order.Messages().Get(0))
	note(order.Enums().Get(0))
	for i := range order.Enums().Get(0).Values().Len() {
		note(order.Enums().Get(0).Values().Get(i))
	}
	note(fd.Services().Get(0))
	for i := range fd.Services().Get(0).Methods().Len() {
		note(fd.Services().Get(0).Methods().Get(i))
	}
	return out
}

func TestCommentsAreMatchedBySymbol(t *testing.T) {
	t.Parallel()
	reflected := &served{name: "reflection", files: []*descriptorpb.FileDescriptorProto{shop()}, services: []string{"shop.v1.Shop"}}
	s := NewCommented(reflected, nil, &served{name: "set", files: []*descriptorpb.FileDescriptorProto{describedShop()}})
	loaded, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Source != "reflection with comments from set" || !slices.Equal(loaded.Services, reflected.services) || len(loaded.Warnings) > 0 || len(loaded.Files) != 1 {
		t.Errorf("%+v", loaded)
	}
	got := commentsIn(t, loaded.Files[0])
	want := map[string]string{}
	for _, name := range []string{
		"Order", "Order.id", "Order.tags", "Order.state", "Order.note", "Order.size", "Order.more", "Order.Line", "Order.State", "Shop", "Shop.Get", "Shop.Watch",
	} {
		want["shop.v1."+name] = "About shop.v1." + name + "."
	}
	// The full name of a value is that of its enum's neighbours.
	want["shop.v1.Order.NEW"], want["shop.v1.Order.SENT"] = "About shop.v1.Order.State.NEW.", "About shop.v1.Order.State.SENT."
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("comments (-want +got):\n%s", diff)
	}
	if reflected.files[0].GetSourceCodeInfo() != nil {
		t.Error("the file of the other source was changed")
	}
}

func TestOwnCommentsStay(t *testing.T) {
	t.Parallel()
	own := shop()
	own.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
		{Path: []int32{fileMessages, 0}, Span: []int32{0, 0, 0}, LeadingComments: new("Mine.")},
		{Path: []int32{fileService, 0}, Span: []int32{0, 0, 0}},
	}}
	s := NewCommented(&served{files: []*descriptorpb.FileDescriptorProto{own}}, nil, &served{files: []*descriptorpb.FileDescriptorProto{describedShop()}})
	loaded, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := commentsIn(t, loaded.Files[0])
	if got["shop.v1.Order"] != "Mine." || got["shop.v1.Shop"] != "About shop.v1.Shop." || got["shop.v1.Order.id"] != "About shop.v1.Order.id." {
		t.Errorf("%q", got)
	}
}

// TestDifferencesAreNamed, and comments about something else are not used.
func TestDifferencesAreNamed(t *testing.T) {
	t.Parallel()
	described := describedShop()
	order := described.MessageType[0]
	order.Field[0].Number = new(int32(9))
	order.Field[1].Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	order.Field[3].Name = new("remark")
	order.EnumType[0].Value[1].Number = new(int32(7))
	described.Service[0].Method[0].ClientStreaming = new(true)
	described.Service = append(described.Service, &descriptorpb.ServiceDescriptorProto{Name: new("Old")},
		&descriptorpb.ServiceDescriptorProto{Name: new("Left")})
	s := NewCommented(&served{name: "reflection", files: []*descriptorpb.FileDescriptorProto{shop()}}, skipsLeft{},
		&served{name: "set", files: []*descriptorpb.FileDescriptorProto{described}})
	loaded, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range loaded.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"shop.v1.Order.id: the backend has string = 1, set has string = 9; its comment is not used",
		"shop.v1.Order.tags: the backend has repeated string = 2, set has string = 2; its comment is not used",
		"shop.v1.Order.note: the backend has it, and the descriptors do not; its comment is missing",
		"shop.v1.Order.State.SENT: the backend has value 1, set has value 7; its comment is not used",
		"shop.v1.Shop.Get: the backend has rpc (shop.v1.Order) returns (shop.v1.Order), set has rpc (stream shop.v1.Order) returns (shop.v1.Order); its comment is not used",
		"shop.v1.Order.remark: set has it, and the backend does not",
		"shop.v1.Old: set has this service, and the backend does not reflect it; no tools are made of it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	comments := commentsIn(t, loaded.Files[0])
	for _, name := range []string{"Order.id", "Order.tags", "Order.note", "Order.SENT", "Shop.Get"} {
		if text := comments["shop.v1."+name]; text != "" {
			t.Errorf("%s has the comment %q", name, text)
		}
	}
	if comments["shop.v1.Shop.Watch"] == "" {
		t.Error("a comment that fits is missing")
	}
}

// skipsLeft excludes one service.
type skipsLeft struct{}

func (skipsLeft) Skips(service string) bool { return service == "shop.v1.Left" }

func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	reflected := shop()
	for i := range maxDifferences + 5 {
		reflected.MessageType[0].Field = append(reflected.MessageType[0].Field, &descriptorpb.FieldDescriptorProto{
			Name: new("extra_" + strconv.Itoa(i)), Number: new(int32(100 + i)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		})
	}
	s := NewCommented(&served{name: "reflection", files: []*descriptorpb.FileDescriptorProto{reflected}}, nil,
		&served{name: "set", files: []*descriptorpb.FileDescriptorProto{describedShop()}})
	loaded, err := s.Load(t.Context())
	if err != nil || len(loaded.Warnings) != maxDifferences+1 || !strings.HasPrefix(loaded.Warnings[maxDifferences].Text, "5 more differences") {
		t.Errorf("%d warnings, error %v", len(loaded.Warnings), err)
	}
}

func TestACommentedSourceChangesWithEitherOfItsSources(t *testing.T) {
	t.Parallel()
	reflected := &served{name: "reflection", files: []*descriptorpb.FileDescriptorProto{shop()}}
	described := &served{name: "set", files: []*descriptorpb.FileDescriptorProto{describedShop()}}
	s := NewCommented(reflected, nil, described).(Conditional)
	var before *Revision
	for _, step := range []struct {
		name    string
		change  func()
		changed bool
	}{
		{"the first load", func() {}, true},
		{"nothing", func() {}, false},
		{"the descriptors", func() { described.files[0].SourceCodeInfo.Location[0].LeadingComments = new("Other.") }, true},
		{"nothing again", func() {}, false},
		{"the backend", func() { reflected.files[0].Service[0].Method = reflected.files[0].Service[0].Method[:1] }, true},
	} {
		step.change()
		loaded, err := s.LoadUnless(t.Context(), before)
		if err != nil || (loaded != nil) != step.changed {
			t.Fatalf("%s: %v, error %v", step.name, loaded, err)
		}
		if loaded != nil {
			before = loaded.Revision
		}
	}
	for _, one := range []*served{reflected, described} {
		one.failing = errors.New("away")
		if _, err := s.LoadUnless(t.Context(), before); !errors.Is(err, one.failing) {
			t.Errorf("error %v", err)
		}
		one.failing = nil
	}
}

// FuzzComments: whatever two sets say, files differ in comments only.
func FuzzComments(f *testing.F) {
	f.Add(setOf(f, shop()), setOf(f, describedShop()))
	f.Add(setOf(f, describedShop()), setOf(f, shop()))
	f.Add(setOf(f, plainFile("a.proto")), setOf(f, plainFile("a.proto")))
	f.Fuzz(func(t *testing.T, reflected, described []byte) {
		a, errA := ParseDescriptorSet("a", reflected, Limits{})
		b, errB := ParseDescriptorSet("b", described, Limits{})
		if errA != nil || errB != nil {
			return
		}
		loaded, err := NewCommented(&served{name: "a", files: a.Files}, nil, &served{name: "b", files: b.Files}).Load(context.Background())
		if err != nil {
			return // they cannot be written again
		}
		if len(loaded.Files) != len(a.Files) || len(loaded.Warnings) > maxDifferences+1 {
			t.Fatalf("%d files, %d warnings", len(loaded.Files), len(loaded.Warnings))
		}
		for i, out := range loaded.Files {
			if !SameFile(out, a.Files[i]) {
				t.Errorf("another file: %v", out)
			}
		}
	})
}
