// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
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

// A backend's text names fields as its .proto file does. Who calls by arguments gets their names beside it; the service's own
// client gets the text as it is.
func TestFieldsInABackendsText(t *testing.T) {
	t.Parallel()
	const said = "retry_delay must be a minute"
	b := fake(t, func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		return nil, errmap.FromBackend(connect.NewError(connect.CodeInvalidArgument, errors.New(said)))
	}, bridge.Options{})
	for typed, want := range map[bool]string{false: "lab.fail: retry_delay (argument retryDelay) must be a minute", true: "lab.fail: " + said} {
		req := toolCall(b, "lab.fail", `{"code":"FAIL_CODE_ABORTED"}`)
		if typed {
			req.Tool, req.Procedure = "", demov1connect.LabFailProcedure
		}
		if got := b.Handle(t.Context(), req).Err; got == nil || got.Message != said || got.ModelText(errmap.About{}) != want {
			t.Errorf("typed %t: %v, %q", typed, got, got.ModelText(errmap.About{}))
		}
	}
}
