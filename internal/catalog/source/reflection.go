// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// closeWait is how long a reflecting server may take to end the stream after we did. It has nothing left to say, so a
// healthy one needs one round trip; after that the stream is cut off.
const closeWait = 500 * time.Millisecond

// ErrNoServices means that a server supports reflection but lists no callable services.
var ErrNoServices = errors.New("the server lists no callable services")

// Endpoint holds what is needed to call a server.
type Endpoint struct {
	// HTTPClient speaks HTTP/2 to the server, because reflection is a bidirectional stream.
	HTTPClient connect.HTTPClient
	// BaseURL is the server's URL without a path.
	BaseURL string
	// Options choose the protocol, as in connect.WithGRPC(). A codec and a message size limit are added.
	Options []connect.ClientOption
}

// Dial finds the endpoint to reflect on. It is called once per load, so the result of a probe need not be final.
type Dial func(ctx context.Context) (Endpoint, error)

// ReflectionOptions configure NewReflection. The zero value means the defaults.
type ReflectionOptions struct {
	// Selection skips services that are excluded as a whole. Nil asks for all except infrastructure.
	// *catalog.Selection implements it.
	Selection Selection
	Limits    Limits
	// Mask hides secrets in server errors. Nil changes nothing.
	Mask func(error) error
}

// Selection tells which services are certainly unwanted, so that their descriptors need not be requested.
type Selection interface {
	Skips(service string) bool
}

// Reflection is a server's reflection service: a source of tools, and of types that occur only in responses.
type Reflection interface {
	Conditional
	// FindType requests the files that define a message. The error wraps ErrRefused if the server answered that it has none.
	FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error)
}

const (
	// maxAnswerBytes and maxAnswerFiles bound the descriptors of one type that is asked for.
	maxAnswerBytes = 4 << 20
	maxAnswerFiles = 500
)

// serverReflection is a Source that asks a running server.
type serverReflection struct {
	name      string
	dial      Dial
	selection Selection
	limits    Limits
	mask      func(error) error
}

// NewReflection returns a source that asks the server at the target for its services and all files they need. It tries
// grpc.reflection.v1 first, then v1alpha if the server does not implement v1. It uses one stream and closes it before Load
// returns. Comments are available only if the server's descriptors contain them. The target is for display only; a
// password in it is not shown.
//
// Errors are *Error and not permanent: another server may answer the next time. It is an error if a server lists nothing
// callable and does not implement the tool API, if it lists a service that it cannot describe, or if it returns other
// files than requested.
func NewReflection(target string, dial Dial, o ReflectionOptions) Reflection {
	return &serverReflection{
		name: "reflection at " + redactedURL(target), dial: dial, selection: o.Selection, limits: o.Limits.withDefaults(), mask: o.Mask,
	}
}

// redactedURL is the URL without its password.
func redactedURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an unreadable URL"
	}
	return u.Redacted()
}

func (r *serverReflection) Name() string { return r.name }

func (r *serverReflection) Load(ctx context.Context) (*Loaded, error) { return r.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional. It always requests everything.
func (r *serverReflection) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.LoadTimeout,
		fmt.Errorf("no complete response within %v: %w", r.limits.LoadTimeout, context.DeadlineExceeded))
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return nil, &Error{Source: r.name, Step: "connect", Cause: cmp.Or(context.Cause(ctx), err)}
	}
	w := &reflectionWalk{
		source: r.name, stream: openReflection(ctx, endpoint, r.limits.MaxBytes), limits: r.limits, selection: r.selection, before: before, known: knownFiles(before),
		files: map[string]*reflectedFile{}, defined: map[string]bool{},
	}
	out, err := w.run()
	cause := whyEnded(ctx, err)
	// Some servers serve no other call while a reflection stream is open, so it ends here. How it ends cannot take back
	// what was received, and after a failure there is nothing to wait for.
	wait := closeWait
	if err != nil {
		wait = 0
	}
	stop := time.AfterFunc(wait, cancel)
	w.stream.end()
	stop.Stop()
	var failed *Error
	if cause != nil && errors.As(err, &failed) {
		failed.Cause = cause
	}
	if r.mask != nil && errors.As(err, &failed) {
		failed.Cause = r.mask(failed.Cause)
	}
	return out, err
}

