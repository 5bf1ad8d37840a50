// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// ToJSON appends the JSON of wire bytes to dst, compact and deterministic: members in the order of the descriptor, map
// entries sorted by key.
//
// A value that ProtoJSON has no form for, such as a Timestamp out of range, is written in the nearest form (see Noted).
//
// An *OutputError means that the bytes are not an encoding of the message. An *InputError means that rules are broken, and a *ruleError that a rule failed to run.
// On an error, dst is returned unchanged. Neither argument is retained.
func (m *Message) ToJSON(dst, wire []byte) ([]byte, error) { return m.ToJSONWith(nil, dst, wire) }

// ToJSONWith is ToJSON for a caller that reuses buffers. If dst has no room for the JSON, whose size is known only now,
// the content of dst and the JSON are written to a buffer from pool.
func (m *Message) ToJSONWith(pool BufferPool, dst, wire []byte) ([]byte, error) {
	out, _, err := m.ToJSONNoting(context.Background(), pool, dst, wire)
	return out, err
}

// ToJSONNoting is ToJSONWith that also returns what there is to say about the JSON. The check ends with the context, as
// that of ToWireWith does.
func (m *Message) ToJSONNoting(ctx context.Context, pool BufferPool, dst, wire []byte) (out []byte, noted Noted, err error) {
	out, noted, ok := m.write(pool, dst, wire)
	if ok && (m.rules == nil || m.keeps(ctx, wire, forOutput)) {
		return out, noted, nil
	}
	end, err := turn(ctx, len(wire)*jsonGrowth)
	if err != nil {
		return dst, Noted{}, err
	}
	defer end()
	msg, err := m.decode(wire)
	if err != nil {
		return dst, Noted{}, m.located(err, wire)
	}
	if err := m.checkRules(ctx, msg, len(wire), forOutput, nil); err != nil {
		return dst, Noted{}, err
	}
	if ok {
		return out, noted, nil
	}
	out, noted, err = m.appendMessage(dst, wire, msg)
	return out, noted, m.located(err, wire)
}

// appendMessage writes a message as the general engine does, and may change it: what protojson writes, and what it has no
// form for in the nearest form.
func (m *Message) appendMessage(dst, wire []byte, msg *dynamicpb.Message) (out []byte, noted Noted, err error) {
	out, unknown, err := m.appendStandard(dst, msg)
	if err == nil {
		return out, Noted{Unknown: unknown}, nil
	}
	if out, noted, ok := m.appendNearest(dst, wire); ok {
		return out, noted, nil
	}
	return dst, Noted{}, err
}

// appendStandard writes a message with protojson.
//
// protojson has no form for an Any of an unknown type and no notion of INPUT_ONLY, so the message is changed before it
// (anyWalk) and the JSON behind it (prune). It also varies its white space on purpose, which appendCompact removes.
func (m *Message) appendStandard(dst []byte, msg *dynamicpb.Message) (out []byte, unknown []string, err error) {
	types := &opaqueTypes{Resolver: m.resolver}
	if m.traits.holdsAny {
		w := anyWalk{types: types, change: intoBytes}
		if _, err := w.message(msg, 1); err != nil {
			return dst, nil, &OutputError{Step: "encode", Err: err}
		}
	}
	raw, err := protojson.MarshalOptions{Resolver: types, EmitDefaultValues: true}.Marshal(msg)
	if err != nil {
		return dst, nil, &OutputError{Step: "encode", Err: err}
	}
	for url := range types.unknown {
		unknown = noted(unknown, url)
	}
	if m.traits.hasInputOnly {
		compact, err := appendCompact(nil, raw)
		if err != nil {
			return dst, nil, err
		}
		return m.traits.prune(dst, compact, m.md), unknown, nil
	}
	out, err = appendCompact(dst, raw)
	return out, unknown, err
}

// CheckWire checks that wire bytes to be passed through unchanged encode the message and keep its rules. The errors are
// those of ToJSONNoting. It does not know the direction, so the rules of a field that exists in one direction only apply if the
// field is set. Messages with rules go through the general engine: the quick check of rules relies on bytes that a plan
// read or wrote.
func (m *Message) CheckWire(ctx context.Context, wire []byte) error {
	if m.rules == nil && m.prepared().decodes(wire, 1) {
		return nil
	}
	end, err := turn(ctx, len(wire)*jsonGrowth)
	if err != nil {
		return err
	}
	defer end()
	msg, err := m.decode(wire)
	if err != nil {
		return m.located(err, wire)
	}
	return m.checkRules(ctx, msg, len(wire), forEither, nil)
}

// decode is the general engine's reader of wire bytes. Nesting is bounded by maxWireDepth, as it is in the plan.
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
