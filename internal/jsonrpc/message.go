// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Kind is the type of a message by the typing rule of the package comment.
type Kind uint8

// The kinds of a message. KindInvalid is a message that fits no type.
const (
	KindInvalid Kind = iota
	KindRequest
	KindNotification
	KindSuccess
	KindError
)

// String returns a name for logs.
func (k Kind) String() string {
	switch k {
	case KindRequest:
		return "request"
	case KindNotification:
		return "notification"
	case KindSuccess:
		return "success response"
	case KindError:
		return "error response"
	default:
		return "invalid"
	}
}

// Profile is the set of rules that a dialect adds to JSON-RPC 2.0.
type Profile uint8

const (
	// ProfileCanonical accepts string ids only. A request must have params,
	// and params must be an object if present. An error response may have a
	// null id.
	ProfileCanonical Profile = iota
	// ProfileCanonicalAnyID is ProfileCanonical that also accepts integer ids.
	ProfileCanonicalAnyID
	// ProfileMCP accepts string and integer ids, but no null id. Params are
	// optional, and an object if present. A result is an object.
	ProfileMCP
	// ProfileCanonicalUUID is ProfileCanonical that accepts only ids that are a
	// UUID in its usual form, for runs with deterministic ids.
	ProfileCanonicalUUID
)

// Message is one envelope. Params, Result and Error.Data alias the bytes given
// to Parse and are nil if the member is absent; a present null is the four
// bytes "null". ID and Method are copies.
//
// Do not act on a message with a Fault. Its Kind and ID are what could be
// determined despite the fault, so that it can be answered.
type Message struct {
	Kind   Kind
	ID     ID // zero: absent, null in an error response, or unreadable
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *ErrorObject
	Fault  *Fault
	// Asked is set where Fault is.
	Asked Asked

	index jsontext.Index // of Params
}

// ErrorObject is the error member of an error response.
type ErrorObject struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if absent
}
