// SPDX-License-Identifier: Apache-2.0

package source

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// reflectionWalk is the state of one load.
type reflectionWalk struct {
	source    string
	stream    *reflectionStream
	limits    Limits
	selection Selection

	before *Revision // of the load that this one may be like, nil for none
	known  *knownSet // the files of that load

	files    map[string]*reflectedFile
	defined  map[string]string // full names of the services in files, to the names of their files
	pending  []*reflectedFile  // files whose imports were not looked at yet
	open     []string          // messages that can be extended
	bytes    int
	warnings []Warning

	// omitted says why a service cannot be served, missing why an imported file is not there. sentAs are the names that
	// imported files have where those differ from their import paths.
	omitted map[string]error
	missing map[string]missingFile
	sentAs  map[string]string
	mender  mender
}

// missingFile is an import that did not come.
type missingFile struct {
	err error
	// isRefused tells that the server does not have it. The other reasons are faults of the server.
	isRefused bool
}

func newReflectionWalk(source string, stream *reflectionStream, limits Limits) *reflectionWalk {
	return &reflectionWalk{
		source: source, stream: stream, limits: limits, files: map[string]*reflectedFile{}, defined: map[string]string{},
		omitted: map[string]error{}, missing: map[string]missingFile{}, sentAs: map[string]string{},
		mender: mender{asked: map[string]bool{}, dropped: map[string]bool{}, broken: map[string]error{}},
	}
}

// reflectedFile is a file as the server sent it, or the built-in copy of one.
type reflectedFile struct {
	outline

	raw  []byte // nil for a built-in copy
	sum  Digest // of raw, or of the path of a built-in copy
	file *descriptorpb.FileDescriptorProto
	// open are the messages that can be extended.
	open []string
	// isMended tells that file is no longer what raw says, or that it cannot be.
	isMended bool
}

// decode decodes the file where it has not been decoded yet.
func (f *reflectedFile) decode() (err error) {
	if f.file == nil {
		f.file, err = decodeFile(f.raw)
	}
	return err
}

// isLike compares two copies of a file, which may be the same in other bytes.
func (f *reflectedFile) isLike(other *reflectedFile) (bool, error) {
	if f.raw != nil && f.sum == other.sum {
		return true, nil
	}
	if f.isMended {
		return f.raw == nil, nil // a built-in copy is as good; the server's own was compared above
	}
	if err := errors.Join(f.decode(), other.decode()); err != nil {
		return false, err
	}
	return proto.Equal(f.file, other.file), nil
}

// toolService is the service of a backend that speaks the tool API itself.
const toolService = "outrigger.v1.ToolService"

// run asks for the services, the files that define them, the files that those import, and the extensions of what is in them.
func (w *reflectionWalk) run() (*Loaded, error) {
	services, err := w.services()
	if err != nil {
		return nil, err
	}
	if err := w.stream.symbols(services, w.service); err != nil {
		return nil, err
	}
	if err := w.complete(); err != nil {
		return nil, err
	}
	if err := w.extensions(); err != nil {
		return nil, err
	}
	described, err := w.described(services)
	if err != nil {
		return nil, err
	}
	now := w.revision(services)
	if w.before.Is(now.Digest) {
		return nil, nil
	}
	out := &Loaded{Source: w.source, Services: described, Reflected: true, Warnings: w.warnings, Revision: now}
	if err := w.decode(out); err != nil {
		return nil, err
	}
	return out, nil
}

// complete asks for what the files need and mends them, until there is nothing left to ask for.
func (w *reflectionWalk) complete() error {
	for {
		if err := w.imports(); err != nil {
			return err
		}
		again, err := w.mend()
		if err != nil || !again && len(w.pending) == 0 {
			return err
		}
	}
}

// fixDescriptors ends the warning about a service that reflection does not describe.
const fixDescriptors = "pass its descriptors with --descriptors, and set catalog.reflection to on for the other services"

