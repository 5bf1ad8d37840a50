// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// readMCPCall reads {"name", "arguments"?, "inputResponses"?, "requestState"?,
// "_meta"?}, in which unknown members are tolerated. What only few tools need is
// noted and read later.
func readMCPCall(call *exchange) *errmap.Error {
	m := call.in.Message
	call.req.Names = bridge.NamesMCP
	var err *errmap.Error
	if call.req.Tool, err = textParam(m, "name"); err != nil {
		return err
	}
	if call.req.Arguments, err = call.argumentsParam(); err != nil {
		return err
	}
	if err = call.noteRest(); err != nil {
		return err
	}
	call.req.Wanted, err = content.ReadWanted(call.meta, metaPlace)
	call.req.Wanted.ForModel = true
	return err
}

// metaPlace is where the _meta of a request is.
const metaPlace = "/params/_meta"

// noteRest notes the members of params that are read on first need.
func (call *exchange) noteRest() *errmap.Error {
	isModern := call.in.Dialect == Modern
	var outputs []byte
	for name, raw := range call.in.Message.ParamFields() {
		switch {
		case string(name) == "_meta":
			call.meta = raw
		case !isModern: // older eras repeat nothing, so that these are anybody's names
		case string(name) == "inputResponses":
			call.inputResponses, call.req.Repeated = raw, true
		case string(name) == "requestState":
			if _, ok := jsontext.Text(raw); !ok {
				return invalidParams("requestState", "type", "requestState is %s, want a string", jsonKind(raw))
			}
			call.requestState, call.req.Repeated = raw, true
		case string(name) == requestedParam:
			outputs = raw
		}
	}
	for name, raw := range jsontext.Fields(call.meta) {
		switch {
		case string(name) == progressTokenKey:
			if err := checkProgressToken(raw); err != nil {
				return err
			}
			call.progressToken = raw
		case string(name) == metaLogLevelKey && isModern:
			text, _ := jsontext.Text(raw)
			if _, ok := content.ReadLogLevel(text); !ok {
				if text == "" {
					text = string(raw)
				}
				return invalidParams("_meta/"+jsonPointerToken(metaLogLevelKey), "enum", "%s is not a log level; use one of debug, info, notice, warning, error, critical, alert, emergency", errmap.Quote(text))
			}
			call.logLevel = raw
		}
	}
	call.isNoted = true
	if isModern && call.req.Op == bridge.OpCall && (outputs != nil || call.handler.opts.Variants) {
		return call.readOutputs(outputs)
	}
	return nil
}

// checkProgressToken holds a progressToken to what an id may be.
func checkProgressToken(raw []byte) *errmap.Error {
	_, err := jsonrpc.ParseID(raw)
	var fault *jsonrpc.Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fault) && fault.Over == jsonrpc.OverIDBytes:
		return invalidParams("_meta/"+progressTokenKey, "maxLength", "progressToken has more than %d bytes", defaults.MaxIDBytes)
	}
	return invalidParams("_meta/"+progressTokenKey, "type", "progressToken is %s, want a string or an integer", jsonKind(raw))
}

// Rest implements [bridge.Envelope].
func (call *exchange) Rest() (*bridge.Rest, *errmap.Error) {
	if !call.isNoted {
		return nil, nil
	}
	rest := &bridge.Rest{Meta: foreignMeta(call.meta)}
	if call.inputResponses != nil {
		responses, err := content.ReadInputResponses(call.inputResponses)
		if err != nil {
			return nil, unreadable("inputResponses", err)
		}
		rest.InputResponses = responses
	}
	if text, ok := jsontext.Text(call.requestState); ok {
		rest.RequestState = []byte(text)
	}
	var err *errmap.Error
	if call.in.Dialect == Legacy {
		rest.Context, err = call.legacyContext()
	} else {
		rest.Context, err = call.readContext()
	}
	return rest, err
}

// Forget implements [bridge.Envelope]. The id and the method are copies.
func (call *exchange) Forget() {
	call.in.Message.Params, call.in.found, call.in.hasLooked = nil, nil, true
	call.meta, call.progressToken, call.logLevel, call.inputResponses, call.requestState = nil, nil, nil, nil, nil
	call.isNoted = false
}

// readContext reads for whom a modern request is made. Everything is in its
// own _meta; nothing is known from earlier requests.
func (call *exchange) readContext() (*outriggerv1.RequestContext, *errmap.Error) {
	context := &outriggerv1.RequestContext{}
	for name, raw := range jsontext.Members(call.meta) {
		var err error
		switch name {
		case metaVersionKey:
			context.ProtocolVersion, _ = jsontext.Text(raw)
		case metaCapabilitiesKey:
			context.Capabilities, err = content.ReadCapabilities(raw)
		case metaClientInfoKey:
			// It is for display only, so that a wrong one must not cost the call.
			context.ClientInfo, _ = content.ReadImplementation(raw)
		case progressTokenKey:
			context.ProgressToken, err = content.ReadProgressToken(raw)
		case metaLogLevelKey:
			text, _ := jsontext.Text(raw)
			context.LogLevel, _ = content.ReadLogLevel(text)
		}
		if err != nil {
			return nil, unreadable("_meta/"+jsonPointerToken(name), err)
		}
	}
	return context, nil
}

