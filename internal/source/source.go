// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Source provides descriptors. Implementations must be safe for concurrent use; Live runs one load of a source at a time.
type Source interface {
	// Name identifies the source to operators, as in "reflection at http://127.0.0.1:50051". It holds no secrets.
	Name() string
	// Load fetches everything anew. On failure it returns nil and a *Error, or nil and the context's error.
	Load(ctx context.Context) (*Loaded, error)
}

// Loaded is the result of one load of one source.
type Loaded struct {
	// Source is the source's name.
	Source string
	// Files holds every file once, in no particular order.
	Files []*descriptorpb.FileDescriptorProto
	// Same are the paths of further files that are unchanged since the revision passed to LoadUnless. The catalog already has
	// them. A file that imports a changed file, directly or indirectly, is not among them, and neither is one of
	// Revision.Needed.
	Same []string
	// Services are the full names of the services that the source offers. Nil means every service in Files and Same except
	// those in Imported.
	Services []string
	// Imported are the paths of files that are present only because others import them. Their services become tools only
	// if an include glob names them without a wildcard.
	Imported []string
	// Reflected means that the backend itself lists Services as those it serves. If the backend is a sidecar, it has already
	// made tools of them. They do not become tools again and are available to typed callers only.
	Reflected bool
	// Native is what a backend that implements the tool API provides; nil for other sources.
	Native *Native
	// Warnings are problems that did not prevent the load.
	Warnings []Warning
	// Static means that the next load returns the same result unless a file changes.
	Static bool

	// Revision identifies this load; nil if the source cannot tell. See Conditional.
	Revision *Revision
}

// Warning is a problem for the operator to know that does not cost the whole catalog.
type Warning struct {
	// Subject is the subject of the warning: a source, a file path, or a method as "pkg.Service/Method".
	Subject string
	// Text describes what happened and, if there is one, the remedy.
	Text string
}

// String returns the subject and the text.
func (w Warning) String() string { return w.Subject + ": " + w.Text }

// Error names the source that failed, the step, and the cause.
type Error struct {
	// Source is the source's name.
	Source string
	// Step is the step that failed, as in "list services" or "read file".
	Step string
	// Permanent means that retrying cannot help until a file or a flag changes.
	Permanent bool
	// Cause is the underlying error; never nil.
	Cause error
}

// Error returns the source, the step and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Source, e.Step, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// IsInfrastructure reports whether a service is for infrastructure rather than for callers. Such a service becomes a tool
// only if an include glob names it without a wildcard.
func IsInfrastructure(service string) bool {
	switch {
	case strings.HasPrefix(service, "grpc.reflection."),
		strings.HasPrefix(service, "grpc.health."),
		strings.HasPrefix(service, "grpc.channelz."),
		strings.HasPrefix(service, "envoy.service.status."), // CSDS, which gRPC's admin package registers
		// A backend that speaks the tool API itself is its own source, not a set of RPCs.
		strings.HasPrefix(service, "outrigger.v1."):
		return true
	}
	return false
}

// setReader takes a descriptor set apart while it is read, so that no more than its largest file is in memory at a time.
type setReader struct {
	in   *bufio.Reader
	head []byte       // the beginning of the set, for errors
	at   int64        // how much was taken
	body bytes.Buffer // of the file at hand
}

// headBytes is as much of a set as an error looks at.
const headBytes = 4096

// tagBytes is the most that a tag or a number takes.
const tagBytes = 10

func newSetReader(from io.Reader) *setReader {
	r := &setReader{in: bufio.NewReaderSize(from, 16*headBytes)}
	head, _ := r.in.Peek(headBytes) // a failure comes back when the bytes are taken
	r.head = bytes.Clone(head)
	return r
}

// errBroken is for bytes that are no set.
type errBroken struct{ cause error }

func (e *errBroken) Error() string { return e.cause.Error() }
func (e *errBroken) Unwrap() error { return e.cause }

