// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
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
	// readsRivals: the annotations of rivals are translated.
	readsRivals bool
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
func linkFiles(merged *mergedFiles, before *keptFiles, readsRivals bool) (*linker, error) {
	l := &linker{merged: merged, before: before, registry: &protoregistry.Files{}, state: map[string]linkState{}, renamed: map[string][]string{}, readsRivals: readsRivals}
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
	file, renamed := distinctNames(l.translated(file))
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
	if inner, ok := errors.AsType[*importError](err); ok {
		err = inner.cause
	}
	return &importError{path: path, cause: err}
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

// anyTypeMember is the member that ProtoJSON adds to a message in a google.protobuf.Any.
const anyTypeMember = "@type"

// distinctNames returns a file in which the fields of each message have distinct JSON names, and the full names of the fields
// that were renamed. Compilers warn of equal ones at most (proto2, editions, json_name), and then every JSON of the message
// has a member twice. Where two fields have one JSON name, the second goes by its name in the .proto file, and so does a field
// with the name of an Any's type. The file that was given stays as it is.
func distinctNames(file *descriptorpb.FileDescriptorProto) (distinct *descriptorpb.FileDescriptorProto, renamed []string) {
	n := namer{taken: map[string]int{}}
	if !slices.ContainsFunc(file.GetMessageType(), n.isAmbiguous) {
		return file, nil
	}
	file = proto.CloneOf(file)
	n.rename(file.GetPackage(), file.GetMessageType())
	return file, n.renamed
}

type namer struct {
	taken   map[string]int // JSON name to index of its field
	renamed []string
}

// isAmbiguous reports whether a message, or one in it, has a field to rename.
func (n *namer) isAmbiguous(m *descriptorpb.DescriptorProto) bool {
	return n.next(m) >= 0 || slices.ContainsFunc(m.GetNestedType(), n.isAmbiguous)
}

// next is the index of a field whose JSON name is not its own, -1 for none. A field that is called so in the .proto file
// keeps the name.
func (n *namer) next(m *descriptorpb.DescriptorProto) int {
	clear(n.taken)
	for i, f := range m.GetField() {
		name := jsonName(f)
		if name == anyTypeMember {
			return i
		}
		first, ok := n.taken[name]
		switch {
		case !ok:
			n.taken[name] = i
		case f.GetName() == name:
			return first
		default:
			return i
		}
	}
	return -1
}

// rename gives fields their own names. Each step names one field as the .proto file does, which is never undone, because
// those names are distinct.
func (n *namer) rename(scope string, messages []*descriptorpb.DescriptorProto) {
	for _, m := range messages {
		full := strings.TrimPrefix(scope+"."+m.GetName(), ".")
		for range m.GetField() {
			i := n.next(m)
			if i < 0 {
				break
			}
			f := m.GetField()[i]
			f.JsonName = new(f.GetName())
			n.renamed = append(n.renamed, full+"."+f.GetName())
		}
		n.rename(full, m.GetNestedType())
	}
}

// jsonName is the JSON name of a field. Compilers set it; where it is not set, it follows from the name.
func jsonName(f *descriptorpb.FieldDescriptorProto) string {
	if f.JsonName != nil {
		return f.GetJsonName()
	}
	name := f.GetName()
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		if c == '_' {
			continue
		}
		if i > 0 && name[i-1] == '_' && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// Types resolves all messages, enums and extensions of a catalog by name: what an Any may hold, and which extensions a
// message has. It is a resolver for protojson and proto, and safe for concurrent use.
//
// It also finds messages that are linked into the binary, such as google.rpc's, and messages that [Live.Learn] has
// learned. A lookup never asks a server.
type Types struct {
	*dynamicpb.Types
	extensions *protoregistry.Types
	learned    *learned
	any        func() (*transcode.Message, error)
}

// FindMessageByName implements protoregistry.MessageTypeResolver.
func (t *Types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	mt, err := t.Types.FindMessageByName(name)
	if err == nil {
		return mt, nil
	}
	if mt, err := protoregistry.GlobalTypes.FindMessageByName(name); err == nil {
		return mt, nil
	}
	if mt := t.learned.find(name); mt != nil {
		return mt, nil
	}
	return nil, err
}

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (t *Types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

// AppendJSON appends the JSON of an Any to dst. Values of unknown types are written as bytes.
func (t *Types) AppendJSON(dst []byte, a *anypb.Any) ([]byte, error) {
	out, _, err := t.AppendJSONNoting(dst, a)
	return out, err
}

// Unknown returns the URLs of unknown types in an Any: its own, or those of nested Anys.
func (t *Types) Unknown(a *anypb.Any) []string {
	_, noted, _ := t.AppendJSONNoting(nil, a) // what has no JSON names no types
	return noted.Unknown
}

// AppendJSONNoting is AppendJSON that also returns what there is to say about the JSON.
func (t *Types) AppendJSONNoting(dst []byte, a *anypb.Any) (out []byte, noted transcode.Noted, err error) {
	m, err := t.any()
	if err != nil {
		return dst, noted, err
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		return dst, noted, err
	}
	return m.ToJSONNoting(context.Background(), nil, dst, wire)
}

// RangeExtensionsByMessage calls f for every extension of the message until f returns false, in no particular order.
func (t *Types) RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	t.extensions.RangeExtensionsByMessage(message, f)
}

// newTypes collects the types of linked files. Two extensions with one number are a warning, and the first by path wins.
func newTypes(linked *linker) (*Types, []source.Warning) {
	t := &Types{Types: dynamicpb.NewTypes(linked.registry), extensions: &protoregistry.Types{}, learned: newLearned()}
	t.any = sync.OnceValues(func() (*transcode.Message, error) {
		return transcode.Compile((&anypb.Any{}).ProtoReflect().Descriptor(), transcode.Options{Resolver: t})
	})
	var warnings []source.Warning
	for _, path := range linked.paths() {
		if !linked.factsOf(path).extends {
			continue
		}
		eachExtension(linked.state[path].descriptor, func(xd protoreflect.ExtensionDescriptor) {
			if err := t.extensions.RegisterExtension(dynamicpb.NewExtensionType(xd)); err != nil {
				warnings = append(warnings, source.Warning{Subject: path, Text: fmt.Sprintf("extension %s is left out: %v", xd.FullName(), err)})
			}
		})
	}
	return t, warnings
}

// extensionScope is what may declare extensions: a file or a message.
type extensionScope interface {
	Extensions() protoreflect.ExtensionDescriptors
	Messages() protoreflect.MessageDescriptors
}

// eachExtension calls fn with all extensions that are declared in the scope and the messages within it.
func eachExtension(scope extensionScope, fn func(protoreflect.ExtensionDescriptor)) {
	for i := range scope.Extensions().Len() {
		fn(scope.Extensions().Get(i))
	}
	for i := range scope.Messages().Len() {
		eachExtension(scope.Messages().Get(i), fn)
	}
}

// Bounds of look-ups that no operator has a reason to change.
const (
	// maxAsking is how many look-ups run at a time.
	maxAsking = 4
	// maxFailed is how many failed look-ups are remembered. While that many are, no others are begun.
	maxFailed = 1024
	// maxLearnedBytes bounds the descriptors of all learned types together.
	maxLearnedBytes = 16 << 20
	// refusedFor is how long a server's word counts that it does not know a type, and failedFor that of a look-up which
	// got no word.
	refusedFor = 5 * time.Minute
	failedFor  = 10 * time.Second
)

// learned are the types that answers named and a server described. They are never forgotten as long as the catalog is in
// use, so that what was read once as a message is not bytes the next time.
type learned struct {
	types atomic.Pointer[map[protoreflect.FullName]protoreflect.MessageType]
	slots chan struct{} // of those who ask

	mu     sync.Mutex
	files  []*protoregistry.Files
	bytes  int
	failed map[protoreflect.FullName]time.Time // until when
	asking map[protoreflect.FullName]chan struct{}
}

func newLearned() *learned {
	return &learned{
		slots:  make(chan struct{}, maxAsking),
		failed: map[protoreflect.FullName]time.Time{}, asking: map[protoreflect.FullName]chan struct{}{},
	}
}

// find returns a learned type, or nil.
func (k *learned) find(name protoreflect.FullName) protoreflect.MessageType {
	if types := k.types.Load(); types != nil {
		return (*types)[name]
	}
	return nil
}

// decide says whether a type is known. If it is not, wait is closed once it was asked for: by the caller if isMine, else by
// who asks for it already. There is no wait for what was asked for not long ago, in vain, and where a limit is met.
func (k *learned) decide(name protoreflect.FullName, most int) (isKnown, isMine, isRefused bool, wait <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.find(name) != nil {
		return true, false, false, nil
	}
	now := time.Now()
	if until, ok := k.failed[name]; ok && now.Before(until) {
		return false, false, false, nil
	}
	if wait, ok := k.asking[name]; ok {
		return false, false, false, wait
	}
	for _, files := range k.files {
		if mt := messageIn(files, name); mt != nil && k.count() < most {
			k.add(name, mt)
			return true, false, false, nil
		}
	}
	if len(k.failed) >= maxFailed {
		maps.DeleteFunc(k.failed, func(_ protoreflect.FullName, until time.Time) bool { return !now.Before(until) })
	}
	if k.count()+len(k.asking) >= most || len(k.failed)+len(k.asking) >= maxFailed || k.bytes >= maxLearnedBytes {
		return false, false, true, nil
	}
	k.asking[name] = make(chan struct{})
	return false, true, false, k.asking[name]
}

func (k *learned) count() int {
	if types := k.types.Load(); types != nil {
		return len(*types)
	}
	return 0
}

// add makes a type known. The caller holds the lock.
func (k *learned) add(name protoreflect.FullName, mt protoreflect.MessageType) {
	now := map[protoreflect.FullName]protoreflect.MessageType{name: mt}
	if before := k.types.Load(); before != nil {
		maps.Copy(now, *before)
	}
	k.types.Store(&now)
}

// messageIn returns a type of linked files, or nil.
func messageIn(files *protoregistry.Files, name protoreflect.FullName) protoreflect.MessageType {
	d, err := files.FindDescriptorByName(name)
	md, ok := d.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		return nil
	}
	return dynamicpb.NewMessageType(md)
}

// FindFileByPath finds a file of learned types.
func (k *learned) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, files := range k.files {
		if fd, err := files.FindFileByPath(path); err == nil {
			return fd, nil
		}
	}
	return nil, protoregistry.NotFound
}

