// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/apipb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/sourcecontextpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/typepb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/source/wire"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// descriptorFile is a Source that reads a FileDescriptorSet.
type descriptorFile struct {
	path   string
	limits Limits
}

// NewDescriptorFile returns a source that rereads the file on every load. The file holds a
// google.protobuf.FileDescriptorSet as written by `protoc --include_imports -o`, or a buf image as written by
// `buf build -o`, plain or gzipped. Errors are *Error and permanent, since only another file can help. A file of the set
// that cannot be decoded is a warning; a set with no decodable file is an error.
func NewDescriptorFile(path string, l Limits) Source {
	return &descriptorFile{path: path, limits: l.withDefaults()}
}

func (d *descriptorFile) Name() string { return "descriptor set " + d.path }

func (d *descriptorFile) Load(ctx context.Context) (*Loaded, error) { return d.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (d *descriptorFile) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fail := func(step string, err error) error {
		return &Error{Source: d.Name(), Step: step, Permanent: true, Cause: err}
	}
	known := knownFiles(before)
	for try := range 3 {
		if try == 2 {
			known = nil // the file changes while it is read
		}
		in, err := openBounded(d.path, d.limits.MaxBytes)
		if err != nil {
			return nil, fail("read file", err)
		}
		out, err := readSet(d.Name(), in, d.limits, known)
		_ = in.Close()
		switch {
		case isBroken(err):
			return nil, fail("decode", err)
		case err != nil:
			return nil, fail("read file", err)
		case before.Is(out.Revision.Digest):
			return nil, nil
		case known.suffice(out):
			return out, nil
		}
		// Files that have not changed import some that have.
	}
	return nil, nil // not reached: nothing known is always enough
}

const (
	// fileField is the number of FileDescriptorSet.file.
	fileField = 1
	// imageExtensionField is where a buf image, a superset of a FileDescriptorSet, keeps what it knows about a file;
	// isImportField within it is true for files that are there only because others import them.
	imageExtensionField = 8042
	isImportField       = 1
)

// ParseDescriptorSet decodes a descriptor set in memory. It decodes file by file, so that an undecodable file does not
// affect the others. Warnings name the given source.
func ParseDescriptorSet(source string, raw []byte, l Limits) (*Loaded, error) {
	out, err := readSet(source, bytes.NewReader(raw), l.withDefaults(), nil)
	if err != nil {
		return nil, err
	}
	out.Revision = nil
	return out, nil
}

// readSet reads a descriptor set. What is known is not decoded.
func readSet(source string, from io.Reader, l Limits, known *knownSet) (*Loaded, error) {
	out := &Loaded{Source: source, Static: true}
	memory, sum := setMemory{}, newSummer()
	in, index := newSetReader(from), 0
	for {
		body, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if index++; index > l.MaxFiles {
			return nil, &errBroken{fmt.Errorf("it has more than %d files, the limit for one source", l.MaxFiles)}
		}
		digest := sha256.Sum256(body)
		sum.add(digest[:])
		note, isKnown := known.file(digest)
		if isKnown {
			out.Same = append(out.Same, note.name)
		} else {
			file, err := decodeFile(body)
			switch {
			case err != nil:
				out.Warnings = append(out.Warnings, Warning{source, fmt.Sprintf("file %d of the set omitted: %v", index, err)})
				continue
			case file.GetName() == "":
				out.Warnings = append(out.Warnings, Warning{source, fmt.Sprintf("file %d of the set omitted: it has no name", index)})
				continue
			}
			note = setFile{outline: outlineOf(file), isImport: isBufImport(file.ProtoReflect().GetUnknown())}
			out.Files = append(out.Files, file)
		}
		if note.isImport {
			out.Imported = append(out.Imported, note.name)
		}
		memory[digest] = note
	}
	sum.add(binary.BigEndian.AppendUint64(nil, uint64(in.at))) // and the rest by its size, which nothing reads
	out.Revision = &Revision{Digest: sum.sum(), Memory: memory}
	if len(out.Files)+len(out.Same) > 0 {
		return out, nil
	}
	switch {
	case in.at == 0:
		return nil, &errBroken{errors.New("the file is empty")}
	case len(out.Warnings) > 0:
		return nil, &errBroken{fmt.Errorf("no file of the set can be used; the first one: %s", out.Warnings[0].Text)}
	}
	return nil, &errBroken{errors.New("it holds no files; is it a FileDescriptorSet, as `buf build -o` or `protoc -o` write it?")}
}

