// SPDX-License-Identifier: Apache-2.0

// Package wire reads single fields from the wire bytes of messages, independent of the extensions this process knows.
package wire

import "google.golang.org/protobuf/encoding/protowire"

// Field is one field of a message.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	// All is the field as it is written. Value is that without the tag.
	All, Value []byte
}

// Bytes returns the content of a length-delimited field, and nil for others.
func (f Field) Bytes() []byte {
	if f.Type != protowire.BytesType {
		return nil
	}
	content, _ := protowire.ConsumeBytes(f.Value)
	return content
}

// Varint returns the value of a varint field, and 0 for others.
func (f Field) Varint() uint64 {
	if f.Type != protowire.VarintType {
		return 0
	}
	v, _ := protowire.ConsumeVarint(f.Value)
	return v
}

// Each calls fn for every field of a message, until fn fails or the bytes cannot be read.
func Each(body []byte, fn func(Field) error) error {
	for len(body) > 0 {
		num, typ, tag := protowire.ConsumeTag(body)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(num, typ, body[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := fn(Field{num, typ, body[:tag+size], body[tag : tag+size]}); err != nil {
			return err
		}
		body = body[tag+size:]
	}
	return nil
}

// EachField calls fn for every length-delimited field of a message and skips the others.
func EachField(body []byte, fn func(protowire.Number, []byte) error) error {
	return Each(body, func(f Field) error {
		if f.Type != protowire.BytesType {
			return nil
		}
		return fn(f.Number, f.Bytes())
	})
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

// LastVarint returns the last value of a varint field in the wire bytes of a message, as far as they can be read.
func LastVarint(body []byte, want protowire.Number) (value uint64, found bool) {
	_ = Each(body, func(f Field) error {
		if f.Number == want && f.Type == protowire.VarintType {
			value, found = f.Varint(), true
		}
		return nil
	})
	return value, found
}

// Varints returns the values of a repeated varint field, packed or not.
func Varints(body []byte, want protowire.Number) (out []uint64, err error) {
	err = Each(body, func(f Field) error {
		values := f.Bytes()
		if f.Type == protowire.VarintType {
			values = f.Value
		}
		for f.Number == want && len(values) > 0 {
			v, n := protowire.ConsumeVarint(values)
			if n < 0 {
				return protowire.ParseError(n)
			}
			out, values = append(out, v), values[n:]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