// FindDescriptorByName finds a descriptor in the files of learned types.
func (k *learned) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, files := range k.files {
		if d, err := files.FindDescriptorByName(name); err == nil {
			return d, nil
		}
	}
	return nil, protoregistry.NotFound
}

var _ protodesc.Resolver = (*learned)(nil)

// unit is a message or an enum of a file, with what is defined in it.
type unit struct {
	digest [sha256.Size]byte
	refs   []protoreflect.FullName // of the units that its fields hold
	open   bool                    // it can be extended
}

// facts are what is known of a file from its definitions alone.
type facts struct {
	pkg   protoreflect.FullName
	units []namedUnit
	// extends tells that it defines extensions, ruled that it defines rules for validation. sum is of all of it then.
	extends, ruled bool
	sum            [sha256.Size]byte
	// resources are the declarations of google.api.resource, whose patterns schemas of this file and of those that import it
	// show.
	resources []byte
}

type namedUnit struct {
	name string
	*unit
}

// commentKinds are the numbers of messages and enums in a file, by which comments name them.
const (
	messagesInFile = 4
	enumsInFile    = 5
)

// newFacts takes the facts of a file.
func newFacts(file *descriptorpb.FileDescriptorProto) *facts {
	f := &facts{
		pkg: protoreflect.FullName(file.GetPackage()), extends: definesExtensions(file, ""), ruled: definesExtensions(file, ".buf.validate."),
		units: make([]namedUnit, 0, len(file.GetMessageType())+len(file.GetEnumType())),
	}
	f.resources = resourcesOf(file.GetMessageType(), appendResources(nil, file.GetOptions()))
	if f.extends {
		f.sum = sha256.Sum256(marshalled(file))
	}
	head := marshalled(&descriptorpb.FileDescriptorProto{Syntax: file.Syntax, Edition: file.Edition, Package: file.Package, Options: file.GetOptions()}) //nolint:protogetter // pointers are wanted
	said := commentsOf(file)
	hash := sha256.New()
	var size [binary.MaxVarintLen64]byte
	var raw []byte
	add := func(kind, at int32, name string, m proto.Message) {
		hash.Reset()
		raw = appendMarshalled(raw[:0], m)
		for _, part := range [][]byte{head, raw, said[[2]int32{kind, at}]} {
			_, _ = hash.Write(binary.AppendUvarint(size[:0], uint64(len(part))))
			_, _ = hash.Write(part)
		}
		u := &unit{}
		hash.Sum(u.digest[:0])
		f.units = append(f.units, namedUnit{name, u})
	}
	for i, m := range file.GetMessageType() {
		add(messagesInFile, int32(i), m.GetName(), m)
	}
	for i, e := range file.GetEnumType() {
		add(enumsInFile, int32(i), e.GetName(), e)
	}
	return f
}

