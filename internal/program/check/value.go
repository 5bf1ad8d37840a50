// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math/big"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// kind is what is known of the kind of a value.
type kind uint8

const (
	kAny kind = iota
	kNone
	kBool
	kInt
	kFloat
	kString
	kBytes
	kTimestamp
	kDuration
	kEnum
	kMessage // of a tool: typ
	kRecord  // of the inputs: attrs
	kList
	kDict
	kTuple
	kSet
	kRange
	kModule
	kTool
	kTools
	kJSON
	kFunction
	kBuiltin
	kMethod
)

// value is what is known of the values of an expression. Nil is of no value at all: an expression that was not reached. It is not changed
// once it is made.
type value struct {
	kind kind
	// isNullable is set where the value may be None, isOrError where it may be the error of a call.
	isNullable, isOrError bool
	// isResult is set for what tools return, which cannot be changed.
	isResult bool
	typ      *types.Type       // of a message or an enum
	elem     *value            // of a list, dict, set or tuple
	parts    []*value          // of a list or tuple whose length is known: its elements one by one
	attrs    map[string]*value // of a record
	// most is how many elements there are at most, and one more; 0 where that is not known.
	most int
	text *string  // of a string that is known
	num  *big.Int // of an int that is known
	// isWritten is set for a text that is in the program.
	isWritten bool
	real      *float64      // of a float that is known
	tool      *catalog.Tool // of a tool, and of a module that is one too
	name      string        // of a module, a builtin or a method
	of        *value        // the receiver of a method
	def       *function
}

// The values of which only the kind is known are shared.
func only(k kind) *value { return &value{kind: k} }

func listOf(elem *value) *value { return &value{kind: kList, elem: elem} }

func (v *value) is(kinds ...kind) bool { return v != nil && slices.Contains(kinds, v.kind) }

// isAny reports whether nothing is known that could be wrong.
func (v *value) isAny() bool { return v == nil || v.kind == kAny || v.isOrError }

// ofType is a value of a type.
func ofType(t *types.Type) *value {
	if t == nil {
		return only(kAny)
	}
	v := &value{typ: t, isNullable: t.Nullable, isResult: true}
	switch t.Kind {
	case types.Any:
		return only(kAny)
	case types.Null:
		v.kind = kNone
	case types.Bool:
		v.kind = kBool
	case types.Int:
		v.kind = kInt
	case types.Float:
		v.kind = kFloat
		if t.Schema {
			return only(kAny) // an integer too
		}
	case types.String:
		v.kind = kString
	case types.Bytes:
		v.kind = kBytes
	case types.Timestamp:
		v.kind = kTimestamp
	case types.Duration:
		v.kind = kDuration
	case types.Enum:
		v.kind = kEnum
	case types.Message:
		v.kind = kMessage
	case types.List:
		v.kind = kList
	case types.Map:
		v.kind = kDict
	}
	return v
}

// element is what a value holds.
func (v *value) element() *value {
	switch {
	case v == nil:
		return nil
	case v.elem != nil:
		return v.elem
	case v.kind == kRange:
		return only(kInt)
	case v.is(kList, kDict) && v.isResult && v.typ != nil:
		return ofType(v.typ.Elem())
	}
	return only(kAny)
}

// held is element, and nil for a list or dict that is empty: what is put into it later is all that it holds.
func (v *value) held() *value {
	if v != nil && v.elem == nil && v.most == 1 && !v.isResult {
		return nil
	}
	return v.element()
}

// items is what a loop over the value gets; nil for a value that has no items.
func (v *value) items() *value {
	switch v.kind {
	case kList, kTuple, kSet, kRange:
		return v.element()
	case kDict:
		if v.isResult && v.typ != nil && v.typ.Key() != nil {
			return ofType(v.typ.Key())
		}
		return only(kAny)
	case kRecord:
		return only(kString)
	case kMessage:
		if v.typ.Schema || v.typ.Open {
			return only(kAny)
		}
		return nil
	case kAny, kTools, kBytes, kEnum:
		return only(kAny)
	}
	return nil
}

// join is what is known of values that are a or b.
func (c *checker) join(a, b *value) *value { return c.joined(a, b, 0) }

// maxJoin is how deep types in types are joined.
const maxJoin = 4

