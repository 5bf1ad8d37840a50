// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// serveProxy takes the bytes of a message from an HTTP body, sends them to the backend as they are, and returns the
// answer's bytes as they are. It is the floor for anything that is between HTTP and gRPC in Go. Messages for the first
// method come to any path, those for the others to the path that is the method.
func serveProxy(ctx context.Context, stdout io.Writer, backend string, methods ...string) error {
	conn, err := grpc.NewClient("passthrough:///"+backend, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: forwards(conn, methods)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := announce(stdout, listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

// forwards passes messages on to methods.
func forwards(conn *grpc.ClientConn, methods []string) http.Handler {
	to := func(method string) http.Handler {
		return forward(func(ctx context.Context, message []byte) (answer []byte, err error) {
			err = conn.Invoke(ctx, method, message, &answer)
			return answer, err
		})
	}
	if len(methods) == 1 {
		return to(methods[0])
	}
	mux := http.NewServeMux()
	mux.Handle("/", to(methods[0]))
	for _, method := range methods[1:] {
		mux.Handle(method, to(method))
	}
	return mux
}

// invoker makes one call: a message's bytes there, and the answer's back.
type invoker func(ctx context.Context, message []byte) ([]byte, error)

// forward hands bodies to invoke, and answers with what it returns.
func forward(invoke invoker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > maxMessage {
			http.Error(w, "want Content-Length, and less", http.StatusRequestEntityTooLarge)
			return
		}
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			http.Error(w, "the body is cut off", http.StatusBadRequest)
			return
		}
		answer, err := invoke(r.Context(), body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // a caller that has gone away needs no answer
	})
}

// raw is the codec of messages that stay bytes.
type raw struct{}

var errNotBytes = errors.New("the raw codec carries bytes only")

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	return nil, errNotBytes
}

func (raw) Unmarshal(data []byte, v any) error {
	into, ok := v.(*[]byte)
	if !ok {
		return errNotBytes
	}
	*into = append([]byte(nil), data...) // grpc-go reuses data
	return nil
}
