// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"cel.dev/cel-go/common/types"
)

const (
	// maxSchemaDepth bounds how deep a schema is read; below, everything is dyn.
	maxSchemaDepth = 16
	// maxSchemaObjects bounds the object types of one schema.
	maxSchemaObjects = 1000
)

// jsonSchema is the part of a JSON schema that says what type a value has.
type jsonSchema struct {
	Type                 json.RawMessage            `json:"type"`
	Properties           map[string]json.RawMessage `json:"properties"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	Items                json.RawMessage            `json:"items"`
	Ref                  *string                    `json:"$ref"`
	AnyOf                json.RawMessage            `json:"anyOf"`
	OneOf                json.RawMessage            `json:"oneOf"`
}

// schemaTypes turns a JSON schema into types of CEL.
type schemaTypes struct{ objects map[string]*object }

// argumentsType is the type of the arguments of a native tool: as far as its schema
// says what they are. Where it leaves that open, the type is dyn.
func argumentsType(raw []byte) (*types.Type, map[string]*object) {
	s := &schemaTypes{objects: map[string]*object{}}
	kind := s.typeOf(raw, "#args", 0)
	if kind == types.DynType {
		kind = types.NewMapType(types.StringType, types.DynType) // arguments are always an object
	}
	return kind, s.objects
}

func (s *schemaTypes) typeOf(raw []byte, name string, depth int) *types.Type {
	var of jsonSchema
	if depth > maxSchemaDepth || json.Unmarshal(raw, &of) != nil || of.Ref != nil || of.AnyOf != nil || of.OneOf != nil {
		return types.DynType
	}
	var kind string
	if json.Unmarshal(of.Type, &kind) != nil {
		return types.DynType // none, or several
	}
	switch kind {
	case "boolean":
		return types.BoolType
	case "string":
		return types.StringType
	case "integer":
		return types.IntType
	case "array":
		return types.NewListType(s.typeOf(of.Items, name+"[]", depth+1))
	case "object":
		return s.objectType(&of, name, depth)
	}
	// A "number" may be an int, a uint or a double: as dyn they can be compared with each
	// other, whatever a caller writes.
	return types.DynType
}

// identifier is a name that can follow a dot in an expression.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *schemaTypes) objectType(of *jsonSchema, name string, depth int) *types.Type {
	open := string(of.AdditionalProperties) != "false"
	if len(of.Properties) == 0 && open || len(s.objects) >= maxSchemaObjects {
		return types.NewMapType(types.StringType, types.DynType)
	}
	for property := range of.Properties {
		if !identifier.MatchString(property) {
			return types.NewMapType(types.StringType, types.DynType) // it can only be reached by its index
		}
	}
	o := &object{fields: make(map[string]*types.FieldType, len(of.Properties))}
	if open {
		o.other = func(field string) *types.FieldType { return member(types.DynType, field) }
	}
	s.objects[name] = o
	for property, raw := range of.Properties {
		o.fields[property] = member(s.typeOf(raw, name+"."+property, depth+1), property)
	}
	return types.NewObjectType(name)
}

// member is a member of a JSON object.
func member(kind *types.Type, name string) *types.FieldType {
	return &types.FieldType{
		Type: kind,
		IsSet: func(of any) bool {
			m, _ := of.(map[string]any)
			_, ok := m[name]
			return ok
		},
		GetFrom: func(of any) (any, error) {
			m, _ := of.(map[string]any)
			v, ok := m[name]
			if !ok {
				return nil, fmt.Errorf("no such key: %s", name)
			}
			if kind == types.IntType {
				return whole(v)
			}
			return v, nil
		},
	}
}

var errNotInt = errors.New("not an integer of 64 bits")

// whole is an integer as an int, however a caller wrote it: 5.0 and 5e0 are integers of
// JSON Schema.
func whole(v any) (any, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case float64:
		if n := int64(v); float64(n) == v && v >= -maxWhole && v <= maxWhole {
			return n, nil
		}
	}
	return nil, errNotInt
}

// maxWhole is the range in which a double is exact.
const maxWhole = 1 << 53

// decodeJSON reads the arguments of a native tool.
func decodeJSON(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	out, _ = plainNumbers(out).(map[string]any)
	return out, nil
}

// number is a JSON number as CEL has it: an int or a uint where it is a whole number
// in their range, so that no digit is lost, else a double.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.NewErr("number out of range")
	}
	return f
}
