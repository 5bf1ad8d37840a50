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
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
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
		memory[f.sum] = setFile{name: name, imports: f.imports, open: f.open}
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
	if err != nil {
		return nil, w.fail(step, explainReflection(err))
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
	var err error
	if known, ok := w.remembered(f.sum); ok {
		f.open = known.open
		f.outline, err = readOutline(raw)
		return f, err
	}
	if err = f.decode(); err == nil {
		f.outline, f.open = outlineOf(f.file), openMessages(f.file)
	}
	return f, err
}

// remembered is what is known of a file of these bytes, where it could be decoded by the load before.
func (w *reflectionWalk) remembered(sum Digest) (setFile, bool) {
	if w.before == nil {
		return setFile{}, false
	}
	memory, _ := w.before.Memory.(setMemory)
	f, ok := memory[sum]
	return f, ok
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
			return nil, &limitError{fmt.Sprintf("the server sent more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", w.limits.MaxBytes)}
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

// explainReflection says in an operator's words what the frequent failure means.
func explainReflection(err error) error {
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return fmt.Errorf("the server has no reflection, neither v1 nor v1alpha; register it there, or set --descriptors: %w", err)
	}
	return err
}
