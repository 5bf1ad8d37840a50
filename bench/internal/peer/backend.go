// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// EchoMethod is the RPC of the demo that is called.
const EchoMethod = "/outrigger.demo.v1.Lab/Echo"

// maxMessage admits the large payload with room to spare; grpc-go's own default for received messages is 4 MiB.
const maxMessage = 16 << 20

// serveBackend serves the demo's Echo and the desk with grpc-go, the server that most backends are made with. Checks and logs are left out: a
// backend that costs little makes what stands before it visible.
func serveBackend(ctx context.Context, stdout io.Writer) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	server.RegisterService(&lab, nil)
	benchv1.RegisterDeskServer(server, desk.Server{})
	reflection.Register(server)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := announce(stdout, listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}

// lab describes the service of the demo. Only Echo is there; reflection tells of the others, and calling them is
// UNIMPLEMENTED.
var lab = grpc.ServiceDesc{ //nolint:gochecknoglobals // a table, never written
	ServiceName: "outrigger.demo.v1.Lab",
	Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	Metadata:    "outrigger/demo/v1/lab.proto",
}

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	req := new(demov1.EchoRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	return &demov1.EchoResponse{
		Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload(),
	}, nil
}
