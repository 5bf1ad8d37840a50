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
}

// unknownBackend stands for the code unknown and for every number that Connect does not define.
func unknownBackend() backendRow {
	return backendRow{connect.CodeUnknown, 500, TypeToolExecution, RetryNo}
}

// backendRows has one row for each of Connect's sixteen codes. Nothing assigns to it.
//
// The HTTP statuses are those of the Connect protocol, section "Error Codes". Retries: the gRPC status code guide calls
// unavailable a transient condition, aborted a conflict in which the operation took no effect, and resource_exhausted a
// quota; a deadline leaves the outcome unknown.
var backendRows = [...]backendRow{
	{connect.CodeCanceled, 499, TypeToolExecution, RetryNo},
	{connect.CodeUnknown, 500, TypeToolExecution, RetryNo},
	{connect.CodeInvalidArgument, 400, TypeValidation, RetryNo},
	{connect.CodeDeadlineExceeded, 504, TypeTimeout, RetryIdempotent},
	{connect.CodeNotFound, 404, TypeResourceNotFound, RetryNo},
	{connect.CodeAlreadyExists, 409, TypeToolExecution, RetryNo},
	{connect.CodePermissionDenied, 403, TypePermission, RetryNo},
	{connect.CodeResourceExhausted, 429, TypeAPILimitExceeded, RetryYes},
	{connect.CodeFailedPrecondition, 400, TypeValidation, RetryNo},
	{connect.CodeAborted, 409, TypeToolExecution, RetryYes},
	{connect.CodeOutOfRange, 400, TypeValidation, RetryNo},
	{connect.CodeUnimplemented, 501, TypeToolExecution, RetryNo},
	{connect.CodeInternal, 500, TypeToolExecution, RetryNo},
	{connect.CodeUnavailable, 503, TypeToolExecution, RetryYes},
	{connect.CodeDataLoss, 500, TypeToolExecution, RetryNo},
	{connect.CodeUnauthenticated, 401, TypeAuthentication, RetryNo},
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
