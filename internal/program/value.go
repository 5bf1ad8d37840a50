// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// message is a message of a result. It keeps its JSON, and reads a field when that is first wanted. It cannot be changed.
type message struct {
	run    *run
	typ    *types.Type // nil where nothing is known
	raw    json.RawMessage
	names  []string // of the members of raw
	fields map[string]json.RawMessage
	read   map[string]starlark.Value
}

// object is a message of which only the JSON is known, so that it is a dict too.
type object struct{ message }

func (m *message) Type() string {
	if m.typ != nil && m.typ.Name != "" {
		return "message " + string(m.typ.Name.Name()) // the word keeps it apart from types of the interpreter
	}
	return "message"
}

func (m *message) String() string        { return string(m.raw) }
func (m *message) Freeze()               {}
func (m *message) Truth() starlark.Bool  { return true }
func (m *message) Hash() (uint32, error) { return 0, fmt.Errorf("a %s cannot be a key", m.Type()) }

func (o *object) Type() string         { return "object" }
func (o *object) Truth() starlark.Bool { return o.Len() > 0 }
func (o *object) Hash() (uint32, error) {
	return 0, errors.New("an object cannot be a key")
}

// members reads the names of the members, and where they are.
func (m *message) members() error {
	if m.fields != nil {
		return nil
	}
	m.fields = map[string]json.RawMessage{}
	for name, raw := range jsontext.Members(m.raw) {
		m.names = append(m.names, name)
		m.fields[name] = raw
	}
	n := int64(len(m.names))
	return m.run.spend(int64(len(m.raw)/textStep)+n, times(n, entryBytes))
}

// field is the value of a field by either spelling; nil where there is none.
func (m *message) field(name string) (starlark.Value, error) {
	if v, ok := m.read[name]; ok {
		return v, nil
	}
	if err := m.members(); err != nil {
		return nil, err
	}
	var typ *types.Type
	raw, isThere := m.fields[name]
	f := m.typ.Field(name)
	if f != nil {
		typ = f.Type
		for _, spelling := range [...]string{f.JSONName, f.Name} {
			if !isThere {
				raw, isThere = m.fields[spelling]
			}
		}
	} else if m.typ != nil && !m.typ.Open && !m.typ.Schema {
		return nil, nil //nolint:nilnil // as the interpreter has it
	}
	var v starlark.Value
	var err error
	switch {
	case isThere:
		v, err = m.run.value(typ, raw)
	case f != nil:
		v = unset(typ, m.typ.Schema)
	default:
		return nil, nil //nolint:nilnil // as the interpreter has it
	}
	if err != nil {
		return nil, err
	}
	if m.read == nil {
		m.read = map[string]starlark.Value{}
	}
	m.read[name] = v
	return v, nil
}

func (m *message) Attr(name string) (starlark.Value, error) {
	v, err := m.field(name)
	if v != nil || err != nil || name != "get" {
		return v, err
	}
	return builtin("get", m.get), nil
}

// get is the value of a field, or another one where that is None or does not exist.
func (m *message) get(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name string
	var otherwise starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs("get", args, kwargs, 1, &name, &otherwise); err != nil {
		return nil, err
	}
	v, err := m.field(name)
	if err != nil {
		return nil, err
	}
	if v == nil || v == starlark.None {
		return otherwise, nil
	}
	return v, nil
}

func (m *message) AttrNames() []string {
	var out []string
	for _, f := range m.typ.Fields() {
		out = append(out, f.Name)
	}
	if out == nil && m.members() == nil {
		out = append(out, m.names...)
	}
	return out
}

// Get is x["name"].
func (m *message) Get(k starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return nil, false, fmt.Errorf("a %s has names, not %s", m.Type(), k.Type())
	}
	v, err := m.field(name)
	return v, v != nil && err == nil, err
}

// Has is whether a field is set: "name" in x.
func (m *message) Has(k starlark.Value) (bool, error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return false, fmt.Errorf("a %s has names, not %s", m.Type(), k.Type())
	}
	if err := m.members(); err != nil {
		return false, err
	}
	_, isSet := m.fields[name]
	if f := m.typ.Field(name); f != nil && !isSet {
		for _, spelling := range [...]string{f.JSONName, f.Name} {
			if _, ok := m.fields[spelling]; ok {
				isSet = true
			}
		}
	}
	return isSet, nil
}

// all are the names of all fields, those that are not set too.
func (m *message) all() ([]string, error) {
	if err := m.members(); err != nil {
		return nil, err
	}
	var out []string
	seen := map[string]bool{}
	for _, f := range m.typ.Fields() {
		out = append(out, f.JSONName)
		seen[f.JSONName], seen[f.Name] = true, true
	}
	for _, name := range m.names {
		if !seen[name] {
			out = append(out, name)
		}
	}
	return out, nil
}

