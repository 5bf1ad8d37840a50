// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ToJSON appends the JSON of wire bytes to dst, compact and deterministic. An *OutputError means that the bytes are not
// an encoding of the message or hold what JSON cannot say (a type of an Any that is not known, a Timestamp out of
// range), an *InputError that rules are broken, a *RuleError that a rule failed to run; a *DisagreementError comes with
// Options.Thorough alone. On an error dst is returned as it came. Neither argument is kept.
func (m *Message) ToJSON(dst, wire []byte) ([]byte, error) { return m.ToJSONWith(nil, dst, wire) }

// ToJSONWith is ToJSON for a caller that keeps buffers: where dst has no room for the JSON, whose size is known only now,
// what dst holds and the JSON are written to a buffer of room's.
func (m *Message) ToJSONWith(room Room, dst, wire []byte) ([]byte, error) {
	if m.thorough != nil {
		return m.checkedToJSON(dst, wire)
	}
	out, ok := m.write(room, dst, wire)
	if ok && (m.rules == nil || m.keeps(wire, forOutput)) {
		return out, nil
	}
	msg, err := m.decode(wire)
	if err != nil {
		return dst, err
	}
	if err := m.checkRules(msg, forOutput); err != nil {
		return dst, err
	}
	if ok {
		return out, nil
	}
	return m.appendMessage(dst, msg)
}

// appendMessage writes a message as the general engine does.
func (m *Message) appendMessage(dst []byte, msg *dynamicpb.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{Resolver: m.resolver, EmitDefaultValues: true}.Marshal(msg)
	if err != nil {
		return dst, &OutputError{Step: "encode", Err: err}
	}
	if m.traits.hasInputOnly {
		compact, err := appendCompact(nil, raw)
		if err != nil {
			return dst, err
		}
		return m.traits.prune(dst, compact, m.md), nil
	}
	return appendCompact(dst, raw)
}

// CheckWire says whether wire bytes that are passed on as they are encode the message and keep its rules; the errors are
// those of ToJSON. The rules of a field that only one direction has are asked where the field is set.
func (m *Message) CheckWire(wire []byte) error {
	msg, err := m.decode(wire)
	if err != nil {
		return err
	}
	return m.checkRules(msg, forEither)
}

func (m *Message) decode(wire []byte) (msg *dynamicpb.Message, err error) {
	defer func() {
		// The library panics on the entry of a map that has its key twice, the second time with another type.
		if r := recover(); r != nil {
			msg, err = nil, &OutputError{Step: "decode", Err: fmt.Errorf("decode: %v", r)}
		}
	}()
	msg = dynamicpb.NewMessage(m.md)
	read := proto.UnmarshalOptions{Resolver: m.resolver, RecursionLimit: maxWireDepth}
	if err := read.Unmarshal(wire, msg); err != nil {
		return nil, &OutputError{Step: "decode", Err: err}
	}
	return msg, nil
}

// appendCompact takes out the white space, which protojson varies on purpose.
func appendCompact(dst, raw []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	if err := json.Compact(out, raw); err != nil {
		return dst, &OutputError{Step: "encode", Err: err}
	}
	return out.Bytes(), nil
}
