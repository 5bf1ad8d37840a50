// SPDX-License-Identifier: Apache-2.0

package catalog

// ArgumentsJSON returns the JSON of a request that came as Protobuf, for records. It is nil
// for nil and where there is none: the bytes are no encoding of the message, or break its
// rules.
func (t *Tool) ArgumentsJSON(wire []byte) []byte {
	if t == nil || t.In == nil {
		return nil
	}
	text, err := t.In.ToJSON(nil, wire)
	if err != nil {
		return nil
	}
	return text
}

// ResultJSON is ArgumentsJSON for a response.
func (t *Tool) ResultJSON(wire []byte) []byte {
	if t == nil || t.Out == nil {
		return nil
	}
	text, err := t.Out.ToJSON(nil, wire)
	if err != nil {
		return nil
	}
	return text
}
