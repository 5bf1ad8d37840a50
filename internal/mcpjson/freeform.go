// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// maxFreeFormBytes is the largest max_len of a payload in the contract.
	maxFreeFormBytes = 64 << 20
	// maxFreeFormDepth is what the JSON-RPC edges admit from callers, too: what
	// one side sends, the other must be able to send on.
	maxFreeFormDepth = defaults.MaxJSONDepth
)

// FreeForm returns a payload as compact JSON on one line, whichever of its forms is
// set: the JSON text, or a google.protobuf Struct, Value or ListValue. Nil bytes and a
// nil message mean that the payload is absent, and the result is nil.
//
// The text must be strict JSON: UTF-8, RFC 8259, no duplicate names, no lone
// surrogates, at most 64 levels deep. Text that is already compact is returned
// unchanged, so the result may alias it. A Struct is written with sorted names and has
// the same limits. Anything else is an *InvalidError with a path relative to the
// payload.
func FreeForm(bytesForm []byte, structForm proto.Message) ([]byte, error) {
	w := newWriter(nil, Rev20260728)
	out := w.freeForm(bytesForm, structForm)
	if w.err != nil {
		return nil, w.err
	}
	return out, nil
}

// freeForm is FreeForm that keeps its fault.
func (w *writer) freeForm(text []byte, m proto.Message) []byte {
	if text != nil {
		switch {
		case !w.check(text):
			return nil
		case jsontext.IsCompact(text):
			return text
		}
		return jsontext.Compact(make([]byte, 0, len(text)), text)
	}
	if isAbsent(m) {
		return nil
	}
	inner := newWriter(nil, w.rev)
	inner.trail = w.trail
	inner.message(m)
	w.err = inner.err
	return inner.dst
}

// isAbsent reports whether a message is nil, with a type or without.
func isAbsent(m proto.Message) bool { return m == nil || !m.ProtoReflect().IsValid() }

// check keeps what makes the text unfit to be passed on.
func (w *writer) check(text []byte) bool {
	if len(text) == 0 {
		w.fail("It is set and empty; give it one JSON value.")
		return false
	}
	limits := jsonrpc.Limits{MaxBytes: maxFreeFormBytes, MaxDepth: maxFreeFormDepth}
	if fault := jsonrpc.Check(text, limits); fault != nil {
		w.failBelow(fault.Path, "It is no JSON that can be passed on: %s", fault.Reason)
		return false
	}
	return true
}

// formName is the name of the form of a payload that is set, made of that of the text.
func formName(field string, text []byte) string {
	if text == nil {
		return strings.TrimSuffix(field, "_json")
	}
	return field
}

// form appends a payload of which one form is set, whose name is given.
func (w *writer) form(field string, text []byte, m proto.Message) {
	w.enter(field)
	switch {
	case text == nil:
		w.message(m)
	case w.check(text):
		w.dst = jsontext.Compact(w.dst, text)
	}
	w.leave()
}

// message appends one of the three messages that stand for JSON.
func (w *writer) message(m proto.Message) {
	switch m := m.(type) {
	case *structpb.Struct:
		w.structure(m, 1)
	case *structpb.Value:
		w.dynamic(m, 0)
	case *structpb.ListValue:
		w.array(m, 1)
	default:
		w.fail("Only a Struct, a Value or a ListValue stands for JSON.")
	}
}

// dynamic appends a Value; depth is the number of open containers.
func (w *writer) dynamic(v *structpb.Value, depth int) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		w.raw("null")
	case *structpb.Value_BoolValue:
		w.raw(boolText(kind.BoolValue))
	case *structpb.Value_NumberValue:
		if !isFinite(kind.NumberValue) {
			w.fail("Make it a finite number; JSON knows no other.")
			return
		}
		w.dst = appendNumber(w.dst, kind.NumberValue)
	case *structpb.Value_StringValue:
		w.dynamicText(kind.StringValue)
	case *structpb.Value_StructValue:
		w.structure(kind.StructValue, depth+1)
	case *structpb.Value_ListValue:
		w.array(kind.ListValue, depth+1)
	default:
		w.fail("Set one of the kinds of this Value; null is one.")
	}
}

func (w *writer) structure(s *structpb.Struct, depth int) {
	if !w.mayNest(depth) {
		return
	}
	w.raw("{")
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		w.comma()
		w.enter(name)
		w.dynamicText(name)
		w.raw(":")
		w.dynamic(s.GetFields()[name], depth)
		w.leave()
	}
	w.raw("}")
}

func (w *writer) array(l *structpb.ListValue, depth int) {
	if !w.mayNest(depth) {
		return
	}
	w.raw("[")
	for i, v := range l.GetValues() {
		w.comma()
		w.item(i)
		w.dynamic(v, depth)
		w.leave()
	}
	w.raw("]")
}

// mayNest keeps the recursion within bounds.
func (w *writer) mayNest(depth int) bool {
	if depth > maxFreeFormDepth {
		w.fail("Nest objects and arrays at most %d levels deep.", maxFreeFormDepth)
		return false
	}
	return w.err == nil
}

// dynamicText appends a string that did not have to pass Protobuf's own check.
func (w *writer) dynamicText(s string) {
	if !utf8.ValidString(s) {
		w.fail("Make it valid UTF-8.")
	}
	w.quote(s)
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
