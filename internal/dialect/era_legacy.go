// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// newLegacy returns the revisions of MCP that open with initialize: 2025-11-25,
// 2025-06-18 and 2025-03-26, which differ in what messages look like
// (content.Revision) and in little else. What a client said when it opened, and
// what it asked for since, is its session's. A client that names no session is
// served all that needs none.
func newLegacy() *era {
	return &era{
		methods: withMCP(map[string]*method{
			methodInitialize:        {op: bridge.OpOpen, read: readInitialize, write: writeInitialize},
			"ping":                  {op: bridge.OpPing, read: readAnything, write: writeEmpty},
			"tools/list":            {op: bridge.OpList, read: readPage, write: writeLegacyList},
			"tools/manifest":        {op: bridge.OpList, read: readManifest, write: writeLegacyManifest},
			"tools/describe":        {op: bridge.OpList, read: readDescribe, write: writeLegacyDescribed},
			methodToolsCall:         {op: bridge.OpCall, read: readMCPCall, write: writeLegacyResult},
			"resources/subscribe":   {op: bridge.OpServer, read: readSubscribe, write: writeWatch},
			"resources/unsubscribe": {op: bridge.OpServer, read: readWatch, write: writeUnwatch},
			"logging/setLevel":      {op: bridge.OpServer, read: readSetLevel, write: writeSetLevel},
		}),
		admit:        admitLegacy,
		matchHeaders: ignoreHeaders,
		fail:         failLegacy,
	}
}

// readInitialize checks the one member that decides the answer. What the client
// says about itself is kept for its session.
func readInitialize(call *exchange) *errmap.Error {
	if call.in.Session != nil && call.in.Opened == nil {
		return errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
			Path: "/method", Keyword: "session",
			Message: "the session has been initialized; to start over, send initialize alone, without an Mcp-Session-Id",
		}))
	}
	m := call.in.Message
	asked, err := textParam(m, "protocolVersion")
	if err != nil {
		return err
	}
	client := &outriggerv1.RequestContext{ProtocolVersion: VersionLegacy}
	if isServedLegacy(asked) {
		client.ProtocolVersion = asked
	}
	if raw, ok := m.Param("capabilities"); ok {
		capabilities, err := content.ReadCapabilities(raw)
		if err != nil {
			return unreadable("capabilities", err)
		}
		revision, _ := content.ParseRevision(client.GetProtocolVersion())
		client.Capabilities = revision.Narrow(capabilities)
	}
	if raw, ok := m.Param("clientInfo"); ok {
		// It is for display only, so that a wrong one must not cost the session.
		client.ClientInfo, _ = content.ReadImplementation(raw)
	}
	call.req.Context = client
	return nil
}

// writeInitialize answers with the revision that the client asked for where it
// is served, else with the newest that is (MCP lifecycle, version negotiation).
func writeInitialize(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst := jsontext.AppendString([]byte(`{"protocolVersion":`), call.req.Context.GetProtocolVersion())
	dst = append(dst, `,"capabilities":`...)
	f := h.offers.Features(call.resp.Catalog)
	dst = appendMCPCapabilities(dst, f, false, h.opts.ToolManifest)
	if call.opened != nil {
		call.opened.Declare(session.Lists{Prompts: f.PromptsChanged, Resources: f.Resources})
	}
	dst = append(dst, `,"serverInfo":`...)
	dst = append(dst, h.introduction().serverInfo...)
	dst = h.appendInstructions(dst, call.resp.Catalog)
	dst = h.appendSoftware(append(dst, `,"_meta":{`...))
	return append(dst, `}}`...), nil
}

// needSession refuses what means nothing without a session.
func needSession(call *exchange) *errmap.Error {
	if call.in.Session != nil {
		return nil
	}
	return errmap.New(errmap.SessionNotFound, errmap.NoSession(), errmap.Messagef(
		"Session not found: %s needs one; send initialize first, then the session id from its response", call.in.Message.Method))
}

func readSetLevel(call *exchange) *errmap.Error {
	level, err := textParam(call.in.Message, "level")
	if err != nil {
		return err
	}
	if _, ok := content.ReadLogLevel(level); !ok {
		return invalidParams("level", "enum", "%s is not a log level; use one of debug, info, notice, warning, error, critical, alert, emergency", errmap.Quote(level))
	}
	return needSession(call)
}

func writeSetLevel(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	if !h.offers.Features(call.resp.Catalog).Logging {
		return nil, errmap.NotOffered("log messages")
	}
	text, _ := textParam(call.in.Message, "level")
	level, _ := content.ReadLogLevel(text)
	if err := call.in.Session.SetLogLevel(call.in.ctx, level); err != nil {
		return nil, sessionError(err)
	}
	return emptyObject, nil
}

