// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// A request without fields has no bytes, and is a request all the same.
func TestAnEmptyMessagePassesThroughInEveryProtocol(t *testing.T) {
	t.Parallel()
	b := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	url := mcptest.Serve(t, connectapi.New(b, connectapi.Options{}).PassThrough(http.NotFoundHandler()))
	for name, options := range map[string][]connect.ClientOption{
		"Connect":       nil,
		"Connect JSON":  {connect.WithProtoJSON()},
		"Connect gzip":  {connect.WithSendGzip()},
		"gRPC":          {connect.WithGRPC()},
		"gRPC JSON":     {connect.WithGRPC(), connect.WithProtoJSON()},
		"gRPC gzip":     {connect.WithGRPC(), connect.WithSendGzip()},
		"gRPC-Web":      {connect.WithGRPCWeb()},
		"gRPC-Web JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, err := demov1connect.NewLabClient(mcptest.Client(t, 2), url, options...).
				Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{}))
			if err != nil || resp.Msg.GetNonce() != "" {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
}
