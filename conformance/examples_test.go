// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/examples/helloworld/helloworld"
	"google.golang.org/grpc/examples/route_guide/routeguide"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// A place that route_guide knows.
const (
	placeArgs = `{"latitude":409146138,"longitude":-746188906}`
	placeName = "Berkshire Valley Management Area Trail, Jefferson, NJ, USA"
)

// routeGuide starts the sidecar in front of route_guide, which has no
// reflection.
func routeGuide(t *testing.T) *sidecar.Server {
	t.Helper()
	addr := peer.RouteGuide.Run(t, built.examples)
	set := peer.DescriptorSet(t, routeguide.File_examples_route_guide_routeguide_route_guide_proto)
	return serve(t, "--backend", "grpc://"+addr, "--descriptors", set)
}

// TestRouteGuide calls it as a tool over every edge with a neutral caller, and
// with its own generated client.
func TestRouteGuide(t *testing.T) {
	t.Parallel()
	server := routeGuide(t)
	call := caller.Call{ID: `"r"`, Tool: "route_guide.get_feature", Procedure: "/routeguide.RouteGuide/GetFeature", Args: placeArgs}
	for _, name := range []string{
		"mcp-modern", "mcp-legacy", "rpc", "rpc-batch", "rpc-message-form", "sdk-modern-http", "sdk-legacy-http",
		"tool-connect", "tool-grpc", "tool-grpcweb", "tool-grpc-go", "exchange-grpc", "typed-grpc-go",
	} {
		agent := caller.Find(t, name).Dial(t, target(server))
		got := caller.One(t.Context(), agent, call)
		var feature struct{ Name string }
		if got.Err != nil || got.Fault != nil || json.Unmarshal(got.Data, &feature) != nil || feature.Name != placeName {
			t.Errorf("%s: %v; %v %s", name, got.Err, got.Fault, got.Data)
		}
		agent.Close()
	}

	conn := caller.DialGRPC(t, server.Addr())
	defer func() { _ = conn.Close() }()
	client := routeguide.NewRouteGuideClient(conn)
	feature, err := client.GetFeature(t.Context(), &routeguide.Point{Latitude: 409146138, Longitude: -746188906})
	if err != nil || feature.GetName() != placeName {
		t.Errorf("typed: %v %v", feature, err)
	}
	unknown, err := client.GetFeature(t.Context(), &routeguide.Point{Latitude: 1})
	if err != nil || unknown.GetName() != "" || unknown.GetLocation().GetLatitude() != 1 {
		t.Errorf("typed, an unknown place: %v %v", unknown, err)
	}
}

// A rectangle in which route_guide knows many places, and as arguments.
const areaArgs = `{"lo":{"latitude":400000000,"longitude":-750000000},"hi":{"latitude":420000000,"longitude":-730000000}}`

