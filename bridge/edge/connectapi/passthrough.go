// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// PassThrough serves /<backend service>/<method>: a caller's own generated
// client calls the backend through the pipeline that every other caller goes
// through. Protobuf stays Protobuf; Connect's JSON codec goes the way of JSON
// arguments. Paths that are no tool are left to the next handler.
type PassThrough struct {
	service *Service
	next    http.Handler
	// handlers are made on first use, one for each procedure of a catalog, so
	// their number is bounded by it. Procedures do not change their meaning:
	// everything that a catalog decides is looked up per call.
	handlers sync.Map
}

// PassThrough returns the handler; next answers what is no tool's path.
func (s *Service) PassThrough(next http.Handler) *PassThrough {
	return &PassThrough{service: s, next: next}
}

// ServeHTTP implements http.Handler.
func (p *PassThrough) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	procedure := r.URL.Path
	cat := p.service.bridge.Catalogs().Current()
	if cat == nil {
		p.next.ServeHTTP(w, r)
		return
	}
	if _, ok := cat.ByProcedure(procedure); !ok {
		p.next.ServeHTTP(w, r)
		return
	}
	handler, ok := p.handlers.Load(procedure)
	if !ok {
		handler, _ = p.handlers.LoadOrStore(procedure, p.handler(procedure))
	}
	if h, ok := handler.(http.Handler); ok {
		h.ServeHTTP(w, r)
	}
}

func (p *PassThrough) handler(procedure string) http.Handler {
	options := append(p.service.handlerOptions(), connect.WithCodec(protoCodec{}), connect.WithCodec(jsonCodec{}))
	return connect.NewUnaryHandler(procedure, p.call, options...)
}

// call runs one typed call.
func (p *PassThrough) call(ctx context.Context, req *connect.Request[message]) (*connect.Response[message], error) {
	resp := p.service.bridge.Handle(ctx, &bridge.Request{
		Op:        bridge.OpCall,
		Origin:    p.service.bridge.Flights().NewOrigin(),
		Procedure: req.Spec().Procedure,
		Arguments: bridge.Payload(*req.Msg),
		Timeout:   timeLeft(ctx),
		Header:    req.Header(),
		Transport: req.Peer().Protocol,
		Route:     req.Spec().Procedure,
	})
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	result := message(resp.Result)
	out := connect.NewResponse(&result)
	copyHeader(out.Header(), resp.Header)
	copyHeader(out.Trailer(), resp.Trailer)
	return out, nil
}

// NotFound answers paths that are nothing here, in the words of whoever asks:
// RPC clients get an RPC error, everybody else a 404 with a sentence.
func (s *Service) NotFound() http.Handler {
	errors := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if errors.IsSupported(r) {
			err := errmap.New(errmap.MethodNotFound, errmap.Message("Method not found: no tool or service is served at this path"))
			if s.bridge.Catalogs().Current() == nil {
				err = errmap.New(errmap.Unavailable, errmap.Message("Tool service unavailable: the tool catalog has not been loaded yet"))
			}
			_ = errors.Write(w, r, errmap.ToConnect(err, errmap.About{}))
			return
		}
		http.Error(w, "Nothing is served here. MCP is at /mcp, JSON-RPC at /rpc, the tool API at /outrigger.v1.ToolService/.", http.StatusNotFound)
	})
}
