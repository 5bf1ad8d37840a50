// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

const (
	// maxAsked bounds the services that are asked for an unknown method, and the differences that are named.
	maxAsked = 64
	// unknownMethod is a method that no service has.
	unknownMethod = "OutriggerAsksWhetherTheServiceIsHere"
)

// FixOffered is what to do about descriptors that the backend does not serve.
const FixOffered = "pass the descriptors of the version that runs, correct --backend, or omit the service with --exclude"

// Offered compares the services of a catalog of descriptor files with what the backend
// serves, and names what differs, one line each. Where the backend reflects, its
// descriptors are compared. Elsewhere one unknown method of each service is called, and
// only an answer that names the service as unknown counts: many servers answer both in
// the same words. A backend that cannot be reached differs in nothing.
func (a Diagnoser) Offered(ctx context.Context, cat *catalog.Catalog) []string {
	if a.Client == nil {
		return nil
	}
	services := cat.Services()
	reflected, err := bridge.NewReflectionSource(a.Client, source.ReflectionOptions{Selection: only(services)}).Load(ctx)
	switch {
	case errors.Is(err, source.ErrNoneSelected), errors.Is(err, source.ErrNoServices):
		reflected = &source.Loaded{} // it reflects, and has none of them
	case err != nil:
		return a.unknown(ctx, services)
	}
	listed := map[string]bool{}
	for _, name := range reflected.Services {
		listed[name] = true
	}
	for _, w := range reflected.Warnings {
		listed[w.Subject] = true // listed, and not described
	}
	var out []string
	ours := map[string]*descriptorpb.FileDescriptorProto{}
	for _, s := range services {
		if !listed[s.Name] {
			out = append(out, missing(s.Name))
			continue
		}
		add := func(d protoreflect.Descriptor) {
			if file := d.ParentFile(); ours[file.Path()] == nil {
				ours[file.Path()] = protodesc.ToFileDescriptorProto(file)
				out = append(out, source.Differences([]*descriptorpb.FileDescriptorProto{ours[file.Path()]}, reflected.Files)...)
			}
		}
		add(s.Descriptor)
		for i := range s.Descriptor.Methods().Len() {
			add(s.Descriptor.Methods().Get(i).Input())
			add(s.Descriptor.Methods().Get(i).Output())
		}
	}
	if more := len(out) - maxAsked; more > 0 {
		out = append(out[:maxAsked], fmt.Sprintf("%d more", more))
	}
	return out
}

// unknown asks each service for a method that it does not have.
func (a Diagnoser) unknown(ctx context.Context, services []catalog.Service) []string {
	var out []string
	for _, s := range services[:min(len(services), maxAsked)] {
		_, err := a.Client.Call(ctx, "/"+s.Name+"/"+unknownMethod, nil, nil)
		var answer *backend.Error
		if errors.As(err, &answer) && answer.Kind == backend.KindStatus && backend.FaultOf(err) == backend.FaultNotServed &&
			strings.Contains(strings.ToLower(answer.Message), "unknown service") {
			out = append(out, missing(s.Name))
		}
	}
	return out
}

func missing(service string) string {
	return "the descriptors have the service " + service + ", and the backend does not: each call will fail with unimplemented"
}

// onlyServices is a selection of services by name.
type onlyServices map[string]bool

func only(services []catalog.Service) onlyServices {
	out := onlyServices{}
	for _, s := range services {
		out[s.Name] = true
	}
	return out
}

// Skips implements source.Selection.
func (o onlyServices) Skips(service string) bool { return !o[service] }