// FindType implements Reflection: it requests the file that defines a message, and the files that it imports.
func (r *serverReflection) FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	limits := Limits{MaxBytes: maxAnswerBytes, MaxFiles: maxAnswerFiles}.withDefaults()
	w := &reflectionWalk{
		source: r.name, stream: openReflection(ctx, endpoint, limits.MaxBytes), limits: limits,
		files: map[string]*reflectedFile{}, defined: map[string]bool{},
	}
	err = w.stream.symbols([]string{string(name)}, func(_ string, got [][]byte, err error) error {
		if err == nil {
			_, err = w.keep("find "+shown.Clip(string(name)), got)
		}
		return err
	})
	if err == nil {
		err = w.imports()
	}
	if err != nil {
		cancel() // there is nothing to wait for
	} else {
		defer time.AfterFunc(closeWait, cancel).Stop()
	}
	w.stream.end()
	if err != nil {
		return nil, err
	}
	out := make([]*descriptorpb.FileDescriptorProto, 0, len(w.files))
	for _, path := range shown.SortedKeys(w.files) {
		if err := w.files[path].decode(); err != nil {
			return nil, w.fail("decode "+shown.Clip(path), err)
		}
		out = append(out, w.files[path].file)
	}
	return out, nil
}

// deadlineSkew is how far apart the two ends of one machine or one network may see the same deadline pass.
const deadlineSkew = 100 * time.Millisecond

