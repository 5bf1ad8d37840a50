// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// maxRounds bounds how often one legacy request may ask its client something:
// more than any dialogue has, and an end to one that goes in circles.
const maxRounds = 32

// Sessions returns the sessions of the legacy eras, which edges find by the id
// that a client names. Its owner closes it when the sidecar ends.
func (b *Bridge) Sessions() *session.Manager { return b.opts.Sessions }

// AdmitLegacy refuses a message, or a GET or DELETE without one, whose header
// names a revision that is not served (MCP 2025-11-25, Streamable HTTP: 400).
func (b *Bridge) AdmitLegacy(in *Inbound) *errmap.Error { return admitLegacy(in) }

// opensEarly holds where messages may come right behind an initialize (stdio):
// they belong to the session already. Elsewhere a client has to be told the id
// first, and a request that fails must not cost anybody's session.
func (in *Inbound) opensEarly() bool { return in.Header == nil }

// openSession opens the session of an initialize, where its edge can keep one.
func (b *Bridge) openSession(call *exchange) *errmap.Error {
	if call.req.Op != OpOpen || call.in.Opened == nil {
		return nil
	}
	opened, err := b.opts.Sessions.Open(call.in.Caller, call.req.Context, call.in.Origin)
	if err != nil {
		if errors.Is(err, session.ErrFull) {
			b.opts.Stats.Over(errmap.LimitSessions)
		}
		return sessionError(err)
	}
	call.in.Opened(opened)
	return nil
}

