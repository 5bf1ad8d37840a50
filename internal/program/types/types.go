// SPDX-License-Identifier: Apache-2.0

// Package types describes the values that programs of catalog.run work with: the arguments and results of tools, as one caller sees
// them. Package check finds faults of programs with them before anything runs, and package program makes values of them.
//
// Types are made of Protobuf descriptors, or of the JSON schemas of tools that have no descriptors. They are made when they are first
// needed, because messages may contain themselves. Everything is immutable and safe for concurrent use.
package types

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds. Any is the zero value: nothing is known of the value before it is there.
const (
	Any Kind = iota
	Null
	Bool
	Int // see Type.Bits and Type.Unsigned
	Float
	String
	Bytes
	Timestamp
	Duration
	Enum    // Type.Values
	Message // Type.Fields: attributes
	List    // Type.Elem
	Map     // Type.Key, Type.Elem
)

// Type is the type of a value. Nil is Any.
type Type struct {
	Kind Kind
	// Name is the full name of a message or an enum, where it has one.
	Name protoreflect.FullName
	// Bits is the size of an Int or a Float: 32 or 64, and 0 where numbers have no bounds. Unsigned Ints are not negative.
	Bits     int
	Unsigned bool
	// Values are the names of an Enum. One that is open also has numbers.
	Values []string
	// Open is set for an Enum that admits numbers, and for a Message that may have fields that are not listed.
	Open bool
	// Nullable is set where None is a value too: fields with presence.
	Nullable bool
	// Schema is set for a type that was made of a JSON schema. Its Messages are dicts whose entries are attributes too.
	Schema bool

	fields    func() *fields // of a Message
	elem, key *Type          // of a List or Map
}

// Field is an attribute of a message, or an argument of a tool.
type Field struct {
	// Name is the name in the descriptor, JSONName that in JSON; programs may use both.
	Name, JSONName string
	Type           *Type
	// Required is set where a call without the field is refused.
	Required bool
	// Oneof is the name of the oneof that the field is a member of; empty for none.
	Oneof string

	// mustOneof is set where one of the members of the oneof has to be set.
	mustOneof bool

	at    schema.View // of its value, for its comment and its rules
	given string      // the description that the configuration gives; empty for none
}

// fields are those of a message, with their names in both spellings.
type fields struct {
	list   []*Field
	byName map[string]*Field
}

func fieldsOf(list []*Field) *fields {
	f := &fields{list: list, byName: make(map[string]*Field, 2*len(list))}
	for _, one := range list {
		f.byName[one.JSONName] = one
	}
	for _, one := range list {
		if f.byName[one.Name] == nil {
			f.byName[one.Name] = one
		}
	}
	return f
}

// Fields returns the fields of a Message, in the order of its descriptor or schema; nil for other types. Do not modify them.
func (t *Type) Fields() []*Field {
	if t == nil || t.fields == nil {
		return nil
	}
	return t.fields().list
}

// Field finds a field of a Message by either spelling; nil where it has none of the name.
func (t *Type) Field(name string) *Field {
	if t == nil || t.fields == nil {
		return nil
	}
	return t.fields().byName[name]
}

// Elem returns the type of the elements of a List or of the values of a Map; nil for other types.
func (t *Type) Elem() *Type {
	if t == nil {
		return nil
	}
	return t.elem
}

// Key returns the type of the keys of a Map; nil for other types.
func (t *Type) Key() *Type {
	if t == nil {
		return nil
	}
	return t.key
}

// listOf returns the type of lists.
func listOf(elem *Type) *Type { return &Type{Kind: List, elem: elem} }

// messageOf returns the type of a message that no descriptor has, with all of its fields.
func messageOf(list ...*Field) *Type {
	f := fieldsOf(list)
	return &Type{Kind: Message, fields: func() *fields { return f }}
}
