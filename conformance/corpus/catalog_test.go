// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// fileSet gathers what goes into a descriptor set.
type fileSet struct {
	raw     []byte
	seen    map[string]bool
	methods []protoreflect.MethodDescriptor // of all services that become tools
}

// overlay gives the methods that share a name a name of their own: APIs know nothing of one another.
func (s *fileSet) overlay() []catalog.Override {
	names := map[string]int{}
	for _, m := range s.methods {
		names[catalog.MCPName(catalog.CanonicalName(m))]++
	}
	var out []catalog.Override
	for _, m := range s.methods {
		if names[catalog.MCPName(catalog.CanonicalName(m))] > 1 {
			out = append(out, catalog.Override{
				Match:   string(m.Parent().FullName()) + "/" + string(m.Name()),
				Options: &configv1.ToolOptions{Name: fmt.Sprintf("corpus.m%d", len(out))},
			})
		}
	}
	return out
}

// add appends a file after its imports.
func (s *fileSet) add(t testing.TB, fd protoreflect.FileDescriptor) {
	t.Helper()
	if s.seen[fd.Path()] || fd.IsPlaceholder() {
		return
	}
	s.seen[fd.Path()] = true
	for i := range fd.Imports().Len() {
		s.add(t, fd.Imports().Get(i).FileDescriptor)
	}
	for i := range fd.Services().Len() {
		service := fd.Services().Get(i)
		if strings.HasPrefix(string(service.FullName()), "outrigger.v1.") || strings.HasPrefix(string(service.FullName()), "grpc.") {
			continue // these serve the machinery, and become no tools
		}
		for j := range service.Methods().Len() {
			s.methods = append(s.methods, service.Methods().Get(j))
		}
	}
	s.append(t, protodesc.ToFileDescriptorProto(fd))
}

func (s *fileSet) append(t testing.TB, file *descriptorpb.FileDescriptorProto) {
	t.Helper()
	body, err := proto.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	s.appendRaw(body)
}

func (s *fileSet) appendRaw(body []byte) {
	s.raw = protowire.AppendBytes(protowire.AppendTag(s.raw, 1, protowire.BytesType), body)
}

// badFiles are files that cannot be used, by path, and what a warning has to say of each. The last one is only there to
// be lost with the file that it imports.
func badFiles(t *testing.T, s *fileSet) map[string]string {
	t.Helper()
	message := func(name string, edit func(*descriptorpb.DescriptorProto)) []*descriptorpb.DescriptorProto {
		m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
		edit(m)
		return []*descriptorpb.DescriptorProto{m}
	}
	field := func(name, kind string) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(1), TypeName: proto.String(kind),
			Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	nothing := func(*descriptorpb.DescriptorProto) {}
	s.append(t, &descriptorpb.FileDescriptorProto{
		Name: proto.String("bad/missing.proto"), Package: proto.String("bad.missing"), Syntax: proto.String("proto3"),
		Dependency: []string{"bad/not_there.proto"}, MessageType: message("M", nothing),
	})
	s.append(t, &descriptorpb.FileDescriptorProto{
		Name: proto.String("bad/unknown.proto"), Package: proto.String("bad.unknown"), Syntax: proto.String("proto3"),
		MessageType: message("M", func(m *descriptorpb.DescriptorProto) {
			m.Field = []*descriptorpb.FieldDescriptorProto{field("f", ".bad.NoSuch")}
		}),
	})
	s.append(t, &descriptorpb.FileDescriptorProto{
		Name: proto.String("bad/set.proto"), Package: proto.String("bad.set"), Syntax: proto.String("proto2"),
		MessageType: message("M", func(m *descriptorpb.DescriptorProto) {
			m.Options = &descriptorpb.MessageOptions{MessageSetWireFormat: proto.Bool(true)}
			m.ExtensionRange = []*descriptorpb.DescriptorProto_ExtensionRange{{Start: proto.Int32(4), End: proto.Int32(1 << 20)}}
		}),
	})
	s.append(t, &descriptorpb.FileDescriptorProto{
		Name: proto.String("bad/taken.proto"), Package: proto.String("google.protobuf"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/timestamp.proto"}, MessageType: message("Timestamp", nothing),
	})
	s.append(t, &descriptorpb.FileDescriptorProto{
		Name: proto.String("bad/imports.proto"), Package: proto.String("bad.imports"), Syntax: proto.String("proto3"),
		Dependency: []string{"bad/unknown.proto"}, MessageType: message("M", nothing),
	})
	s.appendRaw([]byte{0x0a, 0xff}) // the length of a name that is not there
	return map[string]string{
		"bad/missing.proto": "not in the set", "bad/unknown.proto": "NoSuch", "bad/set.proto": "MessageSet",
		"bad/taken.proto": "google.protobuf.Timestamp", "bad/imports.proto": "bad/unknown.proto",
	}
}

// TestCatalogLosesOnlyBadFiles: a descriptor set of public APIs with bad files among the good ones makes a catalog of all
// that is good. The sample takes the files of one API, the whole everything that is linked.
func TestCatalogLosesOnlyBadFiles(t *testing.T) {
	all := sources.Linked()
	s := &fileSet{seen: map[string]bool{}}
	bad := badFiles(t, s) // first, so that whatever they spoil would be spoilt for all
	all.Files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if isFull() || strings.HasPrefix(fd.Path(), "google/cloud/dialogflow/") {
			s.add(t, fd)
		}
		return true
	})
	path := filepath.Join(t.TempDir(), "set.binpb")
	if err := os.WriteFile(path, s.raw, 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	built, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{Overlay: s.overlay()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d bytes, %d methods: %d tools in %v, %d warnings", len(s.seen), len(s.raw), len(s.methods), len(built.All()), time.Since(start).Round(time.Millisecond), len(built.Warnings()))
	for path := range s.seen {
		if _, err := built.Files().FindFileByPath(path); err != nil {
			t.Errorf("%s is lost: %v", path, err)
		}
	}
	own := slices.DeleteFunc(slices.Clone(built.All()), func(t *catalog.Tool) bool { return t.Continues != catalog.NoContinuation })
	const ofOperations = 5 // the methods of google.longrunning.Operations, which are no tools
	if len(own) != len(s.methods)-ofOperations {
		t.Errorf("%d tools of %d methods", len(own), len(s.methods))
	}
	warned := map[string]string{}
	for _, w := range built.Warnings() {
		warned[w.Subject] += w.Text
		if _, ok := bad[w.Subject]; !ok {
			t.Log(w)
		}
	}
	for path, why := range bad {
		if _, err := built.Files().FindFileByPath(path); err == nil {
			t.Errorf("%s is in the catalog", path)
		}
		if !strings.Contains(warned[path], why) {
			t.Errorf("%s: the warning is %q, and should say %q", path, warned[path], why)
		}
	}
	if !strings.Contains(strings.Join(texts(built.Warnings()), "\n"), "file 6 of the set omitted") {
		t.Error("no warning says that a file could not be decoded")
	}
}

func texts(warnings []source.Warning) []string {
	var out []string
	for _, w := range warnings {
		out = append(out, w.String())
	}
	return out
}
