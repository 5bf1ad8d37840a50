// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
)

// Protocol is a way to show errors.
type Protocol uint8

const (
	// CanonicalJSONRPC is the canonical dialect; see [Error.JSONRPC].
	CanonicalJSONRPC Protocol = iota + 1
	// ModernMCP and LegacyMCP are the eras of MCP; see [Error.MCP].
	ModernMCP
	LegacyMCP
	// ConnectRPC is Connect, gRPC and gRPC-Web; see [ToConnect].
	ConnectRPC
)

// TypeToolError is the error.type of OpenTelemetry for a result that says that its tool failed.
const TypeToolError = "tool_error"

// StatusOK is the status of a call without an error, in the words of gRPC.
const StatusOK = "OK"

// Status is what telemetry says of an error that a caller was shown, in the words of OpenTelemetry's conventions.
type Status struct {
	// Code is rpc.response.status_code: the JSON-RPC code as text, or gRPC's name of the code. A tool result has the code
	// that the error has elsewhere.
	Code string
	// Type is error.type: [TypeToolError] for a tool result, else Code. It is empty for what is no failure of the sidecar.
	Type string
}

// Status returns what telemetry says of the error where it is shown as on says. It renders nothing.
func (e *Error) Status(on Protocol, about About) Status {
	e = e.known()
	row := e.row()
	switch on {
	case ModernMCP:
		return e.shownStatus(row.Modern, about)
	case LegacyMCP:
		return e.shownStatus(row.Legacy, about)
	case ConnectRPC:
		return e.status(CodeName(e.ConnectCode()), false)
	case CanonicalJSONRPC:
	}
	return e.status(strconv.Itoa(row.JSONRPC), isCallers(row.JSONRPC))
}

func (e *Error) shownStatus(shown Shown, about About) Status {
	code := strconv.Itoa(shown.Code)
	if e.form(shown, about) == ToolResult {
		return Status{Code: code, Type: TypeToolError}
	}
	return e.status(code, isCallers(shown.Code))
}

func (e *Error) status(code string, callers bool) Status {
	if callers || e.BlamesCaller() {
		return Status{Code: code}
	}
	return Status{Code: code, Type: code}
}

// BlamesCaller reports whether the caller can mend the error, or chose it. For TOOL_EXECUTION_FAILED the backend's code
// decides.
func (e *Error) BlamesCaller() bool {
	e = e.known()
	row := e.row()
	if row.ByBackend {
		return e.backend().blamesCaller
	}
	return row.BlamesCaller
}

// Described is what a span says of the error for people. What callers and tools wrote stays out of it, as it stays out of
// the log.
func (e *Error) Described() string {
	e = e.known()
	switch e.Code {
	case Unavailable, TransportError, Timeout:
		if e.Message != "" {
			return Redact(e.Message)
		}
	}
	return e.row().Message
}

// isCallers holds for the JSON-RPC codes that servers do not count as errors of their own (OpenTelemetry's conventions
// for MCP).
func isCallers(code int) bool {
	return slices.Contains([]int{rpcParse, rpcInvalidRequest, rpcMethodNotFound, rpcInvalidParams, rpcLegacyNoResource}, code)
}

// CodeName returns gRPC's name of a code, such as NOT_FOUND.
func CodeName(code connect.Code) string {
	if code == connect.CodeCanceled {
		return "CANCELLED"
	}
	return strings.ToUpper(backendCodeName(code))
}
