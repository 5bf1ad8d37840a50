// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Era is a family of MCP revisions in which errors look alike.
type Era uint8

const (
	// Modern is MCP 2026-07-28.
	Modern Era = iota + 1
	// Legacy is MCP 2025-11-25 and the revisions before it.
	Legacy
)

const (
	// maxVersionBytes bounds the echo of a protocol version; the known ones have ten bytes.
	maxVersionBytes = 1024
	// maxURIBytes bounds the echo of a resource's URI: what browsers and proxies take for granted.
	maxURIBytes = 2048
)

// MCP shows the error in an era of MCP. An unknown era counts as Modern.
func (e *Error) MCP(era Era, about About) Reply {
	e = e.known().Redacted()
	shown := e.row().shown(era)
	reply := Reply{
		Form:       e.form(shown, about),
		HTTPStatus: shown.HTTP,
		Code:       shown.Code,
		Message:    string(e.message()),
		RetryAfter: e.retryAfterHeader(),
		Challenge:  e.challenge(),
	}
	if shown.AltHTTP != 0 && (e.MissingMeta || e.NoSession) {
		reply.HTTPStatus = shown.AltHTTP
	}
	if reply.Form != ToolResult {
		reply.Message = e.withViolations(reply.Message)
		reply.Data = e.protocolData(era, about)
		return reply
	}
	reply.HTTPStatus = 200
	reply.RetryAfter, reply.Challenge = 0, "" // headers of a refusal; the response is a success
	reply.Text = e.ModelText(about)
	reply.Data = e.Data(about)
	return reply
}

// maxMessageViolations bounds the violations in the message of a protocol error, which is one line; data holds more.
const maxMessageViolations = 5

// withViolations is a message with the violations that it does not name itself: most clients show a model the message alone.
func (e *Error) withViolations(message string) string {
	if e.Code == InternalError {
		return message
	}
	var b strings.Builder
	b.WriteString(message)
	mark, named := ": ", 0
	if message != e.row().Message {
		mark = "; "
	}
	for i, v := range e.Violations {
		text := clip(v.Message, maxViolationBytes)
		if strings.Contains(message, text) {
			continue
		}
		if named == maxMessageViolations {
			write(&b, "; and ", strconv.Itoa(len(e.Violations)-i), " more")
			break
		}
		b.WriteString(mark)
		if path := clip(v.Path, maxNameBytes); path != "" && !strings.Contains(text, path) {
			write(&b, path, ": ")
		}
		b.WriteString(text)
		mark = "; "
		named++
	}
	return b.String()
}

// shown returns the column of an era.
func (r *Row) shown(era Era) Shown {
	if era == Legacy {
		return r.Legacy
	}
	return r.Modern
}

// form settles the form of this failure.
func (e *Error) form(shown Shown, about About) Form {
	switch {
	case shown.Form != ToolResult:
		return shown.Form
	case !about.ToolCall:
		return ProtocolError
	case e.Code == PermissionDenied && e.Challenge != "":
		return ProtocolError // a missing scope: the client can get one, a model cannot
	default:
		return ToolResult
	}
}

// protocolData is error.data. Two codes of MCP 2026-07-28 have a shape of their own; everything else is the data object
// with what the failure adds.
func (e *Error) protocolData(era Era, about About) json.RawMessage {
	if era != Legacy {
		switch e.Code {
		case UnsupportedProtocolVersion:
			return append(e.appendVersions([]byte{'{'}), '}')
		case MissingClientCapability:
			return append(e.appendCapabilities([]byte{'{'}), '}')
		}
	}
	dst := e.appendOpenData(make([]byte, 0, 256), about)
	switch e.Code {
	case UnsupportedProtocolVersion:
		dst = e.appendVersions(append(dst, ','))
	case MissingClientCapability:
		dst = e.appendCapabilities(append(dst, ','))
	case ResourceNotFound:
		dst = append(dst, `,"uri":`...)
		dst = jsontext.AppendString(dst, clip(e.URI, maxURIBytes))
	case ToolNotFound:
		if len(e.Nearest) > 0 {
			dst = append(dst, `,"nearest":`...)
			dst = appendStrings(dst, e.Nearest)
		}
	}
	return append(dst, '}')
}

// appendVersions appends the members of UnsupportedProtocolVersionError.data; both are required.
func (e *Error) appendVersions(dst []byte) []byte {
	dst = append(dst, `"supported":`...)
	dst = appendStrings(dst, e.Supported)
	dst = append(dst, `,"requested":`...)
	return jsontext.AppendString(dst, clip(e.Requested, maxVersionBytes))
}

