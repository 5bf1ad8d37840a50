// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// Mount adds the tool API, health and reflection to a mux.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.Handle(s.Handler())
	mux.Handle(grpchealth.NewHandler(health{s.bridge}, s.bounds()))
	reflector := grpcreflect.NewReflector(names{s.bridge},
		grpcreflect.WithDescriptorResolver(descriptors{s.bridge}),
		grpcreflect.WithExtensionResolver(protoregistry.GlobalTypes))
	mux.Handle(grpcreflect.NewHandlerV1(reflector, s.bounds()))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, s.bounds()))
}

// health answers for the sidecar as a whole ("") and for every service that it
// exposes.
type health struct{ bridge *bridge.Bridge }

// Check implements grpchealth.Checker. A service that is not exposed is
// unknown; everything is down while there is no catalog or a drain goes on.
func (h health) Check(_ context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := req.Service == ""
	for _, name := range names(h).Names() {
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
func (n names) Names() []string {
	out := []string{outriggerv1connect.ToolServiceName}
	if cat := n.bridge.Catalogs().Current(); cat != nil {
		for _, s := range cat.Services() {
			out = append(out, s.Name)
		}
	}
	return out
}

// descriptors finds descriptors in the current catalog first, then among those
// that the binary knows.
type descriptors struct{ bridge *bridge.Bridge }

// FindFileByPath implements protodesc.Resolver.
func (d descriptors) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if cat := d.bridge.Catalogs().Current(); cat != nil {
		if file, err := cat.Files().FindFileByPath(path); err == nil {
			return file, nil
		}
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (d descriptors) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if cat := d.bridge.Catalogs().Current(); cat != nil {
		if found, err := cat.Files().FindDescriptorByName(name); err == nil {
			return found, nil
		}
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