// definesExtensions reports whether a file extends messages whose names begin so.
func definesExtensions(file *descriptorpb.FileDescriptorProto, prefix string) bool {
	is := func(x *descriptorpb.FieldDescriptorProto) bool {
		return strings.HasPrefix(x.GetExtendee(), prefix)
	}
	var within func(m *descriptorpb.DescriptorProto) bool
	within = func(m *descriptorpb.DescriptorProto) bool {
		return slices.ContainsFunc(m.GetExtension(), is) || slices.ContainsFunc(m.GetNestedType(), within)
	}
	return slices.ContainsFunc(file.GetExtension(), is) || slices.ContainsFunc(file.GetMessageType(), within)
}

// resourceOption is the number of google.api.resource in the options of a message, and of resource_definition in a file's.
const resourceOption = 1053

// resourcesOf appends what messages, and those within them, declare.
func resourcesOf(messages []*descriptorpb.DescriptorProto, dst []byte) []byte {
	for _, m := range messages {
		dst = resourcesOf(m.GetNestedType(), appendResources(dst, m.GetOptions()))
	}
	return dst
}

func appendResources[M proto.Message](dst []byte, options M) []byte {
	if !options.ProtoReflect().IsValid() {
		return dst
	}
	_ = wire.EachBytes(marshalled(options), resourceOption, func(declared []byte) error {
		dst = append(binary.AppendUvarint(dst, uint64(len(declared))), declared...)
		return nil
	}) // what cannot be read declares nothing
	return dst
}