// next returns the bytes of the next file, which are valid until the next call, or io.EOF after the last.
func (r *setReader) next() ([]byte, error) {
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		num, typ, err := r.tag()
		if err != nil {
			return nil, err
		}
		if num == fileField && typ == protowire.BytesType {
			return r.bytes()
		}
		if err := r.skip(num, typ); err != nil {
			return nil, err
		}
	}
}

// tag takes a tag.
func (r *setReader) tag() (protowire.Number, protowire.Type, error) {
	ahead, failed := r.in.Peek(tagBytes)
	num, typ, n := protowire.ConsumeTag(ahead)
	if n < 0 {
		return 0, 0, r.broken(n, failed)
	}
	return num, typ, r.discard(n)
}

// bytes takes a length and as many bytes.
func (r *setReader) bytes() ([]byte, error) {
	ahead, failed := r.in.Peek(tagBytes)
	size, n := protowire.ConsumeVarint(ahead)
	if n < 0 {
		return nil, r.broken(n, failed)
	}
	if err := r.discard(n); err != nil {
		return nil, err
	}
	r.body.Reset() // and grows with what comes: a length alone makes no room
	read, err := io.CopyN(&r.body, r.in, int64(min(size, math.MaxInt64)))
	r.at += read
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, r.explained(io.ErrUnexpectedEOF)
	}
	return r.body.Bytes(), err
}

// skip passes over another field.
func (r *setReader) skip(num protowire.Number, typ protowire.Type) error {
	if typ == protowire.BytesType {
		_, err := r.bytes()
		return err
	}
	if typ == protowire.StartGroupType {
		// No set has one. It ends where its last field ends, which takes all of it to find out.
		rest, err := io.ReadAll(r.in)
		if err != nil {
			return err
		}
		n := protowire.ConsumeFieldValue(num, typ, rest)
		if n < 0 {
			return r.broken(n, nil)
		}
		r.at += int64(n)
		r.in.Reset(bytes.NewReader(rest[n:]))
		return nil
	}
	ahead, failed := r.in.Peek(tagBytes)
	n := protowire.ConsumeFieldValue(num, typ, ahead)
	if n < 0 {
		return r.broken(n, failed)
	}
	return r.discard(n)
}

func (r *setReader) discard(n int) error {
	_, err := r.in.Discard(n)
	r.at += int64(n)
	return err
}

// broken is the error for bytes that could not be read as what they should be; failed says why there were no more.
func (r *setReader) broken(n int, failed error) error {
	if failed != nil && !errors.Is(failed, io.EOF) {
		return failed
	}
	return r.explained(protowire.ParseError(n))
}

// explained explains bytes that are no descriptor set, by the usual mix-ups.
func (r *setReader) explained(err error) error {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(r.head), []byte("{")):
		return &errBroken{errors.New("it looks like JSON; write the binary form: `buf build -o service.binpb`")}
	case bytes.Contains(r.head, []byte("syntax =")), bytes.Contains(r.head, []byte("edition =")):
		return &errBroken{errors.New("it looks like a .proto source; compile it first: `buf build -o service.binpb`")}
	}
	return &errBroken{fmt.Errorf("it is not a FileDescriptorSet, or it is truncated: at byte %d: %w", r.at, err)}
}

// maxSets bounds the descriptor sets of one source that has several.
const maxSets = 256

// set is one descriptor set of several.
type set struct {
	// name is for errors.
	name string
	open func() (io.ReadCloser, error)
}

// combined are the files of several descriptor sets, once each.
type combined struct {
	files map[string]*combinedFile
	paths []string // in the order in which they came
}

// combinedFile is a file, and what is known of it.
type combinedFile struct {
	file     *descriptorpb.FileDescriptorProto
	set      string
	isImport bool // in every set that has it
}

