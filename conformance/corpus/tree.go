// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object that keeps the order of its members and may hold a name twice, as text can.
type object []member

type member struct {
	name  string
	value any // object, []any, raw, or a string, json.Number, bool or nil
}

// raw is text that represents a value, valid or not.
type raw string

func (o object) get(name string) (any, bool) {
	for _, m := range o {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

// set replaces the value of a member or adds one.
func (o object) set(name string, value any) object {
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

// without is a copy that lacks one member.
func (o object) without(i int) object {
	return append(append(object{}, o[:i]...), o[i+1:]...)
}

// parseTree reads a document. Numbers keep their digits.
func parseTree(doc []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return parseValue(d)
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		out := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			text, ok := name.(string)
			if !ok {
				return nil, fmt.Errorf("a name is a string, found %v", name)
			}
			out = append(out, member{text, value})
		}
		_, err := d.Token()
		return out, err
	case json.Delim('['):
		out := []any{}
		for d.More() {
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		_, err := d.Token()
		return out, err
	default:
		return token, nil
	}
}

// appendTree writes a tree as compact JSON.
func appendTree(dst []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, m.name), ':')
			dst = appendTree(dst, m.value)
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTree(dst, e)
		}
		return append(dst, ']')
	case raw:
		return append(dst, v...)
	case string:
		return appendText(dst, v)
	case json.Number:
		return append(dst, v...)
	case bool:
		return fmt.Appendf(dst, "%t", v)
	default:
		return append(dst, "null"...)
	}
}

func appendText(dst []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return append(dst, err.Error()...) // a string always has an encoding; this is none, and shows
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// sameTree compares two documents as JSON values: members in any order, numbers by what a double makes of them.
func sameTree(a, b any) bool {
	switch a := a.(type) {
	case object:
		other, ok := b.(object)
		if !ok || len(a) != len(other) {
			return false
		}
		for _, m := range a {
			if value, ok := other.get(m.name); !ok || !sameTree(m.value, value) {
				return false
			}
		}
		return true
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i := range a {
			if !sameTree(a[i], other[i]) {
				return false
			}
		}
		return true
	case json.Number:
		other, ok := b.(json.Number)
		if !ok || a == other {
			return ok
		}
		x, errX := a.Float64()
		y, errY := other.Float64()
		return errX == nil && errY == nil && x == y
	default:
		return a == b
	}
}
