// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// toolFingerprint is the SHA-256 over both canonical schemas, 64 hex digits. An output schema may be absent.
func toolFingerprint(input, output []byte) (string, error) {
	hash := sha256.New()
	room := make([]byte, 0, max(len(input), len(output)))
	for _, schema := range [][]byte{input, output} {
		if len(schema) > 0 {
			text, err := canonicalise(append(room, schema...))
			if err != nil {
				return "", fmt.Errorf("canonicalise schema: %w", err)
			}
			hash.Write(text)
		}
		// JSON text holds no line feed outside of white space, so the two cannot run into each other.
		hash.Write([]byte{'\n'})
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// fingerprint is that of a pair of schemas, which is made when it is first asked for.
type fingerprint struct {
	input, output *schema.Lazy
	once          sync.Once
	known         string
	// compiled are the schemas themselves, made when they are first asked for.
	compileOnce sync.Once
	compiled    ToolIO
	fault       error
}

func newFingerprint(input, output *schema.Lazy) *fingerprint {
	return &fingerprint{input: input, output: output}
}

func (f *fingerprint) text() string {
	f.once.Do(func() {
		// What is derived or was declared is JSON, so that there is no error.
		f.known, _ = toolFingerprint(f.input.Canonical(), f.output.Canonical())
	})
	return f.known
}

// Fingerprint returns the SHA-256 of both canonical schemas, as 64 lowercase hex digits. Equal fingerprints mean equal
// schemas. The first call derives the schemas.
func (t *Tool) Fingerprint() string {
	if t.print == nil {
		return newFingerprint(t.Input, t.Output).text()
	}
	return t.print.text()
}

// seal keeps the SHA-256 over everything that callers can see of a tool. After that the tool must not change.
func (t *Tool) seal() error {
	text, err := json.Marshal([]any{
		t.Method.ClientStreaming, t.Method.ServerStreaming, t.Annotations, t.Metadata, t.Timeout, t.Examples, t.Tags, t.TaskAfter,
	})
	if err != nil {
		return fmt.Errorf("fingerprint %s: %w", t.Name, err)
	}
	if t.StreamTime > 0 {
		text = append(text, t.StreamTime.String()...)
	}
	if t.ResultBudget != nil {
		text = fmt.Appendf(text, "budget %d", *t.ResultBudget)
	}
	if p := t.Preview; p != nil && p.Tool != nil {
		text = append(append(text, "preview "...), p.Tool.Method.Procedure...)
	} else if p != nil {
		text = append(append(text, "preview "...), p.Field.FullName()...)
	}
	if t.Watch != "" {
		text = append(append(text, "watch "...), t.Watch...)
	}
	if len(t.Scopes) > 0 { // which decide who is shown the tool
		text = append(text, strings.Join(t.Scopes, " ")...)
	}
	for _, path := range slices.Sorted(maps.Keys(t.Classes)) { // which decide who is shown what
		text = fmt.Appendf(text, "class %q %q", path, t.Classes[path])
	}
	// The long ones as they are, each behind its length: nothing can run into its neighbour.
	for _, part := range [...]string{
		t.Name, t.MCPName, t.Title, t.Description, t.Method.Procedure, t.Version, t.TaskSupport,
	} {
		text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
	}
	hash := sha256.New()
	input, output := t.Input.Digest(), t.Output.Digest() // which stand for nearly all of it
	text = append(append(text, input[:]...), output[:]...)
	if text, err = t.appendSeen(text); err != nil {
		return fmt.Errorf("fingerprint %s: %w", t.Name, err)
	}
	hash.Write(text)
	hash.Sum(t.sealed[:0])
	return nil
}

// IsSame reports whether two tools look the same to callers: everything that the listings show is equal.
func (t *Tool) IsSame(other *Tool) bool { return t == other || t.sealed == other.sealed }

// digestParts is how many parts the digests of a catalog are kept in: of a thousand tools, one holds sixteen.
const digestParts = 64

// digests are those of the sealed tools of a catalog, in parts by their first byte, so that one more tool leaves all parts
// but one as they are. Equal ones stand for the same tools, whatever the order in which they came. Immutable.
type digests [digestParts]*digestPart

type digestPart struct {
	sorted [][sha256.Size]byte
	sum    [sha256.Size]byte // over all of them
}

// with is the digests with those of other tools added.
func (d digests) with(tools []*Tool) digests {
	var added [digestParts][][sha256.Size]byte
	for _, t := range tools {
		at := t.sealed[0] % digestParts
		if added[at] == nil {
			added[at] = make([][sha256.Size]byte, 0, len(tools)*5/4/digestParts+1)
		}
		added[at] = append(added[at], t.sealed)
	}
	for at, more := range added {
		if len(more) == 0 {
			continue
		}
		part := &digestPart{sorted: more}
		if d[at] != nil {
			part.sorted = slices.Concat(d[at].sorted, more)
		}
		slices.SortFunc(part.sorted, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
		hash := sha256.New()
		for i := range part.sorted {
			hash.Write(part.sorted[i][:])
		}
		hash.Sum(part.sum[:0])
		d[at] = part
	}
	return d
}

// sum is the SHA-256 over all digests, 64 hex digits.
func (d digests) sum() string {
	hash := sha256.New()
	var none [sha256.Size]byte
	for _, part := range d {
		if part == nil {
			hash.Write(none[:])
			continue
		}
		hash.Write(part.sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// appendSeen appends what callers can see of some tools only, for the tool's digest.
func (t *Tool) appendSeen(dst []byte) ([]byte, error) {
	if len(t.Icons)+len(t.Meta) == 0 && !t.Native && !t.IsDocument() {
		return dst, nil
	}
	dst = append(dst, fmt.Sprintf("\n%t %t %s\n", t.Native, t.IsDocument(), t.Meta)...)
	for _, icon := range t.Icons {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(icon)
		if err != nil {
			return nil, err
		}
		dst = append(append(dst, hex.EncodeToString(raw)...), '\n')
	}
	return dst, nil
}

// schemaDigests tell what the schemas of a message depend on, without deriving them: the definitions of the message and of
// all messages and enums below it, with their comments. They are of one build.
type schemaDigests struct {
	linked *linker
	files  map[string]bool // whose units are known
	units  map[protoreflect.FullName]*unit
	// learned are the units below which all is known.
	learned map[protoreflect.FullName]bool
	// extensions is of all extensions but those of options, for messages that can be extended.
	extensions [sha256.Size]byte
	// resources are, for units of files that declare or import resources, of what these are.
	resources map[protoreflect.FullName][sha256.Size]byte
	// rules is of all files that define rules of their own for validation.
	rules [sha256.Size]byte
}

func newSchemaDigests(linked *linker) *schemaDigests {
	d := &schemaDigests{linked: linked, files: map[string]bool{}, units: map[protoreflect.FullName]*unit{}, learned: map[protoreflect.FullName]bool{}, resources: map[protoreflect.FullName][sha256.Size]byte{}}
	extended, ruled := sha256.New(), sha256.New()
	for _, path := range linked.paths() {
		f := linked.factsOf(path)
		if f.ruled {
			_, _ = ruled.Write(f.sum[:])
		}
		if f.extends && path != "google/protobuf/descriptor.proto" {
			_, _ = extended.Write(f.sum[:])
		}
	}
	extended.Sum(d.extensions[:0])
	ruled.Sum(d.rules[:0])
	return d
}

// of is the digest for a message and what it is derived with.
func (d *schemaDigests) of(md protoreflect.MessageDescriptor, with ...byte) [sha256.Size]byte {
	root := top(md)
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	names := []protoreflect.FullName{root.FullName()}
	d.learn(root)
	hash := sha256.New()
	_, _ = hash.Write(append(with, md.FullName()...))
	_, _ = hash.Write(d.rules[:])
	open := false
	for i := 0; i < len(names); i++ {
		u := d.units[names[i]]
		if u == nil {
			continue // it is in no file, which the field's own definition says
		}
		open = open || u.open
		for _, ref := range u.refs {
			if !seen[ref] {
				seen[ref] = true
				names = append(names, ref)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if u := d.units[name]; u != nil {
			_, _ = hash.Write(u.digest[:])
			if near, ok := d.resources[name]; ok {
				_, _ = hash.Write(near[:])
			}
		}
	}
	if open {
		_, _ = hash.Write(d.extensions[:])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// learn makes the units of a definition and all below it known.
func (d *schemaDigests) learn(of protoreflect.Descriptor) {
	todo := []protoreflect.Descriptor{of}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		d.learnFile(next.ParentFile())
		u := d.units[next.FullName()]
		md, isMessage := next.(protoreflect.MessageDescriptor)
		if u == nil || !isMessage || d.learned[next.FullName()] {
			continue
		}
		d.learned[next.FullName()] = true
		u.learn(md)
		each(md, func(ref protoreflect.Descriptor) { todo = append(todo, ref) })
	}
}

// learnFile takes the digests of all units of a file.
func (d *schemaDigests) learnFile(fd protoreflect.FileDescriptor) {
	if fd == nil || d.files[fd.Path()] {
		return
	}
	d.files[fd.Path()] = true
	f := d.linked.factsOf(fd.Path())
	near := slices.Clone(f.resources)
	for i := range fd.Imports().Len() {
		near = append(near, d.linked.factsOf(fd.Imports().Get(i).Path()).resources...)
	}
	for _, u := range f.units {
		name := f.pkg.Append(protoreflect.Name(u.name))
		d.units[name] = u.unit
		if len(near) > 0 {
			d.resources[name] = sha256.Sum256(near)
		}
	}
}

// maxShownName is how much of a name that no tool has an error shows.
const maxShownName = 128

// ErrUnknownTool is wrapped by the error for a name that no visible tool has.
var ErrUnknownTool = errors.New("unknown tool")

// ToolIO holds the schemas of one tool, as documents and compiled.
type ToolIO struct {
	// Tool is the identifier as requested, in either form.
	Tool string
	// Name is the tool's canonical name. Fingerprint is that of its schemas.
	Name, Fingerprint string
	// InputSchema is the canonical input schema: every form that ProtoJSON accepts. OutputSchema is the canonical output schema.
	// If the response's ProtoJSON form is not an object, it is the advertised one, which describes the object {"value": ...} that
	// callers get. It is nil if the tool has none.
	InputSchema, OutputSchema json.RawMessage
	// Input and Output are the two, compiled. Output accepts everything if the tool has no output schema.
	Input, Output *schema.Validator
}

// LoadToolIO returns the schemas of a tool, by its canonical or its MCP name. They are compiled once for each fingerprint, and
// kept as long as a catalog has it. The error wraps [ErrUnknownTool] or [schema.ErrInvalidSchema].
func (c *Catalog) LoadToolIO(toolID string) (*ToolIO, error) {
	t, ok := c.Lookup(toolID)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknownTool, strings.ToValidUTF8(toolID[:min(len(toolID), maxShownName)], ""))
	}
	kept := t.print
	if kept == nil {
		kept = newFingerprint(t.Input, t.Output)
	}
	kept.compileOnce.Do(func() { kept.compiled, kept.fault = t.compileIO() })
	if kept.fault != nil {
		return nil, kept.fault
	}
	io := kept.compiled
	io.Tool, io.Name, io.Fingerprint = toolID, t.Name, t.Fingerprint()
	return &io, nil
}

func (t *Tool) compileIO() (ToolIO, error) {
	io := ToolIO{InputSchema: t.Input.Canonical(), OutputSchema: t.Output.Canonical()}
	if t.OutputNotObject {
		io.OutputSchema = t.Output.Advertised()
	}
	var err error
	if io.Input, err = schema.Compile(io.InputSchema); err != nil {
		return ToolIO{}, fmt.Errorf("input schema of %s: %w", t.Name, err)
	}
	described := io.OutputSchema
	if len(described) == 0 {
		described = json.RawMessage("true")
	}
	if io.Output, err = schema.Compile(described); err != nil {
		return ToolIO{}, fmt.Errorf("output schema of %s: %w", t.Name, err)
	}
	return io, nil
}
