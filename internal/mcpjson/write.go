// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// members appends the members of a message without the braces around them.
func (w *writer) members(m proto.Message) {
	p := planOf(m)
	w.all(p, p.at(reflect.ValueOf(m)))
}

// object appends a message as an object.
func (w *writer) object(m proto.Message) { w.planned(planOf(m), reflect.ValueOf(m)) }

// array appends messages as an array. The field is where they are, for paths. There
// is no function value here and below, so that the writer stays on the stack.
func array[M proto.Message](w *writer, field string, messages []M) {
	var none M
	p := planOf(none)
	w.raw("[")
	w.enter(field)
	for i, m := range messages {
		w.comma()
		w.item(i)
		w.planned(p, reflect.ValueOf(m))
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// at returns the struct behind a pointer to a message, an empty one behind nil.
func (p *plan) at(pointer reflect.Value) reflect.Value {
	if pointer.IsNil() {
		return p.empty
	}
	return pointer.Elem()
}

// planned appends the message behind a pointer as an object.
func (w *writer) planned(p *plan, pointer reflect.Value) {
	w.raw("{")
	w.all(p, p.at(pointer))
	w.raw("}")
}

// all appends all members of a message.
func (w *writer) all(p *plan, message reflect.Value) {
	for _, m := range p.members {
		w.write(m, message)
	}
}

// write appends one member of a message, where it has a value or has to be there.
func (w *writer) write(m *member, message reflect.Value) {
	v := message.Field(m.index)
	if m.isPointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch m.kind {
	case kindText, kindTemplate:
		w.text(m, v.String())
	case kindFlag:
		if m.isPointer || v.Bool() {
			w.named(m)
			w.raw(boolText(v.Bool()))
		}
	case kindYes:
		if v.Bool() {
			w.named(m)
			w.raw("{}")
		}
	case kindInteger, kindNumber, kindWord:
		w.scalar(m, v)
	case kindBinary:
		w.binary(m, v.Bytes())
	case kindMoment:
		w.moment(m, v)
	case kindTexts, kindWords, kindObjects:
		w.elements(m, v)
	case kindBlocks:
		w.blocks(m, v)
	case kindObject, kindElicitationCap:
		if v.IsNil() && !m.Required {
			return
		}
		w.named(m)
		w.enter(m.field)
		w.planned(m.of, v)
		w.leave()
	case kindChoice, kindTagged:
		w.choose(m, v)
	case kindFreeForm:
		w.payload(m, v)
	default:
		w.special(m, message, v)
	}
}

// named begins a member.
func (w *writer) named(m *member) {
	key := m.key // begins with a comma
	if n := len(w.dst); n == w.start || w.dst[n-1] == '{' {
		key = key[1:]
	}
	w.dst = append(w.dst, key...)
}

// need keeps the fault of a member that has to have a value and has none.
func (w *writer) need(m *member) {
	if m.lacks != "" {
		w.failIn(m.field, "%s", m.lacks)
	}
}

// text appends a string, and leaves it out where it is empty and may be missing.
func (w *writer) text(m *member, s string) {
	if s == "" {
		w.need(m)
		if !m.always {
			return
		}
	}
	if len(m.In) > 0 && !m.isWord(s) {
		w.failIn(m.field, "Use one of the words that MCP knows here.")
	}
	if m.kind == kindTemplate && !isTemplate(s) {
		w.failIn(m.field, "Make it a URI template (RFC 6570).")
	}
	w.named(m)
	w.quote(s)
}

// scalar appends a number or an enum.
func (w *writer) scalar(m *member, v reflect.Value) {
	switch m.kind {
	case kindInteger:
		w.integer(m, v.Int())
	case kindNumber:
		w.number(m, v.Float())
	default:
		w.named(m)
		if n := v.Int(); !w.word(m, n) {
			w.failIn(m.field, "%s", m.lacks)
		}
	}
}

// integer appends an integer. One that has to be there is not 0.
func (w *writer) integer(m *member, n int64) {
	if n == 0 || m.Required && m.Min != nil && n < *m.Min {
		w.need(m)
	}
	w.named(m)
	w.dst = strconv.AppendInt(w.dst, n, 10)
}

// number appends a number, which has to be finite, because JSON knows no other.
func (w *writer) number(m *member, f float64) {
	switch {
	case m.Ranged && !(f >= m.Low && f <= m.High):
		w.failIn(m.field, "Make it a number from %v to %v.", m.Low, m.High)
	case !isFinite(f):
		w.failIn(m.field, "Make it a finite number; JSON knows no other.")
	default:
		w.named(m)
		w.dst = appendNumber(w.dst, f)
	}
}

// word appends a value of an enum, and reports whether there is a word for it.
func (w *writer) word(m *member, n int64) bool {
	if n <= 0 || int(n) >= len(m.enum) {
		return false
	}
	w.dst = append(w.dst, '"')
	w.raw(m.enum[n])
	w.dst = append(w.dst, '"')
	return true
}

func (w *writer) binary(m *member, b []byte) {
	if len(b) == 0 {
		w.need(m)
	}
	w.named(m)
	w.base64(b)
}

func (w *writer) moment(m *member, v reflect.Value) {
	t, _ := reflect.TypeAssert[*timestamppb.Timestamp](v)
	if t == nil && !m.Required {
		return
	}
	if t.CheckValid() != nil {
		w.failIn(m.field, "Make it a time between the years 1 and 9999.")
		return
	}
	w.named(m)
	w.time(t.AsTime())
}

// elements appends a list, and leaves it out where it is empty and may be missing.
func (w *writer) elements(m *member, v reflect.Value) {
	n := v.Len()
	if n == 0 && !m.always {
		return
	}
	w.named(m)
	w.raw("[")
	w.enter(m.field)
	for i := range n {
		w.comma()
		w.item(i)
		switch e := v.Index(i); m.kind {
		case kindTexts:
			w.quote(e.String())
		case kindWords:
			if !w.word(m, e.Int()) {
				w.fail("%s", m.lacks)
			}
		default:
			w.planned(m.of, e)
		}
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// blocks appends the blocks of a message. A single one has no array around it, which
// every revision understands.
func (w *writer) blocks(m *member, v reflect.Value) {
	if v.Len() != 1 {
		w.elements(m, v)
		return
	}
	w.named(m)
	w.enter(m.field)
	w.item(int(w.firstBlock))
	w.planned(m.of, v.Index(0))
	w.leave()
	w.leave()
}

// alternative returns the alternative of a oneof that is set, and the struct that
// wraps it.
func (m *member) alternative(v reflect.Value) (*member, reflect.Value) {
	if v.IsNil() {
		return nil, reflect.Value{}
	}
	wrapper := v.Elem()
	t := wrapper.Type()
	for _, a := range m.alternatives {
		if a.wrapper == t && !wrapper.IsNil() {
			return a, wrapper.Elem()
		}
	}
	return nil, reflect.Value{}
}

// choose appends the alternative of a oneof that is set. MCP flattens some behind the
// member "type".
func (w *writer) choose(m *member, v reflect.Value) {
	a, wrapper := m.alternative(v)
	switch {
	case a == nil:
		if m.lacks != "" {
			w.fail("%s", m.lacks)
		}
	case a.kind == kindLink && !w.rev.hasResourceLinks():
		w.linkText(wrapper)
	case m.kind == kindTagged:
		w.named(m)
		w.raw(a.tag)
		w.enter(a.field)
		w.all(a.of, a.of.at(wrapper.Field(0)))
		w.leave()
	default:
		w.write(a, wrapper)
	}
}

// forms returns the form of a payload that is set, and its name: the text, or a Struct
// or a Value.
func (m *member) forms(v reflect.Value) (field string, raw []byte, message proto.Message) {
	a, wrapper := m.alternative(v)
	switch {
	case a == nil:
		return m.field, nil, nil
	case a.kind == kindBinary:
		raw = wrapper.Field(0).Bytes()
	case !wrapper.Field(0).IsNil():
		message, _ = reflect.TypeAssert[proto.Message](wrapper.Field(0))
	}
	return a.field, raw, message
}

// payload appends a payload, unchanged, and reports whether one is set.
func (w *writer) payload(m *member, v reflect.Value) bool {
	field, raw, message := m.forms(v)
	if raw == nil && message == nil {
		w.need(m)
		if m.always {
			w.named(m)
			w.raw("{}")
		}
		return false
	}
	w.named(m)
	at := len(w.dst)
	w.form(field, raw, message)
	if m.isObject && w.err == nil && !jsontext.IsObject(w.dst[at:]) {
		w.failIn(field, "Make it a JSON object.")
	}
	return true
}
