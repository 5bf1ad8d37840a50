// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Bounds of a schema: schema.Options.MaxBytes and MaxSchemas where they are unset.
const (
	maxBytes   = 1 << 20
	maxSchemas = 20_000
)

// profiles are all kinds of client that advertised schemas are written for.
func profiles() []schema.Profile { return []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} }

// subject is one message with all that is proved of it.
type subject struct {
	md      protoreflect.MessageDescriptor
	types   *sources.Types
	message *transcode.Message
	// The same as it serves the strict profile.
	quoted *transcode.Message

	// The schemas of each profile; the canonical ones are the same in all.
	input, output []schemaPair
	sizes         []int
	wrapped       bool // as an output
	wrappedInput  bool
	hasRules      bool // protovalidate's, on which random values say nothing
	open          bool // left open somewhere, in any of the schemas
}

type schemaPair struct{ canonical, advertised *schema.Validator }

// newSubject derives and compiles everything; the error says what could not be.
func newSubject(t *transcoders, types *sources.Types, md protoreflect.MessageDescriptor) (*subject, error) {
	s := &subject{md: md, types: types, wrappedInput: schema.IsWrapped(md, schema.Input)}
	s.hasRules = hasRules(md, types)
	for _, profile := range profiles() {
		opts := schema.Options{Profile: profile, Extensions: types}
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			derived, err := schema.Derive(md, dir, opts)
			if err != nil {
				return nil, fmt.Errorf("derive: %w", err)
			}
			pair, err := s.compile(derived)
			if err != nil {
				return nil, fmt.Errorf("direction %d: %w", dir, err)
			}
			if dir == schema.Input {
				s.input = append(s.input, pair)
			} else {
				s.output, s.wrapped = append(s.output, pair), derived.Wrapped
			}
			s.open = s.open || profile == schema.ProfileMCP && len(derived.Warnings) > 0
		}
	}
	for from, into := range map[*transcode.Transcoder]**transcode.Message{t.standard: &s.message, t.quoted: &s.quoted} {
		var err error
		if *into, err = from.Compile(md); err != nil {
			return nil, fmt.Errorf("compile transcoder: %w", err)
		}
	}
	return s, nil
}

// transcoders share one set of types.
type transcoders struct{ standard, quoted *transcode.Transcoder }

func newTranscoders(types *sources.Types) *transcoders {
	return &transcoders{
		standard: transcode.New(transcode.Options{Resolver: types}),
		quoted:   transcode.New(transcode.Options{Resolver: types, QuotedObjects: true}),
	}
}

func (s *subject) compile(derived *schema.Schema) (schemaPair, error) {
	var out schemaPair
	for raw, into := range map[*json.RawMessage]**schema.Validator{&derived.Canonical: &out.canonical, &derived.Advertised: &out.advertised} {
		s.sizes = append(s.sizes, len(*raw))
		if len(*raw) > maxBytes {
			return out, fmt.Errorf("schema has %d bytes, over %d", len(*raw), maxBytes)
		}
		v, err := schema.Compile(*raw)
		if err != nil {
			return out, err
		}
		if n := countObjects(v.Document()); n > maxSchemas {
			return out, fmt.Errorf("schema has %d objects, over %d", n, maxSchemas)
		}
		*into = v
	}
	// What every client asks of the root: an object, and no choice of several.
	root, _ := out.advertised.Document().(map[string]any)
	if root["type"] != "object" {
		return out, fmt.Errorf("the advertised root is not an object but %v", root["type"])
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf", "not", "$ref"} {
		if _, ok := root[keyword]; ok {
			return out, fmt.Errorf("the advertised root has %s", keyword)
		}
	}
	return out, nil
}

func countObjects(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, below := range v {
			n += countObjects(below)
		}
	case []any:
		for _, below := range v {
			n += countObjects(below)
		}
	}
	return n
}

// hasRules holds for messages that carry protovalidate's rules, or have one below that does.
func hasRules(root protoreflect.MessageDescriptor, types schema.Extensions) bool {
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	for queue := []protoreflect.MessageDescriptor{root}; len(queue) > 0; queue = queue[1:] {
		md := queue[0]
		if schema.HasRules(md) {
			return true
		}
		for i := range md.Oneofs().Len() {
			if schema.HasRules(md.Oneofs().Get(i)) {
				return true
			}
		}
		for _, fd := range fieldsOf(md, types) {
			if schema.HasRules(fd) {
				return true
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if below := fd.Message(); below != nil && !seen[below.FullName()] {
				seen[below.FullName()] = true
				queue = append(queue, below)
			}
		}
	}
	return false
}

// cannotRun says why random messages prove nothing about a message, or "".
func (s *subject) cannotRun() string {
	switch {
	case isMessageSet(s.md):
		return "message sets have no JSON"
	case s.hasRules:
		return "has rules of protovalidate, which random values break"
	default:
		return ""
	}
}

// refusal says why a schema refuses a document, or "".
func refusal(v *schema.Validator, doc []byte) string {
	found, err := v.Validate(doc)
	if err != nil {
		return err.Error()
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("at %q: %s: %s", found[0].Path, found[0].Keyword, found[0].Message)
}
