// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

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
	// firstBlock is the place of the first block of a message that is written in
	// parts.
	firstBlock int32
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

// require keeps the fault of a field that is empty.
func (w *writer) require(field, value string) {
	if value == "" {
		w.failIn(field, noValue)
	}
}

// base64 appends base64 with padding (RFC 4648, section 4).
func (w *writer) base64(value []byte) {
	w.raw(`"`)
	w.dst = base64.StdEncoding.AppendEncode(w.dst, value)
	w.raw(`"`)
}

// time appends a time of RFC 3339 in UTC, with as many digits of a second as there
// are.
func (w *writer) time(t time.Time) {
	w.raw(`"`)
	w.dst = t.AppendFormat(w.dst, time.RFC3339Nano)
	w.raw(`"`)
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
