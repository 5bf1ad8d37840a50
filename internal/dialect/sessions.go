// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// Sessions returns the sessions of the legacy eras, which edges find by the id
// that a client names. Its owner closes it when the sidecar ends.
func (h *Handler) Sessions() *session.Manager { return h.opts.Sessions }

// AdmitLegacy rejects a message, or a GET or DELETE, whose header has an
// unsupported revision (MCP 2025-11-25, Streamable HTTP: 400).
func (h *Handler) AdmitLegacy(in *Inbound) *errmap.Error { return admitLegacy(in) }

// openSession opens the session of an initialize, where its edge can keep one.
func (h *Handler) openSession(call *exchange) *errmap.Error {
	if call.req.Op != bridge.OpOpen || call.in.Opened == nil {
		return nil
	}
	var opened *session.Session
	var err error
	if call.in.opensEarly() { // a pipe is of one process
		opened, err = h.opts.Sessions.Open(call.in.Caller, call.req.Context, call.in.Origin)
	} else {
		f := h.offers.Features(call.resp.Catalog)
		opened, err = h.opts.Sessions.OpenSealed(call.in.Caller, call.req.Context, call.in.Origin, session.Lists{Prompts: f.PromptsChanged, Resources: f.Resources})
	}
	if err != nil {
		if errors.Is(err, session.ErrFull) {
			h.stats.Over(errmap.LimitSessions)
		}
		return sessionError(err)
	}
	call.opened = opened
	call.in.traceSession(opened)
	call.in.Opened(opened)
	return nil
}

