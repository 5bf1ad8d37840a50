// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// ToWire appends the wire bytes of a document to dst. An *InputError lists what is wrong with the document, and a
// *RuleError means that a rule failed to run. A *DisagreementError occurs only with Options.Thorough. On an error, dst is
// returned unchanged. Neither argument is retained.
//
// The plan of the message reads the document. The general engine handles what the plan refuses, and the few messages that
// no plan supports. Its verdict is final, and it explains what is wrong.
func (m *Message) ToWire(dst, doc []byte) ([]byte, error) {
	return m.ToWireWith(context.Background(), nil, dst, doc)
}

// ToWireWith is ToWire for a caller that reuses buffers. If dst has no room for the wire bytes, whose number is known only
// now, the content of dst and the wire bytes are written to a buffer from pool. The check ends with the context, with an
// error that wraps the context's; a document that takes too much work to check is an *InputError.
func (m *Message) ToWireWith(ctx context.Context, pool BufferPool, dst, doc []byte) ([]byte, error) {
	if m.thorough != nil {
		plain, _ := m.plainObjects(doc)
		return m.checkedToWire(ctx, dst, plain)
	}
	out, ok := m.read(pool, dst, doc)
	if !ok && m.opts.QuotedObjects {
		if plain, isChanged := m.plainObjects(doc); isChanged {
			doc = plain
			out, ok = m.read(pool, dst, doc)
		}
	}
	if ok && (m.rules == nil || m.keeps(ctx, out[len(dst):], forInput)) {
		return out, nil
	}
	end, err := turn(ctx, len(doc))
	if err != nil {
		return dst, err
	}
	defer end()
	if !ok {
		return m.generalToWire(ctx, dst, doc)
	}
	msg, err := m.decode(out[len(dst):])
	if err != nil {
		return m.generalToWire(ctx, dst, doc)
	}
	if err := m.checkRules(ctx, msg, len(doc), forInput, doc); err != nil {
		return dst, err
	}
	return out, nil
}

// generalToWire does what ToWire promises by way of a message that protojson fills. The order of its steps is part of the
// promise: bounds and strict JSON come first, so that nothing is built from a document that breaks them; then the form;
// then rules, which can only be asked of a message. A caller gets all that is wrong at once: a document whose form is wrong is
// asked the rules too, without the values that no message can hold (alsoRules).
func (m *Message) generalToWire(ctx context.Context, dst, doc []byte) ([]byte, error) {
	if found := schema.Inspect(doc, m.opts.bounds()); len(found) > 0 {
		return dst, &InputError{Violations: found, Structural: true}
	}
	msg := dynamicpb.NewMessage(m.md)
	types := &opaqueTypes{Resolver: m.resolver, forInput: true}
	read := protojson.UnmarshalOptions{Resolver: types}
	if err := read.Unmarshal(m.emptied(m.unwrap(doc)), msg); err != nil {
		return dst, m.explain(ctx, doc, err, types.last)
	}
	if len(types.unknown) > 0 {
		w := anyWalk{types: types, change: outOfBytes}
		if _, err := w.message(msg, 1); err != nil {
			return dst, m.explain(ctx, doc, err, types.last)
		}
	}
	if m.traits.needsSchema {
		if err := m.checkStructure(ctx, doc); err != nil {
			return dst, m.alsoRules(ctx, err, msg, doc, nil)
		}
	}
	if err := m.checkRules(ctx, msg, len(doc), forInput, doc); err != nil {
		return dst, err
	}
	out, err := proto.MarshalOptions{AllowPartial: true}.MarshalAppend(dst, msg)
	if err != nil {
		return dst, &InputError{Structural: true, Violations: []schema.Violation{{Keyword: "encode", Message: plainError(err)}}}
	}
	return out, nil
}

// unwrap takes {"value": ...} apart where the root's own JSON is not an object.
func (m *Message) unwrap(doc []byte) []byte {
	if !m.wrapped {
		return doc
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || len(members) != 1 {
		return doc
	}
	if value, ok := members["value"]; ok {
		return value
	}
	return doc
}

// explain lists what the canonical schema finds in a document that protojson refused. protojson stops at the first fault
// and says where in the text; the schema finds all of them and says which value. What only protojson sees, such as
// the content of an Any, is reported where protojson stopped. unknown is the last
// type of an Any that was read as bytes, or "".
func (m *Message) explain(ctx context.Context, doc []byte, cause error, unknown string) error {
	v, err := m.full()
	if err != nil {
		return err
	}
	found, err := v.ValidateContext(ctx, doc)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		at, text := m.place(doc, cause), plainError(cause)
		if in, ok := m.placeOf(doc, unknown); ok && (at == "" || strings.HasPrefix(at, in)) {
			at, text = in+"/"+typeMember, unknownTypeText(unknown)
		}
		found = []schema.Violation{{Path: at, Keyword: "protojson", Message: text}}
	}
	refused := &InputError{Violations: schema.SortViolations(found, m.opts.limit()), Structural: true}
	if msg, rest, without := m.readRest(doc, refused.Violations); msg != nil {
		return m.alsoRules(ctx, refused, msg, rest, without)
	}
	return refused
}

// checkStructure asks the canonical schema for what protojson does not check: unknown numbers of closed enums, REQUIRED and
// OUTPUT_ONLY. The schema has no rules in it, which protovalidate checks next and words better.
func (m *Message) checkStructure(ctx context.Context, doc []byte) error {
	v, err := m.structure()
	if err != nil {
		return err
	}
	found, err := v.ValidateContext(ctx, doc)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return &InputError{Violations: schema.SortViolations(found, m.opts.limit()), Structural: true}
}

// position is how protojson says where it stopped.
var position = regexp.MustCompile(`\(line (\d+):(\d+)\):\s*`)

// place turns protojson's line and column into a JSON Pointer; columns count code points.
func (m *Message) place(doc []byte, cause error) string {
	at := position.FindStringSubmatch(cause.Error())
	if at == nil {
		return ""
	}
	inner := m.unwrap(doc)
	line, _ := strconv.Atoi(at[1])
	column, _ := strconv.Atoi(at[2])
	offset := 0
	for ; line > 1 && offset < len(inner); offset++ {
		if inner[offset] == '\n' {
			line--
		}
	}
	for ; column > 1 && offset < len(inner); column-- {
		_, size := utf8.DecodeRune(inner[offset:])
		offset += size
	}
	if len(inner) != len(doc) {
		return "/value" + schema.PointerAt(inner, offset)
	}
	return schema.PointerAt(inner, offset)
}

// placeOf is the JSON Pointer of the Any of a type, false where it cannot be found, as where the URL has escapes.
func (m *Message) placeOf(doc []byte, url string) (string, bool) {
	inner := m.unwrap(doc)
	offset := bytes.Index(inner, jsontext.AppendString(nil, url))
	if url == "" || offset < 0 {
		return "", false
	}
	at, ok := strings.CutSuffix(schema.PointerAt(inner, offset), "/"+typeMember)
	if len(inner) != len(doc) {
		at = "/value" + at
	}
	return at, ok
}

// plainError takes away what only protojson's own readers need. Its errors have no-break spaces, so that
// texts are not compared.
func plainError(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = position.ReplaceAllString(strings.TrimPrefix(text, "proto: "), "")
	return strings.TrimPrefix(text, "syntax error ")
}