func (m *message) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other, ok := asMessage(y)
	if !ok || op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("%s %s %s is not defined", m.Type(), op, y.Type())
	}
	same, err := m.equals(other, depth)
	return same == (op == syntax.EQL), err
}

func (m *message) equals(other *message, depth int) (bool, error) {
	if string(m.raw) == string(other.raw) {
		return true, nil
	}
	for _, one := range [...]*message{m, other} {
		names, err := one.all()
		if err != nil {
			return false, err
		}
		for _, name := range names {
			a, err := m.field(name)
			if err != nil {
				return false, err
			}
			b, err := other.field(name)
			if err != nil {
				return false, err
			}
			if (a == nil) != (b == nil) {
				return false, nil
			}
			if a == nil {
				continue
			}
			if same, err := starlark.EqualDepth(a, b, depth-1); !same || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func asMessage(v starlark.Value) (*message, bool) {
	switch v := v.(type) {
	case *message:
		return v, true
	case *object:
		return &v.message, true
	}
	return nil, false
}

func (o *object) Attr(name string) (starlark.Value, error) {
	v, err := o.message.Attr(name)
	if v != nil || err != nil {
		return v, err
	}
	switch name {
	case "keys", "values", "items":
		return builtin(name, func(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return o.list(name)
		}), nil
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

func (o *object) list(what string) (*starlark.List, error) {
	if err := o.members(); err != nil {
		return nil, err
	}
	n := int64(len(o.names))
	if err := o.run.spend(n, times(n, 5*elementBytes)); err != nil {
		return nil, err
	}
	var out []starlark.Value
	for _, name := range o.names {
		if what == "keys" {
			out = append(out, starlark.String(name))
			continue
		}
		v, err := o.field(name)
		if err != nil {
			return nil, err
		}
		if what == "items" {
			v = starlark.Tuple{starlark.String(name), v}
		}
		out = append(out, v)
	}
	return starlark.NewList(out), nil
}

// Len and Iterate are those of the names. A fault of memory shows with the next step.
func (o *object) Len() int {
	if o.members() != nil {
		return 0
	}
	return len(o.names)
}

func (o *object) Iterate() starlark.Iterator {
	_ = o.members()
	names := make(starlark.Tuple, 0, len(o.names))
	for _, name := range o.names {
		names = append(names, starlark.String(name))
	}
	_ = o.run.spend(0, times(int64(len(names)), 2*elementBytes))
	return names.Iterate()
}

func (o *object) Items() []starlark.Tuple {
	var out []starlark.Tuple
	if list, err := o.list("items"); err == nil {
		for v := range list.Elements() {
			out = append(out, v.(starlark.Tuple))
		}
	}
	return out
}

// unset is the value of a field that is not there.
func unset(t *types.Type, bySchema bool) starlark.Value {
	if t == nil || t.Nullable || bySchema {
		return starlark.None
	}
	switch t.Kind { //nolint:exhaustive // the others are None
	case types.Bool:
		return starlark.False
	case types.Int:
		return starlark.MakeInt(0)
	case types.Float:
		return starlark.Float(0)
	case types.String:
		return starlark.String("")
	case types.Bytes:
		return starlark.Bytes("")
	case types.Enum:
		if len(t.Values) > 0 {
			return starlark.String(t.Values[0])
		}
	case types.List:
		return frozen(starlark.NewList(nil))
	case types.Map:
		return frozen(starlark.NewDict(0))
	}
	return starlark.None
}

func frozen(v starlark.Value) starlark.Value {
	v.Freeze()
	return v
}

// value makes a value of JSON. What is not as its type says is read as if nothing was known of it: the tool's result is right.
func (r *run) value(t *types.Type, raw json.RawMessage) (starlark.Value, error) {
	if len(raw) == 0 {
		return nil, errors.New("empty JSON")
	}
	kind := types.Any
	if t != nil {
		kind = t.Kind
	}
	switch raw[0] {
	case 'n':
		return starlark.None, nil
	case 't':
		return starlark.True, nil
	case 'f':
		return starlark.False, nil
	case '{':
		if kind == types.Map {
			return r.dict(t, raw)
		}
		if kind != types.Message {
			t = nil
		}
		return r.message(t, raw)
	case '[':
		if kind != types.List {
			t = nil
		}
		return r.list(t, raw)
	case '"':
		s, _ := jsontext.Text(raw)
		if err := r.spend(int64(len(s)/textStep), int64(len(s))); err != nil {
			return nil, err
		}
		return fromText(kind, s), nil
	}
	return fromNumber(kind, string(raw)), nil
}

func (r *run) message(t *types.Type, raw json.RawMessage) (starlark.Value, error) {
	if err := r.spend(1, messageBytes); err != nil {
		return nil, err
	}
	m := message{run: r, typ: t, raw: raw}
	if t == nil || t.Schema || t.Open {
		return &object{m}, nil
	}
	return &m, nil
}

func (r *run) list(t *types.Type, raw json.RawMessage) (starlark.Value, error) {
	if err := r.spend(int64(len(raw)/textStep), dictBytes/8); err != nil {
		return nil, err
	}
	var out []starlark.Value
	for one := range jsontext.Elements(raw) {
		if err := r.spend(1, 2*elementBytes); err != nil {
			return nil, err
		}
		v, err := r.value(t.Elem(), one)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return frozen(starlark.NewList(out)), nil
}

func (r *run) dict(t *types.Type, raw json.RawMessage) (starlark.Value, error) {
	if err := r.spend(int64(len(raw)/textStep), dictBytes); err != nil {
		return nil, err
	}
	out := starlark.NewDict(0)
	for name, one := range jsontext.Members(raw) {
		if err := r.spend(2, entryBytes); err != nil {
			return nil, err
		}
		v, err := r.value(t.Elem(), one)
		if err != nil {
			return nil, err
		}
		if err := out.SetKey(keyOf(t.Key(), name), v); err != nil {
			return nil, err
		}
	}
	return frozen(out), nil
}

func keyOf(t *types.Type, name string) starlark.Value {
	if t != nil {
		switch t.Kind { //nolint:exhaustive // keys are no other
		case types.Bool:
			return starlark.Bool(name == "true")
		case types.Int:
			return fromText(types.Int, name)
		}
	}
	return starlark.String(name)
}

// fromText is the value of a text.
func fromText(kind types.Kind, s string) starlark.Value {
	switch kind { //nolint:exhaustive // the others are texts
	case types.Int:
		if n, ok := integer(s); ok {
			return n
		}
	case types.Float:
		switch s {
		case "NaN":
			return starlark.Float(math.NaN())
		case "Infinity":
			return starlark.Float(math.Inf(1))
		case "-Infinity":
			return starlark.Float(math.Inf(-1))
		}
	case types.Bytes:
		if data, err := base64.StdEncoding.DecodeString(s); err == nil {
			return starlark.Bytes(data)
		}
	case types.Timestamp:
		if v, err := parseTimestamp(s); err == nil {
			return v
		}
	case types.Duration:
		if v, err := parseDuration(s); err == nil {
			return v
		}
	}
	return starlark.String(s)
}

// integer reads an integer of a size that programs may have.
func integer(s string) (starlark.Int, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return starlark.MakeInt64(n), true
	}
	if len(s) > maxDigits || strings.TrimLeft(strings.TrimPrefix(s, "-"), "0123456789") != "" {
		return starlark.Int{}, false
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return starlark.Int{}, false
	}
	return starlark.MakeBigInt(n), true
}

func fromNumber(kind types.Kind, s string) starlark.Value {
	if kind != types.Float {
		if n, ok := integer(s); ok {
			return n
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return starlark.String(s)
	}
	return starlark.Float(f)
}

// failure is the error of a call that did not end the program. It counts as false.
type failure struct{ failed *errmap.Error }

func (f failure) Type() string         { return "error" }
func (f failure) String() string       { return string(f.failed.Code) + ": " + f.text() }
func (f failure) Freeze()              {}
func (f failure) Truth() starlark.Bool { return false }
func (f failure) Hash() (uint32, error) {
	return 0, errors.New("an error cannot be a key")
}
func (f failure) AttrNames() []string { return []string{"code", "message", "status"} }

func (f failure) text() string { return messageOf(f.failed) }

// Attr has the canonical code, the message, and the status of the tool's own error in upper case, such as NOT_FOUND.
func (f failure) Attr(name string) (starlark.Value, error) {
	switch name {
	case "code":
		return starlark.String(f.failed.Code), nil
	case "message":
		return starlark.String(f.text()), nil
	case "status":
		return starlark.String(strings.ToUpper(f.failed.BackendCode)), nil
	}
	return nil, nil //nolint:nilnil // as the interpreter has it
}

// messageOf is the message of an error as its caller sees it.
func messageOf(e *errmap.Error) string {
	e = e.Redacted()
	if e.Message != "" && e.Code != errmap.InternalError {
		return e.Message
	}
	text := string(e.Code)
	if row, err := errmap.Lookup(e.Code); err == nil {
		text = row.Message
	}
	for i, v := range e.Violations {
		if i == 3 {
			break
		}
		text += "; " + v.Path + ": " + v.Message
	}
	return text
}