// TestStreams calls the RPCs that send or take a stream as tools: what comes back is
// what a direct call gets.
func TestStreams(t *testing.T) {
	t.Parallel()
	addr := peer.RouteGuide.Run(t, built.examples)
	args := []string{"--backend", "grpc://" + addr, "--descriptors", peer.DescriptorSet(t, routeguide.File_examples_route_guide_routeguide_route_guide_proto)}
	server := serve(t, args...)
	got := reply(t, send(t, request(t, "POST", server.URL("/rpc"),
		strings.NewReader(`{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{}}`))).body)
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(got.Result, &list); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	want := []string{"route_guide.get_feature", "route_guide.list_features", "route_guide.record_route", "route_guide.route_chat"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	places := placesIn(t, addr, areaArgs)
	for _, name := range []string{
		"rpc", "rpc-batch", "rpc-message-form", "mcp-modern", "mcp-legacy", "tool-connect", "tool-grpc", "tool-grpcweb", "exchange-connect", "exchange-grpc",
		"stdio-canonical", "stdio-modern", "stdio-legacy", "sdk-modern-http", "sdk-legacy-http",
	} {
		agent := caller.Find(t, name).Dial(t, target(server, args...))
		answer := caller.One(t.Context(), agent, caller.Call{ID: `"s"`, Tool: "route_guide.list_features", Args: areaArgs})
		var got struct {
			Items     []struct{ Name string }
			Truncated *bool
		}
		if answer.Err != nil || answer.Fault != nil || json.Unmarshal(answer.Data, &got) != nil || got.Truncated == nil || *got.Truncated {
			t.Errorf("%s: %v; %v %.300s", name, answer.Err, answer.Fault, answer.Data)
		}
		var names []string
		for _, item := range got.Items {
			names = append(names, item.Name)
		}
		if diff := cmp.Diff(places, names); diff != "" {
			t.Errorf("%s: places (-want +got):\n%s", name, diff)
		}
		testRecordRoute(t, name, agent)
		testRouteChat(t, name, agent)
		agent.Close()
	}
	// A generated client gets the same through the sidecar.
	if diff := cmp.Diff(places, placesIn(t, server.Addr(), areaArgs)); diff != "" {
		t.Errorf("typed: places (-want +got):\n%s", diff)
	}
}

// testRecordRoute sends a way of two known places and one unknown one, and takes the summary.
func testRecordRoute(t *testing.T, name string, agent caller.Agent) {
	t.Helper()
	answer := caller.One(t.Context(), agent, caller.Call{
		ID: `"w"`, Tool: "route_guide.record_route", Args: `{"items":[` + placeArgs + `,{"latitude":1},` + placeArgs + `]}`,
	})
	var got struct{ PointCount, FeatureCount int }
	if answer.Err != nil || answer.Fault != nil || json.Unmarshal(answer.Data, &got) != nil || got.PointCount != 3 || got.FeatureCount != 2 {
		t.Errorf("%s: a way: %v; %v %s", name, answer.Err, answer.Fault, answer.Data)
	}
	answer = caller.One(t.Context(), agent, caller.Call{ID: `"x"`, Tool: "route_guide.record_route", Args: `{"items":[{},{"latitude":"far"}]}`})
	if answer.Fault == nil || answer.Fault.Code != "INVALID_TOOL_INPUT" {
		t.Errorf("%s: a way with a wrong point: %v; %v %s", name, answer.Err, answer.Fault, answer.Data)
	}
}

// testRouteChat says two things at a place of the edge's own. The service answers each with what was said there before.
func testRouteChat(t *testing.T, name string, agent caller.Agent) {
	t.Helper()
	place := fmt.Sprintf(`{"latitude":%d,"longitude":7}`, crc32.ChecksumIEEE([]byte(name))>>1)
	answer := caller.One(t.Context(), agent, caller.Call{ID: `"c"`, Tool: "route_guide.route_chat", Args: fmt.Sprintf(
		`{"items":[{"location":%[1]s,"message":"first"},{"location":%[1]s,"message":"second"}]}`, place)})
	var got struct {
		Items     []struct{ Message string }
		Truncated bool
	}
	if answer.Err != nil || answer.Fault != nil || json.Unmarshal(answer.Data, &got) != nil || got.Truncated {
		t.Fatalf("%s: a chat: %v; %v %s", name, answer.Err, answer.Fault, answer.Data)
	}
	var said []string
	for _, item := range got.Items {
		said = append(said, item.Message)
	}
	if diff := cmp.Diff([]string{"first", "first", "second"}, said); diff != "" {
		t.Errorf("%s: a chat (-want +got):\n%s", name, diff)
	}
}

// placesIn asks the service itself.
func placesIn(t *testing.T, addr, args string) []string {
	t.Helper()
	area := new(routeguide.Rectangle)
	if err := protojson.Unmarshal([]byte(args), area); err != nil {
		t.Fatal(err)
	}
	conn := caller.DialGRPC(t, addr)
	defer func() { _ = conn.Close() }()
	stream, err := routeguide.NewRouteGuideClient(conn).ListFeatures(t.Context(), area)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for {
		place, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, place.GetName())
	}
	if len(names) < 10 {
		t.Fatalf("the service knows %d places there; the test needs more", len(names))
	}
	return names
}

