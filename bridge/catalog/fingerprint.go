// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// canonicalJSON is the one spelling of a JSON value: no white space, members sorted by name, strings with the fewest
// escapes, as RFC 8785 has it. Numbers stay as they were written, because RFC 8785 would round them to doubles.
func canonicalJSON(raw []byte) ([]byte, error) {
	value := jsontext.Value(raw).Clone()
	err := value.Format(
		jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false),
	)
	return value, err
}

// toolFingerprint is the SHA-256 over both canonical schemas, 64 hex digits.
func toolFingerprint(input, output []byte) (string, error) {
	hash := sha256.New()
	for _, schema := range [][]byte{input, output} {
		text, err := canonicalJSON(schema)
		if err != nil {
			return "", fmt.Errorf("canonicalise schema: %w", err)
		}
		hash.Write(text)
		// JSON text holds no line feed outside of white space, so the two cannot run into each other.
		hash.Write([]byte{'\n'})
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// seal keeps the SHA-256 over everything that callers can see of a tool. After that the tool must not change.
func (t *Tool) seal() error {
	text, err := json.Marshal([]any{
		t.Name, t.MCPName, t.Title, t.Description, t.Method.Procedure, t.Method.ClientStreaming,
		t.Method.ServerStreaming, t.Annotations, t.Version, t.Fingerprint, string(t.Input.Advertised),
		string(t.Output.Advertised), t.Metadata, t.Timeout, t.Examples, t.Tags, t.TaskSupport, t.TaskAfter,
	})
	if err != nil {
		return fmt.Errorf("fingerprint %s: %w", t.Name, err)
	}
	t.digest = sha256.Sum256(text)
	return nil
}

// catalogFingerprint is the SHA-256 over everything that callers can see of the tools, which are sealed and sorted by
// name. It reads 32 bytes of each, so that it costs little to add one.
func catalogFingerprint(tools []*Tool) string {
	all := make([]byte, 0, len(tools)*sha256.Size)
	for _, t := range tools {
		all = append(all, t.digest[:]...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}