// readSets reads several descriptor sets as one. A file may be in more than one of them; two copies that differ in more than
// comments are an error, except those that come with every compiler.
func readSets(ctx context.Context, source string, sets []set, l Limits) (*Loaded, error) {
	out := &Loaded{Source: source, Static: true}
	if len(sets) > maxSets {
		return nil, &errBroken{fmt.Errorf("it has more than %d descriptor sets; put several into one with `buf build -o`", maxSets)}
	}
	c := &combined{files: map[string]*combinedFile{}}
	all := &limited{left: int64(l.MaxBytes), tooLarge: fmt.Errorf("the descriptor sets have more than %d bytes together, the limit for one source (limits.max_descriptor_bytes)", l.MaxBytes)}
	for _, s := range sets {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		loaded, err := s.read(all, l)
		if err != nil {
			return nil, err
		}
		out.Warnings = append(out.Warnings, loaded.Warnings...)
		if err := c.add(s.name, loaded); err != nil {
			return nil, err
		}
		if len(c.paths) > l.MaxFiles {
			return nil, &errBroken{fmt.Errorf("it has more than %d files, the limit for one source", l.MaxFiles)}
		}
	}
	for _, path := range c.paths {
		f := c.files[path]
		out.Files = append(out.Files, f.file)
		if f.isImport {
			out.Imported = append(out.Imported, path)
		}
	}
	return out, nil
}

// read reads the set. It takes its size from what all sets may have.
func (s set) read(all *limited, l Limits) (*Loaded, error) {
	in, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	defer func() { _ = in.Close() }()
	all.from = in
	loaded, err := readSet(s.name, all, l, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return loaded, nil
}

// add takes the files of a set.
func (c *combined) add(set string, loaded *Loaded) error {
	imported := make(map[string]bool, len(loaded.Imported))
	for _, path := range loaded.Imported {
		imported[path] = true
	}
	for _, f := range loaded.Files {
		path := f.GetName()
		before, ok := c.files[path]
		if !ok {
			c.files[path], c.paths = &combinedFile{f, set, imported[path]}, append(c.paths, path)
			continue
		}
		before.isImport = before.isImport && imported[path]
		switch {
		case SameFile(before.file, f):
			if before.file.GetSourceCodeInfo() == nil {
				before.file = f
			}
		case strings.HasPrefix(path, "google/protobuf/"):
			// Compilers of different versions bring their own copies. The first one is used.
		default:
			return &errBroken{fmt.Errorf("%s and %s have different copies of %s; build both from the same version of it",
				before.set, set, shown.Clip(path))}
		}
	}
	return nil
}

// isBroken reports whether an error is about the content.
func isBroken(err error) bool {
	_, is := errors.AsType[*errBroken](err)
	return is
}

// setSuffixes are the names that descriptor sets have, gzipped or not.
func setSuffixes() []string { return []string{".binpb", ".pb", ".desc"} }

// isSetName reports whether a file is a descriptor set by its name: it ends in .binpb, .pb or .desc, with or without .gz behind that.
func isSetName(name string) bool {
	name = strings.TrimSuffix(name, ".gz")
	for _, suffix := range setSuffixes() {
		if strings.HasSuffix(name, suffix) && len(name) > len(suffix) {
			return true
		}
	}
	return false
}

// Limits bound the cost of a source. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the maximum size of the descriptors of one source, in bytes. The default is [defaults.MaxDescriptorBytes].
	// All of googleapis with comments is about a third of that.
	MaxBytes int
	// MaxFiles is the maximum number of .proto files of one source. The default is 20,000, twice the size of googleapis.
	MaxFiles int
	// MaxServices is the maximum number of services of one source. The default is 5,000: googleapis has about 1,500.
	MaxServices int
	// LoadTimeout bounds one load of a source that talks to a peer. The default is [defaults.CatalogWait], the time that an
	// edge lets its callers wait for the first catalog.
	LoadTimeout time.Duration
	// FetchTimeout bounds one load of a source that fetches descriptor sets. The default is [defaults.CatalogFetchTimeout].
	FetchTimeout time.Duration
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxBytes, defaults.MaxDescriptorBytes)
	defaults.Fill(&l.MaxFiles, 20_000)
	defaults.Fill(&l.MaxServices, 5_000)
	defaults.Fill(&l.LoadTimeout, defaults.CatalogWait)
	defaults.Fill(&l.FetchTimeout, defaults.CatalogFetchTimeout)
	return l
}