// sessionError is what a client is told when its session cannot do something.
func sessionError(err error) *errmap.Error {
	switch {
	case errors.Is(err, session.ErrUnknown), errors.Is(err, session.ErrClosed):
		return errmap.Wrap(errmap.SessionNotFound, err)
	case errors.Is(err, session.ErrFull):
		return unavailable("too many sessions are open (--max-sessions)")
	case errors.Is(err, session.ErrShare):
		return overShare("this caller has its share of the sessions, and all of them are in use (--max-sessions, --caller-share)")
	case errors.Is(err, feed.ErrFull):
		return unavailable("too much is being watched")
	case errors.Is(err, session.ErrLargeClient):
		return invalidParams("capabilities", "maxLength", "the client declares more than the %d bytes that a session keeps; leave out experimental capabilities and settings of extensions", session.DefaultMaxClient)
	case errors.Is(err, session.ErrTooMany):
		return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: the session watches as many resources as it may"))
	case errors.Is(err, feed.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// UnknownSession answers a message whose session id names no session of its
// caller: the client opens a new one then. Without any id it says so.
func (b *Bridge) UnknownSession(in *Inbound, hasID bool) Reply {
	err := errmap.New(errmap.SessionNotFound)
	if !hasID {
		err = errmap.New(errmap.SessionNotFound, errmap.NoSession(),
			errmap.Message("Session not found: no Mcp-Session-Id was sent; send initialize first"))
	}
	return b.Refuse(in, err)
}

// legacyContext is for whom a legacy request is made: what its client said when
// it opened the session, and what the request itself says.
func (call *exchange) legacyContext(req *Request) *errmap.Error {
	req.Context = &outriggerv1.RequestContext{ProtocolVersion: call.in.revision().String()}
	if s := call.in.Session; s != nil {
		req.Context, _ = proto.Clone(s.Context()).(*outriggerv1.RequestContext)
		req.Context.LogLevel = s.LogLevel()
	}
	if call.in.Send == nil {
		// Who takes nothing but the reply, as in a batch, cannot be asked meanwhile.
		req.Context.Capabilities = nil
	}
	if call.progressToken == nil {
		return nil
	}
	token, err := mcpjson.ReadProgressToken(call.progressToken)
	if err != nil {
		return unreadable("_meta/"+progressTokenKey, err)
	}
	req.Context.ProgressToken = token
	return nil
}

// connectLegacy lets a request of a session ask its client. A question has an id
// of its own, so that it can be withdrawn after the request was cancelled.
func (b *Bridge) connectLegacy(call *exchange) {
	s, send := call.in.Session, call.in.Send
	if s == nil {
		return
	}
	switch call.req.Op {
	case OpCall, OpReadResource, OpGetPrompt:
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
func askSession(ctx context.Context, s *session.Session, revision mcpjson.Revision, in *outriggerv1.InputRequired, send func([]byte) error) (map[string]*outriggerv1.InputResponse, *errmap.Error) {
	out := make(map[string]*outriggerv1.InputResponse, len(in.GetInputRequests()))
	for _, key := range slices.Sorted(maps.Keys(in.GetInputRequests())) {
		question := named(in.GetInputRequests()[key], s, key)
		method, params, err := mcpjson.AppendInputRequest(nil, question, revision)
		if err != nil {
			return nil, unaskable(err)
		}
		answer, err := s.Ask(ctx, send, method, params)
		if err != nil {
			return nil, askedError(ctx, err)
		}
		out[key] = mcpjson.ReadInputResponse(answer)
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
	var unsupported *mcpjson.UnsupportedError
	if errors.As(err, &unsupported) {
		return errmap.Wrap(errmap.MissingClientCapability, err,
			errmap.Messagef("Missing required client capability: %s has no %s", unsupported.Revision, unsupported.Feature))
	}
	return unwritable(err)
}

// askedError is why a question was not answered.
func askedError(ctx context.Context, err error) *errmap.Error {
	var refused *session.RefusedError
	switch {
	case errors.As(err, &refused):
		return errmap.Wrap(errmap.ToolExecutionFailed, err, errmap.BackendCode("failed_precondition"),
			errmap.Messagef("The client did not answer %s: %s", refused.Method, quoteBounded(refused.Message)))
	case errors.Is(err, session.ErrNoAnswer):
		return errmap.Wrap(errmap.Timeout, err, errmap.Message("The client did not answer in time"))
	case errors.Is(err, session.ErrClosed):
		return errmap.Wrap(errmap.Unavailable, err, errmap.Message("The session ended before its client answered"))
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	}
	return errmap.Wrap(errmap.Cancelled, err)
}

// dialogue runs a request whose caller can be asked in between: each question
// goes to the client, and the request is made again with the answers, until
// there is none left.
func (b *Bridge) dialogue(ctx context.Context, req *Request, round func(*Bridge, context.Context, *Request) *Response) *Response {
	for range maxRounds {
		resp := round(b, ctx, req)
		in := resp.inputRequired()
		if resp.Err != nil || in == nil || req.AskClient == nil {
			return resp
		}
		if err := req.complete(); err != nil {
			return &Response{Err: err, Tool: resp.Tool}
		}
		asked := time.Now()
		answers, err := req.AskClient(ctx, in)
		req.waited(asked)
		if err != nil {
			return &Response{Err: err.Naming(req.Tool), Tool: resp.Tool}
		}
		req.InputResponses, req.RequestState, req.repeated = answers, in.GetRequestState(), true
	}
	return &Response{Err: because(errmap.InvalidToolOutput, fmt.Sprintf("backend exceeded %d input rounds", maxRounds))}
}

// inputRequired is the question that a response is, nil where it is none.
func (r *Response) inputRequired() *outriggerv1.InputRequired {
	if in := r.Outcome.GetInputRequired(); in != nil {
		return in
	}
	if asks, ok := r.Message.(interface {
		GetInputRequired() *outriggerv1.InputRequired
	}); ok {
		return asks.GetInputRequired()
	}
	return nil
}

// ChangeNotification is a change as the legacy eras tell it, one JSON-RPC
// notification; nil for a change that they do not have, or that belongs to a
// capability which is not declared.
func (b *Bridge) ChangeNotification(c feed.Change) []byte {
	f := b.features(b.catalogs.Current())
	switch {
	case c.Kind == feed.ToolsListChanged:
		return bareNotification(methodToolsChanged)
	case c.Kind == feed.PromptsListChanged && f.promptsChanged:
		return bareNotification(methodPromptsChanged)
	case c.Kind == feed.ResourcesListChanged && f.resources:
		return bareNotification(methodResourcesChanged)
	case c.Kind == feed.ResourceUpdated && f.resourcesSubscribe:
		return notification(methodResourceUpdated, updatedParams(c.URI))
	}
	return nil
}

func bareNotification(method string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"jsonrpc":"2.0","method":`), method), '}')
}
