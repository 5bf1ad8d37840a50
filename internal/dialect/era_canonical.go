// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"net/http"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// newCanonical returns the canonical dialect: plain JSON-RPC 2.0 in which every
// error has its number and HTTP status from the canonical table, and a tool is
// shown with its canonical, dotted name.
func newCanonical() *era {
	return &era{
		methods: map[string]*method{
			"tools/list":      {op: bridge.OpList, read: readWholeList, write: writeCanonicalList},
			"tools/get":       {op: bridge.OpGet, read: readCanonicalGet, write: writeCanonicalTool},
			methodToolsCall:   {op: bridge.OpCall, read: readCanonicalCall, write: writeCanonicalResult},
			"server/describe": {op: bridge.OpServer, read: readNothing, write: writeDescription},
			"ping":            {op: bridge.OpPing, read: readNothing, write: writeEmpty},
		},
		admit:        admitAll,
		matchHeaders: ignoreHeaders,
		fail:         failCanonical,
	}
}

// readNothing is for methods without parameters; _meta is always allowed.
func readNothing(call *exchange) *errmap.Error {
	return onlyMembers(call.in.Message, "_meta")
}

// readWholeList is for the list of tools, which has no pages in this dialect: a
// list that was cut would look like a whole one.
func readWholeList(call *exchange) *errmap.Error {
	call.req.PageSize, call.req.List = 0, compact.ListByMode
	return readNothing(call)
}

func readCanonicalGet(call *exchange) *errmap.Error {
	m := call.in.Message
	if err := onlyMembers(m, "name", "version", "_meta"); err != nil {
		return err
	}
	return readToolName(call, "name")
}

// readCanonicalCall reads either form of a call: {"name", "arguments"?,
// "version"?, "_meta"?} or the message form {"tool_name", "arguments"}.
func readCanonicalCall(call *exchange) *errmap.Error {
	m := call.in.Message
	if _, ok := m.Param("tool_name"); ok {
		return readMessageForm(call)
	}
	if err := onlyMembers(m, "name", "arguments", "version", "_meta"); err != nil {
		return err
	}
	if err := readToolName(call, "name"); err != nil {
		return err
	}
	var err *errmap.Error
	if call.req.Arguments, err = call.argumentsParam(); err != nil {
		return err
	}
	call.req.Wanted, err = content.ReadWanted(call.in.meta(), metaPlace)
	return err
}

// isMessageForm reports whether a message is a call in the message form. It is
// for a request that is refused before its params were read, because a limit was
// met: its caller still reads a result.
func isMessageForm(in *Inbound) bool {
	m := in.Message
	if in.Dialect != Canonical || m.Kind != jsonrpc.KindRequest || m.Fault != nil || m.Method != methodToolsCall {
		return false
	}
	_, ok := m.Param("tool_name")
	return ok
}

// readMessageForm reads {"tool_name", "arguments"}: both required, nothing
// else, canonical names only.
func readMessageForm(call *exchange) *errmap.Error {
	call.messageForm = true
	call.req.Names, call.req.Pointer = bridge.NamesCanonicalOnly, messagePointer
	m := call.in.Message
	if err := onlyMembers(m, "tool_name", "arguments"); err != nil {
		return err
	}
	if err := readToolName(call, "tool_name"); err != nil {
		return err
	}
	if !catalog.IsCanonicalName(call.req.Tool) {
		return invalidParams("tool_name", "pattern", "%s is not a canonical name such as fleet.get_vehicle", errmap.Quote(call.req.Tool))
	}
	raw, ok := m.Param("arguments")
	if !ok {
		return invalidParams("arguments", "required", "arguments is missing")
	}
	var err *errmap.Error
	call.req.Arguments, err = call.objectParam(raw)
	return err
}

// readToolName reads the tool's name and, where there is one, the version that
// the caller wants.
func readToolName(call *exchange, member string) (err *errmap.Error) {
	m := call.in.Message
	if call.req.Tool, err = textParam(m, member); err != nil {
		return err
	}
	if _, ok := m.Param("version"); !ok {
		return nil
	}
	if call.req.Version, err = textParam(m, "version"); err != nil {
		return err
	}
	if !catalog.IsConstraint(call.req.Version) {
		return invalidParams("version", "pattern", "%s is not a version constraint such as 1.2.3, ^1.2 or \">=1.4 <2\"", errmap.Quote(call.req.Version))
	}
	return nil
}