// appendCapabilities appends the member of MissingRequiredClientCapabilityError.data: an object, never a list.
func (e *Error) appendCapabilities(dst []byte) []byte {
	dst = append(dst, `"requiredCapabilities":`...)
	return append(dst, capabilitiesJSON(e.RequiredCapabilities)...)
}

// Reply is an error as rendered on a JSON-RPC edge. A member that is sent is never 0.
type Reply struct {
	// Form defines which of the members below are sent. For Silent none is sent. They are set in any case, so that a
	// number sent by mistake is at least a valid one.
	Form Form
	// HTTPStatus is the status of the response; stdio ignores it.
	HTTPStatus int
	// Code and Message are those of the JSON-RPC error.
	Code    int
	Message string
	// Text is the text content of a tool result.
	Text string
	// Data is error.data of a protocol error, and _meta["dev.outrigger/error"] of a tool result.
	Data json.RawMessage
	// RetryAfter is the value of the Retry-After header in seconds, 0 for none.
	RetryAfter int
	// Challenge is the value of the WWW-Authenticate header, "" for none.
	Challenge string
}

// MetaKey is the member of _meta, in the result of a failed tool call, that holds the data object of the error
// ([Error.Data]).
const MetaKey = "dev.outrigger/error"

// SetHeaders sets Retry-After and WWW-Authenticate where the reply has them.
func (r Reply) SetHeaders(h http.Header) {
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	if r.Challenge != "" {
		h.Set("WWW-Authenticate", r.Challenge)
	}
}

// JSONRPC shows the error in canonical JSON-RPC. A row that is Fixed keeps its message there, and the rest is in the
// data.
func (e *Error) JSONRPC(about About) Reply {
	e = e.known()
	row := e.row()
	message := row.Message
	if !row.Fixed {
		message = string(e.message())
	}
	return Reply{
		Form:       ProtocolError,
		HTTPStatus: e.HTTPStatus(),
		Code:       row.JSONRPC,
		Message:    message,
		Data:       e.Data(about),
		RetryAfter: e.retryAfterHeader(),
		Challenge:  e.challenge(),
	}
}

// challenge is the value of WWW-Authenticate. RFC 9110, section 15.5.2, wants one on every 401; Bearer without parameters
// is the least that it can be.
func (e *Error) challenge() string {
	switch {
	case e.Code == Unauthenticated && e.Challenge == "":
		return "Bearer"
	case e.Code == Unauthenticated || e.Code == PermissionDenied || e.Code == InvalidAuthorization:
		return headerSafe(e.Challenge)
	default:
		return ""
	}
}

// headerSafe drops what may not stand in a header's value.
func headerSafe(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c == '\t' || c >= 0x20 && c < 0x7f {
			out = append(out, c)
		}
	}
	return string(out)
}

const (
	// maxViolations bounds the violations of one error. A validator has its own bound; this one holds for peers.
	maxViolations = 100
	// maxViolationBytes bounds each member of a violation.
	maxViolationBytes = 1024
)

// About describes the request that an error answers.
type About struct {
	// RequestID is the JSON-RPC id as received, with its type. It is empty if it could not be read, or if there is none.
	RequestID json.RawMessage
	// ToolCall: the error is about a tools/call.
	ToolCall bool
	// Idempotent: the tool is idempotent, so a call with an unknown outcome may be retried.
	Idempotent bool
}

// Data returns the data object of the error, one line of JSON. Its members, in this order: code, errorType, retryable,
// retryAfterMs?, requestId (null if unreadable), tool?, violations?, backendCode?, backendStatus?, itemsSent?, details?,
// approval? (id, handle?), denial? (availability, credentialDisposition?).
func (e *Error) Data(about About) json.RawMessage {
	return e.AppendData(make([]byte, 0, 256), about)
}

// AppendData appends the data object of the error; see [Error.Data].
func (e *Error) AppendData(dst []byte, about About) []byte {
	e = e.known()
	dst = append(e.appendOpenData(dst, about), '}')
	return dst
}