// TestHelloWorld calls the greeter, which has no reflection.
func TestHelloWorld(t *testing.T) {
	t.Parallel()
	addr := peer.HelloWorld.Run(t, built.examples)
	set := peer.DescriptorSet(t, helloworld.File_examples_helloworld_helloworld_helloworld_proto)
	server := serve(t, "--backend", "http://"+addr, "--descriptors", set)
	for _, name := range []string{"mcp-modern", "mcp-legacy", "rpc", "sdk-modern-http", "tool-grpcweb", "typed-grpc-go"} {
		agent := caller.Find(t, name).Dial(t, target(server))
		got := caller.One(t.Context(), agent, caller.Call{
			ID: `"h"`, Tool: "greeter.say_hello", Procedure: "/helloworld.Greeter/SayHello", Args: `{"name":"outrigger"}`,
		})
		if got.Err != nil || got.Fault != nil || !jsonEqual(got.Data, `{"message":"Hello outrigger"}`) {
			t.Errorf("%s: %v; %v %s", name, got.Err, got.Fault, got.Data)
		}
		agent.Close()
	}
}

// TestErrorDetailsExample greets twice: the example refuses the second time and
// says why in a detail.
func TestErrorDetailsExample(t *testing.T) {
	t.Parallel()
	addr := peer.ErrorDetails.Run(t, built.examples)
	set := peer.DescriptorSet(t, helloworld.File_examples_helloworld_helloworld_helloworld_proto)
	args := []string{"--backend", "grpc://" + addr, "--descriptors", set}
	server := serve(t, args...)
	for _, edge := range caller.Edges() {
		if strings.HasPrefix(edge.Name, "typed-") && edge.Name != "typed-grpc-go" {
			continue // those are clients of the Lab
		}
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			agent := edge.Dial(t, target(server, args...))
			defer agent.Close()
			call := caller.Call{
				ID: `"e"`, Tool: "greeter.say_hello", Procedure: "/helloworld.Greeter/SayHello", Args: `{"name":"` + edge.Name + `"}`,
			}
			if got := caller.One(t.Context(), agent, call); got.Err != nil || got.Fault != nil {
				t.Fatalf("the first time: %v; %v", got.Err, got.Fault)
			}
			got := caller.One(t.Context(), agent, call)
			if got.Fault == nil || got.Fault.Code != "TOOL_EXECUTION_FAILED" || !strings.Contains(got.Fault.Message, "Request limit exceeded.") {
				t.Fatalf("the second time: %v; %v", got.Err, got.Fault)
			}
			if got.Fault.RPC != "" {
				quota := &errdetails.QuotaFailure{}
				i := slices.IndexFunc(got.Fault.Details, func(d *anypb.Any) bool { return d.MessageIs(quota) })
				if i < 0 || got.Fault.Details[i].UnmarshalTo(quota) != nil || quota.GetViolations()[0].GetSubject() != "name:"+edge.Name {
					t.Errorf("details: %v", got.Fault.Details)
				}
				return
			}
			for _, part := range []string{"google.rpc.QuotaFailure", "name:" + edge.Name, "Limit one greeting per person", "resource_exhausted"} {
				if !strings.Contains(string(got.Fault.Data), part) {
					t.Errorf("the data lacks %q: %s", part, got.Fault.Data)
				}
			}
		})
	}
}

