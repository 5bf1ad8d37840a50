// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"iter"
)

// maxIndexed is how many members of params are remembered: more than any method
// of MCP or of the canonical dialect has.
const maxIndexed = 8

// paramIndex is where the members of params stand, noted in the one pass over
// the envelope: one of them, the arguments of a call, may have megabytes, over
// which every later look for another member would have to go.
type paramIndex struct {
	size   int // of params; zero where nothing was noted
	count  int
	fields [maxIndexed]paramField
}

// paramField is one member: offsets into params. The name is the text between
// its quotes.
type paramField struct{ name, value paramSpan }

type paramSpan struct{ start, end uint32 }

// note takes down a member whose name has no escapes. What has more members, or
// others, is left to Lookup.
func (x *paramIndex) note(name, value paramSpan, escaped bool) {
	if escaped || x.count >= maxIndexed {
		x.count = maxIndexed + 1
		return
	}
	x.fields[x.count] = paramField{name, value}
	x.count++
}

// isWhole reports whether all members of params are noted.
func (x *paramIndex) isWhole(params []byte) bool {
	return x.size > 0 && x.size == len(params) && x.count <= maxIndexed
}

func (x *paramIndex) lookup(params []byte, name string) (json.RawMessage, bool) {
	if !x.isWhole(params) {
		return Lookup(params, name)
	}
	for _, f := range x.fields[:x.count] {
		if string(params[f.name.start:f.name.end]) == name {
			return params[f.value.start:f.value.end:f.value.end], true
		}
	}
	return nil, false
}

// Param returns a member of params as Lookup does. In an envelope that was read
// it costs nothing to speak of, however large the params are.
func (e *Envelope) Param(name string) (json.RawMessage, bool) {
	return e.found.params.lookup(e.Params(), name)
}

// Param returns a member of Params as Lookup does. In a message that Parse or
// Envelope.As made it costs nothing to speak of, however large Params are.
func (m *Message) Param(name string) (json.RawMessage, bool) {
	return m.index.lookup(m.Params, name)
}

// ParamFields yields the members of Params as Fields does, at the price of Param.
func (m *Message) ParamFields() iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) { m.eachParam(yield) }
}

func (m *Message) eachParam(yield func([]byte, json.RawMessage) bool) {
	if !m.index.isWhole(m.Params) {
		eachField(m.Params, yield)
		return
	}
	for _, f := range m.index.fields[:m.index.count] {
		if !yield(m.Params[f.name.start:f.name.end], m.Params[f.value.start:f.value.end:f.value.end]) {
			return
		}
	}
}
