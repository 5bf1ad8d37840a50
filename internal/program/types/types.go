// SPDX-License-Identifier: Apache-2.0

// Package types describes the values that programs of catalog.run work with: the arguments and results of tools, as one caller sees
// them. Package check finds faults of programs with them before anything runs, and package program makes values of them.
//
// Types are made of Protobuf descriptors, or of the JSON schemas of tools that have no descriptors. They are made when they are first
// needed, because messages may contain themselves. Everything is immutable and safe for concurrent use.
package types

import (
	"google.golang.org/protobuf/reflect/protoreflect"
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
	// Bits is the size of an Int or a Float: 32 or 64. Unsigned Ints are not negative.
	Bits     int
	Unsigned bool
	// Values are the names of an Enum. One that is open also has numbers.
	Values []string
	// Open is set for an Enum that admits numbers, and for a Message that may have fields that are not listed.
	Open bool
	// Nullable is set where None is a value too: fields with presence.
	Nullable bool

	fields    func() []*Field // of a Message
	elem, key func() *Type    // of a List or Map
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
}
