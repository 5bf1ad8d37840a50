// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/redact"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// binder gives tools their schemas and transcoders. Many methods share a message, so each is compiled once per build.
type binder struct {
	types      *Types
	profile    schema.Profile
	schemas    *schema.Options
	transcoder *transcode.Transcoder
	digests    *schemaDigests
	room       *schema.Room
	inputs     map[protoreflect.FullName]*schema.Lazy
	outputs    map[protoreflect.FullName]*schema.Lazy
	streams    map[protoreflect.FullName]*schema.Lazy
	// taken are the inputs of methods that take a stream, by their digests.
	taken    map[source.Digest]*schema.Lazy
	messages map[protoreflect.FullName]compiled
}

// httpBody is the message that carries any document with its media type.
const httpBody protoreflect.FullName = "google.api.HttpBody"

// keptSchemas is how much text of schemas that were asked for a catalog keeps: the lists of about 2,000 tools.
const keptSchemas = 16 << 20

// compiled is a message's transcoder, or why it has none.
type compiled struct {
	message *transcode.Message
	err     error
}

// newBinder makes a binder for about as many messages and tools.
func newBinder(linked *linker, types *Types, o BuildOptions, messages, tools int) *binder {
	return &binder{
		types: types, profile: o.Profile, schemas: &schema.Options{Profile: o.Profile, Extensions: types, Needs: new(schema.Needs)},
		transcoder: transcode.New(transcode.Options{
			IsSecret: redact.IsSecret,
			Resolver: types, QuotedObjects: o.Profile == schema.ProfileStrict, Thorough: o.Thorough, Disagreed: o.Disagreed,
			MaxDepth: o.MaxDepth,
		}),
		digests:  newSchemaDigests(linked),
		room:     schema.NewRoom(keptSchemas),
		inputs:   make(map[protoreflect.FullName]*schema.Lazy, tools),
		outputs:  make(map[protoreflect.FullName]*schema.Lazy, tools),
		streams:  map[protoreflect.FullName]*schema.Lazy{},
		taken:    map[source.Digest]*schema.Lazy{},
		messages: make(map[protoreflect.FullName]compiled, messages),
	}
}

// bind fills in the tool's schemas, transcoders and fingerprint. The header is that of a stream of requests; nil for none.
func (b *binder) bind(t *Tool, header protoreflect.FieldDescriptor) error {
	in, out := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	if in.IsPlaceholder() || out.IsPlaceholder() {
		return errors.New("its request or response message is not in the descriptors")
	}
	var err error
	t.Output = b.schema(out, schema.Output)
	if t.In, err = b.message(in); err != nil {
		return fmt.Errorf("transcoder of %s: %w", in.FullName(), err)
	}
	if t.Out, err = b.message(out); err != nil {
		return fmt.Errorf("transcoder of %s: %w", out.FullName(), err)
	}
	if t.Method.ClientStreaming {
		t.Stream, t.Input = b.transcoder.Stream(t.In, header), b.stream(in, header, b.streamDigest(in, header))
	} else {
		t.Input = b.schema(in, schema.Input)
	}
	t.HTTPBody = out.FullName() == httpBody && !(t.Method.ClientStreaming && t.Streams())
	if t.Streams() && !t.Method.ClientStreaming {
		t.BytesField = onlyBytes(out)
	}
	switch {
	case t.IsDocument():
		t.Output = schema.Fixed(&schema.Schema{})
	case t.Streams():
		t.Output = b.gathered(out, t.Output)
	default:
		t.OutputNotObject = t.Output.Wrapped
	}
	t.print = newFingerprint(t.Input, t.Output)
	return nil
}

// showResponses gives a tool an output schema of its own, with examples of the RPC's responses. It reports whether it did: only
// a tool whose results are the responses shows them.
func (b *binder) showResponses(t *Tool, examples []string) bool {
	if len(examples) == 0 || t.Operation != nil || t.Streams() || t.IsDocument() || b.profile == schema.ProfileStrict {
		return false
	}
	opts := *b.schemas
	opts.Examples = examples
	t.Output = schema.Defer(t.Method.Descriptor.Output(), schema.Output, &opts, extended(t.Output.Digest(), examples), b.room)
	t.print = newFingerprint(t.Input, t.Output)
	return true
}

// showWords gives a tool an input schema of its own, with descriptions of fields. The header is that of a stream of requests;
// nil for none.
func (b *binder) showWords(t *Tool, header protoreflect.FieldDescriptor, words map[protoreflect.FullName]string) {
	opts := *b.schemas
	opts.Words = words
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(words)) {
		texts = append(texts, string(name), words[name])
	}
	in, digest := t.Method.Descriptor.Input(), extended(t.Input.Digest(), texts)
	if t.TakesStream() {
		t.Input = schema.DeferStream(in, schema.Stream{Header: header}, &opts, digest, b.room)
	} else {
		t.Input = schema.Defer(in, schema.Input, &opts, digest, b.room)
	}
	t.Words, t.print = words, newFingerprint(t.Input, t.Output)
}