// sessionError is what a client learns when its session cannot do something.
func sessionError(err error) *errmap.Error {
	switch {
	case errors.Is(err, session.ErrUnknown), errors.Is(err, session.ErrClosed):
		return errmap.Wrap(errmap.SessionNotFound, err)
	case errors.Is(err, session.ErrFull):
		return unavailable("too many sessions are open (--max-sessions)")
	case errors.Is(err, session.ErrUnavailable):
		return unavailable("the shared state of sessions is away")
	case errors.Is(err, notify.ErrFull):
		return unavailable("too many resource subscriptions")
	case errors.Is(err, session.ErrLargeClient):
		return invalidParams("capabilities", "maxLength", "the client's capabilities exceed %d bytes; omit experimental capabilities and settings of extensions", session.DefaultMaxClient)
	case errors.Is(err, session.ErrTooMany):
		return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: the session has too many resource subscriptions"))
	case errors.Is(err, notify.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case errors.Is(err, context.Canceled): // its client has left
		return errmap.Wrap(errmap.Cancelled, err)
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// legacyContext is for whom a legacy request is made: what its client said when
// it opened the session, and what the request itself says.
func (call *exchange) legacyContext() (*outriggerv1.RequestContext, *errmap.Error) {
	client := &outriggerv1.RequestContext{ProtocolVersion: call.in.revision().String()}
	if s := call.in.Session; s != nil {
		client, _ = proto.Clone(s.Context()).(*outriggerv1.RequestContext)
		client.LogLevel = s.LogLevel()
	}
	if call.in.Send == nil {
		// Who takes nothing but the reply, as in a batch, cannot be asked meanwhile.
		client.Capabilities = nil
	}
	if call.progressToken == nil {
		return client, nil
	}
	token, err := content.ReadProgressToken(call.progressToken)
	if err != nil {
		return nil, unreadable("_meta/"+progressTokenKey, err)
	}
	client.ProgressToken = token
	return client, nil
}

// connectLegacy lets a request of a session ask its client. A question has a separate
// id, so that it can be withdrawn after the request was cancelled.
func connectLegacy(call *exchange) {
	s, send := call.in.Session, call.in.Send
	if s == nil {
		return
	}
	switch call.req.Op {
	case bridge.OpCall, bridge.OpReadResource, bridge.OpGetPrompt:
		call.req.AskClient = func(ctx context.Context, in *outriggerv1.InputRequired) (map[string]*outriggerv1.InputResponse, *errmap.Error) {
			if call.in.Yield != nil {
				call.in.Yield()
			}
			return askSession(ctx, s, call.in.revision(), in, send)
		}
	}
}

// askSession puts the questions to the client, one after the other, because a
// person answers most of them.
func askSession(ctx context.Context, s *session.Session, revision content.Revision, in *outriggerv1.InputRequired, send func([]byte) error) (map[string]*outriggerv1.InputResponse, *errmap.Error) {
	out := make(map[string]*outriggerv1.InputResponse, len(in.GetInputRequests()))
	for _, key := range slices.Sorted(maps.Keys(in.GetInputRequests())) {
		question := named(in.GetInputRequests()[key], s, key)
		method, params, err := content.AppendInputRequest(nil, question, revision)
		if err != nil {
			return nil, unaskable(err)
		}
		answer, err := s.Ask(ctx, send, method, params)
		if err != nil {
			return nil, askedError(ctx, err)
		}
		out[key] = content.ReadInputResponse(answer)
	}
	return out, nil
}

// named gives a question through a web page the id that 2025-11-25 requires.
func named(q *outriggerv1.InputRequest, s *session.Session, key string) *outriggerv1.InputRequest {
	if url := q.GetElicitation().GetUrl(); url == nil || url.GetElicitationId() != "" {
		return q
	}
	out, _ := proto.Clone(q).(*outriggerv1.InputRequest)
	out.GetElicitation().GetUrl().ElicitationId = s.NewName(key)
	return out
}

// unaskable is for a question that has no form in the client's revision.
func unaskable(err error) *errmap.Error {
	var unsupported *content.UnsupportedError
	if errors.As(err, &unsupported) {
		return errmap.Wrap(errmap.MissingClientCapability, err,
			errmap.Messagef("Missing required client capability: %s has no %s", unsupported.Revision, unsupported.Feature))
	}
	return errmap.Unwritable(err)
}

// askedError is why a question was not answered.
func askedError(ctx context.Context, err error) *errmap.Error {
	var refused *session.RefusedError
	switch {
	case errors.As(err, &refused):
		return errmap.Wrap(errmap.ToolExecutionFailed, err, errmap.BackendCode("failed_precondition"),
			errmap.Messagef("The client did not answer %s: %s", refused.Method, errmap.Quote(refused.Message)))
	case errors.Is(err, session.ErrNoAnswer):
		return errmap.Wrap(errmap.Timeout, err, errmap.Message("The client did not answer in time"))
	case errors.Is(err, session.ErrClosed):
		return errmap.Wrap(errmap.Unavailable, err, errmap.Message("The session ended before its client answered"))
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	}
	return errmap.Wrap(errmap.Cancelled, err)
}

// ChangeNotification is a change as the legacy eras tell it, one JSON-RPC notification; nil for one of a list that the
// session was not told of, and that is not offered now. What was offered when the session began may have gone since: that,
// too, is a change. Who is subscribed to a resource is always told.
func (h *Handler) ChangeNotification(s *session.Session, c notify.Change) []byte {
	f, declared := h.offers.Features(h.shown.Catalogs().Current()), s.Declared()
	switch {
	case c.Kind == notify.ToolsListChanged, c.Kind == notify.ResourceUpdated,
		c.Kind == notify.PromptsListChanged && (f.PromptsChanged || declared.Prompts),
		c.Kind == notify.ResourcesListChanged && (f.Resources || declared.Resources):
	default:
		return nil
	}
	n := c.Notification()
	if params := n.GetParamsJson(); len(params) > 0 {
		return notification(n.GetMethod(), params)
	}
	return bareNotification(n.GetMethod())
}

// Refollower returns what follows the watches that a client subscribed to at another replica, or
// long ago, for as long as it is read here.
func (h *Handler) Refollower(ctx context.Context, in *Inbound, s *session.Session) func() {
	return func() {
		for _, uri := range s.Unfollowed() { // made when it is needed: most sessions watch nothing, and each stream keeps this
			req := &bridge.Request{
				Op: bridge.OpServer, PartOf: bridge.OpListen, Origin: in.Origin, Caller: in.Caller, Peer: in.Peer, Transport: in.Transport,
				Route: in.Route, Era: in.era(), Method: "resources/subscribe", Revision: in.statedRevision(), Protocol: in.protocol(),
				Header: withTraceContext(in.Header, nil), Pointer: pointer, Message: &outriggerv1.ChangeFilter{ResourceUris: []string{uri}},
			}
			if err := h.refollow(ctx, req, s, uri); err != nil {
				h.noted.Warn("watch of a legacy session not followed after it moved to this replica",
					append(requestFields(req), zap.String("uri", uri), logkey.Error(err))...)
			}
		}
	}
}

// refollow follows one watch.
func (h *Handler) refollow(ctx context.Context, req *bridge.Request, s *session.Session, uri string) error {
	scope := ""
	end, isWatch, err := h.offers.FollowWatch(ctx, req, uri, func(given string) *errmap.Error {
		scope = given
		if err := s.Rescope(uri, scope); err != nil {
			return sessionError(err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !isWatch || end == nil:
		return nil
	}
	s.OnUnwatch(uri, scope, end)
	return nil
}

// admitLegacy refuses a revision that is not served. Only initialize may name
// any: it is what negotiates.
func admitLegacy(in *Inbound) *errmap.Error {
	if in.Message != nil && in.Message.Kind == jsonrpc.KindRequest && in.Message.Method == methodInitialize {
		return nil
	}
	version, isOne := HeaderVersion(in.Header)
	switch {
	case !isOne:
		return errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
			Keyword: "version", Message: "the request names two protocol versions; send one MCP-Protocol-Version",
		}))
	case len(in.Header[headerVersion]) > 0 && !isServedLegacy(version):
		return errmap.UnsupportedVersion(version, Versions())
	}
	return nil
}

// isServedLegacy reports whether a revision is one of those that initialize can
// agree on.
func isServedLegacy(version string) bool {
	return version != VersionModern && slices.Contains(Versions(), version)
}
