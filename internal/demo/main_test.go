// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a running service with clients of one protocol.
type peer struct {
	url   string
	http  *http.Client
	fleet demov1connect.FleetClient
	lab   demov1connect.LabClient
}

// protocols are the ways to call the service.
var protocols = []struct {
	name    string
	http2   bool
	options []connect.ClientOption
}{
	{"grpc", true, []connect.ClientOption{connect.WithGRPC()}},
	{"grpcweb over HTTP/1.1", false, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"grpcweb over h2c", true, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"connect over HTTP/1.1", false, nil},
	{"connect over h2c", true, nil},
	{"connect JSON with GET", false, []connect.ClientOption{connect.WithProtoJSON(), connect.WithHTTPGet(), connect.WithHTTPGetMaxURLSize(8<<10, true)}},
}

// start runs the service for one test. The clock is fixed at noon of the day of the data.
func start(t *testing.T, opts demo.Options) *demo.Server {
	t.Helper()
	if opts.Now == nil {
		opts.Now = noon
	}
	server, err := demo.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Limit())
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return server
}

func noon() time.Time { return time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC) }

// dial returns clients for a URL. Their connections end with the test, before the server's cleanup waits for them.
func dial(t *testing.T, url string, http2 bool, options ...connect.ClientOption) *peer {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols, DialContext: (&net.Dialer{}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return &peer{
		url:   url,
		http:  client,
		fleet: demov1connect.NewFleetClient(client, url, options...),
		lab:   demov1connect.NewLabClient(client, url, options...),
	}
}

// grpcPeer starts a service and dials it over gRPC, which carries every kind of stream.
func grpcPeer(t *testing.T, opts demo.Options) *peer {
	t.Helper()
	return dial(t, start(t, opts).URL(), true, connect.WithGRPC())
}

// ask makes a unary call with a bare message.
func ask[Req, Res any](t *testing.T, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) *Res {
	t.Helper()
	res, err := call(t.Context(), connect.NewRequest(req))
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return res.Msg
}
