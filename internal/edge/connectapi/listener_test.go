// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// testSource is a source whose tools a test changes.
type testSource struct {
	mu      sync.Mutex
	methods []string
	fields  int
}

func (s *testSource) Name() string { return "shelf" }

// set replaces the methods; each field makes every schema larger.
func (s *testSource) set(fields int, methods ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.methods, s.fields = methods, fields
}

// Load implements source.Source.
func (s *testSource) Load(context.Context) (*source.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &descriptorpb.DescriptorProto{Name: new("In")}
	for i := range s.fields {
		in.Field = append(in.Field, &descriptorpb.FieldDescriptorProto{
			Name: new(fmt.Sprintf("field_%s_%d", strings.Repeat("x", 100), i)), Number: new(int32(i + 1)),
			Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	service := &descriptorpb.ServiceDescriptorProto{Name: new("Shelf")}
	for _, method := range s.methods {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: new(method), InputType: new(".shop.v1.In"), OutputType: new(".shop.v1.Out"),
		})
	}
	return &source.Loaded{Source: "shelf", Files: []*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{in, {Name: new("Out")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{service},
	}}}, nil
}

// sidecar is every HTTP edge on one real listener, in front of a testSource.
type sidecar struct {
	url        string
	testSource *testSource
	live       *catalog.Live
	bus        *notify.Bus
	rpc        *dialect.Handler
	api        *connectapi.Service
}

// start serves a sidecar. It has a catalog if it has methods.
func start(t *testing.T, bus notify.BusOptions, api connectapi.Options, methods ...string) *sidecar {
	t.Helper()
	s := &sidecar{testSource: &testSource{}, bus: notify.NewBus(bus)}
	s.testSource.set(1, methods...)
	s.live = catalog.NewLive([]source.Source{s.testSource}, catalog.LiveOptions{})
	if len(methods) > 0 {
		s.refresh(t)
	}
	b := bridge.New(s.live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{
		Server:      bridge.ServerInfo{Name: "shop", Title: "The shop", Version: "2.0.0", Instructions: "Ask first."},
		CatalogWait: time.Second,
	})
	s.rpc = dialect.New(b, dialect.Options{
		Notify: func(_ context.Context, method string, params []byte, origin correlate.Origin) {
			_, err := s.bus.Publish(context.Background(), notify.Event{Method: method, Params: params, Publisher: uint64(origin)})
			if err != nil {
				t.Errorf("publish %s: %v", method, err)
			}
		},
	})
	// What serve does with every catalog after the first.
	stop := s.live.OnChange(func(old, _ *catalog.Catalog) {
		if old == nil {
			return
		}
		if err := s.rpc.Offers().Feed().Publish(notify.Change{Kind: notify.ToolsListChanged}); err != nil {
			t.Errorf("publish a change: %v", err)
		}
	})
	t.Cleanup(stop)
	api.Events = s.bus
	s.api = connectapi.New(b, s.rpc, api)
	mux := http.NewServeMux()
	mux.Handle(rpchttp.Path, rpchttp.New(s.rpc, rpchttp.Options{}))
	mux.Handle(mcphttp.Path, mcphttp.New(s.rpc, mcphttp.Options{}))
	s.api.Mount(mux)
	s.url = mcptest.Serve(t, mux)
	return s
}

func (s *sidecar) refresh(t *testing.T) {
	t.Helper()
	if err := s.live.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
}

// change replaces the tools of the source.
func (s *sidecar) change(t *testing.T, fields int, methods ...string) {
	t.Helper()
	s.testSource.set(fields, methods...)
	s.refresh(t)
}

// client speaks gRPC over h2c, with its own connection.
func (s *sidecar) client(t *testing.T) outriggerv1connect.ToolServiceClient {
	t.Helper()
	return outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), s.url, connect.WithGRPC())
}

// ways are the ways to reach the tool API, over the network or another dialer.
func ways(dialers ...func(ctx context.Context, network, address string) (net.Conn, error)) map[string]func(t *testing.T, url string) outriggerv1connect.ToolServiceClient {
	way := func(version int, options ...connect.ClientOption) func(*testing.T, string) outriggerv1connect.ToolServiceClient {
		return func(t *testing.T, url string) outriggerv1connect.ToolServiceClient {
			t.Helper()
			client := mcptest.Client(t, version)
			for _, dial := range dialers {
				client.Transport.(*http.Transport).DialContext = dial
			}
			return outriggerv1connect.NewToolServiceClient(client, url, options...)
		}
	}
	return map[string]func(*testing.T, string) outriggerv1connect.ToolServiceClient{
		"connect, HTTP/1.1":       way(1),
		"connect JSON, HTTP/1.1":  way(1, connect.WithProtoJSON()),
		"connect, HTTP/2":         way(2),
		"gRPC":                    way(2, connect.WithGRPC()),
		"gRPC-Web, over HTTP/1.1": way(1, connect.WithGRPCWeb()),
	}
}

func toEvents(methods ...string) *outriggerv1.SubscribeRequest {
	return &outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: methods}}}
}

func toChanges(f *outriggerv1.ChangeFilter) *outriggerv1.SubscribeRequest {
	return &outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Changes{Changes: f}}
}

// subscribe opens a stream and waits for its headers: what is published from
// then on reaches it.
func subscribe(t *testing.T, client outriggerv1connect.ToolServiceClient, filter *outriggerv1.SubscribeRequest) *connect.ServerStreamForClient[outriggerv1.Notification] {
	t.Helper()
	stream, err := client.Subscribe(t.Context(), connect.NewRequest(filter))
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	stream.ResponseHeader()
	return stream
}

// heard returns the next message, which has to come.
func heard[T any](t *testing.T, stream *connect.ServerStreamForClient[T]) *T {
	t.Helper()
	if !stream.Receive() {
		t.Fatalf("the stream ended: %v", stream.Err())
	}
	return stream.Msg()
}

// publish sends an event and returns how many it was queued for.
func publish(t *testing.T, client outriggerv1connect.ToolServiceClient, method, params string) int {
	t.Helper()
	n := &outriggerv1.Notification{Method: method}
	if params != "" {
		n.ParamsForm = &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(params)}
	}
	resp, err := client.Publish(t.Context(), connect.NewRequest(n))
	if err != nil {
		t.Fatalf("publish %s: %v", method, err)
	}
	return int(resp.Msg.GetSubscribers())
}

// refusal is the canonical code of an RPC's error and the paths of what is wrong.
func refusal(t *testing.T, err error) (code errmap.Code, paths []string) {
	t.Helper()
	var failed *connect.Error
	if !errors.As(err, &failed) {
		t.Fatalf("not an error of the RPC: %v", err)
	}
	for _, detail := range failed.Details() {
		value, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		switch v := value.(type) {
		case *errdetails.ErrorInfo:
			code = errmap.Code(v.GetReason())
		case *errdetails.BadRequest:
			for _, f := range v.GetFieldViolations() {
				paths = append(paths, f.GetField())
			}
		}
	}
	slices.Sort(paths)
	return code, paths
}
