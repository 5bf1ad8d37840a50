// SPDX-License-Identifier: Apache-2.0

// Package wire reads single fields from the wire bytes of messages, independent of the extensions this process knows.
package wire

import "google.golang.org/protobuf/encoding/protowire"

// EachField calls fn for every length-delimited field of a message and skips the others.
func EachField(body []byte, fn func(protowire.Number, []byte) error) error {
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return protowire.ParseError(n)
		}
		body = body[n:]
		size := protowire.ConsumeFieldValue(num, typ, body)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(body)
			if err := fn(num, value); err != nil {
				return err
			}
		}
		body = body[size:]
	}
	return nil
}

// EachBytes calls fn for every value of one length-delimited field.
func EachBytes(body []byte, want protowire.Number, fn func([]byte) error) error {
	return EachField(body, func(num protowire.Number, value []byte) error {
		if num != want {
			return nil
		}
		return fn(value)
	})
}

// LastVarint returns the last value of a varint field in the wire bytes of a message.
func LastVarint(body []byte, want protowire.Number) (value uint64, found bool) {
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return value, found
		}
		body = body[n:]
		size := protowire.ConsumeFieldValue(num, typ, body)
		if size < 0 {
			return value, found
		}
		if num == want && typ == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(body)
			found = true
		}
		body = body[size:]
	}
	return value, found
}

// Varints returns the values of a repeated varint field, packed or not.
func Varints(body []byte, want protowire.Number) ([]uint64, error) {
	var out []uint64
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		body = body[n:]
		size := protowire.ConsumeFieldValue(num, typ, body)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		values := body[:size]
		if typ == protowire.BytesType {
			values, _ = protowire.ConsumeBytes(body)
		}
		for isWanted := num == want && (typ == protowire.VarintType || typ == protowire.BytesType); isWanted && len(values) > 0; {
			v, n := protowire.ConsumeVarint(values)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			out, values = append(out, v), values[n:]
		}
		body = body[size:]
	}
	return out, nil
}
