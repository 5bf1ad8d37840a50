// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// mergedFiles are the files of all sources, once each.
type mergedFiles struct {
	files    map[string]*descriptorpb.FileDescriptorProto
	from     map[string]string // path to source
	warnings []source.Warning
}

// mergeFiles puts the files of all sources together. Where two bring the same file, the copy with comments is taken;
// where their copies differ, the source that was named first wins.
func mergeFiles(loads []*source.Loaded) *mergedFiles {
	m := &mergedFiles{files: map[string]*descriptorpb.FileDescriptorProto{}, from: map[string]string{}}
	for _, load := range loads {
		for _, f := range load.Files {
			path := f.GetName()
			before, ok := m.files[path]
			switch {
			case !ok:
				m.files[path], m.from[path] = f, load.Source
			case !sameFile(before, f):
				if !strings.HasPrefix(path, "google/protobuf/") {
					m.warnings = append(m.warnings, source.Warning{Subject: path, Text: fmt.Sprintf(
						"%s and %s have different copies; the copy of the latter is used", load.Source, m.from[path])})
				}
			case before.GetSourceCodeInfo() == nil && f.GetSourceCodeInfo() != nil:
				m.files[path] = f
			}
		}
	}
	return m
}

// sameFile compares two files without their comments, and without what only the tool that wrote them knows.
func sameFile(a, b *descriptorpb.FileDescriptorProto) bool {
	bare := func(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
		// A shallow copy by field shares what both have, so that comparing costs no second copy of everything.
		out := &descriptorpb.FileDescriptorProto{}
		f.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if fd.Name() != "source_code_info" {
				out.ProtoReflect().Set(fd, v)
			}
			return true
		})
		return out
	}
	return proto.Equal(bare(a), bare(b))
}

// linker turns files into descriptors, every file after those that it imports.
type linker struct {
	merged   *mergedFiles
	registry *protoregistry.Files
	state    map[string]linkState
	warnings []source.Warning
}

// linkState is how far a file has come: an absent one was not looked at.
type linkState struct {
	isOpen bool  // its imports are being linked, so meeting it again is a cycle
	err    error // why it cannot be used
}

// linkFiles links what can be linked. A file that cannot be is left out, and so are those that import it, each with a
// warning that says why.
func linkFiles(merged *mergedFiles) *linker {
	l := &linker{merged: merged, registry: &protoregistry.Files{}, state: map[string]linkState{}}
	for _, path := range shown.SortedKeys(merged.files) {
		_ = l.link(path)
	}
	for _, path := range shown.SortedKeys(l.state) {
		if err := l.state[path].err; err != nil && merged.files[path] != nil {
			l.warnings = append(l.warnings, source.Warning{Subject: path, Text: "file omitted: " + err.Error()})
		}
	}
	return l
}

// link links one file and first what it imports. The depth of recursion is that of the imports, and so at most the
// number of files, which is bounded.
func (l *linker) link(path string) error {
	if s, ok := l.state[path]; ok {
		if s.isOpen {
			return fmt.Errorf("%s imports itself, directly or through others", shown.Clip(path))
		}
		return s.err
	}
	l.state[path] = linkState{isOpen: true}
	err := l.linkOnce(path)
	l.state[path] = linkState{err: err}
	return err
}

func (l *linker) linkOnce(path string) error {
	file := l.merged.files[path]
	if file == nil {
		if file = source.Builtin(path); file == nil {
			return fmt.Errorf("%s is not in the set; build the set with imports "+
				"(`protoc --include_imports -o`, or `buf build -o` without --exclude-imports)", shown.Clip(path))
		}
	}
	for _, imported := range file.GetDependency() {
		if err := l.link(imported); err != nil {
			// A long chain of imports would repeat itself: what matters is where it broke.
			return &importError{path: imported, cause: rootCause(err)}
		}
	}
	fd, err := protodesc.NewFile(file, l.registry)
	if err != nil {
		return err
	}
	return l.registry.RegisterFile(fd)
}

// importError is a file's failure to link because of an import.
type importError struct {
	path  string
	cause error
}

// Error names the import and what is wrong at the end of the chain.
func (e *importError) Error() string {
	return fmt.Sprintf("it imports %s: %v", shown.Clip(e.path), e.cause)
}

// Unwrap is the cause at the end of the chain.
func (e *importError) Unwrap() error { return e.cause }

func rootCause(err error) error {
	if e, ok := errors.AsType[*importError](err); ok {
		return e.cause
	}
	return err
}

// whyNot says why a service that a source offers is not among the linked ones.
func (l *linker) whyNot(service string) string {
	for _, path := range shown.SortedKeys(l.merged.files) {
		defined := slices.ContainsFunc(l.merged.files[path].GetService(), func(s *descriptorpb.ServiceDescriptorProto) bool {
			return string(protoreflect.FullName(l.merged.files[path].GetPackage()).Append(protoreflect.Name(s.GetName()))) == service
		})
		if err := l.state[path].err; defined && err != nil {
			return fmt.Sprintf("its file %s does not link: %v", shown.Clip(path), err)
		}
	}
	return "no file defines it"
}

// paths are the paths of the files that linked, sorted.
func (l *linker) paths() []string {
	var out []string
	for _, path := range shown.SortedKeys(l.state) {
		if l.state[path].err == nil {
			out = append(out, path)
		}
	}
	return out
}
