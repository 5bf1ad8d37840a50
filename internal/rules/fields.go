// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cel.dev/cel-go/common/ast"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// readFields returns the fields of args that an expression reads; all is set if it may
// read any.
func readFields(e ast.Expr) (fields map[string]bool, all bool) {
	fields = map[string]bool{}
	isArgs := func(e ast.Expr) bool {
		return e.Kind() == ast.IdentKind && (e.AsIdent() == varArgs || e.AsIdent() == "."+varArgs)
	}
	uses, selected := 0, 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case isArgs(e):
			uses++
		case e.Kind() == ast.SelectKind && isArgs(e.AsSelect().Operand()):
			selected++
			fields[e.AsSelect().FieldName()] = true
		}
	}))
	return fields, uses != selected
}

// reading adds the fields that a rule reads to those that are decoded for its tool. A
// large message of which rules read little costs little.
func (b *bound) reading(r *compiled) {
	message := b.input.message
	if message == nil || b.everything {
		return
	}
	names, all := readFields(r.parsed.NativeRep().Expr())
	if b.numbers == nil {
		b.numbers = map[protowire.Number]bool{}
	}
	for name := range names {
		if fd := message.Fields().ByName(protoreflect.Name(name)); fd != nil {
			b.numbers[fd.Number()] = true
			if group := fd.ContainingOneof(); group != nil {
				for i := range group.Fields().Len() {
					b.numbers[group.Fields().Get(i).Number()] = true // the last one clears the others
				}
			}
			continue
		}
		all = true
	}
	b.everything = all
}

// decodeMessage reads the arguments of an RPC, as far as the rules of the tool need them.
func (b *bound) decodeMessage(wire []byte) (proto.Message, error) {
	m := dynamicpb.NewMessage(b.input.message)
	if !b.everything {
		wire = keepFields(wire, b.numbers)
	}
	return m, proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(wire, m)
}

// keepFields returns the fields with the given numbers. What is malformed is kept, for the
// decoder to refuse.
func keepFields(wire []byte, numbers map[protowire.Number]bool) []byte {
	kept := make([]byte, 0, min(len(wire), maxKeptGuess))
	for len(wire) > 0 {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return append(kept, wire...)
		}
		if numbers[number] {
			kept = append(kept, wire[:n]...)
		}
		wire = wire[n:]
	}
	return kept
}

// maxKeptGuess is how much is reserved for the fields of a message that are kept.
const maxKeptGuess = 256
