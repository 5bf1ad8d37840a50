// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// serveGRPCProxy serves one unary RPC with grpc-go and calls the same RPC of the backend with grpc-go. The message stays
// bytes in both directions, and nothing is checked. It is the floor for anything that is between gRPC and gRPC in Go.
func serveGRPCProxy(ctx context.Context, stdout io.Writer, backend, method string) error {
	conn, err := grpc.NewClient("passthrough:///"+backend, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("gRPC proxy: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("gRPC proxy: %w", err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.MaxRecvMsgSize(maxMessage))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: strings.Trim(path.Dir(method), "/"),
		Methods:     []grpc.MethodDesc{{MethodName: path.Base(method), Handler: forwardCall(conn, method)}},
	}, nil)
	defer context.AfterFunc(ctx, server.Stop)()
	if err := announce(stdout, listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("gRPC proxy: %w", err)
	}
	return nil
}

// forwardCall hands the bytes of a message to a connection, and answers with the bytes that come back.
func forwardCall(conn *grpc.ClientConn, method string) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var message, answer []byte
		if err := decode(&message); err != nil {
			return nil, err
		}
		if err := conn.Invoke(ctx, method, message, &answer); err != nil {
			return nil, err //nolint:wrapcheck // it is a status, and stays one
		}
		return answer, nil
	}
}