// load bounds one load of a source that talks to a peer.
func (l Limits) load(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.LoadTimeout, fmt.Errorf("no complete response within %v: %w", l.LoadTimeout, context.DeadlineExceeded))
}

// SameFile compares two files without their comments, and without what only the tool that wrote them knows.
func SameFile(a, b *descriptorpb.FileDescriptorProto) bool { return proto.Equal(bare(a), bare(b)) }

// bare is a shallow copy of a file without its comments and without unknown fields. It shares what both have, so that it
// costs no second copy of everything.
func bare(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	out := &descriptorpb.FileDescriptorProto{}
	f.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Name() != "source_code_info" {
			out.ProtoReflect().Set(fd, v)
		}
		return true
	})
	return out
}

// Digest is a SHA-256 digest.
type Digest = [sha256.Size]byte

// Revision identifies one load, so that a source can recognize an unchanged one.
type Revision struct {
	// Digest covers everything in the load, warnings included.
	Digest Digest
	// Memory is state that the source wants back with the next load, such as results that it need not decode again. Only the
	// source reads it. It must not change after it was handed over.
	Memory any
	// Needed are the paths of files that the next load must include in Files even if unchanged, because the catalog could not
	// use them and does not have them. The catalog sets it.
	Needed map[string]bool
}

// Is reports whether the revision has the digest. It is false for a nil revision.
func (r *Revision) Is(digest Digest) bool { return r != nil && r.Digest == digest }

// Conditional is a Source that detects an unchanged load before it decodes anything. Nearly every load is unchanged.
// Decoding and building it again would cost as much memory as the catalog itself, in addition to the catalog in use, and
// while calls need that memory. Such a source sets Loaded.Revision to a digest of the bytes received, and gets it back.
type Conditional interface {
	Source
	// LoadUnless is like Load, but returns nil and no error if the load would equal the revision. A nil revision
	// matches none. The revision comes from this source and belongs to the catalog in use.
	LoadUnless(ctx context.Context, before *Revision) (*Loaded, error)
}

// recaller is a Conditional that can bring a load again without its peer, from the revisions of the catalog in use.
type recaller interface {
	Conditional
	// Recall is like LoadUnless without a revision, but uses the memory of a revision in place of the peer where that brings
	// the same, and where the peer fails. The revisions are those of all sources of the catalog in use, in no order; the
	// source finds its own, also if an earlier source for the same peer made it.
	Recall(ctx context.Context, used []*Revision) (*Loaded, error)
}

// Recall loads all of a source, with the help of the revisions in use where the source is a [recaller].
func Recall(ctx context.Context, s Source, used []*Revision) (*Loaded, error) {
	if r, ok := s.(recaller); ok {
		return r.Recall(ctx, used)
	}
	return Load(ctx, s, nil)
}

// Load loads from a source. It returns nil and no error if the source is unchanged since the revision.
func Load(ctx context.Context, s Source, before *Revision) (*Loaded, error) {
	if c, ok := s.(Conditional); ok {
		return c.LoadUnless(ctx, before)
	}
	return s.Load(ctx)
}

// summer makes a digest of parts, such that no two lists of parts have the same bytes.
type summer struct{ hash hash.Hash }

func newSummer() summer { return summer{sha256.New()} }

func (s summer) add(part []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(part)))
	_, _ = s.hash.Write(size[:]) // a hash does not fail
	_, _ = s.hash.Write(part)
}

func (s summer) texts(parts ...string) {
	s.add(binary.BigEndian.AppendUint64(nil, uint64(len(parts))))
	for _, p := range parts {
		s.add([]byte(p))
	}
}

