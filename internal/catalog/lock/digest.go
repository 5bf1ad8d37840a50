// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	ownjsontext "github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The members of a tool that a digest covers, as MCP names them.
const (
	Name         = "name"
	Description  = "description"
	InputSchema  = "inputSchema"
	OutputSchema = "outputSchema"
	Annotations  = "annotations"
)

// Members are the parts of a tool that its digest covers, as clients see them.
type Members struct {
	// Name is the canonical name.
	Name, Description string
	// InputSchema and Annotations are JSON objects. OutputSchema is one too, or empty if the tool has no output schema.
	InputSchema, OutputSchema, Annotations json.RawMessage
}

// shortDigits is the length of the digest of a single member. It only tells a reviewer which member changed; the digest
// of the tool decides.
const shortDigits = 16

// Entry is a tool in a lock.
type Entry struct {
	// Name is the canonical name of the tool.
	Name string `json:"name"`
	// Digest is the SHA-256 of the tool, 64 lowercase hex digits. It is empty only for a tool that has no RFC 8785 form.
	Digest string `json:"digest"`
	// Members are the first 16 hex digits of the SHA-256 of each member except the name, by the member's name. A tool
	// without an output schema has none for that.
	Members map[string]string `json:"members"`
}

// NewEntry computes the digests of a tool. If a member has no RFC 8785 form, because it is not valid JSON, has duplicate
// names or text that is not Unicode, the error names it, and the entry has no digest.
func NewEntry(m Members) (Entry, error) {
	entry := Entry{Name: m.Name, Members: map[string]string{}}
	object := append([]byte(`{"name":`), ownjsontext.AppendString(nil, m.Name)...)
	var faults []error
	for _, member := range [...]struct {
		name  string
		value []byte
	}{
		{Description, ownjsontext.AppendString(nil, m.Description)},
		{InputSchema, m.InputSchema},
		{OutputSchema, m.OutputSchema},
		{Annotations, m.Annotations},
	} {
		if len(member.value) == 0 {
			continue
		}
		canonical, err := canonicalise(member.value)
		if err != nil {
			faults = append(faults, fmt.Errorf("tool %s: %s: %w", m.Name, member.name, err))
			continue
		}
		entry.Members[member.name] = sum(canonical)[:shortDigits]
		object = append(append(object, `,"`+member.name+`":`...), canonical...)
	}
	if len(faults) > 0 {
		return entry, errors.Join(faults...)
	}
	canonical, err := canonicalise(append(object, '}'))
	if err != nil {
		return entry, fmt.Errorf("tool %s: %w", m.Name, err)
	}
	entry.Digest = sum(canonical)
	return entry, nil
}

// canonicalise returns the RFC 8785 form of a JSON text. Numbers become IEEE 754 doubles, as the RFC requires.
func canonicalise(text []byte) ([]byte, error) {
	value := append(jsontext.Value(nil), text...)
	err := value.Canonicalize()
	return value, err
}

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}
