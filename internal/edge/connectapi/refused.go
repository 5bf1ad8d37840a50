// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// What the audit trail calls operations that never become a request of the bridge.
const (
	operationPublish = "publish"
	operationReflect = "reflect"
)

// refused is what a caller is told whose message never became a request. It is
// counted like one that the JSON-RPC edges refuse.
func (s *Service) refused(protocol string, err *errmap.Error, about errmap.About) *connect.Error {
	return s.refusedAt(stats.EdgeOf(protocol, "", false), err, about)
}

// refusedAt is refused at an edge that is known.
func (s *Service) refusedAt(edge stats.Edge, err *errmap.Error, about errmap.About) *connect.Error {
	counts := s.bridge.Stats()
	counts.Operation(int(bridge.OpInvalid)).Count(edge, err.Code)
	counts.Over(err.Limit)
	return errmap.ToConnect(err, about)
}

// refusedCall is refused for a request of the tool API that could be told, which leaves
// a line in the run record and, where it is an invocation, in the audit trail.
func (s *Service) refusedCall(ctx context.Context, r *rpc, msg proto.Message, err *errmap.Error, about errmap.About) *connect.Error {
	if err.Document == nil {
		known := *err
		known.Document = msg.ProtoReflect().Descriptor()
		err = &known
	}
	s.noteRefusal(ctx, r, &bridge.Request{Op: opOf(msg), Tool: nameOf(msg), Era: era}, err)
	return s.refused(r.protocol, err, about)
}

// refusedTyped is refusedCall for a typed call.
func (s *Service) refusedTyped(ctx context.Context, r *rpc, err *errmap.Error) *connect.Error {
	s.noteRefusal(ctx, r, &bridge.Request{Op: bridge.OpCall, Procedure: r.procedure}, err)
	return s.refusedAt(stats.EdgeTyped, err, errmap.About{ToolCall: true})
}

// denied leaves the line of an operation in the audit trail that is denied before it
// becomes a request.
func (s *Service) denied(ctx context.Context, r *rpc, operation string, msg proto.Message, err *errmap.Error) {
	s.bridge.AuditDenied(ctx, &bridge.Request{
		Header: r.header, Caller: bridge.CallerOf(ctx, r.peer), Peer: r.peer, Transport: r.protocol, Route: r.procedure, Era: era, Message: msg,
	}, operation, err)
}

func (s *Service) noteRefusal(ctx context.Context, r *rpc, req *bridge.Request, err *errmap.Error) {
	req.Header, req.Caller, req.Peer, req.Transport, req.Route = r.header, bridge.CallerOf(ctx, r.peer), r.peer, r.protocol, r.procedure
	s.bridge.AuditRefused(ctx, req, err)
	s.record(ctx, req)(&bridge.Response{Err: err})
}

// auditUnread leaves the line of a request in the audit trail whose message could not be read: its path says what it asks
// for.
func (s *Service) auditUnread(ctx context.Context, r *rpc, err *errmap.Error) {
	req := &bridge.Request{
		Header: r.header, Caller: bridge.CallerOf(ctx, r.peer), Peer: r.peer, Transport: r.protocol, Route: r.procedure, Era: era,
	}
	if method, ok := strings.CutPrefix(r.procedure, "/"+outriggerv1connect.ToolServiceName+"/"); ok {
		if r.procedure == outriggerv1connect.ToolServiceExchangeProcedure { // its messages are requests
			if err.Code != errmap.Cancelled { // which only says that the caller has left
				s.bridge.AuditUnread(ctx, req, err)
			}
			return
		}
		req.Op = opOfMethod(method)
	} else if cat := s.bridge.Catalogs().Current(); cat != nil {
		if _, ok := cat.ByProcedure(r.procedure); ok {
			req.Op, req.Procedure, req.Era = bridge.OpCall, r.procedure, ""
		}
	}
	s.bridge.AuditRefused(ctx, req, err)
}

// opOfMethod is opOf for the name of a method of the tool API.
func opOfMethod(method string) bridge.Op {
	m := outriggerv1.File_outrigger_v1_tool_service_proto.Services().ByName("ToolService").Methods().ByName(protoreflect.Name(method))
	if m == nil {
		return bridge.OpInvalid
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		return bridge.OpInvalid
	}
	return opOf(input.New().Interface())
}

// opOf is what a message of the tool API asks for, as far as the audit trail cares.
func opOf(m proto.Message) bridge.Op {
	switch m.(type) {
	case *outriggerv1.ToolCall:
		return bridge.OpCall
	case *outriggerv1.ReadResourceRequest:
		return bridge.OpReadResource
	case *outriggerv1.GetPromptRequest:
		return bridge.OpGetPrompt
	case *outriggerv1.CompleteRequest:
		return bridge.OpComplete
	case *outriggerv1.GetTaskRequest:
		return bridge.OpGetTask
	case *outriggerv1.UpdateTaskRequest:
		return bridge.OpUpdateTask
	case *outriggerv1.CancelTaskRequest:
		return bridge.OpCancelTask
	}
	return bridge.OpInvalid
}

// nameOf is the tool that a call names, also one that breaks the rules.
func nameOf(m proto.Message) string {
	if call, ok := m.(*outriggerv1.ToolCall); ok {
		return call.GetToolName()
	}
	return ""
}

// run runs a request of the tool API or of the typed pass-through, and leaves its line in
// the run record.
func (s *Service) run(ctx context.Context, req *bridge.Request) *bridge.Response {
	end := s.record(ctx, req)
	resp := s.bridge.Handle(ctx, req)
	end(resp)
	return resp
}

// EdgeOf returns the edge of a request that is refused before it is read. It knows only
// the request's path and content type, and the methods of the current catalog.
func (s *Service) EdgeOf(r *http.Request) stats.Edge {
	edge := edgeOf(r, s.isTyped(r))
	if edge == stats.EdgeConnect && !strings.HasPrefix(r.URL.Path, "/"+outriggerv1connect.ToolServiceName+"/") {
		return stats.EdgeOther
	}
	return edge
}

// isTyped holds for the path of a method that the typed pass-through offers.
func (s *Service) isTyped(r *http.Request) bool {
	cat := s.bridge.Catalogs().Current()
	if cat == nil {
		return false
	}
	_, ok := cat.ByProcedure(r.URL.Path)
	return ok
}

// edgeOf is the edge that a request is for, by its content type.
func edgeOf(r *http.Request, isTyped bool) stats.Edge {
	kind := r.Header.Get("Content-Type")
	switch {
	case isTyped:
		return stats.EdgeTyped
	case strings.HasPrefix(kind, "application/grpc-web"):
		return stats.EdgeGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return stats.EdgeGRPC
	}
	return stats.EdgeConnect
}
