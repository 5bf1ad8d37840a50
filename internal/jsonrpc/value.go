// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"iter"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The functions of this file are those of package jsontext, for payloads of
// messages that were checked.

// Lookup is jsontext.Lookup.
func Lookup(object []byte, name string) (json.RawMessage, bool) { return jsontext.Lookup(object, name) }

// Members is jsontext.Members.
func Members(object []byte) iter.Seq2[string, json.RawMessage] { return jsontext.Members(object) }

// Fields is jsontext.Fields.
func Fields(object []byte) iter.Seq2[[]byte, json.RawMessage] { return jsontext.Fields(object) }

// Elements is jsontext.Elements.
func Elements(array []byte) iter.Seq[json.RawMessage] { return jsontext.Elements(array) }

// Text is jsontext.Text.
func Text(raw []byte) (string, bool) { return jsontext.Text(raw) }

// IsText is jsontext.IsText.
func IsText(raw []byte, want string) bool { return jsontext.IsText(raw, want) }

// Int64 is jsontext.Int64.
func Int64(raw []byte) (int64, bool) { return jsontext.Int64(raw) }

// IsObject is jsontext.IsObject.
func IsObject(raw []byte) bool { return jsontext.IsObject(raw) }

// IsNull is jsontext.IsNull.
func IsNull(raw []byte) bool { return jsontext.IsNull(raw) }

// Compact is jsontext.Compact.
func Compact(dst, raw []byte) []byte { return jsontext.Compact(dst, raw) }

// AppendString is jsontext.AppendString.
func AppendString(dst []byte, s string) []byte { return jsontext.AppendString(dst, s) }

// AppendText is jsontext.AppendText.
func AppendText(dst, s []byte) []byte { return jsontext.AppendText(dst, s) }