// described are the services that can be served. The others are warnings. It is an error if there are none of many.
func (w *reflectionWalk) described(services []string) ([]string, error) {
	out := make([]string, 0, len(services))
	var first error
	seen := map[string]error{}
	for _, name := range services {
		err := w.omitted[name]
		if w.defined[name] != "" { // also where another answer brought it
			err = w.whyNot(w.defined[name], seen)
		}
		if err == nil {
			out = append(out, name)
			continue
		}
		if first == nil {
			first = err
		}
		text := err.Error()
		if failed := (*Error)(nil); errors.As(err, &failed) {
			text = fmt.Sprintf("%s: %v", failed.Step, failed.Cause)
		}
		text = fmt.Sprintf("service omitted: %s; %s", text, fixDescriptors)
		if exclude := "--exclude " + name; !strings.Contains(text, exclude) {
			text += ", or omit it with " + exclude
		}
		w.warnings = append(w.warnings, Warning{name, text})
	}
	if len(out) == 0 && first != nil {
		if failed := (*Error)(nil); errors.As(first, &failed) {
			failed.Cause = fmt.Errorf("%w: %w", ErrUndescribed, failed.Cause)
		}
		return nil, first
	}
	for path, err := range seen {
		if err != nil {
			delete(w.files, path) // the catalog could not link it
		}
	}
	if n := w.mender.incomplete; n > 0 {
		w.warnings = append(w.warnings, Warning{w.source, fmt.Sprintf("the server sends %d incomplete %s (@grpc/reflection of Node does); imports, type names "+
			"and map entries were completed; comments, options and the fields' names in snake case may be missing: --descriptors FILE has them", n, shown.Plural(n, "descriptor", "descriptors"))})
	}
	return out, nil
}

// whyNot says why a file cannot be used: it is broken, or something that it imports is missing. A file that imports itself
// is left to the linker. seen has the answers so far.
func (w *reflectionWalk) whyNot(path string, seen map[string]error) error {
	if err, ok := seen[path]; ok {
		return err
	}
	seen[path] = nil
	err := w.mender.broken[path]
	if f := w.files[path]; f == nil {
		err = w.missing[path].err
	} else {
		for _, imported := range f.imports {
			if err == nil {
				err = w.whyNot(imported, seen)
			}
		}
	}
	seen[path] = err
	return err
}

// decode decodes what the catalog in use does not have.
func (w *reflectionWalk) decode(out *Loaded) error {
	names := shown.SortedKeys(w.files)
	for {
		out.Files, out.Same = nil, nil
		for _, name := range names {
			f := w.files[name]
			if _, isKnown := w.known.file(f.sum); isKnown {
				out.Same = append(out.Same, name)
				continue
			}
			if err := f.decode(); err != nil {
				return w.fail("decode "+shown.Clip(name), err)
			}
			out.Files = append(out.Files, f.file)
		}
		if w.known.suffice(out) {
			return nil
		}
	}
}

// revision identifies the answers. What was mended depends on other files than those that it imports, so that nothing of it
// is remembered.
func (w *reflectionWalk) revision(services []string) *Revision {
	memory := make(setMemory, len(w.files))
	s := newSummer()
	s.texts(services...)
	for _, name := range shown.SortedKeys(w.files) {
		f := w.files[name]
		s.texts(name)
		s.add(f.sum[:])
		memory[f.sum] = setFile{outline: f.outline, open: f.open}
	}
	for _, warning := range w.warnings {
		s.texts(warning.Subject, warning.Text)
	}
	now := &Revision{Digest: s.sum(), Memory: memory}
	if w.mender.isUsed() {
		now.Memory, w.known = nil, nil
	}
	return now
}

