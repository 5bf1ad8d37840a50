// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
)

func typedEdges() []Edge {
	edge := func(name string, h2 bool, options ...connect.ClientOption) Edge {
		return Edge{Name: name, Dial: func(_ testing.TB, t Target) Agent {
			client := Client(h2)
			return &labAgent{client: client, lab: demov1connect.NewLabClient(client, "http://"+t.Addr, options...)}
		}}
	}
	return []Edge{
		edge("typed-connect", false),
		edge("typed-connect-json", true, connect.WithProtoJSON()),
		edge("typed-grpc", true, connect.WithGRPC()),
		edge("typed-grpcweb", false, connect.WithGRPCWeb()),
		{Name: "typed-grpc-go", Dial: func(tb testing.TB, t Target) Agent {
			tb.Helper()
			return &grpcTypedAgent{conn: DialGRPC(tb, t.Addr)}
		}},
	}
}

// labAgent calls the demo's Lab through the sidecar with the backend's own
// generated client.
type labAgent struct {
	client *http.Client
	lab    demov1connect.LabClient
}

func (a *labAgent) Close() { a.client.CloseIdleConnections() }

func (a *labAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		switch path.Base(c.Procedure) {
		case "Echo":
			return typed(ctx, c, a.lab.Echo)
		case "Sleep":
			return typed(ctx, c, a.lab.Sleep)
		case "Fail":
			return typed(ctx, c, a.lab.Fail)
		case "Inspect":
			return typed(ctx, c, a.lab.Inspect)
		}
		return failed(fmt.Errorf("the Lab has no procedure %s", c.Procedure))
	})
}

// typed makes one call of a generated client, with JSON on both sides of it.
func typed[Req, Res any](ctx context.Context, c Call, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error)) Answer {
	req := new(Req)
	message, ok := any(req).(proto.Message)
	if !ok {
		return failed(fmt.Errorf("%T is no message", req))
	}
	if err := protojson.Unmarshal([]byte(c.Args), message); err != nil {
		return failed(err)
	}
	res, err := call(ctx, connect.NewRequest(req))
	if err != nil {
		return connectAnswer(err)
	}
	reply, ok := any(res.Msg).(proto.Message)
	if !ok {
		return failed(fmt.Errorf("%T is no message", res.Msg))
	}
	data, err := protojson.Marshal(reply)
	return Answer{Data: data, Header: res.Header(), Trailer: res.Trailer(), Err: err}
}

// grpcTypedAgent calls any procedure of which the types are linked in, with
// grpc-go.
type grpcTypedAgent struct{ conn *grpc.ClientConn }

func (a *grpcTypedAgent) Close() { _ = a.conn.Close() }

func (a *grpcTypedAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		req, res, err := messages(c.Procedure)
		if err != nil {
			return failed(err)
		}
		if err := protojson.Unmarshal([]byte(c.Args), req); err != nil {
			return failed(err)
		}
		var header, trailer metadata.MD
		if err := a.conn.Invoke(ctx, c.Procedure, req, res, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			answer := grpcAnswer(err)
			answer.Header, answer.Trailer = asHeader(header), asHeader(trailer)
			return answer
		}
		data, err := protojson.Marshal(res)
		return Answer{Data: data, Header: asHeader(header), Trailer: asHeader(trailer), Err: err}
	})
}

// messages makes an empty request and response of a procedure.
func messages(procedure string) (req, res proto.Message, err error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(procedure, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, nil, err
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, nil, fmt.Errorf("%s is no method", procedure)
	}
	in, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, nil, err
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil {
		return nil, nil, err
	}
	return in.New().Interface(), out.New().Interface(), nil
}
