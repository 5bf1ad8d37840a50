// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"errors"
	"math"
	"strconv"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Domain is the domain of the google.rpc.ErrorInfo that carries a canonical code as its reason.
const Domain = "outrigger.dev"

// The keys of that ErrorInfo's metadata. Absent members have no key.
const (
	metaErrorType   = "errorType"
	metaRetryable   = "retryable"
	metaRequestID   = "requestId"
	metaTool        = "tool"
	metaBackendCode = "backendCode"
	metaStatus      = "backendStatus"
	metaItemsSent   = "itemsSent"
	metaURI         = "uri"
	metaRequested   = "requestedVersion"
	metaApproval    = "approval"
	metaHandle      = "approvalHandle"
	metaDenial      = "denial"
)

// ConnectCode returns the error's Connect code. That of TOOL_EXECUTION_FAILED is the backend's.
func (e *Error) ConnectCode() connect.Code {
	e = e.known()
	row := e.row()
	if row.ByBackend {
		return e.backend().code
	}
	return row.Connect
}

// ToConnect shows the error to Connect, gRPC and gRPC-Web callers, with details: google.rpc.ErrorInfo with the canonical
// code, outrigger.v1.ErrorDetail, google.rpc.BadRequest, buf.validate.Violations and RetryInfo where they apply, and what the
// backend itself said. Where its message says nothing, it names the fields of the violations.
// The result wraps nothing, so that no cause can leave with it.
func ToConnect(e *Error, about About) *connect.Error {
	e = e.known().Redacted()
	out := connect.NewError(e.ConnectCode(), errors.New(e.fieldMessage()))
	for _, m := range e.ownDetails(about) {
		addDetail(out, m)
	}
	for _, d := range keepDetails(e.Details, e.types) {
		addDetail(out, d)
	}
	if n := e.retryAfterHeader(); n > 0 {
		out.Meta().Set("Retry-After", strconv.Itoa(n))
	}
	if c := e.challenge(); c != "" {
		out.Meta().Set("WWW-Authenticate", c)
	}
	return out
}

// addDetail adds a detail, which has the same bytes for equal errors. Only a message that cannot be encoded fails, and one
// without that detail is still an answer.
func addDetail(out *connect.Error, m proto.Message) {
	encoded, isAny := m.(*anypb.Any)
	if !isAny {
		encoded = new(anypb.Any)
		if err := anypb.MarshalFrom(encoded, m, proto.MarshalOptions{Deterministic: true}); err != nil {
			return
		}
	}
	if d, err := connect.NewErrorDetail(encoded); err == nil {
		out.AddDetail(d)
	}
}

// ownDetails are the details that the canonical error itself gives. BadRequest and RetryInfo step back where the backend
// sent its own.
func (e *Error) ownDetails(about About) []proto.Message {
	lean := e.lean()
	details := []proto.Message{e.errorInfo(about), lean.Detail(about)}
	if len(lean.Violations) > 0 && !hasDetail(e.Details, (*errdetails.BadRequest)(nil)) {
		bad := new(errdetails.BadRequest)
		for _, v := range lean.Violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field:       clip(fieldPath(lean.Document, v.Path), maxViolationBytes),
				Reason:      reasonOf(v.Keyword),
				Description: clip(v.Message, maxViolationBytes),
			})
		}
		details = append(details, bad)
	}
	if broken := e.leanRules(); broken != nil {
		details = append(details, broken)
	}
	if wait := e.retryAfter(); wait > 0 && !hasDetail(e.Details, (*errdetails.RetryInfo)(nil)) {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if e.Code == MissingClientCapability && e.RequiredCapabilities != nil {
		details = append(details, &outriggerv1.MissingCapabilities{RequiredCapabilities: spelledOut(e.RequiredCapabilities)})
	}
	return details
}