// foreignMeta is a request's _meta without what its context holds; nil where
// nothing is left. Keys of others are passed on as they are.
func foreignMeta(meta []byte) []byte {
	var out []byte
	for name, raw := range jsontext.Members(meta) {
		switch name {
		case metaVersionKey, metaCapabilitiesKey, metaClientInfoKey, metaLogLevelKey, progressTokenKey:
			continue
		}
		if out == nil {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = jsontext.AppendString(out, name)
		out = append(append(out, ':'), raw...)
	}
	if out == nil {
		return nil
	}
	return append(out, '}')
}

// cursorParam reads where a list goes on. The empty string is a cursor like any
// other, and null represents none.
func cursorParam(m *jsonrpc.Message) (*string, *errmap.Error) {
	raw, ok := m.Param("cursor")
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	text, ok := jsontext.Text(raw)
	if !ok {
		return nil, invalidParams("cursor", "type", "cursor is %s, want a string", jsonKind(raw))
	}
	return &text, nil
}

// readPage reads a list of tools.
func readPage(call *exchange) (err *errmap.Error) {
	call.req.List = compact.ListByMode
	if call.req.Cursor, err = cursorParam(call.in.Message); err != nil {
		return err
	}
	return call.noteRest()
}

func readListResources(call *exchange) *errmap.Error {
	cursor, err := cursorParam(call.in.Message)
	if err != nil {
		return err
	}
	call.req.Message = &outriggerv1.ListResourcesRequest{Cursor: cursor}
	return call.noteRest()
}

func readListTemplates(call *exchange) *errmap.Error {
	cursor, err := cursorParam(call.in.Message)
	if err != nil {
		return err
	}
	call.req.Message = &outriggerv1.ListResourceTemplatesRequest{Cursor: cursor}
	return call.noteRest()
}

func readListPrompts(call *exchange) *errmap.Error {
	cursor, err := cursorParam(call.in.Message)
	if err != nil {
		return err
	}
	call.req.Message = &outriggerv1.ListPromptsRequest{Cursor: cursor}
	return call.noteRest()
}

func readReadResource(call *exchange) *errmap.Error {
	uri, err := textParam(call.in.Message, "uri")
	if err != nil {
		return err
	}
	call.req.Message = &outriggerv1.ReadResourceRequest{Uri: uri}
	return call.noteRest()
}

func readGetPrompt(call *exchange) *errmap.Error {
	m := call.in.Message
	name, err := textParam(m, "name")
	if err != nil {
		return err
	}
	ask := &outriggerv1.GetPromptRequest{Name: name}
	if raw, ok := m.Param("arguments"); ok && string(raw) != "null" {
		arguments, err := content.ReadPromptArguments(raw)
		if err != nil {
			return unreadable("arguments", err)
		}
		ask.Arguments = arguments
	}
	call.req.Message = ask
	return call.noteRest()
}

func readComplete(call *exchange) *errmap.Error {
	ask, err := content.ReadCompleteRequest(call.in.Message.Params)
	if err != nil {
		return unreadable("", err)
	}
	call.req.Message = ask
	return call.noteRest()
}

// readListen reads which changes a caller wants to hear of.
func readListen(call *exchange) *errmap.Error {
	m := call.in.Message
	raw, ok := m.Param("notifications")
	if !ok {
		return invalidParams("notifications", "required", "notifications is missing")
	}
	filter, err := content.ReadChangeFilter(raw)
	if err != nil {
		return unreadable("notifications", err)
	}
	if call.in.Send == nil {
		return errmap.New(errmap.NotAcceptable, errmap.WithViolations(errmap.Violation{
			Keyword: "accept", Message: "a stream of changes needs Accept: text/event-stream",
		}))
	}
	call.req.Message = filter
	return call.noteRest()
}

func readGetTask(call *exchange) *errmap.Error {
	id, err := textParam(call.in.Message, "taskId")
	call.req.Message = &outriggerv1.GetTaskRequest{TaskId: id}
	return orRest(call, err)
}

func readCancelTask(call *exchange) *errmap.Error {
	id, err := textParam(call.in.Message, "taskId")
	call.req.Message = &outriggerv1.CancelTaskRequest{TaskId: id}
	return orRest(call, err)
}

func readUpdateTask(call *exchange) *errmap.Error {
	id, err := textParam(call.in.Message, "taskId")
	if err != nil {
		return err
	}
	raw, ok := call.in.Message.Param("inputResponses")
	if !ok {
		return invalidParams("inputResponses", "required", "inputResponses is missing")
	}
	responses, failed := content.ReadInputResponses(raw)
	if failed != nil {
		return unreadable("inputResponses", failed)
	}
	call.req.Message = &outriggerv1.UpdateTaskRequest{TaskId: id, InputResponses: responses}
	return call.noteRest()
}

func orRest(call *exchange, err *errmap.Error) *errmap.Error {
	if err != nil {
		return err
	}
	return call.noteRest()
}
