// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// unread is why a message was refused when it was read, on its way from the codec to the handler. Connect hands an error
// of a codec to the caller as it is, before any interceptor, and gives the codec nothing of the request but the message. So
// it travels as an unknown field of the message, of which codecs leave no other.
type unread struct {
	Code       errmap.Code        `json:"code"`
	Message    string             `json:"message,omitempty"`
	Violations []errmap.Violation `json:"violations,omitempty"`
	Limit      errmap.Limit       `json:"limit,omitempty"`
}

// refusalField is the number of that field, the largest there is.
const refusalField = protowire.MaxValidNumber

// refuseMessage keeps an error in a message, nil for none. It replaces what a caller may have sent in the same place.
func refuseMessage(m proto.Message, failed *errmap.Error) {
	if failed == nil {
		return
	}
	raw, err := json.Marshal(unread{Code: failed.Code, Message: failed.Message, Violations: failed.Violations, Limit: failed.Limit})
	if err != nil {
		raw = []byte(`{"code":"` + string(errmap.ParseError) + `"}`)
	}
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, refusalField, protowire.BytesType), raw))
}

// refusalOf takes the error out of a message; nil where there is none.
func refusalOf(m proto.Message) *errmap.Error {
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 {
		return nil
	}
	m.ProtoReflect().SetUnknown(nil)
	var r unread
	_, _, n := protowire.ConsumeTag(unknown)
	raw, size := protowire.ConsumeBytes(unknown[max(n, 0):])
	if n < 0 || size < 0 || json.Unmarshal(raw, &r) != nil {
		return errmap.New(errmap.ParseError)
	}
	return &errmap.Error{Code: r.Code, Message: r.Message, Violations: r.Violations, Limit: r.Limit}
}