// writeCanonicalResult renders the result of a call in the form it was made.
func writeCanonicalResult(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	if call.resp.Outcome != nil {
		return writeCanonicalOutcome(call)
	}
	result := call.resp.Result.Bytes
	if call.messageForm {
		status := content.StatusSuccess
		if call.resp.Truncated {
			status = content.StatusPartial
		}
		dst := make([]byte, 0, len(result)+80)
		dst = append(append(dst, `{"status":"`...), status...)
		dst = append(dst, `","data":`...)
		dst = append(dst, result...)
		dst = append(dst, `,"error":null,"explanation":`...)
		if call.resp.Explanation == "" {
			return append(dst, `null}`...), nil
		}
		return append(jsontext.AppendString(dst, call.resp.Explanation), '}'), nil
	}
	h.writeCall(call, truncation(call.resp), closingBrace)
	return nil, nil
}

// writeCanonicalOutcome renders a tool result that is more than the answer of a
// plain RPC. Questions and tasks never get here: nothing in this dialect tells
// that the caller could deal with them.
func writeCanonicalOutcome(call *exchange) ([]byte, *errmap.Error) {
	result := call.resp.Outcome.GetResult()
	if call.messageForm {
		return appendMessageResult(nil, result)
	}
	dst, err := content.AppendToolResult([]byte{'{'}, result, content.Rev20260728)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	own, err := appendVerdict(nil, result)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	if len(own) == 0 && result.GetMetaForm() == nil {
		return append(dst, '}'), nil
	}
	if dst, err = content.AppendMeta(append(dst, `,"_meta":`...), result, own); err != nil {
		return nil, errmap.Unwritable(err)
	}
	return append(dst, '}'), nil
}

// appendMessageResult appends a result in the message form. What a tool shows
// rather than returns has no member there: where there is no data, the content
// is the data.
func appendMessageResult(dst []byte, result *outriggerv1.ToolResult) ([]byte, *errmap.Error) {
	data, err := content.FreeForm(result.GetDataJson(), result.GetData())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	hasFailed := result.GetStatus() == content.StatusFailure
	if len(data) == 0 && len(result.GetContent()) > 0 && !hasFailed {
		if data, err = content.AppendContent([]byte(`{"content":`), result.GetContent(), content.Rev20260728); err != nil {
			return nil, errmap.Unwritable(err)
		}
		data = append(data, '}')
	}
	if len(data) == 0 || hasFailed {
		data = []byte("null")
	}
	dst = append(dst, `{"status":`...)
	dst = jsontext.AppendString(dst, result.GetStatus())
	dst = append(append(dst, `,"data":`...), data...)
	dst = append(dst, `,"error":`...)
	if dst, err = appendDetail(dst, result.GetError()); err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = append(dst, `,"explanation":`...)
	if result.GetExplanation() == "" {
		return append(dst, `null}`...), nil
	}
	return append(jsontext.AppendString(dst, result.GetExplanation()), '}'), nil
}

// appendDetail appends the error of a tool's own, or null.
func appendDetail(dst []byte, e *outriggerv1.ErrorDetail) ([]byte, error) {
	if e == nil {
		return append(dst, "null"...), nil
	}
	details, err := content.FreeForm(e.GetErrorDetailsJson(), e.GetErrorDetails())
	if err != nil {
		return nil, err
	}
	if len(details) == 0 {
		details = []byte("null")
	}
	dst = jsontext.AppendString(append(dst, `{"error_type":`...), e.GetErrorType())
	dst = jsontext.AppendString(append(dst, `,"error_message":`...), e.GetErrorMessage())
	dst = append(append(dst, `,"error_details":`...), details...)
	return append(dst, '}'), nil
}

// failCanonical writes an error. What the tool itself answered as a failure is
// a result; what the sidecar found wrong is a JSON-RPC error, or, in the
// message form, a result with a failure status and the table's HTTP status.
func failCanonical(_ *Handler, call *exchange, err *errmap.Error) Reply {
	id, about := call.in.Message.ID, call.about()
	shown := err.JSONRPC(about)
	reply := replyFrom(shown, nil).recording(err, about, shown.Data)
	if err.FromTool() {
		reply.Status = http.StatusOK
	}
	switch {
	case call.messageForm:
		reply.body = jsonrpc.AppendResult(nil, id, appendMessageFailure(nil, err, about))
	case err.FromTool():
		failed := failedCall{err: err, text: err.ModelText(about), data: shown.Data}
		reply.body = failed.appendTo(id)
	default:
		reply.body = jsonrpc.AppendError(nil, id, false, shown.Code, shown.Message, withPartial(err, shown.Data))
	}
	return reply
}

// appendMessageFailure appends the failure of a call in message form. Its data are what a stream had sent before it failed.
func appendMessageFailure(dst []byte, err *errmap.Error, about errmap.About) []byte {
	dst = append(dst, `{"status":"failure","data":`...)
	if len(err.Partial) > 0 {
		dst = append(dst, err.Partial...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`...)
	dst = err.AppendDetail(dst, about)
	dst = append(dst, `,"explanation":`...)
	dst = jsontext.AppendString(dst, err.ModelText(about))
	return append(dst, '}')
}