// whyEnded is what ended the context, nil where nothing did. The server is told our deadline and may be the first to see
// it pass; then ours is waited for, which says more.
func whyEnded(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if err != nil && ok && connect.CodeOf(err) == connect.CodeDeadlineExceeded && time.Until(deadline) < deadlineSkew {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// reflectionWalk is the state of one load.
type reflectionWalk struct {
	source    string
	stream    *reflectionStream
	limits    Limits
	selection Selection

	before *Revision // of the load that this one may be like, nil for none
	known  *knownSet // the files of that load

	files    map[string]*reflectedFile
	defined  map[string]bool  // full names of the services in files
	pending  []*reflectedFile // files whose imports were not looked at yet
	bytes    int
	warnings []Warning
}

// reflectedFile is a file as the server sent it, or the built-in copy of one.
type reflectedFile struct {
	outline

	raw  []byte // nil for a built-in copy
	sum  Digest // of raw, or of the path of a built-in copy
	file *descriptorpb.FileDescriptorProto
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
	if err := errors.Join(f.decode(), other.decode()); err != nil {
		return false, err
	}
	return proto.Equal(f.file, other.file), nil
}

// toolService is the service of a backend that speaks the tool API itself.
const toolService = "outrigger.v1.ToolService"

// run asks for the services, the files that define them, and the files that those import.
func (w *reflectionWalk) run() (*Loaded, error) {
	services, err := w.services()
	if err != nil {
		return nil, err
	}
	if err := w.stream.symbols(services, w.service); err != nil {
		return nil, err
	}
	if err := w.imports(); err != nil {
		return nil, err
	}
	now := w.revision(services)
	if w.before.Is(now.Digest) {
		return nil, nil
	}
	out := &Loaded{Source: w.source, Services: services, Reflected: true, Warnings: w.warnings, Revision: now}
	if err := w.decode(out); err != nil {
		return nil, err
	}
	return out, nil
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

// revision identifies the answers. The warnings follow from the files.
func (w *reflectionWalk) revision(services []string) *Revision {
	memory := make(setMemory, len(w.files))
	s := newSummer()
	s.texts(services...)
	for _, name := range shown.SortedKeys(w.files) {
		f := w.files[name]
		s.texts(name)
		s.add(f.sum[:])
		memory[f.sum] = setFile{name: name, imports: f.imports}
	}
	return &Revision{Digest: s.sum(), Memory: memory}
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
	for _, name := range listed {
		switch {
		case !protoreflect.FullName(name).IsValid():
			return nil, w.fail(step, fmt.Errorf("the server lists %q, which is not a service name", shown.Clip(name)))
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
	if len(skipped) == 0 {
		return nil, w.fail(step, fmt.Errorf("%w: no services are registered with its reflection", ErrNoServices))
	}
	if slices.Contains(skipped, toolService) {
		return []string{}, nil // it is asked for its tools by a source of its own
	}
	slices.Sort(skipped)
	if !slices.ContainsFunc(skipped, func(name string) bool { return !IsInfrastructure(name) }) {
		return nil, w.fail(step, fmt.Errorf("%w: %s %s infrastructure", ErrNoServices,
			shown.ClipList(slices.Compact(skipped)), shown.Plural(len(skipped), "is", "are")))
	}
	return nil, w.fail(step, fmt.Errorf("the server lists no callable services: %s %s infrastructure or excluded",
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
	if err != nil {
		return w.fail(step, fmt.Errorf("the server lists this service but does not describe it (--exclude %s omits it): %w",
			name, err))
	}
	sent, err := w.keep(step, got)
	if err != nil {
		return err
	}
	if w.defined[name] {
		return nil
	}
	return w.fail(step, fmt.Errorf("the server answered with %s, which does not define this service (--exclude %s omits it)",
		sent, name))
}

// imports asks for every file that is imported and not there yet. Files are taken once, so the walk ends.
func (w *reflectionWalk) imports() error {
	for len(w.pending) > 0 {
		importer := w.pending[0]
		w.pending = w.pending[1:]
		for _, path := range importer.imports {
			if w.files[path] != nil {
				continue
			}
			if err := w.file(path, importer.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// file asks for one imported file.
func (w *reflectionWalk) file(path, importer string) error {
	step := fmt.Sprintf("fetch file %s, imported by %s", shown.Clip(path), shown.Clip(importer))
	got, err := w.stream.file(path)
	var refusal *refusalError
	if err != nil && !errors.As(err, &refusal) {
		return w.fail(step, err)
	}
	sent, errKeep := w.keep(step, got)
	if errKeep != nil {
		return errKeep
	}
	if w.files[path] != nil {
		return nil
	}
	if own := Builtin(path); own != nil {
		// These are the same everywhere, and some servers do not reflect them.
		w.add(&reflectedFile{outline: outlineOf(own), file: own, sum: sha256.Sum256([]byte("built in: " + path))})
		w.warnings = append(w.warnings, Warning{w.source, "the server does not serve " + path + "; the built-in copy is used"})
		return nil
	}
	if err != nil {
		return w.fail(step, err)
	}
	return w.fail(step, fmt.Errorf("the server answered with %s instead", sent))
}

// add takes one new file into the collection.
func (w *reflectionWalk) add(f *reflectedFile) {
	w.files[f.name] = f
	w.pending = append(w.pending, f)
	for _, s := range f.services {
		w.defined[s] = true
	}
}

// hasDecoded reports whether a file of these bytes could be decoded by the load before.
func (w *reflectionWalk) hasDecoded(sum Digest) bool {
	if w.before == nil {
		return false
	}
	memory, _ := w.before.Memory.(setMemory)
	_, ok := memory[sum]
	return ok
}

// read makes a file of the server's bytes. What could be decoded before is not decoded again.
func (w *reflectionWalk) read(raw []byte) (*reflectedFile, error) {
	f := &reflectedFile{raw: raw, sum: sha256.Sum256(raw)}
	var err error
	if w.hasDecoded(f.sum) {
		f.outline, err = readOutline(raw)
		return f, err
	}
	if err = f.decode(); err == nil {
		f.outline = outlineOf(f.file)
	}
	return f, err
}

// keep reads files and takes them into the collection, within the limits. A file that comes twice must be the same
// both times. It returns the files' names in words.
func (w *reflectionWalk) keep(step string, got [][]byte) (sent string, err error) {
	var names []string
	for _, raw := range got {
		f, err := w.read(raw)
		if err != nil {
			return "", w.fail(step, fmt.Errorf("the server sent a file that cannot be decoded: %w", err))
		}
		name := f.name
		if name == "" {
			return "", w.fail(step, errors.New("the server sent a file without a name"))
		}
		names = append(names, name)
		if before := w.files[name]; before != nil {
			if same, err := before.isLike(f); err != nil || !same {
				return "", w.fail(step, fmt.Errorf("the server sent two different files as %s", shown.Clip(name)))
			}
			continue
		}
		w.add(f)
		w.bytes += len(raw)
		if len(w.files) > w.limits.MaxFiles {
			return "", w.fail(step, fmt.Errorf("the server sent more than %d files, the limit for one source", w.limits.MaxFiles))
		}
		if w.bytes > w.limits.MaxBytes {
			return "", w.fail(step, fmt.Errorf("the server sent more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", w.limits.MaxBytes))
		}
	}
	if len(names) == 0 {
		return "no file", nil
	}
	return shown.ClipList(names), nil
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
