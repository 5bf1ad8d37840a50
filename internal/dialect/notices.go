// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"math"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// notices writes what happens during one request as notifications of MCP, which
// belong to that request and go before its reply.
type notices struct {
	log  *zap.Logger
	req  *bridge.Request
	send func([]byte) error
	// token is the caller's progress token as it came; nil wants no progress.
	token  []byte
	filter EventFilter
	// itemsOf is the id of a call whose items follow, and whose answers are passed on as they come; nil for all others.
	itemsOf []byte
	// quiet learns that nothing will come for a while; nil where it does not matter.
	quiet  func()
	broken bool
}

// connect gives a request the way back that its caller asked for. A caller that
// wants neither progress nor logs costs nothing.
func (h *Handler) connect(call *exchange) {
	send := call.in.Send
	if send == nil {
		return
	}
	switch call.req.Op {
	case bridge.OpListen:
		call.req.Changes = yielding(opening(call.in.span, h.subscription(call, send)), call.in.Yield)
	case bridge.OpCall:
		h.connectCall(call)
	}
	if call.in.Dialect == Legacy {
		connectLegacy(call)
	}
}

// connectCall connects a call's events, if its caller has asked for any. Nearly all have not, and cost nothing.
func (h *Handler) connectCall(call *exchange) {
	level := logLevel(call)
	if call.progressToken == nil && call.req.Items == nil && level == outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED {
		return
	}
	n := &notices{log: h.noted, req: call.req, send: call.in.Send, token: bytes.Clone(call.progressToken), quiet: call.in.Quiet}
	n.filter.Level, n.filter.Progress = level, n.token != nil
	if call.req.Items != nil {
		n.itemsOf = bytes.Clone(call.in.Message.ID.Raw())
	}
	call.req.Events = n.event
}

// logLevel is the level from which on a call's caller wants log messages.
func logLevel(call *exchange) (level outriggerv1.LogLevel) {
	if text, ok := jsontext.Text(call.logLevel); ok && call.in.Dialect == Modern {
		level, _ = content.ReadLogLevel(text)
	}
	if call.in.Session != nil {
		level = call.in.Session.LogLevel()
	}
	return level
}

// yielding is a sink of changes that says, after the first one, that only changes
// are waited for: the first acknowledges the subscription.
func yielding(changes func(*outriggerv1.Notification) error, yield func()) func(*outriggerv1.Notification) error {
	if yield == nil {
		return changes
	}
	return func(n *outriggerv1.Notification) error {
		defer yield()
		return changes(n)
	}
}

// event passes on what the caller asked for.
func (n *notices) event(e *outriggerv1.ToolEvent) {
	if !n.filter.Wants(e) {
		return
	}
	switch e := e.GetEvent().(type) {
	case *outriggerv1.ToolEvent_Progress:
		n.progress(e.Progress)
	case *outriggerv1.ToolEvent_Log:
		n.message(e.Log)
	case *outriggerv1.ToolEvent_Partial:
		if n.itemsOf != nil {
			n.pass(item(n.itemsOf, e.Partial.GetDataJson()))
		}
	case *outriggerv1.ToolEvent_Quiet:
		if n.quiet != nil {
			n.quiet()
		}
	}
}

func (n *notices) progress(p *outriggerv1.Progress) {
	params, err := content.AppendProgress(nil, n.token, p)
	if err != nil {
		n.unwritten("progress", err)
		return
	}
	n.write("notifications/progress", params)
}

func (n *notices) message(m *outriggerv1.LogMessage) {
	params, err := content.AppendLog(nil, m)
	if err != nil {
		n.unwritten("log", err)
		return
	}
	n.write("notifications/message", params)
}

func (n *notices) write(method string, params []byte) { n.pass(notification(method, params)) }

func (n *notices) pass(message []byte) {
	if n.broken {
		return
	}
	if err := n.send(message); err != nil {
		n.broken = true
		n.log.Debug("caller no longer accepts notifications", append(requestFields(n.req), logkey.Error(err))...)
	}
}

// unwritten tells an operator of what a backend sent and no caller can get.
func (n *notices) unwritten(what string, err error) {
	n.log.Warn("backend notification dropped", append(requestFields(n.req), zap.String("kind", what), logkey.Error(err))...)
}

// subscription writes the notifications of a stream of changes.
func (h *Handler) subscription(call *exchange, send func([]byte) error) func(*outriggerv1.Notification) error {
	id := call.in.Message.ID.Raw()
	return func(n *outriggerv1.Notification) error {
		members, err := h.changeMembers(n)
		if err != nil {
			h.noted.Warn("change notification dropped", append(requestFields(call.req), zap.String(logkey.Method, n.GetMethod()), logkey.Error(err))...)
			return nil
		}
		params := append([]byte{'{'}, members...)
		if len(members) > 0 {
			params = append(params, ',')
		}
		params = append(params, `"_meta":{"`+subscriptionKey+`":`...)
		params = append(params, id...)
		return send(notification(n.GetMethod(), append(params, `}}`...)))
	}
}

// changeMembers are the members of a change's params besides _meta.
func (h *Handler) changeMembers(n *outriggerv1.Notification) ([]byte, error) {
	switch params := n.GetParamsForm().(type) {
	case *outriggerv1.Notification_Acknowledged:
		filter, err := content.AppendChangeFilter(nil, params.Acknowledged)
		return append([]byte(`"notifications":`), filter...), err
	case *outriggerv1.Notification_Task:
		return h.taskMembers(params.Task)
	case *outriggerv1.Notification_ParamsJson:
		text := params.ParamsJson
		return text[1 : len(text)-1], nil
	}
	return nil, nil
}

// EventFilter selects the events of a call that its caller asked for. It keeps state
// between the calls of one request and is not safe for concurrent use.
type EventFilter struct {
	// Progress is set if the caller wants progress. Level is the minimum log level;
	// unspecified is none.
	Progress bool
	Level    outriggerv1.LogLevel

	// last is the progress of the last report, once there is one.
	last    float64
	hasLast bool
}

// Wants reports whether the caller gets an event. A report of progress is dropped
// unless it is above the one before it (MCP, progress).
func (f *EventFilter) Wants(e *outriggerv1.ToolEvent) bool {
	switch e := e.GetEvent().(type) {
	case *outriggerv1.ToolEvent_Progress:
		now := e.Progress.GetProgress()
		if !f.Progress || f.hasLast && now <= f.last {
			return false
		}
		if !math.IsNaN(now) {
			f.last, f.hasLast = now, true
		}
		return true
	case *outriggerv1.ToolEvent_Log:
		return f.Level != outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED && e.Log.GetLevel() >= f.Level
	case *outriggerv1.ToolEvent_Partial, *outriggerv1.ToolEvent_Quiet:
		return true
	}
	return false
}