// decodeFile decodes one file with all its extensions left as unknown fields. They are read from their bytes where they
// are needed, so that a foreign extension under a number that this process knows otherwise does no harm.
func decodeFile(raw []byte) (*descriptorpb.FileDescriptorProto, error) {
	file := &descriptorpb.FileDescriptorProto{}
	err := proto.UnmarshalOptions{Resolver: (*protoregistry.Types)(nil)}.Unmarshal(raw, file)
	return file, err
}

// isBufImport looks for the mark of an imported file in a buf image.
func isBufImport(unknown []byte) bool {
	is := false
	_ = wire.EachBytes(unknown, imageExtensionField, func(image []byte) error {
		v, _ := wire.LastVarint(image, isImportField)
		is = is || v != 0
		return nil
	})
	return is
}

// folder is a Source that reads all descriptor sets of a folder.
type folder struct {
	path   string
	limits Limits
}

const (
	// maxFolderReads bounds how often a folder is read until nothing changes meanwhile.
	maxFolderReads = 5
	// maxFolderEntries bounds a folder: more is a folder of something else.
	maxFolderEntries = 4096
	// configMapData is the link through which kubelet swaps all files of a mounted ConfigMap at once.
	configMapData = "..data"
)

// errUnsteady is the error for a folder that changes all the time.
var errUnsteady = errors.New("the files change while they are read")

// newDescriptorFolder returns a source that reads the descriptor sets directly in a folder on every load: files whose names
// [isSetName] accepts, in the order of their names. Folders in it and hidden files are not read, and other files are named
// in a warning. A load never has files of two versions of the folder.
//
// Errors are *Error and permanent, since only another folder can help; a folder that keeps changing is the exception.
func newDescriptorFolder(path string, l Limits) Source {
	return &folder{path: path, limits: l.withDefaults()}
}

func (f *folder) Name() string { return "descriptor folder " + f.path }

func (f *folder) Load(ctx context.Context) (*Loaded, error) { return f.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (f *folder) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	fail := func(err error) error {
		return &Error{Source: f.Name(), Step: "read folder", Permanent: true, Cause: err}
	}
	for range maxFolderReads {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, err := f.look()
		if err == nil && before.Is(found.digest) {
			return nil, nil
		}
		var out *Loaded
		if err == nil {
			out, err = readSets(ctx, f.Name(), found.sets(f.limits), f.limits)
		}
		now, errNow := f.look()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && errNow != nil:
			return nil, fail(err)
		case errNow != nil || now.digest != found.digest:
			continue // it was swapped meanwhile
		case err != nil:
			return nil, fail(err)
		}
		if len(found.ignored) > 0 {
			out.Warnings = append(out.Warnings, Warning{f.Name(), fmt.Sprintf("%s %s not read: names of descriptor sets end in %s",
				shown.ClipList(found.ignored), shown.Plural(len(found.ignored), "is", "are"), strings.Join(setSuffixes(), ", "))})
		}
		out.Revision = &Revision{Digest: found.digest}
		return out, nil
	}
	return nil, &Error{Source: f.Name(), Step: "read folder", Cause: errUnsteady}
}

// found is the content of a folder at one time.
type found struct {
	dir            string // without links
	names, ignored []string
	digest         Digest
}