// readSubscribe reads resources/subscribe, after which changes are reported.
func readSubscribe(call *exchange) *errmap.Error {
	call.req.PartOf = bridge.OpListen
	if err := readWatch(call); err != nil {
		return err
	}
	uri, _ := textParam(call.in.Message, "uri")
	call.req.Message = &outriggerv1.ChangeFilter{ResourceUris: []string{uri}} // for the audit trail
	return nil
}

// readWatch reads resources/subscribe and resources/unsubscribe.
func readWatch(call *exchange) *errmap.Error {
	uri, err := textParam(call.in.Message, "uri")
	if err != nil {
		return err
	}
	if err := offer.CheckURI(pointer("uri"), uri); err != nil {
		return err
	}
	return needSession(call)
}

func writeWatch(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	if !h.offers.Features(call.resp.Catalog).ResourcesSubscribe {
		return nil, errmap.NotOffered("subscriptions to resources")
	}
	uri, _ := textParam(call.in.Message, "uri")
	if isWatch, err := h.followWatch(call, uri); isWatch {
		if err != nil {
			h.refusals.AuditDenied(call.in.ctx, call.req, bridge.OpListen.String(), err)
			return nil, err
		}
		return emptyObject, nil
	}
	if !call.resp.Catalog.Description().GetCapabilities().GetResources().GetSubscribe() {
		return nil, errmap.NotOffered("subscriptions to this resource")
	}
	if err := call.resp.MayRead(uri); err != nil {
		h.refusals.AuditDenied(call.in.ctx, call.req, bridge.OpListen.String(), err)
		return nil, err
	}
	if err := call.in.Session.Watch(call.in.ctx, uri); err != nil {
		return nil, sessionError(err)
	}
	// A session's call does not end with its connection.
	h.offers.Feed().Settle(context.Background())
	return emptyObject, nil
}

// followWatch subscribes a session to a watch, if the URI is of one.
func (h *Handler) followWatch(call *exchange, uri string) (isWatch bool, err *errmap.Error) {
	s, scope := call.in.Session, ""
	end, isWatch, err := h.offers.FollowWatch(call.in.ctx, call.req, uri, func(given string) *errmap.Error {
		scope = given
		if err := s.WatchScoped(call.in.ctx, uri, scope); err != nil {
			return sessionError(err)
		}
		return nil
	})
	switch {
	case !isWatch || end == nil:
		return isWatch, err
	case err != nil:
		_ = s.Unwatch(call.in.ctx, uri)
	default:
		s.OnUnwatch(uri, scope, end)
	}
	return true, err
}

func writeUnwatch(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	uri, _ := textParam(call.in.Message, "uri")
	// What is no longer offered can still be given up.
	if !h.offers.Features(call.resp.Catalog).ResourcesSubscribe && !call.in.Session.Watches(uri) {
		return nil, errmap.NotOffered("subscriptions to resources")
	}
	if err := call.in.Session.Unwatch(call.in.ctx, uri); err != nil {
		return nil, sessionError(err)
	}
	return emptyObject, nil
}

// writeLegacyResult renders a tool result.
func writeLegacyResult(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	if outcome := call.resp.Outcome; outcome != nil {
		return writeLegacyOutcome(outcome.GetResult(), call.in.revision())
	}
	h.writeCall(call, truncation(call.resp), closingBrace)
	return nil, nil
}

// writeLegacyOutcome renders a tool result that is more than the answer of a
// plain RPC. Questions never get here, because the client has been asked, and
// neither do tasks, which these eras do not have.
func writeLegacyOutcome(result *outriggerv1.ToolResult, revision content.Revision) ([]byte, *errmap.Error) {
	dst, err := content.AppendToolResult([]byte{'{'}, result, revision)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	own, err := appendVerdict(nil, result)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return closeLegacy(dst, result, string(own))
}

// failLegacy writes an error as the initialize-based revisions show it.
func failLegacy(_ *Handler, call *exchange, err *errmap.Error) Reply {
	id, about := call.in.Message.ID, call.about()
	shown := err.MCP(errmap.Legacy, about)
	switch shown.Form {
	case errmap.ToolResult:
		failed := failedCall{err: err, text: shown.Text, data: shown.Data}
		return replyFrom(shown, failed.appendTo(id)).recording(err, about, shown.Data)
	case errmap.Silent:
		return Reply{Status: shown.HTTPStatus}
	}
	return replyFrom(shown, jsonrpc.AppendError(nil, id, true, shown.Code, shown.Message, call.draftData(shown.Data)))
}
