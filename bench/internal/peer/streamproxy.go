// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// serveStreamProxy passes streams of every procedure on with grpc-go, in both directions. Messages stay in the buffers
// in which grpc-go received them, and nothing is checked. It is the floor for anything that passes streams on in Go.
func serveStreamProxy(ctx context.Context, stdout io.Writer, backend string) error {
	conn, err := grpc.NewClient("passthrough:///"+backend, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("stream proxy: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("stream proxy: %w", err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.MaxRecvMsgSize(maxMessage), grpc.UnknownServiceHandler(passStream(conn)))
	defer context.AfterFunc(ctx, server.Stop)()
	if err := announce(stdout, listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("stream proxy: %w", err)
	}
	return nil
}

// passStream opens the same stream at the backend.
func passStream(conn *grpc.ClientConn) grpc.StreamHandler {
	return func(_ any, caller grpc.ServerStream) error {
		method, ok := grpc.MethodFromServerStream(caller)
		if !ok {
			return status.Error(codes.Internal, "the stream has no method")
		}
		ctx, cancel := context.WithCancel(caller.Context())
		defer cancel()
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			ctx = metadata.NewOutgoingContext(ctx, md)
		}
		backend, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			return err //nolint:wrapcheck // it is a status, and stays one
		}
		go func() {
			for m := new(frame); ; {
				if err := caller.RecvMsg(m); err != nil {
					if errors.Is(err, io.EOF) {
						_ = backend.CloseSend()
					} else {
						cancel()
					}
					return
				}
				if backend.SendMsg(m) != nil {
					return // RecvMsg has the status
				}
			}
		}()
		return answer(caller, backend)
	}
}

// answer passes on what comes back.
func answer(caller grpc.ServerStream, backend grpc.ClientStream) error {
	header, err := backend.Header()
	if err != nil {
		return err //nolint:wrapcheck // it is a status, and stays one
	}
	if err := caller.SendHeader(header); err != nil {
		return err //nolint:wrapcheck // as above
	}
	for m := new(frame); ; {
		if err := backend.RecvMsg(m); err != nil {
			caller.SetTrailer(backend.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err //nolint:wrapcheck // as above
		}
		if err := caller.SendMsg(m); err != nil {
			return err //nolint:wrapcheck // as above
		}
	}
}

// frame is a message in the buffers of its receiver.
type frame struct{ data mem.BufferSlice }

// frames is the codec of frames. It copies nothing.
type frames struct{}

// Name implements [encoding.CodecV2].
func (frames) Name() string { return "proto" }

// Marshal gives the buffers away.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, errNotBytes
	}
	data := f.data
	f.data = nil
	return data, nil
}

// Unmarshal keeps the buffers.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return errNotBytes
	}
	data.Ref()
	f.data = data
	return nil
}