// sets are the descriptor sets.
func (s found) sets(l Limits) []set {
	out := make([]set, 0, len(s.names))
	for _, name := range s.names {
		out = append(out, set{name, func() (io.ReadCloser, error) { return openBounded(filepath.Join(s.dir, name), l.MaxBytes) }})
	}
	return out
}

// look lists the folder and takes the digest of what is in it.
func (f *folder) look() (found, error) {
	out, err := listFolder(f.path)
	switch {
	case err != nil:
		return found{}, err
	case len(out.names) == 0:
		return found{}, fmt.Errorf("it has no descriptor set: no name ends in %s", strings.Join(setSuffixes(), ", "))
	}
	sum := newSummer()
	sum.texts(out.ignored...)
	left := int64(f.limits.MaxBytes)
	for _, name := range out.names {
		digest, n, err := hashFile(filepath.Join(out.dir, name), left)
		if err != nil {
			return found{}, err
		}
		if left -= n; left < 0 {
			return found{}, tooLarge("its files have", f.limits.MaxBytes)
		}
		sum.texts(name)
		sum.add(digest[:])
	}
	out.digest = sum.sum()
	return out, nil
}

// hashFile takes the digest of a file, and of no more than a byte over what it may have.
func hashFile(path string, most int64) (Digest, int64, error) {
	in, err := os.Open(path)
	if err != nil {
		return Digest{}, 0, err
	}
	defer func() { _ = in.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(in, most+1))
	return Digest(sum.Sum(nil)), n, err
}

// listFolder lists a folder. The link of a ConfigMap is followed once, so that all files are of one version.
func listFolder(path string) (found, error) {
	out := found{dir: path}
	if target, err := filepath.EvalSymlinks(filepath.Join(path, configMapData)); err == nil {
		out.dir = target
	}
	dir, err := os.Open(out.dir)
	if err != nil {
		return found{}, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.Readdirnames(maxFolderEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return found{}, err
	}
	if len(entries) > maxFolderEntries {
		return found{}, fmt.Errorf("it has more than %d entries; give a folder with descriptor sets only", maxFolderEntries)
	}
	byName := make(map[string]fs.FileMode, len(entries))
	for _, name := range entries {
		if strings.HasPrefix(name, ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(out.dir, name))
		if err != nil {
			return found{}, err
		}
		byName[name] = info.Mode()
	}
	for _, name := range shown.SortedKeys(byName) {
		switch mode := byName[name]; {
		case mode.IsRegular() && isSetName(name):
			out.names = append(out.names, name)
		default:
			out.ignored = append(out.ignored, name)
		}
	}
	return out, nil
}

// folderFiles returns the paths of the descriptor sets of a folder, sorted, for those who watch them; none where it cannot be
// read.
func folderFiles(path string) []string {
	listed, err := listFolder(path)
	if err != nil {
		return nil
	}
	if listed.dir != path {
		// kubelet makes the links to new files after the swap, which would be a second change.
		path = filepath.Join(path, configMapData)
	}
	out := make([]string, 0, len(listed.names))
	for _, name := range listed.names {
		out = append(out, filepath.Join(path, name))
	}
	return out
}

// inMemory is a Source whose descriptors are linked into this process.
type inMemory struct{ loaded Loaded }

// NewDescriptors returns a source that always provides the given set. It offers the named services, or all services of
// the set if none is named. Do not modify the set afterwards.
func NewDescriptors(name string, set *descriptorpb.FileDescriptorSet, services ...string) Source {
	return &inMemory{Loaded{Source: name, Files: set.GetFile(), Services: slices.Clip(services), Static: true}}
}

func (m *inMemory) Name() string { return m.loaded.Source }

func (m *inMemory) Load(ctx context.Context) (*Loaded, error) { return m.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional: all loads are the same.
func (m *inMemory) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	if err := ctx.Err(); err != nil || before != nil {
		return nil, err
	}
	loaded := m.loaded
	loaded.Revision = &Revision{}
	return &loaded, nil
}

// Builtin returns this process's copy of a file that is the same everywhere: Protobuf's well-known types, our options,
// and the validation rules. It returns nil for any other path.
func Builtin(path string) *descriptorpb.FileDescriptorProto {
	switch {
	case strings.HasPrefix(path, "google/protobuf/"), path == "buf/validate/validate.proto":
	case strings.HasPrefix(path, "outrigger/v1/"):
		_, _ = optionsv1.File_outrigger_v1_options_proto, outriggerv1.File_outrigger_v1_tool_proto
	default:
		return nil
	}
	fd, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return nil
	}
	return protodesc.ToFileDescriptorProto(fd)
}

