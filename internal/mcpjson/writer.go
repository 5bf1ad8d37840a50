// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// writer appends one value, or the members of one, and keeps the first thing that
// is wrong with the message. After that it still goes on, and what it appended is
// thrown away at the end.
type writer struct {
	trail
	dst   []byte
	start int
	rev   Revision
}

func newWriter(dst []byte, rev Revision) writer {
	return writer{dst: dst, start: len(dst), rev: rev}
}

// done returns the extended buffer, or the buffer as it was and the fault.
func (w *writer) done() ([]byte, error) {
	if w.err != nil {
		return w.dst[:w.start], w.err
	}
	return w.dst, nil
}

// unsupported keeps a fault of the revision, not of the message.
func (w *writer) unsupported(feature string) {
	if w.err == nil {
		w.err = &UnsupportedError{Revision: w.rev, Feature: feature}
	}
}

func (w *writer) raw(s string) { w.dst = append(w.dst, s...) }

// comma separates from what stands before in the same container. A value never
// ends in an opening bracket, so the last byte tells.
func (w *writer) comma() {
	if n := len(w.dst); n > w.start && w.dst[n-1] != '{' && w.dst[n-1] != '[' {
		w.dst = append(w.dst, ',')
	}
}

// member appends the name of a member, one of MCP's, and its colon.
func (w *writer) member(name string) {
	w.comma()
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `":`...)
}

// key appends a name that is not ours.
func (w *writer) key(name string) {
	w.comma()
	w.quote(name)
	w.raw(":")
}

func (w *writer) quote(s string) { w.dst = jsontext.AppendString(w.dst, s) }

// text appends a member that is left out where it is empty.
func (w *writer) text(name, value string) {
	if value != "" {
		w.member(name)
		w.quote(value)
	}
}

// need appends a member that MCP requires and that says nothing when empty. The
// field is its name in the message.
func (w *writer) need(name, field, value string) {
	w.require(field, value)
	w.member(name)
	w.quote(value)
}

// require keeps the fault of a field that is empty.
func (w *writer) require(field, value string) {
	if value == "" {
		w.failIn(field, "MCP requires it; give it a value.")
	}
}

// oneOf appends a member that is one of a few words, and leaves it out where it is
// empty.
func (w *writer) oneOf(name, field, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		w.failIn(field, "Use one of the words that MCP knows here.")
	}
	w.text(name, value)
}

// flag appends a member that is left out where it is false.
func (w *writer) flag(name string, value bool) {
	if value {
		w.member(name)
		w.raw("true")
	}
}

func (w *writer) integer(name string, value int64) {
	w.member(name)
	w.dst = strconv.AppendInt(w.dst, value, 10)
}

// number appends a number that has to be finite, because JSON knows no other.
func (w *writer) number(name, field string, value float64) {
	if !isFinite(value) {
		w.failIn(field, "Make it a finite number; JSON knows no other.")
		return
	}
	w.member(name)
	w.dst = appendNumber(w.dst, value)
}

// fraction appends a number from 0 to 1, where it is set.
func (w *writer) fraction(name, field string, value *float64) {
	if value == nil {
		return
	}
	if !(*value >= 0 && *value <= 1) {
		w.failIn(field, "Make it a number from 0 to 1.")
		return
	}
	w.number(name, field, *value)
}

// bytes appends base64 with padding (RFC 4648, section 4).
func (w *writer) bytes(name string, value []byte) {
	w.member(name)
	w.raw(`"`)
	w.dst = base64.StdEncoding.AppendEncode(w.dst, value)
	w.raw(`"`)
}

// time appends a time of RFC 3339 in UTC, with as many digits of a second as there
// are.
func (w *writer) time(name, field string, t *timestamppb.Timestamp) {
	if t.CheckValid() != nil {
		w.failIn(field, "Make it a time between the years 1 and 9999.")
		return
	}
	w.member(name)
	w.raw(`"`)
	w.dst = t.AsTime().AppendFormat(w.dst, time.RFC3339Nano)
	w.raw(`"`)
}

// list appends an array, each element by a function that may fail.
func list[T any](w *writer, field string, items []T, one func(*writer, T)) {
	w.raw("[")
	w.enter(field)
	for i, item := range items {
		w.comma()
		w.item(i)
		one(w, item)
		w.leave()
	}
	w.leave()
	w.raw("]")
}

// texts appends an array of strings.
func (w *writer) texts(name string, values []string) {
	w.member(name)
	w.raw("[")
	for _, v := range values {
		w.comma()
		w.quote(v)
	}
	w.raw("]")
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// appendNumber appends a finite number as ECMAScript writes it, which is what
// readers of JSON are used to: the shortest digits that mean this number, with an
// exponent only where it is very large or very small.
func appendNumber(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}