// appendOpenData appends the data object without its closing brace, so that an edge's own members can follow.
func (e *Error) appendOpenData(dst []byte, about About) []byte {
	dst = append(dst, `{"code":`...)
	dst = jsontext.AppendString(dst, string(e.Code))
	dst = append(dst, `,"errorType":`...)
	dst = jsontext.AppendString(dst, e.Type())
	dst = append(dst, `,"retryable":`...)
	dst = strconv.AppendBool(dst, e.CanRetry(about.Idempotent))
	if wait := e.retryAfter(); wait > 0 {
		dst = append(dst, `,"retryAfterMs":`...)
		dst = strconv.AppendInt(dst, max(wait.Milliseconds(), 1), 10)
	}
	dst = append(dst, `,"requestId":`...)
	dst = appendID(dst, about.RequestID)
	if e.Tool != "" {
		dst = append(dst, `,"tool":`...)
		dst = jsontext.AppendString(dst, clip(e.Tool, maxNameBytes))
	}
	if len(e.Violations) > 0 {
		dst = append(dst, `,"violations":`...)
		dst = appendViolations(dst, e.Violations)
	}
	if e.BackendCode != "" {
		dst = append(dst, `,"backendCode":`...)
		dst = jsontext.AppendString(dst, e.backend().code.String())
	}
	if e.BackendStatus != 0 {
		dst = append(dst, `,"backendStatus":`...)
		dst = strconv.AppendUint(dst, uint64(e.BackendStatus), 10)
	}
	if e.ItemsSent != nil {
		dst = append(dst, `,"itemsSent":`...)
		dst = strconv.AppendInt(dst, int64(*e.ItemsSent), 10)
	}
	if details := detailsJSON(e.Details, e.types); len(details) > 0 {
		dst = append(dst, `,"details":`...)
		dst = append(dst, details...)
	}
	return e.appendApproval(dst)
}

// appendApproval appends what the data object says of an approval.
func (e *Error) appendApproval(dst []byte) []byte {
	if e.Approval != "" {
		dst = append(dst, `,"approval":{"id":`...)
		dst = jsontext.AppendString(dst, e.Approval)
		if e.Handle != "" {
			dst = append(dst, `,"handle":`...)
			dst = jsontext.AppendString(dst, e.Handle)
		}
		dst = append(dst, '}')
	}
	if e.Denial != "" {
		dst = append(dst, `,"denial":{"availability":`...)
		dst = append(jsontext.AppendString(dst, e.Denial), e.Disposition()...)
		dst = append(dst, '}')
	}
	return dst
}

// Disposition returns a further member for what says of a denial whether anything can help, with a comma before it: what becomes of the
// credential where a new one helps. It is empty in all other cases.
func (e *Error) Disposition() string {
	if e.Code == PermissionDenied && e.Denial == denialAvailable {
		return `,"credentialDisposition":"replacement"`
	}
	return ""
}

// denialAvailable is the Denial of an error that something can be done about. If that is no approval, it is a token with more scopes.
const denialAvailable = "available"

// AppendDetail appends the error in the form that ToolResult and the canonical message form carry:
// {"error_type", "error_message", "error_details"}, the last being the data object.
func (e *Error) AppendDetail(dst []byte, about About) []byte {
	e = e.known()
	dst = append(dst, `{"error_type":`...)
	dst = jsontext.AppendString(dst, e.Type())
	dst = append(dst, `,"error_message":`...)
	dst = jsontext.AppendString(dst, string(e.message()))
	dst = append(dst, `,"error_details":`...)
	dst = e.AppendData(dst, about)
	return append(dst, '}')
}

