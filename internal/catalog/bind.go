// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// binder gives tools their schemas and transcoders. Many methods share a message, so each is compiled once per build.
type binder struct {
	types      *Types
	profile    schema.Profile
	transcoder *transcode.Transcoder
	inputs     map[protoreflect.FullName]bound
	outputs    map[protoreflect.FullName]bound
	streams    map[protoreflect.FullName]*schema.Schema
	messages   map[protoreflect.FullName]compiled
	// fingerprints are those that were made ahead.
	fingerprints map[schemaPair]string
}

// httpBody is the message that carries any document with its media type.
const httpBody protoreflect.FullName = "google.api.HttpBody"

// bound is a message's schema for one direction, or why it has none.
type bound struct {
	schema *schema.Schema
	err    error
}

// compiled is a message's transcoder, or why it has none.
type compiled struct {
	message *transcode.Message
	err     error
}

func newBinder(types *Types, o BuildOptions) *binder {
	return &binder{
		types: types, profile: o.Profile, transcoder: transcode.New(transcode.Options{
			Resolver: types, QuotedObjects: o.Profile == schema.ProfileStrict, Thorough: o.Thorough, Disagreed: o.Disagreed,
			MaxDepth: o.MaxDepth,
		}),
		inputs:   map[protoreflect.FullName]bound{},
		outputs:  map[protoreflect.FullName]bound{},
		streams:  map[protoreflect.FullName]*schema.Schema{},
		messages: map[protoreflect.FullName]compiled{},

		fingerprints: map[schemaPair]string{},
	}
}

// bind fills in the tool's schemas, transcoders and fingerprint.
func (b *binder) bind(t *Tool) error {
	in, out := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	if in.IsPlaceholder() || out.IsPlaceholder() {
		return errors.New("its request or response message is not in the descriptors")
	}
	var err error
	if t.Input, err = b.schema(in, schema.Input); err != nil {
		return fmt.Errorf("input schema of %s: %w", in.FullName(), err)
	}
	if t.Output, err = b.schema(out, schema.Output); err != nil {
		return fmt.Errorf("output schema of %s: %w", out.FullName(), err)
	}
	if t.In, err = b.message(in); err != nil {
		return fmt.Errorf("transcoder of %s: %w", in.FullName(), err)
	}
	if t.Out, err = b.message(out); err != nil {
		return fmt.Errorf("transcoder of %s: %w", out.FullName(), err)
	}
	switch {
	case t.Streams():
		t.Output = b.gathered(out, t.Output)
	case !t.Method.ClientStreaming && out.FullName() == httpBody:
		t.HTTPBody, t.Output = true, &schema.Schema{}
	default:
		t.OutputNotObject = t.Output.Wrapped
	}
	if made, ok := b.fingerprints[schemaPair{t.Input, t.Output}]; ok {
		t.Fingerprint = made
		return nil
	}
	t.Fingerprint, err = toolFingerprint(t.Input.Canonical, t.Output.Canonical)
	return err
}

func (b *binder) schema(md protoreflect.MessageDescriptor, dir schema.Direction) (*schema.Schema, error) {
	cache := b.cache(dir)
	got, ok := cache[md.FullName()]
	if !ok {
		got = b.derive(md, dir)
		cache[md.FullName()] = got
	}
	return got.schema, got.err
}

// cache holds the schemas of one direction by their messages.
func (b *binder) cache(dir schema.Direction) map[protoreflect.FullName]bound {
	if dir == schema.Input {
		return b.inputs
	}
	return b.outputs
}

// derive may be called concurrently.
func (b *binder) derive(md protoreflect.MessageDescriptor, dir schema.Direction) (out bound) {
	out.schema, out.err = schema.Derive(md, dir, schema.Options{Profile: b.profile, Extensions: b.types})
	return out
}

// gathered is the schema of a stream of messages.
func (b *binder) gathered(md protoreflect.MessageDescriptor, one *schema.Schema) *schema.Schema {
	if b.streams[md.FullName()] == nil {
		b.streams[md.FullName()] = gathered(one, md)
	}
	return b.streams[md.FullName()]
}

func (b *binder) message(md protoreflect.MessageDescriptor) (*transcode.Message, error) {
	got, ok := b.messages[md.FullName()]
	if !ok {
		got.message, got.err = b.transcoder.Compile(md)
		b.messages[md.FullName()] = got
	}
	return got.message, got.err
}