// errorInfo carries the code and the plain members, so that another sidecar can read them back.
func (e *Error) errorInfo(about About) *errdetails.ErrorInfo {
	meta := map[string]string{
		metaErrorType: e.Type(),
		metaRetryable: strconv.FormatBool(e.CanRetry(about.Idempotent)),
	}
	if id := appendID(nil, about.RequestID); string(id) != "null" {
		meta[metaRequestID] = string(id)
	}
	for key, value := range map[string]string{
		metaTool:        clip(e.Tool, maxNameBytes),
		metaBackendCode: clip(e.BackendCode, maxNameBytes),
		metaURI:         clip(e.URI, maxURIBytes),
		metaRequested:   clip(e.Requested, maxNameBytes),
		metaApproval:    clip(e.Approval, maxNameBytes),
		metaHandle:      clip(e.Handle, maxURIBytes),
		metaDenial:      clip(e.Denial, maxNameBytes),
	} {
		if value != "" {
			meta[key] = value
		}
	}
	if e.BackendStatus != 0 {
		meta[metaStatus] = strconv.FormatUint(uint64(e.BackendStatus), 10)
	}
	if e.ItemsSent != nil {
		meta[metaItemsSent] = strconv.Itoa(*e.ItemsSent)
	}
	return &errdetails.ErrorInfo{Reason: string(e.Code), Domain: Domain, Metadata: meta}
}

func hasDetail(details []*anypb.Any, m proto.Message) bool {
	for _, d := range details {
		if d.MessageIs(m) {
			return true
		}
	}
	return false
}

// FromConnect is the inverse of ToConnect: it reads the canonical code from our ErrorInfo. An error without one, or
// with an unknown code, becomes TOOL_EXECUTION_FAILED with the backend's code, message and details. A
// failed_precondition with outrigger.v1.MissingCapabilities is MISSING_CLIENT_CAPABILITY. FromConnect(nil) is nil.
//
// For a backend's response use [FromBackend], which does not trust what a peer says about this connection.
func FromConnect(err *connect.Error) *Error {
	if err == nil {
		return nil
	}
	details := make([]*anypb.Any, 0, len(err.Details()))
	for _, d := range err.Details() {
		details = append(details, &anypb.Any{TypeUrl: typeURLPrefix + d.Type(), Value: d.Bytes()})
	}
	return fromStatus(err.Code(), err.Message(), details)
}

// FromBackend is FromConnect for the status of a backend. If the backend is a sidecar, its error may be about the
// connection between the two (a malformed envelope, credentials, a cancelled request). That is not the fault of this
// sidecar's caller, so the error becomes TOOL_EXECUTION_FAILED.
func FromBackend(err *connect.Error) *Error {
	if err == nil {
		return nil
	}
	return FromConnect(err).demoted(err.Code())
}

// FromBackendStatus is FromBackend for the parts of a status. code may be any number; a number that Connect does not
// define is the backend code "unknown", with the number in the message and in BackendStatus.
func FromBackendStatus(code connect.Code, message string, details []*anypb.Any) *Error {
	return fromStatus(code, message, details).demoted(code)
}

// demoted turns a Hop error into TOOL_EXECUTION_FAILED.
func (e *Error) demoted(code connect.Code) *Error {
	row := e.row()
	if !row.Hop {
		return e
	}
	text := e.message()
	return &Error{
		Code: ToolExecutionFailed, Message: string(text), safe: settled(text), ErrorType: e.ErrorType,
		BackendCode: backendCodeName(code), BackendStatus: foreignStatus(code), RetryAfter: e.RetryAfter, Details: e.Details,
	}
}

const typeURLPrefix = "type.googleapis.com/"