// isPlainID reports whether an id is a string of visible ASCII without escapes, as nearly all are.
func isPlainID(id json.RawMessage) bool {
	last := len(id) - 1
	if last < 1 || id[0] != '"' || id[last] != '"' {
		return false
	}
	for _, c := range id[1:last] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendViolations(dst []byte, violations []Violation) []byte {
	dst = append(dst, '[')
	for i, v := range violations[:min(len(violations), maxViolations)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"path":`...)
		dst = jsontext.AppendString(dst, clip(v.Path, maxViolationBytes))
		dst = append(dst, `,"keyword":`...)
		dst = jsontext.AppendString(dst, clip(v.Keyword, maxViolationBytes))
		dst = append(dst, `,"message":`...)
		dst = jsontext.AppendString(dst, clip(v.Message, maxViolationBytes))
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, clip(s, maxNameBytes))
	}
	return append(dst, ']')
}

// appendID appends a JSON-RPC id as it came. What is neither a string nor a number is null: the error must stay one
// readable envelope, whatever the caller sent.
func appendID(dst []byte, id json.RawMessage) []byte {
	if isPlainID(id) {
		return append(dst, id...)
	}
	if len(id) == 0 || !json.Valid(id) {
		return append(dst, "null"...)
	}
	if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

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

// tasksExtension is MCP's identifier of the tasks extension, which ClientCapabilities also has as its own field.
const tasksExtension = "io.modelcontextprotocol/tasks"

// wireCapabilities is the shape of MCP's ClientCapabilities in JSON. Members that this package does not know get lost.
type wireCapabilities struct {
	Elicitation  *wireElicitation           `json:"elicitation,omitempty"`
	Sampling     *wireSampling              `json:"sampling,omitempty"`
	Roots        *wireRoots                 `json:"roots,omitempty"`
	Extensions   map[string]json.RawMessage `json:"extensions,omitempty"`
	Experimental map[string]json.RawMessage `json:"experimental,omitempty"`
}

type wireElicitation struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

type wireSampling struct {
	Tools   *struct{} `json:"tools,omitempty"`
	Context *struct{} `json:"context,omitempty"`
}

type wireRoots struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

// missingCapabilities reads the outrigger.v1.MissingCapabilities among details; nil where there is none.
func missingCapabilities(details []*anypb.Any) *outriggerv1.ClientCapabilities {
	for _, d := range details {
		missing := new(outriggerv1.MissingCapabilities)
		if d.MessageIs(missing) && d.UnmarshalTo(missing) == nil {
			if required := missing.GetRequiredCapabilities(); required != nil {
				return required
			}
			return new(outriggerv1.ClientCapabilities)
		}
	}
	return nil
}

func isMissingCapabilities(d *anypb.Any) bool {
	return d.MessageIs((*outriggerv1.MissingCapabilities)(nil))
}

// capabilitiesJSON writes the message as MCP's ClientCapabilities.
func capabilitiesJSON(c *outriggerv1.ClientCapabilities) json.RawMessage {
	var w wireCapabilities
	if e := c.GetElicitation(); e != nil {
		w.Elicitation = &wireElicitation{Form: yes(e.GetForm()), URL: yes(e.GetUrl())}
	}
	if s := c.GetSampling(); s != nil {
		w.Sampling = &wireSampling{Tools: yes(s.GetTools()), Context: yes(s.GetContext())}
	}
	if r := c.GetRoots(); r != nil {
		w.Roots = &wireRoots{ListChanged: r.GetListChanged()}
	}
	w.Extensions = settings(c.GetExtensions(), c.GetExtensionsJson())
	if _, ok := w.Extensions[tasksExtension]; c.GetTasks() && !ok {
		if w.Extensions == nil {
			w.Extensions = make(map[string]json.RawMessage, 1)
		}
		w.Extensions[tasksExtension] = json.RawMessage("{}")
	}
	w.Experimental = settings(c.GetExperimental(), c.GetExperimentalJson())
	out, err := json.Marshal(w)
	if err != nil {
		return json.RawMessage("{}") // a settings object that is not valid JSON: the names are lost, the answer is not
	}
	return out
}

// settings reads a map of settings objects in either of its forms; one that is no JSON object is nil.
func settings(s *structpb.Struct, text []byte) map[string]json.RawMessage {
	if s != nil {
		raw, err := protojson.Marshal(s)
		if err != nil {
			return nil
		}
		text = raw
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}

// yes is MCP's way to say yes: an empty object.
func yes(set bool) *struct{} {
	if !set {
		return nil
	}
	return &struct{}{}
}

// spelledOut is the message with what MCP's JSON leaves to its reader: an elicitation that names no mode means forms, and
// tasks are an extension too. So both kinds of edges say the same.
func spelledOut(required *outriggerv1.ClientCapabilities) *outriggerv1.ClientCapabilities {
	return capabilitiesMessage(capabilitiesJSON(required))
}

// capabilitiesMessage reads MCP's ClientCapabilities. What is not an object of that shape is an empty message.
func capabilitiesMessage(raw json.RawMessage) *outriggerv1.ClientCapabilities {
	c := new(outriggerv1.ClientCapabilities)
	var w wireCapabilities
	if json.Unmarshal(raw, &w) != nil {
		return c
	}
	if e := w.Elicitation; e != nil {
		c.Elicitation = &outriggerv1.ElicitationCapability{Form: e.Form != nil || e.URL == nil, Url: e.URL != nil}
	}
	if s := w.Sampling; s != nil {
		c.Sampling = &outriggerv1.SamplingCapability{Tools: s.Tools != nil, Context: s.Context != nil}
	}
	if r := w.Roots; r != nil {
		c.Roots = &outriggerv1.RootsCapability{ListChanged: r.ListChanged}
	}
	if text := compactMap(w.Extensions); text != nil {
		_, c.Tasks = w.Extensions[tasksExtension]
		c.ExtensionsForm = &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: text}
	}
	if text := compactMap(w.Experimental); text != nil {
		c.ExperimentalForm = &outriggerv1.ClientCapabilities_ExperimentalJson{ExperimentalJson: text}
	}
	return c
}

// compactMap writes a map of settings on one line, names sorted; nil for an empty one.
func compactMap(m map[string]json.RawMessage) []byte {
	if len(m) == 0 {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}