// commented is a Source whose files get comments from those of others.
type commented struct {
	from      Source
	selection Selection
	by        []Source
}

// NewCommented returns a source that loads from one source, and adds the comments that its files lack from others. Symbols
// are matched by full name, whatever files they are in: services, methods, messages, fields, oneofs, enums and their values.
// A comment is used if both have the symbol in the same form. Differences are warnings, and so is a service that only the
// others have, unless the selection skips it.
//
// It fails if one of the sources fails.
func NewCommented(from Source, selection Selection, by ...Source) Source {
	return &commented{from: from, selection: selection, by: slices.Clone(by)}
}

func (c *commented) Name() string {
	names := make([]string, 0, len(c.by))
	for _, s := range c.by {
		names = append(names, s.Name())
	}
	return c.from.Name() + " with comments from " + shown.ClipList(names)
}

func (c *commented) Load(ctx context.Context) (*Loaded, error) { return c.LoadUnless(ctx, nil) }

// commentedMemory has the revisions of all sources, the one with the files first.
type commentedMemory []*Revision

// LoadUnless implements Conditional. A change of one source loads all of them, since a comment depends on two.
func (c *commented) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	sources := append([]Source{c.from}, c.by...)
	if before != nil {
		known, _ := before.Memory.(commentedMemory)
		if isSame, err := unchanged(ctx, sources, known); err != nil || isSame {
			return nil, err
		}
		return c.Recall(ctx, known)
	}
	return c.Recall(ctx, nil)
}

// Recall implements Recaller, for the sources of comments and of files.
func (c *commented) Recall(ctx context.Context, used []*Revision) (*Loaded, error) {
	for _, revision := range used {
		if revision == nil {
			continue
		}
		if parts, ok := revision.Memory.(commentedMemory); ok {
			used = slices.Concat(used, parts)
		}
	}
	sources := append([]Source{c.from}, c.by...)
	loads := make([]*Loaded, 0, len(sources))
	now, sum, canTell := commentedMemory{}, newSummer(), true
	for _, s := range sources {
		loaded, err := Recall(ctx, s, used)
		if err != nil {
			return nil, err
		}
		loads, now = append(loads, loaded), append(now, loaded.Revision)
		if canTell = canTell && loaded.Revision != nil; canTell {
			sum.add(loaded.Revision.Digest[:])
		}
	}
	out := c.comment(loads[0], loads[1:])
	if out.Revision = nil; canTell {
		out.Revision = &Revision{Digest: sum.sum(), Memory: now}
	}
	return out, nil
}

// unchanged reports whether all sources still are at the revisions.
func unchanged(ctx context.Context, sources []Source, known commentedMemory) (bool, error) {
	if len(known) != len(sources) || slices.Contains(known, nil) {
		return false, nil
	}
	for i, s := range sources {
		if loaded, err := Load(ctx, s, known[i]); err != nil || loaded != nil {
			return false, err
		}
	}
	return true, nil
}

// description is a symbol as the sources of comments have it.
type description struct {
	symbol

	leading, trailing *string
	from              string
	// isMet is set when the source of the files has the symbol too.
	isMet bool
}

