// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"errors"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Errors that SplitBatch returns besides a *Fault. Match with errors.Is.
var (
	ErrBatchTooLarge = errors.New("jsonrpc: too many messages in one batch")
	ErrBatchEmpty    = errors.New("jsonrpc: a batch needs at least one message")
)

// IsBatch reports whether raw starts like an array. It checks nothing else.
func IsBatch(raw []byte) bool {
	pos := jsontext.SkipSpace(raw, 0)
	return pos < len(raw) && raw[pos] == '['
}

// SplitBatch checks a batch and returns its messages, which alias raw and are not
// parsed yet. MaxBytes bounds the whole batch. MaxDepth bounds each message: the
// depth of a message does not include the batch.
//
// It returns a *Fault if raw is not JSON, not an array, or too large,
// ErrBatchTooLarge if there are more than most messages (zero means
// defaults.MaxBatchEntries), and ErrBatchEmpty. A syntax error anywhere refuses the
// whole batch, because the message boundaries are then uncertain.
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
