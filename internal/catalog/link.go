// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// keptFiles are the linked files of an earlier build, by path.
type keptFiles struct {
	files map[string]*keptFile
	// bringers say which sources brought a file, disputed which files two of them have otherwise.
	bringers map[string]string
	disputed map[string]bool
}

// keptFile is a file that linked.
type keptFile struct {
	descriptor protoreflect.FileDescriptor
	facts      *facts
	renamed    []string // see distinctNames
}

// file is a file of an earlier build; nil where there is none.
func (k *keptFiles) file(path string) *keptFile {
	if k == nil {
		return nil
	}
	return k.files[path]
}

// errStale tells that a build needs files that the sources did not bring, because they have not changed.
var errStale = errors.New("files that have not changed are needed")

// mergedFiles are the files of all sources, once each.
type mergedFiles struct {
	files map[string]*descriptorpb.FileDescriptorProto
	// same are the files that are kept from the build before, nil where there is none.
	same     map[string]bool
	from     map[string]string // path to source
	warnings []source.Warning
	disputed map[string]bool   // files that two sources have otherwise
	bringers map[string]string // path to the indices of the sources
}

// mergeFiles puts the files of all sources together. Where two bring the same file, the copy with comments is taken;
// where their copies differ, the source that was named first wins. The error is errStale where a source left out a file
// that has not changed, and it is no longer certain whose copy is to be used.
func mergeFiles(loads []*source.Loaded, before *keptFiles) (*mergedFiles, error) {
	m := &mergedFiles{
		files: map[string]*descriptorpb.FileDescriptorProto{}, same: map[string]bool{}, from: map[string]string{},
		disputed: map[string]bool{}, bringers: map[string]string{},
	}
	for i, load := range loads {
		for _, path := range load.Same {
			m.same[path] = true
			m.brought(path, i)
		}
		for _, f := range load.Files {
			m.brought(f.GetName(), i)
			m.add(f, load.Source)
		}
	}
	for path := range m.same {
		if m.files[path] != nil || before.file(path) == nil || m.bringers[path] != before.bringers[path] || before.disputed[path] {
			return nil, errStale
		}
	}
	return m, nil
}

// brought notes that a source brought a file.
func (m *mergedFiles) brought(path string, source int) {
	by := strconv.Itoa(source)
	if others, ok := m.bringers[path]; ok {
		by = others + "," + by
	}
	m.bringers[path] = by
}

// add takes a source's copy of a file.
func (m *mergedFiles) add(f *descriptorpb.FileDescriptorProto, from string) {
	path := f.GetName()
	before, ok := m.files[path]
	switch {
	case !ok:
		m.files[path], m.from[path] = f, from
	case !source.SameFile(before, f):
		m.disputed[path] = true
		if !strings.HasPrefix(path, "google/protobuf/") {
			m.warnings = append(m.warnings, source.Warning{Subject: path, Text: fmt.Sprintf(
				"%s and %s have different copies; the copy of the latter is used", from, m.from[path])})
		}
	case before.GetSourceCodeInfo() == nil && f.GetSourceCodeInfo() != nil:
		m.files[path] = f
	}
}

// has reports whether a source brought a file.
func (m *mergedFiles) has(path string) bool { return m.files[path] != nil || m.same[path] }

// paths are the paths of all files, sorted.
func (m *mergedFiles) paths() []string {
	out := make([]string, 0, len(m.files)+len(m.same))
	out = slices.AppendSeq(slices.AppendSeq(out, maps.Keys(m.files)), maps.Keys(m.same))
	slices.Sort(out)
	return out
}

// linker turns files into descriptors, every file after those that it imports. Those of the build before are used again
// where all that they import is.
type linker struct {
	merged   *mergedFiles
	before   *keptFiles
	registry *protoregistry.Files
	state    map[string]linkState
	facts    map[string]*facts
	renamed  map[string][]string // by path; see distinctNames
	warnings []source.Warning
}

// linkState is how far a file has come: an absent one was not looked at.
type linkState struct {
	isOpen     bool  // its imports are being linked, so meeting it again is a cycle
	err        error // why it cannot be used
	descriptor protoreflect.FileDescriptor
	isKept     bool // it is the one of the build before
}

// linkFiles links what can be linked. A file that cannot be is left out, and so are those that import it, each with a
// warning that says why. The error is errStale where a file that was kept has to be linked again.
func linkFiles(merged *mergedFiles, before *keptFiles) (*linker, error) {
	l := &linker{merged: merged, before: before, registry: &protoregistry.Files{}, state: map[string]linkState{}, renamed: map[string][]string{}}
	learned := l.learnFacts()
	defer func() { l.facts = learned() }()
	for _, path := range merged.paths() {
		if err := l.link(path); errors.Is(err, errStale) {
			return nil, err
		}
	}
	for _, path := range shown.SortedKeys(l.state) {
		if err := l.state[path].err; err != nil && merged.has(path) {
			l.warnings = append(l.warnings, source.Warning{Subject: path, Text: "file omitted: " + err.Error()})
		}
	}
	return l, nil
}

// learnFacts takes the facts of all files that are new, while they are linked. The function waits for them.
func (l *linker) learnFacts() (wait func() map[string]*facts) {
	out, done := make(map[string]*facts, len(l.merged.files)), make(chan struct{})
	go func() {
		defer close(done)
		for path, file := range l.merged.files {
			out[path] = newFacts(file)
		}
	}()
	return func() map[string]*facts { <-done; return out }
}