// comment returns the load with comments.
func (c *commented) comment(loaded *Loaded, by []*Loaded) *Loaded {
	known, order := describe(by)
	out := *loaded
	out.Source, out.Files, out.Warnings = c.Name(), make([]*descriptorpb.FileDescriptorProto, 0, len(loaded.Files)), slices.Clone(loaded.Warnings)
	for _, l := range by {
		out.Warnings = append(out.Warnings, l.Warnings...)
	}
	d := &differences{known: known, present: map[string]bool{}}
	for _, f := range loaded.Files {
		out.Files = append(out.Files, d.comment(f))
	}
	d.unmet(order, func(service string) bool {
		if c.selection == nil {
			return IsInfrastructure(service)
		}
		return c.selection.Skips(service)
	})
	out.Warnings = append(out.Warnings, d.warnings(c.Name())...)
	return &out
}

// describe collects the symbols of files with their comments, by name, and the names in order. The first of two wins, unless
// it has no comment.
func describe(by []*Loaded) (known map[string]*description, order []string) {
	known = map[string]*description{}
	for _, l := range by {
		for _, f := range l.Files {
			comments := locations(f)
			symbolsOf(f, func(s symbol) {
				d := &description{symbol: s, from: l.Source}
				if at := comments[pathKey(s.path)]; at != nil {
					d.leading, d.trailing = at.LeadingComments, at.TrailingComments
				}
				before := known[s.name]
				if before == nil {
					order = append(order, s.name)
				}
				if before == nil || !before.hasComment() && d.hasComment() {
					known[s.name] = d
				}
			})
		}
	}
	return known, order
}

func (d *description) hasComment() bool { return d.leading != nil || d.trailing != nil }

// locations are the places of a file that have a comment, by path. The first of two counts.
func locations(f *descriptorpb.FileDescriptorProto) map[string]*descriptorpb.SourceCodeInfo_Location {
	out := map[string]*descriptorpb.SourceCodeInfo_Location{}
	for _, l := range f.GetSourceCodeInfo().GetLocation() {
		if l.LeadingComments == nil && l.TrailingComments == nil {
			continue
		}
		if key := pathKey(l.GetPath()); out[key] == nil {
			out[key] = l
		}
	}
	return out
}

