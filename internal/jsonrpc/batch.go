// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"errors"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// What SplitBatch returns beside a *Fault. Match with errors.Is.
var (
	ErrBatchTooLarge = errors.New("jsonrpc: too many messages in one batch")
	ErrBatchEmpty    = errors.New("jsonrpc: a batch needs at least one message")
)

// IsBatch reports whether raw starts like an array. It looks no further.
func IsBatch(raw []byte) bool {
	pos := jsontext.SkipSpace(raw, 0)
	return pos < len(raw) && raw[pos] == '['
}

// SplitBatch checks a batch and returns its messages, which alias raw and are
// yet to be parsed. MaxBytes bounds the whole batch, MaxDepth each message: a
// message is as deep in a batch as alone.
//
// Its errors are a *Fault where raw is not JSON, no array, or too large;
// ErrBatchTooLarge for more than most messages (zero means defaults.MaxBatchEntries); and
// ErrBatchEmpty. A syntax error anywhere refuses the whole batch, because
// nothing proves then where a message ends.
func SplitBatch(raw []byte, most int, l Limits) ([]json.RawMessage, error) {
	defaults.Fill(&most, defaults.MaxBatchEntries)
	l = l.WithDefaults()
	l.MaxDepth++
	if f := check(raw, l); f != nil {
		return nil, f
	}
	if !IsBatch(raw) {
		return nil, envelopeFault("", "Send an array of messages.")
	}
	messages := make([]json.RawMessage, 0, min(most, defaults.MaxBatchEntries))
	for message := range jsontext.Elements(raw) {
		if len(messages) == most {
			return nil, ErrBatchTooLarge
		}
		messages = append(messages, message)
	}
	if len(messages) == 0 {
		return nil, ErrBatchEmpty
	}
	return messages, nil
}