// factsOf are the facts of a linked file.
func (l *linker) factsOf(path string) *facts {
	if l.isKept(path) {
		return l.before.files[path].facts
	}
	if l.facts[path] == nil {
		file := source.Builtin(path)
		if file == nil {
			return &facts{}
		}
		l.facts[path] = newFacts(file)
	}
	return l.facts[path]
}

// isKept reports whether a file is the one of the build before, with all that it imports.
func (l *linker) isKept(path string) bool { return l.state[path].isKept }

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
	fd, isKept, err := l.linkOnce(path)
	l.state[path] = linkState{err: err, descriptor: fd, isKept: isKept && err == nil}
	return err
}

func (l *linker) linkOnce(path string) (fd protoreflect.FileDescriptor, isKept bool, err error) {
	file := l.merged.files[path]
	if file == nil && l.before.file(path) != nil && (l.merged.same[path] || source.Builtin(path) != nil && l.before.bringers[path] == "") {
		return l.linkAgain(path)
	}
	if file == nil {
		if file = source.Builtin(path); file == nil {
			return nil, false, fmt.Errorf("%s is not in the set; build the set with imports "+
				"(`protoc --include_imports -o`, or `buf build -o` without --exclude-imports)", shown.Clip(path))
		}
	}
	for _, imported := range file.GetDependency() {
		if err := l.link(imported); err != nil {
			return nil, false, importFailed(imported, err)
		}
	}
	file, renamed := distinctNames(file)
	l.rename(path, renamed)
	if fd, err = protodesc.NewFile(file, l.registry); err != nil {
		return nil, false, err
	}
	return fd, false, l.registry.RegisterFile(fd)
}

// rename notes that fields of a file have other names in JSON than their file says.
func (l *linker) rename(path string, fields []string) {
	if len(fields) == 0 {
		return
	}
	l.renamed[path] = fields
	for _, field := range fields {
		l.warnings = append(l.warnings, source.Warning{Subject: shown.Clip(field), Text: "the field goes by its name in the .proto file in JSON, " +
			"because its JSON name is another field's, or the type of a google.protobuf.Any"})
	}
}

// linkAgain takes a file of the build before. Whether it links depends on what it imports, and on what else has its names.
func (l *linker) linkAgain(path string) (fd protoreflect.FileDescriptor, isKept bool, err error) {
	fd = l.before.files[path].descriptor
	l.rename(path, l.before.files[path].renamed)
	isKept = true
	for i := range fd.Imports().Len() {
		imported := fd.Imports().Get(i).Path()
		if err := l.link(imported); err != nil {
			return nil, false, importFailed(imported, err)
		}
		isKept = isKept && l.isKept(imported)
	}
	if !isKept {
		return nil, false, errStale
	}
	return fd, true, l.registry.RegisterFile(fd)
}

// importFailed is the error of a file whose import failed. A long chain of imports would repeat itself: what matters is
// where it broke.
func importFailed(path string, err error) error {
	if errors.Is(err, errStale) {
		return err
	}
	return &importError{path: path, cause: rootCause(err)}
}

// importError is a file's failure to link because of an import.
type importError struct {
	path  string
	cause error
}

// Error names the import and the problem at the end of the chain.
func (e *importError) Error() string {
	return fmt.Sprintf("it imports %s: %v", shown.Clip(e.path), e.cause)
}

// Unwrap returns the cause at the end of the chain.
func (e *importError) Unwrap() error { return e.cause }

func rootCause(err error) error {
	if e, ok := errors.AsType[*importError](err); ok {
		return e.cause
	}
	return err
}

// whyNot says why a service that a source offers is not among the linked ones.
func (l *linker) whyNot(service string) string {
	for _, path := range l.merged.paths() {
		if err := l.state[path].err; err != nil && slices.Contains(l.services(path), service) {
			return fmt.Sprintf("its file %s does not link: %v", shown.Clip(path), err)
		}
	}
	return "no file defines it"
}

// services are the full names of the services that a file defines, whether it links or not.
func (l *linker) services(path string) []string {
	if file := l.merged.files[path]; file != nil {
		return servicesOf(file)
	}
	if l.before.file(path) == nil {
		return nil
	}
	var out []string
	services := l.before.files[path].descriptor.Services()
	for i := range services.Len() {
		out = append(out, string(services.Get(i).FullName()))
	}
	return out
}

func servicesOf(file *descriptorpb.FileDescriptorProto) []string {
	var out []string
	for _, s := range file.GetService() {
		out = append(out, string(protoreflect.FullName(file.GetPackage()).Append(protoreflect.Name(s.GetName()))))
	}
	return out
}

// kept are the files that linked, for the next build.
func (l *linker) kept() *keptFiles {
	k := &keptFiles{files: make(map[string]*keptFile, len(l.state)), bringers: l.merged.bringers, disputed: l.merged.disputed}
	for path, s := range l.state {
		if s.err == nil {
			k.files[path] = &keptFile{s.descriptor, l.factsOf(path), l.renamed[path]}
		}
	}
	return k
}

// paths are the paths of the files that linked, sorted.
func (l *linker) paths() []string {
	out := make([]string, 0, len(l.state))
	for path, s := range l.state {
		if s.err == nil {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}
