// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// provider tells CEL about types. Beside the messages of its registry, it knows
// objects: types whose fields are read by functions.
type provider struct {
	*types.Registry
	objects map[string]*object
}

// object is a type of CEL that is no message. Its name begins with '#', which no
// expression can write, so that nothing in an expression can be taken for it.
type object struct {
	fields map[string]*types.FieldType
	// other is the type of fields that are not declared; nil if there are none.
	other func(name string) *types.FieldType
}

// with returns a provider that knows more objects.
func (p *provider) with(objects map[string]*object) *provider {
	all := maps.Clone(p.objects)
	maps.Copy(all, objects)
	return &provider{Registry: p.Registry, objects: all}
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if o, ok := p.objects[name]; ok {
		return slices.Sorted(maps.Keys(o.fields)), true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	o, ok := p.objects[name]
	if !ok {
		return p.Registry.FindStructFieldType(name, field)
	}
	if f := o.fields[field]; f != nil {
		return f, true
	}
	if o.other != nil {
		return o.other(field), true
	}
	return nil, false
}

// NewValue implements [types.Provider].
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := p.objects[name]; ok {
		return types.NewErr("%s cannot be created", name)
	}
	return p.Registry.NewValue(name, fields)
}

// opaque is a value of an object that CEL holds without knowing what is in it.
type opaque struct {
	kind *types.Type
	self any
}

// ConvertToNative implements [ref.Val].
func (o *opaque) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("cannot be converted")
}

// ConvertToType implements [ref.Val].
func (o *opaque) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.kind
	}
	return types.NewErr("cannot be converted to %s", t.TypeName())
}

// Equal implements [ref.Val].
func (o *opaque) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(o)) }

// Type implements [ref.Val].
func (o *opaque) Type() ref.Type { return o.kind }

// Value implements [ref.Val].
func (o *opaque) Value() any { return o.self }

// getter is a field of an object whose values are of type T. It reads values that
// were made before, so that an evaluation allocates nothing for them.
func getter[T any](kind *types.Type, get func(of T) (ref.Val, error)) *types.FieldType {
	return &types.FieldType{
		Type:  kind,
		IsSet: func(any) bool { return true },
		GetFrom: func(of any) (any, error) {
			self, ok := of.(T)
			if !ok {
				return nil, fmt.Errorf("unexpected value of type %T", of)
			}
			return get(self)
		},
	}
}