func (c *checker) joined(a, b *value, depth int) *value {
	c.work--
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	case a.isAny() || b.isAny():
		return only(kAny)
	case a.kind == kNone && b.kind != kNone:
		return asNullable(b)
	case b.kind == kNone && a.kind != kNone:
		return asNullable(a)
	case a.kind != b.kind || depth > maxJoin || c.steps <= 0:
		return only(kAny)
	}
	c.steps--
	out := &value{kind: a.kind, isNullable: a.isNullable || b.isNullable, isResult: a.isResult && b.isResult, most: larger(a.most, b.most), typ: a.typ}
	switch a.kind {
	case kMessage, kEnum:
		if !c.sameType(a.typ, b.typ) {
			return only(kAny)
		}
	case kList, kDict, kTuple, kSet:
		if a.typ != b.typ {
			out.typ = nil
		}
		if a.parts != nil && len(a.parts) == len(b.parts) {
			out.parts = make([]*value, len(a.parts))
			for i := range a.parts {
				out.parts[i] = c.joined(a.parts[i], b.parts[i], depth+1)
			}
			out.elem = c.joined(a.elem, b.elem, depth+1)
		} else if out.typ == nil || !out.isResult {
			out.typ, out.elem = nil, c.joined(a.held(), b.held(), depth+1)
		}
	case kTool:
		if a.tool != b.tool {
			return only(kAny)
		}
		out.tool = a.tool
	case kFunction:
		if a.def != b.def {
			return only(kAny)
		}
		out.def = a.def
	case kRecord, kModule, kTools, kJSON, kBuiltin, kMethod:
		return only(kAny)
	default:
		out.typ = nil
	}
	return out
}

// larger is the larger of two bounds; 0 is none.
func larger(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

func asNullable(v *value) *value {
	if v.isNullable {
		return v
	}
	out := *v
	out.isNullable = true
	return &out
}

// sameType reports whether two types have the same fields. Those of different tools may differ in what the caller sees.
func (c *checker) sameType(a, b *types.Type) bool {
	return a == b || a.Name != "" && a.Name == b.Name && !c.world.Catalog.IsLimited()
}

// mixed is the value of an expression that is a, or of another type where that is not known: it has no constants.
func (v *value) plain() *value {
	if v == nil || v.text == nil && v.num == nil && v.real == nil {
		return v
	}
	out := *v
	out.text, out.num, out.real = nil, nil, nil
	return &out
}

// words names the kind of a value to a reader.
func (v *value) words() string {
	if v == nil {
		return "a value"
	}
	switch v.kind {
	case kNone:
		return "None"
	case kBool:
		return "a bool"
	case kInt:
		return "an int"
	case kFloat:
		return "a float"
	case kString:
		return "a string"
	case kBytes:
		return "bytes"
	case kTimestamp:
		return "a timestamp"
	case kDuration:
		return "a duration"
	case kEnum:
		return "a value of " + shortName(string(v.typ.Name), "an enum")
	case kMessage:
		return "a message " + shortName(string(v.typ.Name), "of a tool")
	case kRecord, kDict:
		return "a dict"
	case kList:
		return "a list"
	case kTuple:
		return "a tuple"
	case kSet:
		return "a set"
	case kRange:
		return "a range"
	case kModule, kTools, kJSON:
		return "a module"
	case kTool:
		return "the tool " + v.tool.Name
	case kFunction, kBuiltin, kMethod:
		return "a function"
	}
	return "a value"
}

// shortName is the last part of a full name.
func shortName(name, none string) string {
	if name == "" {
		return none
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}

const (
	// maxInputDepth bounds how far the inputs are looked into.
	maxInputDepth = 32
	// maxDigits bounds the ints whose value matters. No field takes longer ones.
	maxDigits = 40
)

// inputValue is what is known of the inputs. Null is no inputs.
func inputValue(text []byte) *value {
	text = jsontext.Trim(text)
	if len(text) == 0 || string(text) == "null" {
		text = []byte(jsontext.EmptyObject)
	}
	return jsonValue(text, 0)
}

func jsonValue(raw []byte, depth int) *value {
	switch {
	case len(raw) == 0 || depth > maxInputDepth:
		return only(kAny)
	case raw[0] == '{':
		v := &value{kind: kRecord, attrs: map[string]*value{}}
		for name, member := range jsontext.Members(raw) {
			v.attrs[name] = jsonValue(member, depth+1)
			v.most++
		}
		v.most++
		return v
	case raw[0] == '[':
		v := &value{kind: kList, most: 1}
		for element := range jsontext.Elements(raw) {
			one := jsonValue(element, depth+1)
			v.most++
			switch {
			case v.elem == nil:
				v.elem = one.plain()
			case v.elem.kind != one.kind || one.kind == kRecord || one.kind == kList:
				v.elem = only(kAny)
			}
		}
		return v
	case raw[0] == '"':
		text, _ := jsontext.Text(raw)
		return &value{kind: kString, text: &text}
	case raw[0] == 't', raw[0] == 'f':
		return only(kBool)
	case raw[0] == 'n':
		return only(kNone)
	case jsontext.IsInteger(raw):
		if n, ok := new(big.Int).SetString(string(raw[:min(len(raw), maxDigits)]), 10); ok && len(raw) < maxDigits {
			return &value{kind: kInt, num: n}
		}
		return only(kInt)
	}
	return only(kAny)
}
