// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// shapes are the test messages of package schema the way a catalog reads them: as descriptors without generated code.
func shapes(t testing.TB) *protoregistry.Files {
	t.Helper()
	files, err := readShapes()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var readShapes = sync.OnceValues(func() (*protoregistry.Files, error) {
	raw, err := os.ReadFile(filepath.Join("..", "schema", "testdata", "shapes.binpb"))
	if err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := (proto.UnmarshalOptions{Resolver: &protoregistry.Types{}}).Unmarshal(raw, set); err != nil {
		return nil, err
	}
	return protodesc.NewFiles(set)
})

func shape(t testing.TB, files *protoregistry.Files, name protoreflect.FullName) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := files.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// listed is a resolver that can list extensions, as the catalog's can.
type listed struct {
	*dynamicpb.Types
	extensions []protoreflect.ExtensionType
}

func newListed(files *protoregistry.Files) listed {
	l := listed{Types: dynamicpb.NewTypes(files)}
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Extensions().Len() {
			l.extensions = append(l.extensions, dynamicpb.NewExtensionType(fd.Extensions().Get(i)))
		}
		return true
	})
	return l
}

func (l listed) RangeExtensionsByMessage(name protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	for _, e := range l.extensions {
		if e.TypeDescriptor().ContainingMessage().FullName() == name && !f(e) {
			return
		}
	}
}

// subject is a message with everything that a property speaks about.
type subject struct {
	md                    protoreflect.MessageDescriptor
	resolver              listed
	message               *transcode.Message
	canonical, advertised *schema.Validator
	answer                *schema.Validator // the canonical schema of the output
	shown                 *schema.Validator // the advertised schema of the output
	wrapped               bool              // the answer is shown in an object
}

// newSubject compiles a message, once in a process: tests only read what they share.
func newSubject(t testing.TB, files *protoregistry.Files, md protoreflect.MessageDescriptor) subject {
	t.Helper()
	made, _ := madeSubjects.LoadOrStore(md, sync.OnceValues(func() (subject, error) { return makeSubject(files, md) }))
	s, err := made.(func() (subject, error))()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// madeSubjects holds functions that return subjects, by their descriptors.
var madeSubjects sync.Map

func makeSubject(files *protoregistry.Files, md protoreflect.MessageDescriptor) (subject, error) {
	s := subject{md: md, resolver: newListed(files)}
	var err error
	if s.message, err = transcode.Compile(md, transcode.Options{Resolver: s.resolver}); err != nil {
		return s, err
	}
	in, err := schema.Derive(md, schema.Input, schema.Options{Extensions: s.resolver})
	if err != nil {
		return s, err
	}
	out, err := schema.Derive(md, schema.Output, schema.Options{Extensions: s.resolver})
	if err != nil {
		return s, err
	}
	s.wrapped = out.Wrapped
	for _, v := range []struct {
		to  **schema.Validator
		raw []byte
	}{{&s.canonical, in.Canonical}, {&s.advertised, in.Advertised}, {&s.answer, out.Canonical}, {&s.shown, out.Advertised}} {
		if *v.to, err = schema.Compile(v.raw); err != nil {
			return s, fmt.Errorf("%w\n%s", err, v.raw)
		}
	}
	return s, nil
}

func validator(t testing.TB, raw []byte) *schema.Validator {
	t.Helper()
	v, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return v
}

// subjects are all messages of the test files whose name does not begin with one of the prefixes, and some well-known
// types as roots.
func subjects(t testing.TB, keep func(name string) bool) []subject {
	t.Helper()
	files := shapes(t)
	var mds []protoreflect.MessageDescriptor
	files.RangeFilesByPackage("shapes.v1", func(fd protoreflect.FileDescriptor) bool {
		mds = append(mds, messagesBelow(fd.Messages())...)
		return true
	})
	for _, name := range []string{"Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Empty", "Any", "Int64Value", "BytesValue", "FloatValue", "BoolValue"} {
		mds = append(mds, shape(t, files, protoreflect.FullName("google.protobuf."+name)))
	}
	// Messages that were not written for a test: recursive, proto2 with closed enums, extended by the options above.
	for _, name := range []protoreflect.FullName{"google.protobuf.DescriptorProto", "google.protobuf.FieldOptions"} {
		mds = append(mds, shape(t, files, name))
	}
	slices.SortFunc(mds, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	var out []subject
	for _, md := range mds {
		if keep(string(md.FullName())) {
			out = append(out, newSubject(t, files, md))
		}
	}
	return out
}

func messagesBelow(mds protoreflect.MessageDescriptors) []protoreflect.MessageDescriptor {
	var out []protoreflect.MessageDescriptor
	for i := range mds.Len() {
		if md := mds.Get(i); !md.IsMapEntry() {
			out = append(out, md)
			out = append(out, messagesBelow(md.Messages())...)
		}
	}
	return out
}

// hasRules holds for the messages whose rules random values would break.
func hasRules(name string) bool {
	for _, part := range []string{"Numbers", "Texts", "Choices", "Inner", "Spans", "Account", "Secrets", "Needs"} {
		if strings.HasSuffix(name, "."+part) {
			return true
		}
	}
	return false
}
