// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// object is a JSON object that remembers the order of its members, so that a schema reads in the order in which the
// fields were declared and the same descriptor always gives the same bytes.
type object struct {
	members []member
	// few is where they stand while there are few, so that most objects are one piece
	// of memory. An object is not copied.
	few [2]member
}

type member struct {
	name  string
	value any // *object, []any, []string, string, bool, int, json.Number, json.RawMessage or nil
}

func newObject(pairs ...any) *object {
	o := &object{}
	if n := len(pairs) / 2; n > len(o.few) {
		o.members = make([]member, 0, n)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// set adds a member, or replaces the value of the one that has the name already.
func (o *object) set(name string, value any) *object {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = value
			return o
		}
	}
	if o.members == nil {
		o.members = o.few[:0]
	}
	o.members = append(o.members, member{name, value})
	return o
}

func (o *object) get(name string) any {
	for i := range o.members {
		if o.members[i].name == name {
			return o.members[i].value
		}
	}
	return nil
}

func (o *object) has(name string) bool {
	for i := range o.members {
		if o.members[i].name == name {
			return true
		}
	}
	return false
}

func (o *object) remove(name string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
}

func (o *object) size() int { return len(o.members) }

// merge copies the members of other; a keyword that is there already moves into an allOf, so that neither is lost.
func (o *object) merge(other *object) {
	for _, m := range other.members {
		switch {
		case !o.has(m.name):
			o.set(m.name, m.value)
		case m.name == "allOf":
			all, _ := o.get("allOf").([]any)
			more, _ := m.value.([]any)
			o.set("allOf", append(append([]any(nil), all...), more...))
		default:
			all, _ := o.get("allOf").([]any)
			o.set("allOf", append(append([]any(nil), all...), newObject(m.name, m.value)))
		}
	}
}

// appendJSON writes compact JSON. It knows every type that the builders put into an object.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case json.RawMessage:
		return append(dst, v...)
	case json.Number:
		return append(dst, v...)
	case string:
		return jsontext.AppendString(dst, v)
	case []string:
		dst = append(dst, '[')
		for i, s := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, s)
		}
		return append(dst, ']')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case *object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, m.name)
			dst = append(dst, ':')
			dst = appendJSON(dst, m.value)
		}
		return append(dst, '}')
	default:
		// The builders are in this package: another type is a slip that the golden tests would show.
		return jsontext.AppendString(dst, fmt.Sprint(v))
	}
}

// countSchemas counts the objects of a schema: a close upper bound of its subschemas, and of what a reader has to hold.
// deriver.count, which stops an attempt on the way, is coarser: it counts messages and values.
func countSchemas(v any) int {
	n := 0
	switch v := v.(type) {
	case *object:
		n = 1
		for _, m := range v.members {
			n += countSchemas(m.value)
		}
	case []any:
		for _, e := range v {
			n += countSchemas(e)
		}
	}
	return n
}