// services lists what the server offers and we want, sorted.
func (w *reflectionWalk) services() ([]string, error) {
	const step = "list services"
	listed, err := w.stream.services()
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		err = fmt.Errorf("the server has no reflection, neither v1 nor v1alpha; register it there, or set --descriptors: %w", err)
	}
	if err != nil {
		return nil, w.fail(step, err)
	}
	if len(listed) > w.limits.MaxServices {
		return nil, w.fail(step, fmt.Errorf("the server lists %d services, more than the limit of %d", len(listed), w.limits.MaxServices))
	}
	var wanted, skipped []string
	var invalid error
	for _, name := range listed {
		switch {
		case !protoreflect.FullName(name).IsValid():
			invalid = fmt.Errorf("the server lists %q, which is not a service name", shown.Clip(name))
			w.warnings = append(w.warnings, Warning{w.source, invalid.Error()})
		case w.skips(name):
			skipped = append(skipped, name)
		default:
			wanted = append(wanted, name)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if len(wanted) > 0 {
		return wanted, nil
	}
	if invalid != nil {
		return nil, w.fail(step, invalid)
	}
	if len(skipped) == 0 {
		return nil, w.fail(step, fmt.Errorf("%w: no services are registered with its reflection", ErrNoServices))
	}
	if slices.Contains(skipped, toolService) {
		return []string{}, nil // another source asks it for its tools
	}
	slices.Sort(skipped)
	if !slices.ContainsFunc(skipped, func(name string) bool { return !IsInfrastructure(name) }) {
		return nil, w.fail(step, fmt.Errorf("%w: %s %s infrastructure", ErrNoServices,
			shown.ClipList(slices.Compact(skipped)), shown.Plural(len(skipped), "is", "are")))
	}
	return nil, w.fail(step, fmt.Errorf("%w: %s %s infrastructure or excluded", ErrNoneSelected,
		shown.ClipList(slices.Compact(skipped)), shown.Plural(len(skipped), "is", "are")))
}

// skips reports whether a service is not asked for.
func (w *reflectionWalk) skips(service string) bool {
	if w.selection == nil {
		return IsInfrastructure(service)
	}
	return w.selection.Skips(service)
}

// service takes the file that defines the service, or why there is none, and checks that it does.
func (w *reflectionWalk) service(name string, got [][]byte, err error) error {
	step := "find " + name
	if w.isFatal(err) {
		return w.fail(step, fmt.Errorf("the server lists this service but does not describe it (--exclude %s omits it): %w", name, err))
	}
	var sent []string
	if err != nil {
		err = fmt.Errorf("the server lists this service but does not describe it (--exclude %s omits it): %w", name, err)
	} else if sent, err = w.keep(got); w.isFatal(err) {
		return w.fail(step, err)
	}
	if err == nil && w.defined[name] == "" {
		err = fmt.Errorf("the server answered with %s, which does not define this service (--exclude %s omits it)", filesInWords(sent), name)
	}
	if err != nil {
		w.omitted[name] = w.fail(step, err)
	}
	return nil
}

// imports asks for every file that is imported and not there yet. Files are taken once, so the walk ends.
func (w *reflectionWalk) imports() error {
	for len(w.pending) > 0 {
		importer := w.pending[0]
		w.pending = w.pending[1:]
		for _, path := range importer.imports {
			_, isMissing := w.missing[path]
			if w.files[path] != nil || w.sentAs[path] != "" || isMissing {
				continue
			}
			if err := w.file(path, importer.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// file asks for one imported file, and notes why it is missing.
func (w *reflectionWalk) file(path, importer string) error {
	step := fmt.Sprintf("fetch file %s, imported by %s", shown.Clip(path), shown.Clip(importer))
	got, err := w.stream.file(path)
	var sent []string
	if err == nil {
		sent, err = w.keep(got)
	}
	switch {
	case w.isFatal(err):
		return w.fail(step, err)
	case w.files[path] != nil:
		return nil
	}
	if own := Builtin(path); own != nil {
		// These are the same everywhere, and some servers do not reflect them.
		w.addBuiltin(own)
		w.warnings = append(w.warnings, Warning{w.source, "the server does not serve " + path + "; the built-in copy is used"})
		return nil
	}
	if err == nil && len(sent) > 0 {
		w.sentAs[path] = sent[0] // the file comes first, what it imports after it
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: it answered with no file", ErrRefused)
	}
	w.missing[path] = missingFile{w.fail(step, err), errors.Is(err, ErrRefused)}
	return nil
}

// isFatal reports whether an error ends the load: the server may answer the next time, or what it sends is too much. Other
// errors concern what was asked for. A stream that breaks off is fatal, because a server that is going away must not look
// like one with fewer services.
func (w *reflectionWalk) isFatal(err error) bool {
	var over *limitError
	var status *connect.Error
	var refusal *refusalError
	switch {
	case err == nil:
		return false
	case errors.As(err, &refusal):
		switch refusal.code {
		case connect.CodeUnavailable, connect.CodeResourceExhausted, connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeAborted:
			return true
		}
		return false
	}
	return errors.As(err, &over) || errors.As(err, &status) || errors.Is(err, errEnded) || w.stream.ctx.Err() != nil
}

// add takes one new file into the collection.
func (w *reflectionWalk) add(f *reflectedFile) {
	w.files[f.name] = f
	w.pending, w.open = append(w.pending, f), append(w.open, f.open...)
	for _, s := range f.services {
		if w.defined[s] == "" {
			w.defined[s] = f.name
		}
	}
}

// addBuiltin takes the built-in copy of a file.
func (w *reflectionWalk) addBuiltin(own *descriptorpb.FileDescriptorProto) {
	w.add(&reflectedFile{outline: outlineOf(own), file: own, sum: sha256.Sum256([]byte("built in: " + own.GetName())), isMended: true})
}

// read makes a file of the server's bytes. What could be decoded before is not decoded again.
func (w *reflectionWalk) read(raw []byte) (*reflectedFile, error) {
	f := &reflectedFile{raw: raw, sum: sha256.Sum256(raw)}
	if w.before != nil {
		memory, _ := w.before.Memory.(setMemory)
		if known, ok := memory[f.sum]; ok {
			f.outline, f.open = known.outline, known.open
			return f, nil
		}
	}
	err := f.decode()
	if err == nil {
		f.outline, f.open = outlineOf(f.file), openMessages(f.file)
	}
	return f, err
}

// limitError is a limit that the server's files exceed.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

// keep reads files and takes them into the collection, within the limits. A file that comes twice must be the same
// both times. It returns the files' names.
func (w *reflectionWalk) keep(got [][]byte) (sent []string, err error) {
	var files []*reflectedFile
	for _, raw := range got {
		f, err := w.read(raw)
		if err != nil {
			return nil, fmt.Errorf("the server sent a file that cannot be decoded: %w", err)
		}
		if f.name == "" {
			return nil, errors.New("the server sent a file without a name")
		}
		if before := w.files[f.name]; before != nil {
			if same, err := before.isLike(f); err != nil || !same {
				return nil, fmt.Errorf("the server sent two different files as %s", shown.Clip(f.name))
			}
		}
		files, sent = append(files, f), append(sent, f.name)
	}
	for _, f := range files {
		if w.files[f.name] != nil || w.mender.dropped[f.name] {
			continue
		}
		w.add(f)
		w.bytes += len(f.raw)
		if len(w.files) > w.limits.MaxFiles {
			return nil, &limitError{fmt.Sprintf("the server sent more than %d files, the limit for one source", w.limits.MaxFiles)}
		}
		if w.bytes > w.limits.MaxBytes {
			return nil, &limitError{tooLarge("the server sent", w.limits.MaxBytes).Error()}
		}
	}
	return sent, nil
}

// filesInWords are the names of files in a sentence.
func filesInWords(names []string) string {
	if len(names) == 0 {
		return "no file"
	}
	return shown.ClipList(names)
}

func (w *reflectionWalk) fail(step string, cause error) error {
	return &Error{Source: w.source, Step: step, Cause: cause}
}

// ErrUndescribed means that a server lists services and describes none of them completely.
var ErrUndescribed = errors.New("the server describes none of its services")

// maxMendQuestions bounds the symbols that are asked for because a file does not import what it uses.
const maxMendQuestions = 1_000

// wellKnownFolder begins the paths of the files that every Protobuf compiler has.
const wellKnownFolder = "google/protobuf/"

// mender completes files that the linker would refuse. Servers that make descriptors out of something else than a compiler's
// output (@grpc/reflection of Node) send them without imports, with type names as they were written, and with map entries
// named like their fields. Others serve a file under another name than the one that its importers have for it.
type mender struct {
	asked map[string]bool // symbols
	// dropped are files that stand for others, which are used instead.
	dropped map[string]bool
	// broken are files that cannot be completed, by name.
	broken map[string]error
	// rewritten counts the files that were mended, incomplete those of them that no compiler writes.
	rewritten, incomplete int
}

func (m *mender) isUsed() bool { return m.rewritten > 0 || len(m.dropped) > 0 }

// mend completes the files that need it, or asks for the files that they need. It reports whether it has asked for any.
func (w *reflectionWalk) mend() (again bool, err error) {
	w.dropForeignTypes()
	var odd []*reflectedFile
	for _, name := range shown.SortedKeys(w.files) {
		if f := w.files[name]; w.isOdd(f) {
			if err := f.decode(); err != nil {
				return false, w.fail("decode "+shown.Clip(name), err)
			}
			odd = append(odd, f)
		}
	}
	if len(odd) == 0 {
		return false, nil
	}
	names, err := w.index()
	if err != nil {
		return false, err
	}
	for _, f := range odd {
		asked, err := w.askFor(f, names)
		if err != nil {
			return false, err
		}
		again = again || asked
	}
	if again {
		return true, nil
	}
	for _, f := range odd {
		if isIncomplete(f) {
			w.mender.incomplete++
		}
		f.isMended = true
		w.mender.rewritten++
		err := w.rewrite(f, names)
		if failed := (*Error)(nil); err != nil && !errors.As(err, &failed) {
			err = w.fail("complete "+shown.Clip(f.name), err)
		}
		w.mender.broken[f.name] = err
	}
	return false, nil
}

// dropForeignTypes drops copies of the well-known types in files of another name: the built-in ones are used, under which
// everybody else knows them.
func (w *reflectionWalk) dropForeignTypes() {
	for name, f := range w.files {
		if f.file.GetPackage() != "google.protobuf" || strings.HasPrefix(name, wellKnownFolder) {
			continue
		}
		isKnown := true
		symbolsOf(f.file, func(s symbol) {
			isKnown = isKnown && (s.parent != "" || wellKnownFile(s.name) != "")
		})
		if isKnown {
			delete(w.files, name)
			w.mender.dropped[name] = true
		}
	}
}

// wellKnownFile is the path of the built-in file that defines a well-known type; empty for other names.
func wellKnownFile(name string) string {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil || !strings.HasPrefix(d.ParentFile().Path(), wellKnownFolder) {
		return ""
	}
	return d.ParentFile().Path()
}

// isOdd reports whether a file is known to need what mend does.
func (w *reflectionWalk) isOdd(f *reflectedFile) bool {
	if f.isMended {
		return false
	}
	for _, path := range f.imports {
		if w.files[path] == nil {
			return true
		}
	}
	return f.file != nil && isIncomplete(f) // else the load before used it as it is
}

// isIncomplete reports whether a file is not what a compiler writes.
func isIncomplete(f *reflectedFile) bool {
	is, own := false, map[string]bool{}
	if len(f.imports) == 0 {
		symbolsOf(f.file, func(s symbol) { own["."+s.name] = true })
	}
	eachMessage(f.file, func(name string, m *descriptorpb.DescriptorProto) {
		if m.GetOptions().GetMapEntry() {
			is = is || !strings.HasSuffix(m.GetName(), entrySuffix)
			own["."+name] = true
		}
	})
	eachReference(f.file, func(_ string, ref *string) {
		is = is || !strings.HasPrefix(*ref, ".") || len(f.imports) == 0 && !own[*ref]
	})
	return is
}

// index are the files that define the messages and enums, by their full names. Of two that define one, the first by name
// counts.
func (w *reflectionWalk) index() (map[string]string, error) {
	out := map[string]string{}
	for _, name := range shown.SortedKeys(w.files) {
		f := w.files[name]
		if err := f.decode(); err != nil {
			return nil, w.fail("decode "+shown.Clip(name), err)
		}
		symbolsOf(f.file, func(s symbol) {
			if _, isTaken := out[s.name]; !isTaken && (s.shape == "message" || s.shape == "enum") {
				out[s.name] = name
			}
		})
	}
	return out, nil
}

// candidates are the full names that a reference may mean, the first that exists counts.
func candidates(scope, ref string) []string {
	if full, isFull := strings.CutPrefix(ref, "."); isFull {
		return []string{full}
	}
	var out []string
	for scope != "" {
		out = append(out, scope+"."+ref)
		scope = scope[:max(0, strings.LastIndexByte(scope, '.'))]
	}
	return append(out, ref)
}

// find is the full name of what a reference means, and the file that defines it; empty if no file does.
func find(scope, ref string, names map[string]string) (full, file string) {
	for _, name := range candidates(scope, ref) {
		if path := names[name]; path != "" {
			return name, path
		}
		if path := wellKnownFile(name); path != "" {
			return name, path
		}
	}
	return "", ""
}

// askFor asks for the files of what a file uses and no file defines. It reports whether one came.
func (w *reflectionWalk) askFor(f *reflectedFile, names map[string]string) (found bool, err error) {
	entries := entriesOf(f.file)
	var wanted []string
	eachReference(f.file, func(scope string, ref *string) {
		if _, file := find(scope, *ref, names); file == "" && entries[ref] == "" {
			wanted = append(wanted, candidates(scope, *ref)...)
		}
	})
	before := len(w.files)
	for _, name := range wanted {
		if w.mender.asked[name] || len(w.mender.asked) >= maxMendQuestions || !protoreflect.FullName(name).IsValid() {
			continue
		}
		w.mender.asked[name] = true
		err := w.stream.symbols([]string{name}, func(_ string, got [][]byte, err error) error {
			if err == nil {
				_, err = w.keep(got)
			}
			if w.isFatal(err) {
				return w.fail("find "+shown.Clip(name), err)
			}
			return nil // the file that needs it says what is missing
		})
		if err != nil {
			return false, err
		}
	}
	return len(w.files) > before, nil
}

// rewrite gives a file the names that compilers write, and the imports that it needs. Imports that did not come and that it
// does not need are left out.
func (w *reflectionWalk) rewrite(f *reflectedFile, names map[string]string) error {
	entries := entriesOf(f.file)
	own := map[string]string{}
	eachMessage(f.file, func(name string, m *descriptorpb.DescriptorProto) {
		if !m.GetOptions().GetMapEntry() {
			own[name] = f.name
		}
	})
	needed := map[string]bool{}
	var lost []string
	eachReference(f.file, func(scope string, ref *string) {
		if entry := entries[ref]; entry != "" {
			*ref = "." + entry
			return
		}
		full, file := find(scope, *ref, own)
		if own[full] == "" {
			full, file = find(scope, *ref, names)
		}
		switch {
		case file == "":
			lost = append(lost, *ref)
		case file != f.name:
			needed[file] = true
			fallthrough
		default:
			*ref = "." + full
		}
	})
	renameEntries(f.file)
	markOptional(f.file)
	if len(lost) > 0 {
		slices.Sort(lost)
		return fmt.Errorf("no file that the server has defines %s", shown.ClipList(slices.Compact(lost)))
	}
	var imports []string
	at := make([]int32, len(f.imports)) // where the imports have gone
	for i, path := range f.imports {
		name := path
		if w.files[path] == nil {
			name = w.sentAs[path]
		}
		missing, isMissing := w.missing[path]
		switch {
		case w.files[name] != nil && slices.Contains(imports, name):
			at[i] = int32(slices.Index(imports, name))
		case w.files[name] != nil:
			at[i], imports = int32(len(imports)), append(imports, name)
		case isMissing && !missing.isRefused:
			return missing.err
		default:
			at[i] = -1
			if isMissing {
				w.warnings = append(w.warnings, Warning{f.name, fmt.Sprintf(
					"imports %s, which the server does not serve under that name; options that it defines are not read; --descriptors has them", shown.Clip(path))})
			}
		}
	}
	for _, name := range shown.SortedKeys(needed) {
		if !slices.Contains(imports, name) {
			imports = append(imports, name)
		}
		if w.files[name] == nil {
			w.addBuiltin(Builtin(name))
		}
	}
	f.imports, f.file.Dependency = imports, imports
	f.file.PublicDependency = moved(f.file.GetPublicDependency(), at)
	f.file.WeakDependency = moved(f.file.GetWeakDependency(), at)
	return nil
}

// moved are the indices of imports after they have gone elsewhere.
func moved(indices, at []int32) []int32 {
	var out []int32
	for _, i := range indices {
		if i >= 0 && int(i) < len(at) && at[i] >= 0 && !slices.Contains(out, at[i]) {
			out = append(out, at[i])
		}
	}
	return out
}

// entrySuffix ends the names of the messages that stand for the entries of a map.
const entrySuffix = "Entry"

// entryName is the name that compilers give the entries of a map field: those of price_by_day are PriceByDayEntry.
func entryName(field string) string {
	out := make([]byte, 0, len(field)+len(entrySuffix))
	isStart := true
	for i := range len(field) {
		c := field[i]
		switch {
		case c == '_':
			isStart = true
			continue
		case isStart && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		out, isStart = append(out, c), false
	}
	return string(out) + entrySuffix
}

// entryOf is the message inside m that represents the entries of a map field; nil if the field is none.
func entryOf(m *descriptorpb.DescriptorProto, field *descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	if field.GetLabel() != descriptorpb.FieldDescriptorProto_LABEL_REPEATED || field.TypeName == nil {
		return nil
	}
	last := field.GetTypeName()[strings.LastIndexByte(field.GetTypeName(), '.')+1:]
	for _, nested := range m.GetNestedType() {
		if nested.GetOptions().GetMapEntry() && nested.GetName() == last &&
			(nested.GetName() == entryName(field.GetName()) || strings.EqualFold(last, field.GetName())) {
			return nested
		}
	}
	return nil
}

// entriesOf are the full names that compilers give the entries of the map fields in a file, by the references to them.
func entriesOf(f *descriptorpb.FileDescriptorProto) map[*string]string {
	out := map[*string]string{}
	eachMessage(f, func(name string, m *descriptorpb.DescriptorProto) {
		for _, field := range m.GetField() {
			if entryOf(m, field) != nil {
				out[field.TypeName] = name + "." + entryName(field.GetName())
			}
		}
	})
	return out
}

// renameEntries gives the entries of maps the names that entriesOf has for them. References are as they were rewritten.
func renameEntries(f *descriptorpb.FileDescriptorProto) {
	eachMessage(f, func(_ string, m *descriptorpb.DescriptorProto) {
		for _, nested := range m.GetNestedType() {
			if !nested.GetOptions().GetMapEntry() {
				continue
			}
			for _, field := range m.GetField() {
				if field.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED && strings.EqualFold(nested.GetName(), field.GetName()) {
					nested.Name = new(entryName(field.GetName()))
				}
			}
		}
	})
}

// markOptional marks the fields of proto3 that are alone in a oneof of their own name as optional, which is what the
// compiler makes of the keyword. The linker wants such oneofs last.
func markOptional(f *descriptorpb.FileDescriptorProto) {
	if f.GetSyntax() != "proto3" {
		return
	}
	eachMessage(f, func(_ string, m *descriptorpb.DescriptorProto) {
		for i := len(m.GetOneofDecl()) - 1; i >= 0; i-- {
			var members []*descriptorpb.FieldDescriptorProto
			for _, field := range m.GetField() {
				if field.OneofIndex != nil && int(field.GetOneofIndex()) == i {
					members = append(members, field)
				}
			}
			if len(members) != 1 || m.GetOneofDecl()[i].GetName() != "_"+members[0].GetName() {
				return
			}
			members[0].Proto3Optional = new(true)
		}
	})
}

// eachMessage visits all messages of a file with their full names, those inside others too.
func eachMessage(f *descriptorpb.FileDescriptorProto, visit func(name string, m *descriptorpb.DescriptorProto)) {
	var walk func(scope string, messages []*descriptorpb.DescriptorProto)
	walk = func(scope string, messages []*descriptorpb.DescriptorProto) {
		for _, m := range messages {
			name := within(scope, m.GetName())
			visit(name, m)
			walk(name, m.GetNestedType())
		}
	}
	walk(f.GetPackage(), f.GetMessageType())
}

// eachReference visits the name of every message and enum that a file uses, with the scope in which it is written.
func eachReference(f *descriptorpb.FileDescriptorProto, visit func(scope string, ref *string)) {
	fields := func(scope string, all []*descriptorpb.FieldDescriptorProto) {
		for _, field := range all {
			if field.TypeName != nil {
				visit(scope, field.TypeName)
			}
			if field.Extendee != nil {
				visit(scope, field.Extendee)
			}
		}
	}
	eachMessage(f, func(name string, m *descriptorpb.DescriptorProto) {
		fields(name, m.GetField())
		fields(name, m.GetExtension())
	})
	fields(f.GetPackage(), f.GetExtension())
	for _, s := range f.GetService() {
		scope := within(f.GetPackage(), s.GetName())
		for _, m := range s.GetMethod() {
			if m.InputType != nil && m.OutputType != nil {
				visit(scope, m.InputType)
				visit(scope, m.OutputType)
			}
		}
	}
}
