// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// Sessions that replicas share: what one replica needs to know to go on where another one
// stopped.

// SessionRefused returns the reply to a message whose session cannot be used, which an edge
// found out.
func (h *Handler) SessionRefused(in *Inbound, err error) Reply {
	switch {
	case errors.Is(err, session.ErrUnknown):
		return h.UnknownSession(in, true)
	case errors.Is(err, session.ErrClosed): // another replica has it, or it has ended: who tries again learns it
		return h.Refuse(in, unavailable("the sidecar is shutting down; try another replica"))
	}
	return h.Refuse(in, sessionError(err))
}

// Begun is what another replica needs to answer a request if this one stops.
func (h *Handler) Begun(in *Inbound) session.Begun {
	b := session.Begun{RequestID: in.Message.ID.Raw()}
	if in.Message.Method != methodToolsCall {
		return b
	}
	name, err := textParam(in.Message, "name")
	if err != nil {
		return b
	}
	b.Tool = name
	if cat := h.Catalogs().Current(); cat != nil {
		if tool, ok := cat.Lookup(name); ok {
			b.Idempotent = tool.IsIdempotent()
		}
	}
	return b
}

// Orphaned is the reply to a request whose replica stopped before it was answered.
func (h *Handler) Orphaned(b session.Begun) []byte {
	id, err := jsonrpc.ParseID(b.RequestID)
	if err != nil {
		return nil // it was none of a request
	}
	about := errmap.About{RequestID: b.RequestID, ToolCall: b.Tool != "", Idempotent: b.Idempotent}
	unknown := errmap.New(errmap.TransportError, errmap.Tool(b.Tool), errmap.Retryable(b.Idempotent),
		errmap.Message("Transport error: outcome unknown: the replica that ran it stopped before this call could finish"))
	shown := unknown.MCP(errmap.Legacy, about)
	if shown.Form == errmap.ToolResult {
		failed := failedCall{err: unknown, text: shown.Text, data: shown.Data}
		return failed.appendTo(id)
	}
	return jsonrpc.AppendError(nil, id, true, shown.Code, shown.Message, shown.Data)
}

// Refollower returns what follows the watches that a client subscribed to at another replica,
// for as long as it is read here; nil where there never are any.
func (h *Handler) Refollower(ctx context.Context, in *Inbound, s *session.Session) func() {
	if s.FollowAgain() == nil {
		return nil
	}
	req := bridge.Request{
		Op: bridge.OpServer, PartOf: bridge.OpListen, Origin: in.Origin, Caller: in.Caller, Peer: in.Peer, Transport: in.Transport,
		Route: in.Route, Era: in.era(), Method: "resources/subscribe", Revision: in.statedRevision(), Protocol: in.protocol(),
		Header: WithTraceContext(in.Header, nil), Pointer: pointer,
	}
	return func() {
		for _, uri := range s.Unfollowed() {
			own := req
			own.Message = &outriggerv1.ChangeFilter{ResourceUris: []string{uri}}
			if err := h.refollow(ctx, &own, s, uri); err != nil {
				h.BoundedLog().Warn("watch of a legacy session not followed after it moved to this replica",
					append(requestFields(&own), zap.String("uri", uri), logkey.Error(err))...)
			}
		}
	}
}

// refollow follows one watch.
func (h *Handler) refollow(ctx context.Context, req *bridge.Request, s *session.Session, uri string) error {
	scope := ""
	end, isWatch, err := h.FollowWatch(ctx, req, uri, func(given string) *errmap.Error {
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
