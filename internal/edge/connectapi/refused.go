// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// What the audit trail calls operations that never become a request of the bridge.
const (
	operationPublish = "publish"
	operationReflect = "reflect"
)

// refused is the answer to a message that never became a request. It is
// counted like one that the JSON-RPC edges refuse.
func (s *Service) refused(protocol string, err *errmap.Error, about errmap.About) *connect.Error {
	return s.refusedAt(telemetry.EdgeOf(protocol, "", false), err, about)
}

// refusedAt is refused at an edge that is known.
func (s *Service) refusedAt(edge telemetry.Edge, err *errmap.Error, about errmap.About) *connect.Error {
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
	req := r.request(ctx)
	req.Op, req.Tool, req.Era = opOf(msg), nameOf(msg), era
	s.noteRefusal(ctx, req, err)
	return s.refused(r.protocol, err, about)
}

// refusedTyped is refusedCall for a typed call.
func (s *Service) refusedTyped(ctx context.Context, r *rpc, err *errmap.Error) *connect.Error {
	req := r.request(ctx)
	req.Op, req.Procedure = bridge.OpCall, r.procedure
	s.noteRefusal(ctx, req, err)
	return s.refusedAt(telemetry.EdgeTyped, err, errmap.About{ToolCall: true})
}

// denied leaves the line of an operation in the audit trail that is denied before it
// becomes a request.
func (s *Service) denied(ctx context.Context, r *rpc, operation string, msg proto.Message, err *errmap.Error) {
	req := r.request(ctx)
	req.Era, req.Message = era, msg
	s.bridge.AuditDenied(ctx, req, operation, err)
}

func (s *Service) noteRefusal(ctx context.Context, req *bridge.Request, err *errmap.Error) {
	s.bridge.AuditRefused(ctx, req, err)
	s.record(ctx, req)(&bridge.Response{Err: err})
}

// auditUnread leaves the line of a request in the audit trail whose message could not be read: its path says what it asks
// for.
func (s *Service) auditUnread(ctx context.Context, r *rpc, err *errmap.Error) {
	req := r.request(ctx)
	req.Era = era
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

// EdgeOf returns the edge of a request that is refused before it is read. It knows only
// the request's path and content type, and the methods of the current catalog.
func (s *Service) EdgeOf(r *http.Request) telemetry.Edge {
	edge := edgeOf(r, s.isTyped(r))
	if edge == telemetry.EdgeConnect && !strings.HasPrefix(r.URL.Path, "/"+outriggerv1connect.ToolServiceName+"/") {
		return telemetry.EdgeOther
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
func edgeOf(r *http.Request, isTyped bool) telemetry.Edge {
	kind := r.Header.Get("Content-Type")
	switch {
	case isTyped:
		return telemetry.EdgeTyped
	case strings.HasPrefix(kind, "application/grpc-web"):
		return telemetry.EdgeGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return telemetry.EdgeGRPC
	}
	return telemetry.EdgeConnect
}

// NotFound returns a handler for unknown paths, which responds in the protocol of
// the client. RPC clients get an RPC error, all others a 404 with a sentence.
func (s *Service) NotFound() http.Handler {
	// Without its header a Connect request is any request with JSON, or any GET.
	writer := connect.NewErrorWriter(connect.WithRequireConnectProtocolHeader())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if writer.IsSupported(r) {
			failed := s.notFound()
			s.bridge.Stats().HTTPRefused(edgeOf(r, false), failed.Code)
			shown := errmap.ToConnect(failed, errmap.About{})
			s.toldWhy(r, shown)
			_ = writer.Write(w, r, shown)
			return
		}
		s.bridge.Stats().HTTPRefused(telemetry.EdgeOther, errmap.MethodNotFound)
		http.Error(w, "Unknown path. MCP is at /mcp, JSON-RPC at /rpc, the tool API at /outrigger.v1.ToolService/.", http.StatusNotFound)
	})
}

// Refuse responds to a request that was refused before it was read, in the client's
// protocol. RPC clients get an RPC error, all others the status and the canonical
// error as JSON.
func (s *Service) Refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	s.bridge.Stats().HTTPRefused(s.EdgeOf(r), err.Code)
	s.toldRefusal(r, err)
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		writeRefusal(w, r, writer, err)
		return
	}
	shown := err.JSONRPC(errmap.About{})
	shown.SetHeaders(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(shown.HTTPStatus)
	_, _ = w.Write(jsonrpc.AppendError(nil, jsonrpc.ID{}, true, shown.Code, shown.Message, shown.Data))
}

// notFound does not say that there is no such method before it can be known.
func (s *Service) notFound() *errmap.Error {
	if s.bridge.Catalogs().Current() == nil {
		return errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: the tool catalog has not been loaded yet"))
	}
	return errmap.New(errmap.MethodNotFound, errmap.Message("Method not found: no tool or service has this path"))
}

// writeRefusal answers a request that no handler of the RPC library sees, in the client's protocol.
func writeRefusal(w http.ResponseWriter, r *http.Request, writer *connect.ErrorWriter, refused *errmap.Error) {
	shown := errmap.ToConnect(refused, errmap.About{})
	if isPlainGRPC(r.Header.Get("Content-Type")) {
		refused.JSONRPC(errmap.About{}).SetHeaders(w.Header())
		shown.Meta().Del(headerChallenge)
	}
	_ = writer.Write(w, r, shown) // the client has gone if this fails
}
