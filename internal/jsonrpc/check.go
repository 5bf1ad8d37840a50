// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Check returns the first reason to refuse raw as JSON, or nil. It is the
// syntax check of Parse for documents that are not envelopes: UTF-8 without a
// byte order mark, RFC 8259, no duplicate names, no lone surrogates, nothing
// after the value, size and depth within l. Its faults are FaultParse and
// FaultTooLarge.
func Check(raw []byte, l Limits) *Fault {
	return check(raw, l.WithDefaults())
}

func check(raw []byte, l Limits) *Fault {
	if f := checkSize(raw, l); f != nil {
		return f
	}
	return faultOf(jsontext.Check(raw, l.MaxDepth))
}

func checkSize(raw []byte, l Limits) *Fault {
	if len(raw) <= l.MaxBytes {
		return nil
	}
	return &Fault{Code: FaultTooLarge, Reason: "The message is larger than " + strconv.Itoa(l.MaxBytes) + " bytes.", Over: OverBytes}
}
