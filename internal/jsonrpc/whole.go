// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Bounds of a number that is read by its value. They are those of the bridge's
// schema validator, so that the two refuse the same numbers.
const (
	maxNumberBytes = 1024
	maxExponent    = 2000
)

// maxInt64Digits is the length of 9223372036854775807.
const maxInt64Digits = 19

// wholeNumber returns the value of a JSON number that is an integer of 64 bits
// by its value, as JSON Schema understands the word: 1.0 and 1e2 are integers.
// The error code of a response is read so, because the contract gives it as a
// schema; ids, which are echoed and compared, are not.
func wholeNumber(raw []byte) (int64, bool) {
	if n, ok := jsontext.Int64(raw); ok || len(raw) == 0 || len(raw) > maxNumberBytes {
		return n, ok
	}
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	number, sign := raw, ""
	if number[0] == '-' {
		number, sign = number[1:], "-"
	}
	exponent := 0
	if at := bytes.IndexAny(number, "eE"); at >= 0 {
		var err error
		exponent, err = strconv.Atoi(string(number[at+1:]))
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return 0, false
		}
		number = number[:at]
	}
	whole, fraction, _ := bytes.Cut(number, []byte{'.'})
	digits := append(append(make([]byte, 0, len(number)), whole...), fraction...)
	exponent -= len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return 0, true
	}
	significant := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	if exponent < 0 || len(significant)+exponent > maxInt64Digits {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+string(significant)+string(bytes.Repeat([]byte{'0'}, exponent)), 10, 64)
	return n, err == nil
}