func (s summer) sum() Digest { return Digest(s.hash.Sum(nil)) }

// Differences names what descriptors say otherwise than a server's reflection, one line each, in the order of ours: methods,
// fields and enum values that only ours have, and those of another type, number or direction. What ours lack is no
// difference: callers cannot use it. Services that the server does not describe are not compared.
func Differences(ours, theirs []*descriptorpb.FileDescriptorProto) []string {
	shapes := map[string]string{}
	for _, f := range theirs {
		symbolsOf(f, func(s symbol) { shapes[s.name] = s.shape })
	}
	var out []string
	for _, f := range ours {
		symbolsOf(f, func(s symbol) {
			shape, isKnown := shapes[s.name]
			_, hasParent := shapes[s.parent]
			switch {
			case shape == s.shape || s.parent == "" || !hasParent || s.shape == "oneof" || strings.HasPrefix(s.name, "google.protobuf."):
			case !isKnown:
				out = append(out, fmt.Sprintf("%s (%s) is in the descriptors and not at the backend", s.name, s.shape))
			default:
				out = append(out, fmt.Sprintf("%s is %s in the descriptors and %s at the backend", s.name, s.shape, shape))
			}
		})
	}
	return out
}

// setMemory is what a source remembers of the files that it brought, by the digests of their bytes.
type setMemory map[Digest]setFile

// setFile is what has to be known of a file that is not decoded.
type setFile struct {
	outline

	isImport bool // it is there only to be imported
	// open are the messages that can be extended, where the source asks for extensions.
	open []string
}

// knownSet are the files that need not be decoded: those that the catalog in use has.
type knownSet struct {
	memory setMemory
	names  map[string]int // how many files have a name
	needed map[string]bool
}

// knownFiles are the files that a source remembers.
func knownFiles(before *Revision) *knownSet {
	if before == nil {
		return nil
	}
	memory, ok := before.Memory.(setMemory)
	if !ok {
		return nil
	}
	k := &knownSet{memory: memory, names: make(map[string]int, len(memory)), needed: map[string]bool{}}
	for _, f := range memory {
		k.names[f.name]++
	}
	for path := range before.Needed {
		k.needed[path] = true
	}
	return k
}

// file finds a file that need not be decoded. One of two with one name always is, since the catalog has one of them only.
func (k *knownSet) file(digest Digest) (setFile, bool) {
	if k == nil {
		return setFile{}, false
	}
	f, ok := k.memory[digest]
	return f, ok && k.names[f.name] == 1 && !k.needed[f.name]
}

// suffice reports whether a load holds all that is needed of it, and notes for the next try what is not. What imports a
// file that has changed, was added or is gone has to be decoded.
func (k *knownSet) suffice(out *Loaded) bool {
	if k == nil {
		return true
	}
	same, again := map[string]bool{}, map[string]bool{}
	for _, name := range out.Same {
		again[name] = same[name] // it comes twice
		same[name] = true
	}
	changed := make([]string, 0, len(out.Files))
	for _, f := range out.Files {
		changed = append(changed, f.GetName())
		again[f.GetName()] = same[f.GetName()]
	}
	for name := range k.names {
		if !same[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range k.above(changed) {
		again[name] = same[name]
	}
	isEnough := true
	for name, is := range again {
		if is {
			k.needed[name], isEnough = true, false
		}
	}
	return isEnough
}

// above are the known files that import some files, directly or through others.
func (k *knownSet) above(files []string) []string {
	importers := map[string][]string{}
	for _, f := range k.memory {
		for _, imported := range f.imports {
			importers[imported] = append(importers[imported], f.name)
		}
	}
	var out []string
	seen := map[string]bool{}
	for todo := files; len(todo) > 0; todo = todo[1:] {
		for _, name := range importers[todo[0]] {
			if !seen[name] {
				seen[name] = true
				out, todo = append(out, name), append(todo, name)
			}
		}
	}
	return out
}