// fromStatus reads a status.
func fromStatus(code connect.Code, message string, details []*anypb.Any) *Error {
	details = keepDetails(details, nil)
	info, own := ourInfo(details)
	if info != nil {
		message = withoutFields(message, details)
	}
	text := redact(message).text
	e := &Error{RetryAfter: retryDelay(details), ErrorType: declaredType(details)}
	if caps := missingCapabilities(details); caps != nil && info == nil && code == connect.CodeFailedPrecondition {
		return &Error{Code: MissingClientCapability, Message: string(text), safe: settled(text), RequiredCapabilities: caps}
	}
	if info == nil {
		if !isBackendCode(code) && (message == "" || foreignStatus(code) == 0) {
			text = redact(unknownCodeText(code, string(text))).text
		}
		e.Code, e.BackendCode, e.BackendStatus = ToolExecutionFailed, backendCodeName(code), foreignStatus(code)
		e.Message, e.safe, e.Details = string(text), settled(text), details
		return e
	}
	e.Code = Code(info.GetReason())
	e.RequiredCapabilities = missingCapabilities(details)
	e.readMeta(info.GetMetadata())
	row := e.row()
	if e.ErrorType == row.ErrorType && !row.ByBackend {
		e.ErrorType = ""
	}
	if string(text) != row.Message {
		e.Message, e.safe = string(text), settled(text)
	}
	if !row.ByBackend {
		e.Violations = ourViolations(details)
	}
	found := len(e.Violations) > 0
	for i, d := range details {
		switch {
		case i == own || isErrorDetail(d) || isMissingCapabilities(d):
		case !row.ByBackend && d.MessageIs((*errdetails.BadRequest)(nil)):
			if !found {
				e.Violations = append(e.Violations, fieldFaults(details[i:i+1])...)
			}
		case !row.ByBackend && d.MessageIs((*validate.Violations)(nil)):
			if broken := new(validate.Violations); d.UnmarshalTo(broken) == nil {
				e.Broken = broken
			}
		case !row.ByBackend && d.MessageIs((*errdetails.RetryInfo)(nil)):
		default:
			e.Details = append(e.Details, d)
		}
	}
	if row.ByBackend && e.BackendCode == "" {
		e.BackendCode = backendCodeName(code)
	}
	return e
}

// readMeta takes the members of our ErrorInfo.
func (e *Error) readMeta(meta map[string]string) {
	if e.ErrorType == "" && validErrorType(meta[metaErrorType]) {
		e.ErrorType = meta[metaErrorType]
	}
	if yes, err := strconv.ParseBool(meta[metaRetryable]); err == nil {
		e.Retryable = &yes
	}
	e.Tool = clip(meta[metaTool], maxNameBytes)
	e.BackendCode = clip(meta[metaBackendCode], maxNameBytes)
	if n, err := strconv.ParseUint(meta[metaStatus], 10, 32); err == nil {
		e.BackendStatus = foreignStatus(connect.Code(n))
	}
	if n, err := strconv.ParseUint(meta[metaItemsSent], 10, 31); err == nil {
		sent := int(n)
		e.ItemsSent = &sent
	}
	e.URI = clip(meta[metaURI], maxURIBytes)
	e.Requested = clip(meta[metaRequested], maxNameBytes)
	e.Approval, e.Handle = clip(meta[metaApproval], maxNameBytes), clip(meta[metaHandle], maxURIBytes)
	e.Denial = clip(meta[metaDenial], maxNameBytes)
}

// ourInfo returns the ErrorInfo with our domain and a code of the table, and where it is; nil where there is none.
func ourInfo(details []*anypb.Any) (*errdetails.ErrorInfo, int) {
	for i, d := range details {
		info := new(errdetails.ErrorInfo)
		if !d.MessageIs(info) || d.UnmarshalTo(info) != nil || info.GetDomain() != Domain {
			continue
		}
		if _, err := Lookup(Code(info.GetReason())); err == nil {
			return info, i
		}
	}
	return nil, -1
}

// retryDelay is the wait that a google.rpc.RetryInfo asks for, within bounds; 0 for none.
func retryDelay(details []*anypb.Any) time.Duration {
	for _, d := range details {
		info := new(errdetails.RetryInfo)
		if d.MessageIs(info) && d.UnmarshalTo(info) == nil {
			return min(max(info.GetRetryDelay().AsDuration(), 0), maxRetryAfter)
		}
	}
	return 0
}

// backendRow is what TOOL_EXECUTION_FAILED takes from the backend's code.
type backendRow struct {
	code      connect.Code
	http      int
	errorType string
	retry     Retry
	// blamesCaller follows OpenTelemetry's conventions for servers of gRPC, which name six codes that are the server's.
	blamesCaller bool
}

// unknownBackend represents the code unknown and for every number that Connect does not define.
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
