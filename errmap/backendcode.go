// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"math"
	"strconv"

	"connectrpc.com/connect"
)

// backendRow is what TOOL_EXECUTION_FAILED takes from the backend's code.
type backendRow struct {
	code      connect.Code
	http      int
	errorType string
	retry     Retry
	// blamesCaller follows OpenTelemetry's conventions for servers of gRPC, which name six codes that are the server's.
	blamesCaller bool
}

// unknownBackend stands for the code unknown and for every number that Connect does not define.
func unknownBackend() backendRow {
	return backendRow{connect.CodeUnknown, 500, TypeToolExecution, RetryNo, false}
}

// backendRows has one row for each of Connect's sixteen codes. Nothing assigns to it.
//
// The HTTP statuses are those of the Connect protocol, section "Error Codes". Retries: the gRPC status code guide calls
// unavailable a transient condition, aborted a conflict in which the operation took no effect, and resource_exhausted a
// quota; a deadline leaves the outcome unknown.
var backendRows = [...]backendRow{
	{connect.CodeCanceled, 499, TypeToolExecution, RetryNo, true},
	{connect.CodeUnknown, 500, TypeToolExecution, RetryNo, false},
	{connect.CodeInvalidArgument, 400, TypeValidation, RetryNo, true},
	{connect.CodeDeadlineExceeded, 504, TypeTimeout, RetryIdempotent, false},
	{connect.CodeNotFound, 404, TypeResourceNotFound, RetryNo, true},
	{connect.CodeAlreadyExists, 409, TypeToolExecution, RetryNo, true},
	{connect.CodePermissionDenied, 403, TypePermission, RetryNo, true},
	{connect.CodeResourceExhausted, 429, TypeAPILimitExceeded, RetryYes, true},
	{connect.CodeFailedPrecondition, 400, TypeValidation, RetryNo, true},
	{connect.CodeAborted, 409, TypeToolExecution, RetryYes, true},
	{connect.CodeOutOfRange, 400, TypeValidation, RetryNo, true},
	{connect.CodeUnimplemented, 501, TypeToolExecution, RetryNo, false},
	{connect.CodeInternal, 500, TypeToolExecution, RetryNo, false},
	{connect.CodeUnavailable, 503, TypeToolExecution, RetryYes, false},
	{connect.CodeDataLoss, 500, TypeToolExecution, RetryNo, false},
	{connect.CodeUnauthenticated, 401, TypeAuthentication, RetryNo, true},
}

// backendCodeName returns Connect's word for a code, and "unknown" for a number that Connect does not define.
func backendCodeName(code connect.Code) string {
	for i := range backendRows {
		if backendRows[i].code == code {
			return code.String()
		}
	}
	return connect.CodeUnknown.String()
}

// isBackendCode reports whether Connect defines the code.
func isBackendCode(code connect.Code) bool {
	return code == connect.CodeUnknown || backendCodeName(code) != connect.CodeUnknown.String()
}

// backend returns the row of the error's BackendCode; a name that is not Connect's is "unknown".
func (e *Error) backend() backendRow {
	for i := range backendRows {
		if backendRows[i].code.String() == e.BackendCode {
			return backendRows[i]
		}
	}
	return unknownBackend()
}

// backendErrorType is the error type by the backend's code. A not_found whose ResourceInfo speaks of a file is a
// FileNotFoundError.
func (e *Error) backendErrorType() string {
	row := e.backend()
	if row.code == connect.CodeNotFound && namesFile(e.Details) {
		return TypeFileNotFound
	}
	return row.errorType
}

// unknownCodeText is the message for a status number that Connect does not define. The number is kept: it is the only
// thing that tells such answers apart.
func unknownCodeText(code connect.Code, message string) string {
	text := "unknown status code " + strconv.FormatUint(uint64(code), 10)
	if message == "" {
		return "Tool service answered with " + text
	}
	return message + " (" + text + ")"
}

// foreignStatus is a status number above those that gRPC and Connect define, within what a gRPC status can hold; else 0.
func foreignStatus(code connect.Code) uint32 {
	if code <= connect.CodeUnauthenticated || code > math.MaxInt32 {
		return 0
	}
	return uint32(code)
}
