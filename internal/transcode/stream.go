// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Stream transcodes the arguments of a tool that takes a stream of messages, {"items": [...]}, one message at a time. It is
// immutable and safe for concurrent use. Make one with [Transcoder.Stream].
type Stream struct {
	message *Message
	of      schema.Stream
	root    func() (*schema.Validator, error)
}

// Stream returns the transcoder of a stream of a message. If header is not nil, the arguments also have a "header" with the
// value of that field of the message.
func (t *Transcoder) Stream(m *Message, header protoreflect.FieldDescriptor) *Stream {
	s := &Stream{message: m, of: schema.Stream{Header: header}}
	s.root = sync.OnceValues(func() (*schema.Validator, error) { return schema.Compile(s.of.RootSchema()) })
	return s
}

// Header returns the field whose value comes as the header; nil if there is none.
func (s *Stream) Header() protoreflect.FieldDescriptor { return s.of.Header }

// keywordMaxItems is the keyword of the violation that [Stream.Split] reports for too many items.
const keywordMaxItems = "maxItems"

// TooManyItems reports whether violations are those of more items than [Stream.Split] takes.
func TooManyItems(found []schema.Violation) bool {
	return len(found) == 1 && found[0].Keyword == keywordMaxItems && found[0].Path == itemsPath
}

const (
	itemsPath  = "/" + schema.ItemsMember
	headerPath = "/" + schema.HeaderMember
)

// Split checks the arguments without their messages, and returns the JSON of each: the header, nil where the stream has
// none, and at most so many items. They alias doc. The error is an *InputError.
func (s *Stream) Split(doc []byte, most int) (header []byte, items [][]byte, err error) {
	if found := schema.Inspect(doc, s.message.opts.bounds()); len(found) > 0 {
		return nil, nil, &InputError{Violations: found, Structural: true}
	}
	if !jsontext.IsObject(jsontext.Trim(doc)) {
		return nil, nil, s.broken(doc)
	}
	count, unknown := 0, false
	for name, value := range jsontext.Members(doc) {
		switch {
		case name == schema.ItemsMember && value[0] == '[':
			for item := range jsontext.Elements(value) {
				if count++; count <= most {
					items = append(items, item)
				}
			}
		case name == schema.HeaderMember && s.of.Header != nil:
			header = value
		default:
			unknown = true
		}
	}
	if _, ok := jsontext.Lookup(doc, schema.ItemsMember); unknown || !ok || s.of.Header != nil && header == nil {
		return nil, nil, s.broken(skeleton(doc))
	}
	if jsontext.IsNull(header) && !schema.TakesNull(s.of.Header) {
		return nil, nil, &InputError{Structural: true, Violations: []schema.Violation{{
			Path: headerPath, Keyword: "type", Message: "wanted a value, found null",
		}}}
	}
	if count > most {
		return nil, nil, &InputError{Violations: []schema.Violation{{
			Path: itemsPath, Keyword: keywordMaxItems, Message: fmt.Sprintf("%d items; at most %d are allowed", count, most),
		}}}
	}
	return header, items, nil
}

// skeleton is a document with nothing in its items and its header, which have a check of their own.
func skeleton(doc []byte) []byte {
	out := []byte{'{'}
	for name, value := range jsontext.Members(doc) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendString(out, name), ':')
		switch {
		case name == schema.ItemsMember && value[0] == '[':
			out = append(out, "[]"...)
		case name == schema.ItemsMember:
			out = append(out, value...)
		default:
			out = append(out, "null"...)
		}
	}
	return append(out, '}')
}

// broken says what is wrong with a document that is known to be.
func (s *Stream) broken(doc []byte) error {
	v, err := s.root()
	if err != nil {
		return err
	}
	found, err := v.Validate(doc)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("transcode: the check of a stream's arguments disagrees with their schema")
	}
	return &InputError{Violations: found, Structural: true}
}

