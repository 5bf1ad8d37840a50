// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field numbers of the option extensions that are read. They are fixed in Protobuf's registry of extensions.
const (
	fieldBehaviorNumber = 1052 // google.api.field_behavior
	validateNumber      = 1159 // buf.validate.field, .message and .oneof
)

// Values of google.api.FieldBehavior (AIP-203).
const (
	behaviorRequired   = 2
	behaviorOutputOnly = 3
	behaviorInputOnly  = 4
)

// Behavior is what google.api.field_behavior declares for a field. Values with no effect on a schema are left out.
type Behavior struct {
	Required, OutputOnly, InputOnly bool
}

// BehaviorOf reads google.api.field_behavior from the raw bytes of the field's options, so that it is found whether or
// not the annotation's generated code is linked in. An option that cannot be read is ignored.
func BehaviorOf(fd protoreflect.FieldDescriptor) Behavior {
	var b Behavior
	eachOption(fd, fieldBehaviorNumber, func(typ protowire.Type, raw []byte) {
		for len(raw) > 0 {
			v, n := protowire.ConsumeVarint(raw)
			if n < 0 {
				return
			}
			raw = raw[n:]
			switch v {
			case behaviorRequired:
				b.Required = true
			case behaviorOutputOnly:
				b.OutputOnly = true
			case behaviorInputOnly:
				b.InputOnly = true
			}
		}
	})
	return b
}

// Hides reports whether the behavior removes the field from one direction.
func (b Behavior) Hides(dir Direction) bool {
	return dir == Input && b.OutputOnly || dir == Output && b.InputOnly
}

// eachOption visits the occurrences of one option. Varints arrive as their raw bytes, the rest without its length.
func eachOption(d protoreflect.Descriptor, number protowire.Number, visit func(protowire.Type, []byte)) {
	if !hasOptions(d) {
		return
	}
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(d.Options())
	if err != nil {
		return
	}
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(num, typ, raw)
		if size < 0 {
			return
		}
		if num == number {
			value := raw[:size]
			if typ == protowire.BytesType {
				value, _ = protowire.ConsumeBytes(value)
			}
			visit(typ, value)
		}
		raw = raw[size:]
	}
}

// hasOptions reports whether a descriptor has options at all. Most have none.
func hasOptions(d protoreflect.Descriptor) bool {
	options := d.Options()
	return options != nil && options.ProtoReflect().IsValid()
}

// readRules merges the occurrences of protovalidate's option into rules and says whether there was one.
func readRules(d protoreflect.Descriptor, rules proto.Message) bool {
	found := false
	eachOption(d, validateNumber, func(typ protowire.Type, raw []byte) {
		if typ != protowire.BytesType {
			return
		}
		if (proto.UnmarshalOptions{Merge: true, AllowPartial: true}).Unmarshal(raw, rules) == nil {
			found = true
		}
	})
	return found
}

func fieldRules(fd protoreflect.FieldDescriptor) *validate.FieldRules {
	if !hasOptions(fd) {
		return nil
	}
	rules := &validate.FieldRules{}
	if !readRules(fd, rules) || rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return nil
	}
	return rules
}

func messageRules(md protoreflect.MessageDescriptor) *validate.MessageRules {
	rules := &validate.MessageRules{}
	if !readRules(md, rules) {
		return nil
	}
	return rules
}

func isOneofRequired(od protoreflect.OneofDescriptor) bool {
	rules := &validate.OneofRules{}
	return readRules(od, rules) && rules.GetRequired()
}

// HasRules reports whether a field, message or oneof has protovalidate's option. It does not decode the option: one that
// cannot be read counts, so that protovalidate gets to report it.
func HasRules(d protoreflect.Descriptor) bool {
	found := false
	eachOption(d, validateNumber, func(protowire.Type, []byte) { found = true })
	return found
}
