// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// trailing is a service that answers each call with headers and trailers, and refuses those of the vehicle 1.
type trailing struct {
	demov1connect.UnimplementedFleetHandler
}

// sentTrailers are the service's own; keptTrailers are those that a typed caller gets.
var (
	sentTrailers = http.Header{
		"X-Cost": {"7", "8"}, "Ratelimit-Remaining": {"3"}, "X-Trace-Bin": {"AAEC"}, "X-Named-Token": {"full"},
		"X-Session-Token": {"secret"}, "Set-Cookie": {"c=1"}, "Authorization": {"Bearer b"}, "Proxy-Status": {"p"}, "Mcp-Name": {"m"}, "Cache-Control": {"no-store"},
	}
	keptTrailers = http.Header{"X-Cost": {"7", "8"}, "Ratelimit-Remaining": {"3"}, "X-Trace-Bin": {"AAEC"}, "X-Named-Token": {"full"}}
)

func (trailing) GetVehicle(_ context.Context, req *connect.Request[demov1.GetVehicleRequest]) (*connect.Response[demov1.Vehicle], error) {
	if req.Msg.GetVehicleId() == 1 {
		err := connect.NewError(connect.CodeAborted, errors.New("no"))
		maps.Copy(err.Meta(), sentTrailers)
		return nil, err
	}
	resp := connect.NewResponse(&demov1.Vehicle{})
	resp.Header().Set("X-Inside", "1")
	maps.Copy(resp.Trailer(), sentTrailers)
	return resp, nil
}

func (trailing) WatchVehicles(_ context.Context, req *connect.Request[demov1.WatchVehiclesRequest], stream *connect.ServerStream[demov1.VehicleUpdate]) error {
	stream.ResponseHeader().Set("X-Inside", "1")
	maps.Copy(stream.ResponseTrailer(), sentTrailers)
	if req.Msg.GetVehicleIds()[0] == 1 {
		return connect.NewError(connect.CodeAborted, errors.New("no"))
	}
	return stream.Send(&demov1.VehicleUpdate{})
}

// Trailers are part of a service's contract. Its own clients get them without an allow-list, headers only by it.
func TestTrailersPassThrough(t *testing.T) {
	t.Parallel()
	rules, err := backend.NewMetadataRules(nil, []string{"x-named-token"})
	if err != nil {
		t.Fatal(err)
	}
	_, fleet := demov1connect.NewFleetHandler(trailing{})
	address := strings.TrimPrefix(mcptest.Serve(t, fleet), "http://")
	for _, scheme := range []string{"grpc", "connect+http", "grpcweb+http"} {
		target, err := backend.ParseTarget(scheme + "://" + address)
		if err != nil {
			t.Fatal(err)
		}
		client, err := backend.New(target, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		b := inFront(bridge.New(mcptest.Memory(t), backend.NewUpstream(client), correlate.New(correlate.Options{}),
			bridge.Options{Metadata: rules}))
		url := mount(t, b, connectapi.Options{})
		for _, p := range wires() {
			client := demov1connect.NewFleetClient(mcptest.Client(t, 2), url, p.options...)
			for name, call := range map[string]func(vehicle int64) (header, trailer http.Header, err error){
				"unary": func(vehicle int64) (http.Header, http.Header, error) {
					resp, err := client.GetVehicle(t.Context(), connect.NewRequest(&demov1.GetVehicleRequest{VehicleId: vehicle}))
					if err != nil {
						return nil, nil, err
					}
					return resp.Header(), resp.Trailer(), nil
				},
				"stream": func(vehicle int64) (http.Header, http.Header, error) {
					watch, err := client.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{VehicleIds: []int64{vehicle}}))
					if err != nil {
						return nil, nil, err
					}
					for watch.Receive() {
					}
					return watch.ResponseHeader(), watch.ResponseTrailer(), watch.Err()
				},
			} {
				t.Run(scheme+"/"+p.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					header, trailer, err := call(2)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(keptTrailers, only(trailer)); diff != "" || header.Get("X-Inside") != "" {
						t.Errorf("success: headers %v, trailers (-want +got):\n%s", header, diff)
					}
					_, _, err = call(1)
					var failed *connect.Error
					if !errors.As(err, &failed) || failed.Code() != connect.CodeAborted {
						t.Fatalf("got %v", err)
					}
					want := keptTrailers
					if scheme == "connect+http" && name == "unary" { // such an error has no trailers, and its headers are any server's
						want = http.Header{"X-Named-Token": {"full"}}
					}
					if diff := cmp.Diff(want, only(failed.Meta())); diff != "" {
						t.Errorf("error: metadata (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

// only is that part of a response's metadata which the service sent, or would have to keep to itself.
func only(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if _, ok := sentTrailers[name]; ok || name == "X-Inside" {
			out[name] = values
		}
	}
	return out
}
