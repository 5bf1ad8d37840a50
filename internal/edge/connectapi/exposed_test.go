// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{})
	b := inFront(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}))
	url := mount(t, b, connectapi.Options{})
	check := func(when, service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, p := range wires() {
			if p.name == "connect JSON" {
				continue // the two generated forms of the enum have different names in JSON
			}
			resp, err := connect.NewClient[healthv1.HealthCheckRequest, healthv1.HealthCheckResponse](
				mcptest.Client(t, 2), url+"/grpc.health.v1.Health/Check", p.options...).
				CallUnary(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{Service: service}))
			switch {
			case want == healthv1.HealthCheckResponse_SERVICE_UNKNOWN:
				if connect.CodeOf(err) != connect.CodeNotFound {
					t.Errorf("%s, %s, %q: got %v, %v, want not_found", when, p.name, service, resp, err)
				}
			case err != nil || resp.Msg.GetStatus() != want:
				t.Errorf("%s, %s, %q: got %v, %v, want %v", when, p.name, service, resp, err, want)
			}
		}
	}
	const serving, down, unknown = healthv1.HealthCheckResponse_SERVING, healthv1.HealthCheckResponse_NOT_SERVING, healthv1.HealthCheckResponse_SERVICE_UNKNOWN
	check("loading", "", down)
	check("loading", outriggerv1connect.ToolServiceName, down)
	check("loading", "outrigger.demo.v1.Lab", unknown)
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"", outriggerv1connect.ToolServiceName, "outrigger.demo.v1.Lab", "outrigger.demo.v1.Fleet"} {
		check("ready", service, serving)
	}
	check("ready", "outrigger.demo.v1.Nothing", unknown)
	if err := b.bridge.Flights().Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("draining", "", down)
}

// A reflection client, such as grpcurl, sees the tool API and the backend's
// services with their comments.
func TestReflection(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	client := grpcreflect.NewClient(mcptest.Client(t, 2), url, connect.WithGRPC())
	stream := client.NewStream(t.Context())
	t.Cleanup(func() { _, _ = stream.Close() })
	services, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{outriggerv1connect.ToolServiceName, "outrigger.demo.v1.Fleet", "outrigger.demo.v1.Lab"} {
		if !slices.Contains(services, protoreflect.FullName(want)) {
			t.Errorf("%s is not listed: %v", want, services)
		}
	}
	for symbol, comment := range map[string]string{
		"outrigger.demo.v1.Lab.Echo":            "cho",
		"outrigger.demo.v1.EchoRequest":         "",
		"outrigger.v1.ToolService":              "",
		"outrigger.v1.ToolCall":                 "",
		"buf.validate.FieldRules":               "",
		"google.protobuf.Timestamp":             "",
		"outrigger.demo.v1.Fleet.WatchVehicles": "",
	} {
		files, err := stream.FileContainingSymbol(protoreflect.FullName(symbol))
		if err != nil {
			t.Errorf("%s: %v", symbol, err)
			continue
		}
		if comment != "" && !slices.ContainsFunc(files, func(f *descriptorpb.FileDescriptorProto) bool { return hasComment(f, comment) }) {
			t.Errorf("%s: the comments are gone", symbol)
		}
	}
	if _, err := stream.FileContainingSymbol("outrigger.demo.v1.Nothing"); err == nil {
		t.Error("a symbol that does not exist is found")
	}
	files, err := stream.FileByFilename("outrigger/demo/v1/lab.proto")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: files}); err != nil && !strings.Contains(err.Error(), "could not resolve import") {
		t.Errorf("the files do not link: %v", err)
	}
}

func hasComment(f *descriptorpb.FileDescriptorProto, part string) bool {
	return slices.ContainsFunc(f.GetSourceCodeInfo().GetLocation(), func(l *descriptorpb.SourceCodeInfo_Location) bool {
		return strings.Contains(l.GetLeadingComments(), part)
	})
}

// TestOrdinaryPathsAreThoseOfTheMux: what is found in a map is what the mux would find.
func TestOrdinaryPathsAreThoseOfTheMux(t *testing.T) {
	t.Parallel()
	service := echoing(t)
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux := http.NewServeMux()
	service.Mount(mux)
	mux.Handle("/", next)
	root := service.Root(next)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodConnect} {
		for _, path := range []string{
			callPath, "/outrigger.v1.ToolService/Nothing", "/outrigger.v1.ToolService/", "/outrigger.v1.ToolService", "/outrigger.v1.ToolService/a/b", "/grpc.health.v1.Health/Check",
			"/outrigger.v1.ToolService/..", "/outrigger.v1.ToolService/.", "//outrigger.v1.ToolService/CallTool", "/a/../outrigger.v1.ToolService/CallTool", "/outrigger.v1.ToolService/%43allTool",
			"/outrigger%2Ev1.ToolService/CallTool", "/outrigger.v1.ToolService%2FCallTool", "/x.Y/Z", "/", "/x", "/../x/y", "/.x/y",
		} {
			want, got := httptest.NewRecorder(), httptest.NewRecorder()
			mux.ServeHTTP(want, httptest.NewRequest(method, path, nil))
			root.ServeHTTP(got, httptest.NewRequest(method, path, nil))
			if want.Code != got.Code || want.Header().Get("Location") != got.Header().Get("Location") {
				t.Errorf("%s %s: %d, want %d", method, path, got.Code, want.Code)
			}
		}
	}
}
