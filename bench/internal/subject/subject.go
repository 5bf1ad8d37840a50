// SPDX-License-Identifier: Apache-2.0

// Package subject holds MCP servers as people write them by hand around a generated gRPC client, with the SDKs of the
// field: what the sidecar is compared with. Each is written the way its SDK recommends and set up to cost little: JSON
// answers instead of event streams, no log, one pooled connection to the backend, no session where none is needed. The
// benchmark starts itself in these roles.
package subject

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
)

// Kinds of servers, the argument that follows the role.
const (
	// SDKLegacy is the official Go SDK with a typed tool and sessions: 2025-11-25 and before.
	SDKLegacy = "gosdk-legacy"
	// SDKModern is the same without sessions, which the SDK wants for 2026-07-28.
	SDKModern = "gosdk-modern"
	// MCPGoTyped is mcp-go with a typed tool, without sessions, every revision.
	MCPGoTyped = "mcpgo-typed"
	// MCPGoRaw is mcp-go with raw arguments and protojson.
	MCPGoRaw = "mcpgo-raw"
)

// maxMessage admits the large payload with room to spare.
const maxMessage = 16 << 20

// endpoint is where every server listens for MCP.
const endpoint = "/mcp"

// ErrKind tells that there is no such kind of server.
var ErrKind = errors.New("no such server")

// Serve runs a server on a free port of the loopback address until ctx ends. It tells announce where, once.
func Serve(ctx context.Context, kind, backend string, announce func(net.Addr) error) error {
	conn, err := grpc.NewClient("passthrough:///"+backend, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	defer func() { _ = conn.Close() }()
	handler, err := newHandler(kind, benchv1.NewDeskClient(conn))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(endpoint, handler)
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := announce(listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

func newHandler(kind string, client benchv1.DeskClient) (http.Handler, error) {
	switch kind {
	case SDKLegacy:
		return sdkHandler(client, false), nil
	case SDKModern:
		return sdkHandler(client, true), nil
	case MCPGoTyped:
		return mcpgoTyped(client), nil
	case MCPGoRaw:
		return mcpgoRaw(client), nil
	}
	return nil, fmt.Errorf("%w: %s", ErrKind, kind)
}

// toolText is what every server says of its tool.
const toolText = "Give back what was sent."

// echo is the typed tool: a form in, the generated client, a form out.
func echo(ctx context.Context, client benchv1.DeskClient, in *desk.Form) (*desk.Form, error) {
	req, err := in.Request()
	if err != nil {
		return nil, err
	}
	res, err := client.Echo(ctx, req)
	if err != nil {
		return nil, err
	}
	return desk.FormOf(res), nil
}