// HeaderToWire appends the wire bytes of the message with the header alone. Errors are those of [Message.ToWire]; paths
// count from the arguments.
func (s *Stream) HeaderToWire(ctx context.Context, dst, raw []byte) ([]byte, error) {
	out, err := s.message.ToWireWith(ctx, nil, dst, s.headerMessage(raw))
	return out, replaced(err, "/"+s.headerName(), headerPath)
}

// ItemToWire appends the wire bytes of the item with a position, which counts from 0. Errors are those of
// [Message.ToWire]; paths count from the arguments.
func (s *Stream) ItemToWire(ctx context.Context, pool BufferPool, dst []byte, position int, raw []byte) ([]byte, error) {
	if s.message.opts.QuotedObjects && openingOf(s.message.md) == '{' {
		if plain := UnquoteObject(raw); plain != nil {
			raw = plain
		}
	}
	out, err := s.message.ToWireWith(ctx, pool, dst, raw)
	return out, replaced(err, "", itemPath(position))
}

func itemPath(position int) string { return itemsPath + "/" + strconv.Itoa(position) }

func (s *Stream) headerName() string { return schema.Names(s.of.Header)[0] }

// headerMessage is the JSON of the message with the header alone.
func (s *Stream) headerMessage(raw []byte) []byte {
	doc := jsontext.AppendString([]byte{'{'}, s.headerName())
	return append(append(append(doc, ':'), raw...), '}')
}

// replaced replaces the start of the paths of an *InputError. A path that does not begin so is that of the message as a
// whole, or of a member that it lacks.
func replaced(err error, from, to string) error {
	var broken *InputError
	if err == nil || !errors.As(err, &broken) {
		return err
	}
	out := &InputError{Structural: broken.Structural, Violations: slices.Clone(broken.Violations)}
	for i := range out.Violations {
		v := &out.Violations[i]
		rest, ok := strings.CutPrefix(v.Path, from)
		if !ok || rest != "" && rest[0] != '/' {
			rest = ""
		}
		v.Path = to + rest
	}
	return out
}

// Unquote is [Message.Unquote] for the arguments without their messages: a list of items, or a header, that is in a string.
func (s *Stream) Unquote(doc []byte) (plain []byte, places []string) {
	if !jsontext.IsObject(jsontext.Trim(doc)) || len(schema.Inspect(doc, s.message.opts.bounds())) > 0 {
		return doc, nil
	}
	plain = doc
	if items, ok := jsontext.Lookup(doc, schema.ItemsMember); ok && unquotedIn(items, "[") != nil {
		if changed := UnquoteAt(plain, itemsPath); changed != nil {
			plain, places = changed, append(places, itemsPath)
		}
	}
	return plain, places
}

// UnquoteHeader is [Message.Unquote] for the header.
func (s *Stream) UnquoteHeader(raw []byte) (plain []byte, places []string) {
	doc, found := s.message.Unquote(s.headerMessage(raw))
	if len(found) == 0 {
		return raw, nil
	}
	plain, ok := jsontext.Lookup(doc, s.headerName())
	if !ok {
		return raw, nil
	}
	for _, place := range found {
		places = append(places, headerPath+strings.TrimPrefix(place, "/"+s.headerName()))
	}
	return plain, places
}

// UnquoteItem is [Message.Unquote] for the item with a position, which may be in a string itself.
func (s *Stream) UnquoteItem(position int, raw []byte) (plain []byte, places []string) {
	at := itemPath(position)
	if openingOf(s.message.md) == '{' {
		if content := UnquoteObject(raw); content != nil {
			return content, []string{at}
		}
	}
	plain, places = s.message.Unquote(raw)
	for i, place := range places {
		places[i] = at + place
	}
	return plain, places
}

// Check returns the first fault of whole arguments, in the order in which they would be sent.
func (s *Stream) Check(doc []byte, most int) error {
	header, items, err := s.Split(doc, most)
	if err != nil {
		return err
	}
	var wire []byte
	if header != nil {
		if _, err := s.HeaderToWire(context.Background(), nil, header); err != nil {
			return err
		}
	}
	for i, item := range items {
		if wire, err = s.ItemToWire(context.Background(), nil, wire[:0], i, item); err != nil {
			return err
		}
	}
	return nil
}
