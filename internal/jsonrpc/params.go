// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"iter"
)

// Param returns a member of params as Lookup does. In an envelope that was read,
// its cost is negligible, however large the params are.
func (e *Envelope) Param(name string) (json.RawMessage, bool) {
	return e.params.Lookup(e.Params(), name)
}

// Param returns a member of Params as Lookup does. In a message from Parse or
// Envelope.As, its cost is negligible, however large Params are.
func (m *Message) Param(name string) (json.RawMessage, bool) {
	return m.index.Lookup(m.Params, name)
}

// ParamFields yields the members of Params as Fields does, at the cost of Param.
func (m *Message) ParamFields() iter.Seq2[[]byte, json.RawMessage] { return m.index.Fields(m.Params) }
