// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

func connectEdges() []Edge {
	edge := func(name string, h2 bool, options ...connect.ClientOption) Edge {
		return Edge{Name: name, Dial: func(_ testing.TB, t Target) Agent {
			client := Client(h2)
			return &toolAgent{client: client, tools: outriggerv1connect.NewToolServiceClient(client, "http://"+t.Addr, options...)}
		}}
	}
	return []Edge{
		edge("tool-connect", false),
		edge("tool-connect-json", true, connect.WithProtoJSON()),
		edge("tool-grpc", true, connect.WithGRPC()),
		edge("tool-grpcweb", false, connect.WithGRPCWeb()),
		{Name: "tool-grpc-go", Dial: func(tb testing.TB, t Target) Agent {
			tb.Helper()
			return &grpcToolAgent{conn: DialGRPC(tb, t.Addr)}
		}},
	}
}

// toolAgent calls ToolService with the client that connect-go generated.
type toolAgent struct {
	client *http.Client
	tools  outriggerv1connect.ToolServiceClient
}

func (a *toolAgent) Close() { a.client.CloseIdleConnections() }

func (a *toolAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		res, err := a.tools.CallTool(ctx, connect.NewRequest(toolCall(c)))
		if err != nil {
			return connectAnswer(err)
		}
		answer := outcomeAnswer(res.Msg)
		answer.Header, answer.Trailer = res.Header(), res.Trailer()
		return answer
	})
}

func toolCall(c Call) *outriggerv1.ToolCall {
	return &outriggerv1.ToolCall{
		ToolName: c.Tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(c.Args)},
	}
}

func outcomeAnswer(out *outriggerv1.ToolOutcome) Answer {
	res := out.GetResult()
	if !isGood(res.GetStatus()) {
		return failed(fmt.Errorf("outcome %v", out))
	}
	return Answer{Data: res.GetDataJson()}
}

// DialGRPC connects grpc-go to a sidecar or a backend.
func DialGRPC(tb testing.TB, addr string) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// grpcToolAgent calls ToolService with grpc-go.
type grpcToolAgent struct{ conn *grpc.ClientConn }

func (a *grpcToolAgent) Close() { _ = a.conn.Close() }

func (a *grpcToolAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		var header, trailer metadata.MD
		res := &outriggerv1.ToolOutcome{}
		err := a.conn.Invoke(ctx, outriggerv1connect.ToolServiceCallToolProcedure, toolCall(c), res,
			grpc.Header(&header), grpc.Trailer(&trailer))
		answer := outcomeOf(res, err)
		answer.Header, answer.Trailer = asHeader(header), asHeader(trailer)
		return answer
	})
}

func outcomeOf(res *outriggerv1.ToolOutcome, err error) Answer {
	if err != nil {
		return grpcAnswer(err)
	}
	return outcomeAnswer(res)
}

// asHeader gives grpc-go's metadata the form that the other edges have.
func asHeader(md metadata.MD) http.Header {
	h := http.Header{}
	for name, values := range md {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h
}
