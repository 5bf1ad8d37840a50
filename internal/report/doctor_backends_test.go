// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/grpcreflect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// demoService is the demo service as a handler.
func demoService(t *testing.T) http.Handler {
	t.Helper()
	handler, err := demo.Handler(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// serve listens for a backend and returns its URL for gRPC.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	return "grpc" + strings.TrimPrefix(mcptest.Serve(t, handler), "http")
}

// without answers paths that begin with one of these with a status of gRPC, and has
// the demo service answer the others.
func without(t *testing.T, status string, prefixes ...string) http.Handler {
	t.Helper()
	next := demoService(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(r.URL.Path, prefix) {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Grpc-Status", status)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// obliging answers methods that it does not have with success and an empty message, and has the demo service answer the
// others.
func obliging(t *testing.T) http.Handler {
	t.Helper()
	next := demoService(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/outrigger.v1.ToolService/") {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = w.Write(make([]byte, 5))
			w.Header().Set("Grpc-Status", "0")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// reflecting reflects services by their generated descriptors, which have no comments.
func reflecting(services ...string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(grpcreflect.NewHandlerV1(grpcreflect.NewStaticReflector(services...)))
	return mux
}

// grpcHealth starts a grpc-go server of the health service alone and returns its URL. It has no reflection.
func grpcHealth(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return "grpc://" + l.Addr().String()
}

// descriptorFile writes the descriptors of the lab, with all that they import.
func descriptorFile(t *testing.T) string {
	t.Helper()
	raw, err := proto.Marshal(mcptest.Descriptors(demov1.File_outrigger_demo_v1_lab_proto))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lab.binpb")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// describedLab writes the descriptors of the lab with comments of its service and its first method. A field of the latter's
// request has another number, and one is missing in them.
func describedLab(t *testing.T) string {
	t.Helper()
	set := mcptest.Descriptors(demov1.File_outrigger_demo_v1_lab_proto)
	for i, f := range set.GetFile() {
		if f.GetName() != demov1.File_outrigger_demo_v1_lab_proto.Path() {
			continue
		}
		f = proto.CloneOf(f)
		f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: []int32{6, 0}, Span: []int32{0, 0, 0}, LeadingComments: new(" Experiments.\n")},
			{Path: []int32{6, 0, 2, 0}, Span: []int32{0, 0, 0}, LeadingComments: new(" Repeats what it gets.\n")},
		}}
		f.MessageType[0].Field[0].Number = new(int32(1000))
		f.Service[0].Method = f.Service[0].Method[:len(f.Service[0].Method)-1]
		set.File[i] = f
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "described.binpb")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
