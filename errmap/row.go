// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
)

// ErrUnknownCode is returned by [Lookup], wrapped with the code, for a code that is not in the table.
var ErrUnknownCode = errors.New("errmap: unknown canonical code")

// Form is the form in which an error reaches an MCP client.
type Form uint8

const (
	// ProtocolError is a JSON-RPC error.
	ProtocolError Form = iota + 1
	// ToolResult is a result with isError, sent with HTTP 200.
	ToolResult
	// Silent means that nothing is sent.
	Silent
)

// String returns the form's name, for logs.
func (f Form) String() string {
	switch f {
	case ProtocolError:
		return "protocol error"
	case ToolResult:
		return "tool result"
	case Silent:
		return "silent"
	default:
		return "unknown form"
	}
}

// Retry is a row's answer to whether the same call may be sent again.
type Retry uint8

const (
	// RetryNo: the same call fails again.
	RetryNo Retry = iota + 1
	// RetryYes: the call did not run, or the peer asks for a retry.
	RetryYes
	// RetryIdempotent: the outcome is unknown, so only idempotent calls.
	RetryIdempotent
	// RetryByBackend: the backend's code decides.
	RetryByBackend
)

// String returns the value as docs/errors.md shows it.
func (r Retry) String() string {
	switch r {
	case RetryNo:
		return "no"
	case RetryYes:
		return "yes"
	case RetryIdempotent:
		return "idempotent tools only"
	case RetryByBackend:
		return "by the backend's code"
	default:
		return "unknown"
	}
}

// Shown is what a row says of one era of MCP.
type Shown struct {
	// Form is the form of the error for a tools/call. For other requests a ToolResult is a ProtocolError.
	Form Form
	// HTTP and Code are those of the protocol error.
	HTTP, Code int
	// AltHTTP is the status in the special case of the column, else 0: INVALID_PARAMS for a missing _meta field,
	// SESSION_NOT_FOUND if no session id was sent.
	AltHTTP int
	// Absent: the error cannot occur in this era. The other members have values that are safe to send.
	Absent bool
}

// Row is one row of the canonical table: what a code is on each edge.
type Row struct {
	Code      Code
	HTTP      int // for a ByBackend row the status of an unknown backend code
	JSONRPC   int
	Modern    Shown // MCP 2026-07-28
	Legacy    Shown // MCP 2025-11-25 and before
	Connect   connect.Code
	ErrorType string
	Message   string
	Retryable Retry
	// BlamesCaller: the caller can mend this, or chose it. Telemetry does not count it as a failure of the sidecar.
	BlamesCaller bool
	// Fixed: the product's contract fixes HTTP, JSONRPC and Message; the canonical dialect always sends this message.
	Fixed bool
	// ByBackend: HTTP, Connect, ErrorType and BlamesCaller follow the backend's code.
	ByBackend bool
	// Hop: the error describes one connection. If a backend reports one about its connection to the sidecar, it is not
	// forwarded as if it were about the caller's.
	Hop bool
}

// Lookup returns the row of a code. For a code that the table does not have, the error wraps [ErrUnknownCode].
func Lookup(code Code) (Row, error) {
	if row := find(code); row != nil {
		return *row, nil
	}
	return Row{}, fmt.Errorf("%w: %q", ErrUnknownCode, clip(string(code), maxNameBytes))
}

// find returns the row of a code, in the table, where nothing writes it; nil if there is none. A copy is large, and one
// conversion asks for the row many times.
func find(code Code) *Row {
	for i := range rows {
		if rows[i].Code == code {
			return &rows[i]
		}
	}
	return nil
}

// Codes returns every canonical code, in the order of the table. The caller may modify the slice.
func Codes() []Code {
	codes := make([]Code, len(rows))
	for i := range rows {
		codes[i] = rows[i].Code
	}
	return codes
}