// extended is the digest of what a schema with the digest becomes with more texts.
func extended(digest source.Digest, texts []string) source.Digest {
	hash := sha256.New()
	_, _ = hash.Write(digest[:])
	for _, text := range texts {
		_, _ = hash.Write(append(binary.AppendUvarint(nil, uint64(len(text))), text...))
	}
	return source.Digest(hash.Sum(nil))
}

// onlyBytes returns the number of the only field of a message if that is a single one of
// type bytes, else 0. Streams of such messages are documents in parts. A field that is
// marked as secret stays a field: records know by it what to leave out.
func onlyBytes(md protoreflect.MessageDescriptor) protowire.Number {
	if md.Fields().Len() != 1 {
		return 0
	}
	field := md.Fields().Get(0)
	if field.Kind() != protoreflect.BytesKind || field.IsList() || redact.IsSecret(field) {
		return 0
	}
	return field.Number()
}

func (b *binder) schema(md protoreflect.MessageDescriptor, dir schema.Direction) *schema.Lazy {
	if known := b.cache(dir)[md.FullName()]; known != nil {
		return known
	}
	return b.deferred(md, dir, b.digests.of(md, byte(dir), byte(b.profile)))
}

func (b *binder) cache(dir schema.Direction) map[protoreflect.FullName]*schema.Lazy {
	if dir == schema.Input {
		return b.inputs
	}
	return b.outputs
}

// deferred is the schema of a message whose digest is known.
func (b *binder) deferred(md protoreflect.MessageDescriptor, dir schema.Direction, digest source.Digest) *schema.Lazy {
	cache := b.cache(dir)
	if cache[md.FullName()] == nil {
		cache[md.FullName()] = schema.Defer(md, dir, b.schemas, digest, b.room)
	}
	return cache[md.FullName()]
}

// gathered is the schema of a stream of messages.
func (b *binder) gathered(md protoreflect.MessageDescriptor, one *schema.Lazy) *schema.Lazy {
	if known := b.streams[md.FullName()]; known != nil {
		return known
	}
	return b.gatheredAs(md, one, b.digests.of(md, streamed, byte(b.profile)))
}

// gatheredAs is the same where the digest is known.
func (b *binder) gatheredAs(md protoreflect.MessageDescriptor, one *schema.Lazy, digest source.Digest) *schema.Lazy {
	if b.streams[md.FullName()] == nil {
		b.streams[md.FullName()] = gathered(one, md, digest, b.room)
	}
	return b.streams[md.FullName()]
}

// stream is the schema of the arguments with a stream of messages.
func (b *binder) stream(md protoreflect.MessageDescriptor, header protoreflect.FieldDescriptor, digest source.Digest) *schema.Lazy {
	if b.taken[digest] == nil {
		b.taken[digest] = schema.DeferStream(md, schema.Stream{Header: header}, b.schemas, digest, b.room)
	}
	return b.taken[digest]
}

// streamDigest is that of a stream's schema.
func (b *binder) streamDigest(md protoreflect.MessageDescriptor, header protoreflect.FieldDescriptor) source.Digest {
	with := []byte{streamTaken, byte(b.profile)}
	if header != nil {
		with = append(with, header.FullName()...)
	}
	return b.digests.of(md, append(with, 0)...)
}

// streamed stands for the direction of a stream's schema in digests.
const streamed = 2

// streamTaken stands for the direction of a stream of requests.
const streamTaken = 3

func (b *binder) message(md protoreflect.MessageDescriptor) (*transcode.Message, error) {
	got, ok := b.messages[md.FullName()]
	if !ok {
		got.message, got.err = b.transcoder.Compile(md)
		b.messages[md.FullName()] = got
	}
	return got.message, got.err
}

// messageAgain is the transcoder of a message that an earlier build compiled.
func (b *binder) messageAgain(md protoreflect.MessageDescriptor, old *transcode.Message) (*transcode.Message, error) {
	got, ok := b.messages[md.FullName()]
	if !ok {
		got.message, got.err = b.transcoder.Again(old)
		b.messages[md.FullName()] = got
	}
	return got.message, got.err
}

// again gives a tool that was kept schemas and transcoders of this build.
func (b *binder) again(t *Tool) error {
	in, out := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	input, output := t.Input.Digest(), t.Output.Digest()
	var err error
	if t.In, err = b.messageAgain(in, t.In); err != nil {
		return err
	}
	if t.TakesStream() {
		header := t.Stream.Header()
		t.Stream, t.Input = b.transcoder.Stream(t.In, header), b.stream(in, header, input)
	} else {
		t.Input = b.deferred(in, schema.Input, input)
	}
	if t.Out, err = b.messageAgain(out, t.Out); err != nil {
		return err
	}
	switch {
	case t.IsDocument():
		// Its schema holds nothing.
	case t.Streams():
		t.Output = b.gatheredAs(out, b.schema(out, schema.Output), output)
	default:
		t.Output = b.deferred(out, schema.Output, output)
	}
	t.print = newFingerprint(t.Input, t.Output)
	return nil
}
