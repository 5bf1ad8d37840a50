// SPDX-License-Identifier: Apache-2.0

package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// ValidateMessageEnvelope classifies a payload as exactly one of request,
// notification, success response and error response, by the typing rule of the
// canonical dialect and the schema of that type. The error is always a
// *jsonrpc.Fault. The message then holds what could be determined despite the
// fault, so that it can be answered. The message aliases raw.
func ValidateMessageEnvelope(raw []byte) (jsonrpc.Message, error) {
	return validate(raw, jsonrpc.ProfileCanonical, jsonrpc.Limits{})
}

// validate is the parser that the sidecar runs. That it says what typing rule
// and schema say is not assumed: FuzzEnvelopeAgainstSchema compares the two.
func validate(raw []byte, p jsonrpc.Profile, l jsonrpc.Limits) (jsonrpc.Message, error) {
	m := jsonrpc.Parse(raw, p, l)
	if m.Fault != nil {
		return m, m.Fault
	}
	return m, nil
}

// Envelope holds the compiled schemas of the four message types. The typing rule
// decides which one applies to a message, before a schema is evaluated.
type Envelope struct {
	Request, Notification, Success, Error *schema.Validator
}

// Of returns the schema of a kind; nil for KindInvalid.
func (e *Envelope) Of(k jsonrpc.Kind) *schema.Validator {
	switch k {
	case jsonrpc.KindRequest:
		return e.Request
	case jsonrpc.KindNotification:
		return e.Notification
	case jsonrpc.KindSuccess:
		return e.Success
	case jsonrpc.KindError:
		return e.Error
	default:
		return nil
	}
}

func compileEnvelope(p jsonrpc.Profile) (*Envelope, error) {
	ids, err := idsOf(p)
	if err != nil {
		return nil, err
	}
	var e Envelope
	for _, one := range []struct {
		name string
		to   **schema.Validator
	}{
		{schemas.Request, &e.Request},
		{schemas.Notification, &e.Notification},
		{schemas.SuccessResponse, &e.Success},
		{schemas.ErrorResponse, &e.Error},
	} {
		raw, err := EnvelopeSchema(one.name, p)
		if err != nil {
			return nil, err
		}
		if *one.to, err = schema.Compile(raw); err != nil {
			return nil, fmt.Errorf("contracttest: compile %s with %s: %w", one.name, ids, err)
		}
	}
	return &e, nil
}

// EnvelopeSchema returns one of the four schemas (schemas.Request and the
// others) for a profile: the file, in which the property id refers to the
// definition for the ids of that profile.
func EnvelopeSchema(name string, p jsonrpc.Profile) (json.RawMessage, error) {
	ids, err := idsOf(p)
	if err != nil {
		return nil, err
	}
	raw, err := schemas.Read(name)
	if err != nil {
		return nil, fmt.Errorf("contracttest: %w", err)
	}
	if ids == defaultIDs {
		return raw, nil
	}
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // the bounds of an error code have to stay exact
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("contracttest: read %s: %w", name, err)
	}
	properties, _ := document["properties"].(map[string]any)
	if id, ok := properties["id"].(map[string]any); ok {
		id["$ref"] = ids
	}
	if raw, err = json.Marshal(document); err != nil {
		return nil, fmt.Errorf("contracttest: write %s: %w", name, err)
	}
	return raw, nil
}

// defaultIDs is what the property id of the files refers to.
const defaultIDs = "#/$defs/id"

// idsOf returns the definition of an id under a profile.
func idsOf(p jsonrpc.Profile) (string, error) {
	switch p {
	case jsonrpc.ProfileCanonical:
		return defaultIDs, nil
	case jsonrpc.ProfileCanonicalAnyID:
		return "#/$defs/id_any", nil
	case jsonrpc.ProfileCanonicalUUID:
		return "#/$defs/id_uuid", nil
	default:
		return "", fmt.Errorf("contracttest: profile %d is not one of the canonical dialect", p)
	}
}