// pathKey is a path as the key of a map.
func pathKey(path []int32) string {
	key := make([]byte, 0, 4*len(path))
	for _, n := range path {
		key = append(key, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return string(key)
}

// differences are where two descriptions of a symbol differ.
type differences struct {
	known   map[string]*description
	present map[string]bool // names that the files have
	list    []Warning
	more    int
}

// maxDifferences bounds the differences that are named.
const maxDifferences = 20

func (d *differences) add(symbol, format string, args ...any) {
	if len(d.list) == maxDifferences {
		d.more++
		return
	}
	d.list = append(d.list, Warning{shown.Clip(symbol), fmt.Sprintf(format, args...)})
}

func (d *differences) warnings(source string) []Warning {
	if d.more == 0 {
		return d.list
	}
	return append(d.list, Warning{source, fmt.Sprintf("%d more differences between what the backend reflects and the descriptors", d.more)})
}

// comment returns a file with the comments that it lacks. What it shares with the given one is not changed.
func (d *differences) comment(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	own := locations(f)
	var added []*descriptorpb.SourceCodeInfo_Location
	symbolsOf(f, func(s symbol) {
		d.present[s.name] = true
		described := d.known[s.name]
		switch {
		case described == nil:
			if d.known[s.parent] != nil {
				d.add(s.name, "the backend has it, and the descriptors do not; its comment is missing")
			}
			return
		case described.shape != s.shape:
			described.isMet = true
			d.add(s.name, "the backend has %s, %s has %s; its comment is not used", shown.Clip(s.shape), described.from, shown.Clip(described.shape))
			return
		}
		described.isMet = true
		if described.hasComment() && own[pathKey(s.path)] == nil {
			added = append(added, &descriptorpb.SourceCodeInfo_Location{
				Path: s.path, Span: []int32{0, 0, 0}, LeadingComments: described.leading, TrailingComments: described.trailing,
			})
		}
	})
	if len(added) == 0 {
		return f
	}
	out := bare(f)
	out.ProtoReflect().SetUnknown(f.ProtoReflect().GetUnknown())
	// Ours stand first, because the first of two places with one path counts.
	out.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: append(added, f.GetSourceCodeInfo().GetLocation()...)}
	return out
}

// unmet names what only the descriptors have: parts of what the backend has too, and services.
func (d *differences) unmet(order []string, skips func(service string) bool) {
	for _, name := range order {
		described := d.known[name]
		switch {
		case described.isMet:
		case described.parent != "" && d.present[described.parent]:
			d.add(name, "%s has it, and the backend does not", described.from)
		case described.shape == "service" && !skips(name) && !strings.HasPrefix(name, "google."):
			d.add(name, "%s has this service, and the backend does not reflect it; no tools are made of it", described.from)
		}
	}
}

// outline is what has to be known of a file to find the others.
type outline struct {
	name              string
	imports, services []string // services by their full names
}

func outlineOf(f *descriptorpb.FileDescriptorProto) outline {
	out := outline{name: f.GetName(), imports: f.GetDependency()}
	for _, s := range f.GetService() {
		out.services = append(out.services, string(protoreflect.FullName(f.GetPackage()).Append(protoreflect.Name(s.GetName()))))
	}
	return out
}

// Field numbers by which the path of a comment names what it is about: those of FileDescriptorProto, DescriptorProto,
// EnumDescriptorProto and ServiceDescriptorProto.
const (
	fileMessages     = 4
	fileEnums        = 5
	fileService      = 6
	fileExtensions   = 7
	messageFields    = 2
	messageMessages  = 3
	messageEnums     = 4
	messageExtension = 6
	messageOneofs    = 8
	enumValues       = 2
	serviceMethods   = 2
)

// symbol is what a comment can be about.
type symbol struct {
	// name is the full name. A value is named below its enum.
	name string
	// parent is the name of the message, enum or service around it; empty in a file.
	parent string
	// shape is what two descriptions of it have to have in common, in words.
	shape string
	path  []int32
}

// symbolsOf calls visit for all symbols of a file, parents first.
func symbolsOf(f *descriptorpb.FileDescriptorProto, visit func(symbol)) {
	w := symbolWalk{visit}
	pkg := f.GetPackage()
	for i, m := range f.GetMessageType() {
		w.message(m, pkg, "", []int32{fileMessages, int32(i)})
	}
	for i, e := range f.GetEnumType() {
		w.enum(e, pkg, "", []int32{fileEnums, int32(i)})
	}
	for i, x := range f.GetExtension() {
		w.field(x, pkg, "", []int32{fileExtensions, int32(i)})
	}
	for i, s := range f.GetService() {
		name := within(pkg, s.GetName())
		path := []int32{fileService, int32(i)}
		visit(symbol{name, "", "service", path})
		for j, m := range s.GetMethod() {
			visit(symbol{within(name, m.GetName()), name, methodShape(m), below(path, serviceMethods, j)})
		}
	}
}

type symbolWalk struct{ visit func(symbol) }

func (w symbolWalk) message(m *descriptorpb.DescriptorProto, scope, parent string, path []int32) {
	if m.GetOptions().GetMapEntry() {
		return // no one writes these
	}
	name := within(scope, m.GetName())
	w.visit(symbol{name, parent, "message", path})
	for i, f := range m.GetField() {
		w.field(f, name, name, below(path, messageFields, i))
	}
	for i, o := range m.GetOneofDecl() {
		if !isSynthetic(m, i) {
			w.visit(symbol{within(name, o.GetName()), name, "oneof", below(path, messageOneofs, i)})
		}
	}
	for i, e := range m.GetEnumType() {
		w.enum(e, name, name, below(path, messageEnums, i))
	}
	for i, x := range m.GetExtension() {
		w.field(x, name, name, below(path, messageExtension, i))
	}
	for i, n := range m.GetNestedType() {
		w.message(n, name, name, below(path, messageMessages, i))
	}
}

func (w symbolWalk) enum(e *descriptorpb.EnumDescriptorProto, scope, parent string, path []int32) {
	name := within(scope, e.GetName())
	w.visit(symbol{name, parent, "enum", path})
	for i, v := range e.GetValue() {
		w.visit(symbol{within(name, v.GetName()), name, fmt.Sprintf("value %d", v.GetNumber()), below(path, enumValues, i)})
	}
}

func (w symbolWalk) field(f *descriptorpb.FieldDescriptorProto, scope, parent string, path []int32) {
	w.visit(symbol{within(scope, f.GetName()), parent, fieldShape(f), path})
}

// isSynthetic reports whether a oneof represents an optional field, and was written by no one.
func isSynthetic(m *descriptorpb.DescriptorProto, oneof int) bool {
	return slices.ContainsFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool {
		return f.GetProto3Optional() && f.OneofIndex != nil && int(f.GetOneofIndex()) == oneof
	})
}