// TestReflectionExample learns everything from the backend itself, and passes it
// on: a reflection client finds the backend's services in the sidecar.
func TestReflectionExample(t *testing.T) {
	t.Parallel()
	addr := peer.Reflection.Run(t, built.examples)
	server := sidecar.Serve(t, built.binary, "--backend", "http://"+addr)
	if n := server.Ready(t); n != 5 {
		t.Errorf("%d tools, want 5: one greeting and four kinds of echo", n)
	}
	agent := caller.Find(t, "sdk-modern-http").Dial(t, target(server))
	defer agent.Close()
	got := caller.One(t.Context(), agent, caller.Call{Tool: "echo.unary_echo", Args: `{"message":"hi"}`})
	if got.Err != nil || got.Fault != nil || !jsonEqual(got.Data, `{"message":"hi"}`) {
		t.Errorf("%v; %v %s", got.Err, got.Fault, got.Data)
	}

	conn := caller.DialGRPC(t, server.Addr())
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	listed := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	var services []string
	for _, s := range listed.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	for _, want := range []string{"grpc.examples.echo.Echo", "helloworld.Greeter", "outrigger.v1.ToolService"} {
		if !slices.Contains(services, want) {
			t.Errorf("reflection does not list %s: %v", want, services)
		}
	}
	found := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "helloworld.Greeter.SayHello",
	}})
	file := &descriptorpb.FileDescriptorProto{}
	if raw := found.GetFileDescriptorResponse().GetFileDescriptorProto(); len(raw) == 0 || proto.Unmarshal(raw[0], file) != nil {
		t.Fatalf("no file for the symbol: %v", found)
	}
	want := &descriptorpb.FileDescriptorProto{}
	raw, err := proto.Marshal(protodesc.ToFileDescriptorProto(helloworld.File_examples_helloworld_helloworld_helloworld_proto))
	if err != nil || proto.Unmarshal(raw, want) != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, file, protocmp.Transform()); diff != "" {
		t.Errorf("the file is not the backend's (-want +got):\n%s", diff)
	}
	missing := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "no.such.Service",
	}})
	if missing.GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
		t.Errorf("an unknown symbol: %v", missing)
	}
	_ = stream.CloseSend()

	checkAlpha(ctx, t, conn, len(services))
}

// checkAlpha asks in the older version of the protocol, as many clients do
// first.
//
//nolint:staticcheck // what is deprecated is still asked for
func checkAlpha(ctx context.Context, t *testing.T, conn *grpc.ClientConn, want int) {
	t.Helper()
	stream, err := reflectionalpha.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionalpha.ServerReflectionRequest{MessageRequest: &reflectionalpha.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if res, err := stream.Recv(); err != nil || len(res.GetListServicesResponse().GetService()) != want {
		t.Errorf("v1alpha: %v %v", res, err)
	}
	_ = stream.CloseSend()
}

// TestHealth asks as a gRPC load balancer does.
func TestHealth(t *testing.T) {
	t.Parallel()
	server := routeGuide(t)
	conn := caller.DialGRPC(t, server.Addr())
	defer func() { _ = conn.Close() }()
	client := grpc_health_v1.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	for _, service := range []string{"", "routeguide.RouteGuide", "outrigger.v1.ToolService"} {
		res, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v %v", service, res, err)
		}
	}
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "no.such.Service"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
}

// TestCurl is what a person tries first.
func TestCurl(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	for _, row := range []struct{ name, url, data, want string }{
		{"rpc", server.URL("/rpc"), caller.Canonical.Request(caller.Call{ID: `"1"`, Tool: toolEcho, Args: `{"nonce":"curl"}`}), `"nonce":"curl"`},
		{"mcp", server.URL("/mcp"), caller.Legacy.Request(caller.Call{ID: `1`, Tool: toolEcho, Args: `{"nonce":"curl"}`}), `"nonce":"curl"`},
		{"connect", server.URL(procEcho), `{"nonce":"curl"}`, `"nonce":"curl"`},
		{"tool api", server.URL("/outrigger.v1.ToolService/CallTool"), `{"tool_name":"lab.echo","arguments":{"nonce":"curl"}}`, `"status":"success"`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
		out, err := exec.CommandContext(ctx, "curl", "-sS", "--fail-with-body", "-H", "Content-Type: application/json", "-d", row.data, row.url).CombinedOutput()
		cancel()
		if err != nil || !strings.Contains(string(out), row.want) {
			t.Errorf("%s: %v: %s", row.name, err, out)
		}
	}
}