func marshalled(m proto.Message) []byte { return appendMarshalled(nil, m) }

func appendMarshalled(dst []byte, m proto.Message) []byte {
	out, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst // text that is not UTF-8 is refused earlier
	}
	return out
}

// learn takes from the descriptor what a unit holds, unless that is known already.
func (u *unit) learn(md protoreflect.MessageDescriptor) {
	if u.refs != nil {
		return
	}
	u.open, u.refs = isOpen(md), []protoreflect.FullName{}
	each(md, func(ref protoreflect.Descriptor) { u.refs = append(u.refs, ref.FullName()) })
}

// isOpen reports whether a message, or one within it, can be extended.
func isOpen(md protoreflect.MessageDescriptor) bool {
	if md.ExtensionRanges().Len() > 0 {
		return true
	}
	for i := range md.Messages().Len() {
		if isOpen(md.Messages().Get(i)) {
			return true
		}
	}
	return false
}

// each calls fn with the units that the fields of a message and of those within it hold.
func each(md protoreflect.MessageDescriptor, fn func(protoreflect.Descriptor)) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if m := fd.Message(); m != nil && !m.IsPlaceholder() {
			fn(top(m))
		}
		if e := fd.Enum(); e != nil && !e.IsPlaceholder() {
			fn(top(e))
		}
	}
	for i := range md.Messages().Len() {
		each(md.Messages().Get(i), fn)
	}
}

// top is the definition of a file that holds another one.
func top(d protoreflect.Descriptor) protoreflect.Descriptor {
	for {
		parent := d.Parent()
		if _, isFile := parent.(protoreflect.FileDescriptor); isFile || parent == nil {
			return d
		}
		d = parent
	}
}

// commentsOf are the comments of a file's units, by their places.
func commentsOf(file *descriptorpb.FileDescriptorProto) map[[2]int32][]byte {
	out := map[[2]int32][]byte{}
	for _, l := range file.GetSourceCodeInfo().GetLocation() {
		path := l.GetPath()
		if len(path) < 2 || path[0] != messagesInFile && path[0] != enumsInFile || l.LeadingComments == nil && l.TrailingComments == nil {
			continue
		}
		at := [2]int32{path[0], path[1]}
		text := out[at]
		for _, n := range path[2:] {
			text = binary.AppendVarint(text, int64(n))
		}
		text = append(append(text, 0), l.GetLeadingComments()...)
		out[at] = append(append(append(text, 0), l.GetTrailingComments()...), 0)
	}
	return out
}

// translated is a file with what rivals' annotations say of its fields and enums, whose imports are linked.
func (l *linker) translated(file *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	if !l.readsRivals {
		return file
	}
	var imports []protoreflect.FileDescriptor
	for _, path := range file.GetDependency() {
		imports = append(imports, l.state[path].descriptor)
	}
	out, notes := schema.TranslateRivals(file, schema.RivalsIn(imports...))
	for _, note := range notes {
		l.warnings = append(l.warnings, source.Warning{Subject: shown.Clip(file.GetName()), Text: note})
	}
	return out
}

// rivals are those whose annotations the linked files define; none unless they are read.
func (l *linker) rivals(isRead bool) schema.Rivals {
	var out schema.Rivals
	if isRead {
		l.registry.RangeFiles(func(file protoreflect.FileDescriptor) bool {
			out |= schema.RivalsIn(file)
			return true
		})
	}
	return out
}
