// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Mount adds the tool API, health and reflection to a mux.
func (s *Service) Mount(mux *http.ServeMux) {
	for path, handler := range s.services() {
		mux.Handle(path, handler)
	}
}

// services are the handlers of services that are not of the catalog, by their paths.
func (s *Service) services() map[string]http.Handler {
	all := map[string]http.Handler{}
	add := func(path string, handler http.Handler) { all[path] = handler }
	add(s.Handler())
	add(grpchealth.NewHandler(health{s.bridge}, bounds(s.opts.Limits.MaxBytes)))
	reflector := grpcreflect.NewReflector(names{s.bridge},
		grpcreflect.WithDescriptorResolver(descriptors{s.bridge}),
		grpcreflect.WithExtensionResolver(protoregistry.GlobalTypes))
	for _, handler := range []func(*grpcreflect.Reflector, ...connect.HandlerOption) (string, http.Handler){
		grpcreflect.NewHandlerV1, grpcreflect.NewHandlerV1Alpha,
	} {
		path, reflects := handler(reflector, bounds(s.opts.Limits.MaxBytes))
		add(path, s.forAllTools(reflects))
	}
	return all
}

// Root serves the same paths as Mount, and passes all others to next.
func (s *Service) Root(next http.Handler) http.Handler {
	root := &rootHandler{services: s.services(), next: next, mux: http.NewServeMux()}
	for path, handler := range root.services {
		root.mux.Handle(path, handler)
	}
	root.mux.Handle("/", next)
	return root
}

// rootHandler finds the service of an ordinary path, /<service>/<method>, in a map, and has
// a mux for the others, whose search costs more.
type rootHandler struct {
	services map[string]http.Handler
	next     http.Handler
	mux      *http.ServeMux
}

// ServeHTTP implements [http.Handler].
func (h *rootHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	method := strings.LastIndexByte(path, '/') + 1
	if r.Method != http.MethodPost || r.URL.RawPath != "" || method < 3 || method == len(path) || path[method] == '.' ||
		path[0] != '/' || path[1] == '.' || strings.Count(path, "/") != 2 {
		h.mux.ServeHTTP(w, r)
		return
	}
	handler, ok := h.services[path[:method]]
	if !ok {
		handler = h.next
	}
	handler.ServeHTTP(w, r)
}

// forAllTools lets callers through who may call every tool. Reflection shows
// whole files, and a file shows methods that a caller may not call.
func (s *Service) forAllTools(next http.Handler) http.Handler {
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.bridge.MayUseAll(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}
		s.bridge.Stats().HTTPRefused(edgeOf(r, false), errmap.PermissionDenied)
		denied := s.bridge.NotForAll(r.Context(),
			"Permission denied: reflection requires permission for every tool; ListTools and GetTool show the tools that this caller may call")
		s.denied(r.Context(), &rpc{header: r.Header, peer: r.RemoteAddr, protocol: edgeOf(r, false).String(), procedure: r.URL.Path}, operationReflect, nil, denied)
		s.toldRefusal(r, denied)
		if writer.IsSupported(r) {
			writeRefusal(w, r, writer, denied)
			return
		}
		denied.JSONRPC(errmap.About{}).SetHeaders(w.Header())
		http.Error(w, denied.Message, http.StatusForbidden)
	})
}

// health answers for the sidecar as a whole ("") and for every service that it
// exposes.
type health struct{ bridge *bridge.Bridge }

// Check implements grpchealth.Checker. A service that is not exposed is unknown.
// Every service is down while there is no catalog or the sidecar drains.
func (h health) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == ""
	for _, name := range exposed(h.bridge.CatalogFor(ctx)) {
		known = known || name == req.Service
	}
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}
	status := grpchealth.StatusNotServing
	if h.bridge.Catalogs().Current() != nil && !h.bridge.Flights().Draining() {
		status = grpchealth.StatusServing
	}
	return &grpchealth.CheckResponse{Status: status}, nil
}

// names lists what reflection shows: the tool API and the services of the
// current catalog.
type names struct{ bridge *bridge.Bridge }

// Names implements grpcreflect.Namer.
func (n names) Names() []string { return exposed(n.bridge.Catalogs().Current()) }

// exposed are the services of a catalog, which may be nil, and the tool API.
func exposed(cat *catalog.Catalog) []string {
	out := []string{outriggerv1connect.ToolServiceName}
	if cat != nil {
		for _, s := range cat.Services() {
			out = append(out, s.Name)
		}
	}
	return out
}

// descriptors finds descriptors in the current catalog first, then among those
// that the binary knows, and then among those that answers of the backend were
// read with. It does not ask the backend.
type descriptors struct{ bridge *bridge.Bridge }

// FindFileByPath implements protodesc.Resolver.
func (d descriptors) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	return found(d, func(r protodesc.Resolver) (protoreflect.FileDescriptor, error) { return r.FindFileByPath(path) })
}

// FindDescriptorByName implements protodesc.Resolver.
func (d descriptors) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	return found(d, func(r protodesc.Resolver) (protoreflect.Descriptor, error) { return r.FindDescriptorByName(name) })
}

// found looks for a descriptor at one place after the other.
func found[T any](d descriptors, in func(protodesc.Resolver) (T, error)) (T, error) {
	cat := d.bridge.Catalogs().Current()
	if cat != nil {
		if out, err := in(cat.Files()); err == nil {
			return out, nil
		}
	}
	out, err := in(protoregistry.GlobalFiles)
	if err == nil || cat == nil {
		return out, err
	}
	return in(cat.Learned())
}