// fieldShape is a field's type and number, as they are written in a file.
func fieldShape(f *descriptorpb.FieldDescriptorProto) string {
	kind := strings.TrimPrefix(f.GetTypeName(), ".")
	if kind == "" {
		kind = strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
	}
	if f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
		kind = "repeated " + kind
	}
	return fmt.Sprintf("%s = %d", kind, f.GetNumber())
}

func methodShape(m *descriptorpb.MethodDescriptorProto) string {
	of := func(name string, streams bool) string {
		name = strings.TrimPrefix(name, ".")
		if streams {
			return "stream " + name
		}
		return name
	}
	return fmt.Sprintf("rpc (%s) returns (%s)", of(m.GetInputType(), m.GetClientStreaming()), of(m.GetOutputType(), m.GetServerStreaming()))
}

func within(scope, name string) string {
	return string(protoreflect.FullName(scope).Append(protoreflect.Name(name)))
}

func below(path []int32, field int32, index int) []int32 {
	return append(slices.Clip(path), field, int32(index))
}

// openBounded opens a file, unpacked if it is gzipped, to read no more than most bytes of it.
func openBounded(path string, most int) (io.ReadCloser, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file") // to open a pipe waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var in io.Reader
	if err == nil {
		in, err = unpacked(f, info.Size(), most)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{in, f}, nil
}

// unpacked reads what has a size, unpacked if it is gzipped, up to a number of bytes of either.
func unpacked(from io.Reader, size int64, most int) (io.Reader, error) {
	out := &limited{left: int64(most), tooLarge: tooLarge("it has", most)}
	if size > int64(most) {
		return nil, out.tooLarge
	}
	in := bufio.NewReader(from)
	out.from = in
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		content, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		out.from = packed{content}
	}
	return out, nil
}

// packed marks an error as one of the packing.
type packed struct{ from io.Reader }

func (p packed) Read(into []byte) (int, error) {
	n, err := p.from.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("gzip: %w", &unreadable{err})
	}
	return n, err
}

// unreadable is an error of reading, which is no end of a file whatever it wraps.
type unreadable struct{ cause error }

func (u *unreadable) Error() string { return u.cause.Error() }

// limited fails once it has read more than what is left.
type limited struct {
	from     io.Reader
	left     int64
	tooLarge error
}

func (l *limited) Read(into []byte) (int, error) {
	n, err := l.from.Read(into)
	if l.left -= int64(n); l.left < 0 {
		return 0, l.tooLarge
	}
	return n, err
}

// tooLarge is the error for descriptors of more than most bytes.
func tooLarge(what string, most int) error {
	return fmt.Errorf("%s more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", what, most)
}
