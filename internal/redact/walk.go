// SPDX-License-Identifier: Apache-2.0

package redact

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// maxMessageDepth bounds the recursion along a message type. Protobuf parsers stop at 100
// nested messages; what is deeper is left out as a whole.
const maxMessageDepth = 256

// AppendMessage is AppendPayload for the JSON form of a message: its secret fields are
// redacted by where they are, and other members by their names.
func (r Redactor) AppendMessage(dst, raw []byte, size, limit int, m *Message) []byte {
	if m == nil || size == 0 || size > limit || !isJSON(raw) {
		return r.AppendPayload(dst, raw, size, limit)
	}
	w := walker{names: r, raw: raw, dst: dst}
	w.value(jsontext.SkipSpace(raw, 0), field{message: m}, 0)
	return w.dst
}

// walker copies one valid JSON text along a message type.
type walker struct {
	names Redactor
	raw   []byte
	dst   []byte
}

// value copies the value of a field at pos and returns the position behind it.
func (w *walker) value(pos int, f field, depth int) (end int) {
	switch {
	case depth > maxMessageDepth:
		w.dst = append(w.dst, redacted...)
		return jsontext.SkipValue(w.raw, pos)
	case w.raw[pos] == '{':
		return w.object(pos, f, depth)
	case w.raw[pos] == '[':
		return w.array(pos, f, depth)
	}
	end = jsontext.SkipValue(w.raw, pos)
	w.dst, _ = w.names.append(w.dst, w.raw[pos:end], 0)
	return end
}

func (w *walker) array(pos int, f field, depth int) (end int) {
	w.dst = append(w.dst, '[')
	pos = jsontext.SkipSpace(w.raw, pos+1)
	for w.raw[pos] != ']' {
		if w.raw[pos] == ',' {
			w.dst = append(w.dst, ',')
			pos = jsontext.SkipSpace(w.raw, pos+1)
		}
		pos = jsontext.SkipSpace(w.raw, w.value(pos, f, depth+1))
	}
	w.dst = append(w.dst, ']')
	return pos + 1
}

// object copies an object. Members that the type does not have go on with the same type:
// nothing that a message may hold is left out of sight.
func (w *walker) object(pos int, f field, depth int) (end int) {
	w.dst = append(w.dst, '{')
	pos = jsontext.SkipSpace(w.raw, pos+1)
	for w.raw[pos] != '}' {
		if w.raw[pos] == ',' {
			w.dst = append(w.dst, ',')
			pos = jsontext.SkipSpace(w.raw, pos+1)
		}
		nameEnd := jsontext.SkipString(w.raw, pos)
		name := w.raw[pos:nameEnd]
		w.dst = append(append(w.dst, name...), ':')
		pos = jsontext.SkipSpace(w.raw, jsontext.SkipSpace(w.raw, nameEnd)+1)
		pos = jsontext.SkipSpace(w.raw, w.member(decoded(name), pos, f, depth))
	}
	w.dst = append(w.dst, '}')
	return pos + 1
}

func (w *walker) member(name []byte, pos int, in field, depth int) (end int) {
	f := field{message: in.message}
	if !in.isMap && in.message != nil {
		if found, ok := in.message.fields[string(name)]; ok {
			f = found
		}
	}
	if f.isSecret || w.names.secret(name) {
		w.dst = append(w.dst, redacted...)
		return jsontext.SkipValue(w.raw, pos)
	}
	return w.value(pos, f, depth+1)
}
