// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// streamOfCalls is a streaming RPC that has a span. What runs for it has the same one, except on Exchange, whose messages are
// requests of their own.
type streamOfCalls struct {
	span   *telemetry.Span
	method string
	// called is what has become of the call that the stream is for; nil where it is for none.
	called *bridge.Response
}

// opened notes that the caller has its stream.
func (of *streamOfCalls) opened() {
	if of != nil {
		of.span.Opened()
	}
}

func (of *streamOfCalls) endSpan(err error) {
	if of.called != nil && of.called.Err == nil && err == nil {
		bridge.EndSpan(of.span, of.called, errmap.ConnectRPC, errmap.About{})
		return
	}
	of.span.End(rpcOutcome(err))
}

// record begins the line of a request in the run record and its span. The function that it returns ends both.
func (s *Service) record(ctx context.Context, req *bridge.Request) (end func(*bridge.Response)) {
	if !s.bridge.Tracer().IsOn() {
		return s.rpc.RecordCall(ctx, req)
	}
	of := servedOf(ctx).span
	if of == nil {
		return s.rpc.RecordCall(ctx, req)
	}
	req.Span, req.Method = of.span, of.method
	recorded := s.rpc.RecordCall(ctx, req)
	return func(resp *bridge.Response) {
		of.called = resp
		recorded(resp)
	}
}

// rpcOutcome is how an RPC ended that its handler answered with an error, or with none.
func rpcOutcome(err error) telemetry.Outcome {
	if err == nil {
		return telemetry.Outcome{Attributes: []telemetry.Attribute{telemetry.Text(telemetry.StatusCode, errmap.StatusOK)}}
	}
	var shown *connect.Error
	if !errors.As(err, &shown) {
		shown = connect.NewError(connect.CodeOf(err), err)
	}
	out := telemetry.OutcomeOf(errmap.FromConnect(shown), errmap.ConnectRPC)
	out.Attributes[0] = telemetry.Text(telemetry.StatusCode, errmap.CodeName(shown.Code()))
	return out
}

// toldWhy tells the span of an HTTP request why it is refused.
func (s *Service) toldWhy(r *http.Request, refused error) {
	if told := s.rpc.Request(r.Context()); told != nil {
		told.Refused(rpcOutcome(refused))
	}
}

// toldFraming is toldWhy for what the RPC library refuses by itself. All of that is the caller's, also a body that is late: no
// tool has run.
func (s *Service) toldFraming(r *http.Request, refused error) {
	if told := s.rpc.Request(r.Context()); told != nil {
		why := rpcOutcome(refused)
		why.ErrorType = ""
		told.Refused(why)
	}
}

// toldRefusal is toldWhy for an error that has no form of RPC yet.
func (s *Service) toldRefusal(r *http.Request, refused *errmap.Error) {
	if s.bridge.Tracer().IsOn() {
		s.toldWhy(r, errmap.ToConnect(refused, errmap.About{}))
	}
}

// now is the time for the span of a message; zero without tracing.
func (s *Service) now() time.Time {
	if !s.bridge.Tracer().IsOn() {
		return time.Time{}
	}
	return time.Now()
}

// Route returns the path of a request if it is that of an RPC that exists here, and otherwise "".
func (s *Service) Route(r *http.Request) string {
	path := r.URL.Path
	if isOwnRPC(path) {
		return path
	}
	if cat := s.bridge.Catalogs().Current(); cat != nil {
		if _, ok := cat.ByProcedure(path); ok {
			return path
		}
	}
	return ""
}

// isOwnRPC holds for the RPCs of the services that the sidecar itself has.
func isOwnRPC(path string) bool {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch service {
	case "outrigger.v1.ToolService":
		services := outriggerv1.File_outrigger_v1_tool_service_proto.Services()
		return services.ByName("ToolService").Methods().ByName(protoreflect.Name(method)) != nil
	case "grpc.health.v1.Health":
		return method == "Check" || method == "Watch" || method == "List"
	case "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return method == "ServerReflectionInfo"
	}
	return false
}
