// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Callers of HTTP/1.1 write and read the bytes themselves: a client library repeats
// requests that were lost, and would hide what is looked for.

// errGone says that the listener has closed.
var errGone = errors.New("connection refused")

// rpcCall is one call on /rpc.
const rpcCall = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"}}}`

// ask sends one request on a connection and reads the answer.
func ask(conn net.Conn, from *bufio.Reader, seen *callStats, head string) (closes bool, err error) {
	if _, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		conn.RemoteAddr(), head, len(rpcCall), rpcCall); err != nil {
		return false, fmt.Errorf("write: %w", err)
	}
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return false, fmt.Errorf("read the body: %w", err)
	case res.StatusCode == http.StatusOK:
		seen.count(false)
	case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "" && strings.Contains(string(body), "UNAVAILABLE"):
		seen.count(true)
	default:
		return false, fmt.Errorf("%s %s", res.Status, body)
	}
	return res.Close, nil
}

// pause waits a little, as callers that are refused do.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("connect: %w", err)
	}
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	return conn, nil
}

// connections makes one connection after another, waits before its first request,
// and asks on it until an answer says that it ends, or most times.
func connections(ctx context.Context, addr string, seen *callStats, most int, before, between func() time.Duration) error {
	for {
		conn, err := dial(ctx, addr)
		if errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return err
		}
		pause(ctx, before())
		from := bufio.NewReader(conn)
		for i := range most {
			head := ""
			if i == most-1 {
				head = "Connection: close\r\n"
			}
			closes, err := ask(conn, from, seen, head)
			if err != nil {
				_ = conn.Close()
				return fmt.Errorf("request %d of a connection: %w", i+1, err)
			}
			if closes {
				break
			}
			pause(ctx, between())
		}
		_ = conn.Close()
		pause(ctx, 2*time.Millisecond)
	}
}

func atOnce() time.Duration { return 0 }

func upTo(d time.Duration) func() time.Duration { return func() time.Duration { return rand.N(d) } }

func keptAlive(ctx context.Context, addr string, seen *callStats) error {
	return connections(ctx, addr, seen, 1<<20, atOnce, atOnce)
}

func pausing(ctx context.Context, addr string, seen *callStats) error {
	return connections(ctx, addr, seen, 1<<20, atOnce, upTo(500*time.Millisecond))
}

func reconnecting(ctx context.Context, addr string, seen *callStats) error {
	return connections(ctx, addr, seen, 1, atOnce, atOnce)
}

func hesitant(ctx context.Context, addr string, seen *callStats) error {
	return connections(ctx, addr, seen, 1, upTo(time.Second), atOnce)
}

// multiplexed calls /mcp over HTTP/2, without TLS.
func multiplexed(ctx context.Context, addr string, seen *callStats) error {
	client := caller.Client(true)
	defer client.CloseIdleConnections()
	body := caller.Modern.Request(caller.Call{ID: `"a"`, Tool: "lab.echo", Args: `{"nonce":"n"}`})
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "lab_echo")
		res, err := client.Do(req)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		refused := strings.Contains(string(text), "UNAVAILABLE")
		if err != nil || res.StatusCode != http.StatusOK && !refused {
			return fmt.Errorf("%s %s: %w", res.Status, text, err)
		}
		seen.count(refused)
		if refused {
			pause(ctx, 5*time.Millisecond)
		}
	}
}

// overGRPC calls until the listener closes.
func overGRPC(ctx context.Context, addr string, seen *callStats, call func(context.Context, *grpc.ClientConn) error) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for {
		err := call(ctx, conn)
		switch {
		case err == nil:
			seen.count(false)
		case isOurs(err):
			seen.count(true)
			pause(ctx, 5*time.Millisecond)
		case grpcstatus.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "connection refused"):
			return nil
		default:
			return err
		}
	}
}

// isOurs reports whether the sidecar refused a call, and not the connection.
func isOurs(err error) bool {
	s := grpcstatus.Convert(err)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && s.Code() == codes.Unavailable {
			return info.GetDomain() == "outrigger.dev"
		}
	}
	return false
}

func grpcUnary(ctx context.Context, addr string, seen *callStats) error {
	return overGRPC(ctx, addr, seen, func(ctx context.Context, conn *grpc.ClientConn) error {
		return conn.Invoke(ctx, "/outrigger.demo.v1.Lab/Echo", &demov1.EchoRequest{Nonce: "n"}, &demov1.EchoResponse{})
	})
}

func grpcStreams(ctx context.Context, addr string, seen *callStats) error {
	return overGRPC(ctx, addr, seen, func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/outrigger.v1.ToolService/Exchange")
		if err != nil {
			return err
		}
		for range 5 {
			call := &outriggerv1.Request{
				Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "a"}}, Method: "tools/call",
				ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(`{"name":"lab.echo","arguments":{"nonce":"n"}}`)},
			}
			if err := stream.SendMsg(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: call}}); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if err := stream.RecvMsg(&outriggerv1.Envelope{}); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		if err := stream.RecvMsg(&outriggerv1.Envelope{}); !errors.Is(err, io.EOF) {
			return fmt.Errorf("the stream ends with %w", err)
		}
		return nil
	})
}

// mcpStreams listens for changes on HTTP/1.1, as modern MCP clients do, and listens
// again when the stream ends.
func mcpStreams(ctx context.Context, addr string, seen *callStats) error {
	body := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + caller.ModernMeta + `}}`
	for {
		conn, err := dial(ctx, addr)
		if errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
		if err == nil {
			var res *http.Response
			if res, err = http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				var text []byte
				text, err = io.ReadAll(res.Body)
				if refused := strings.Contains(string(text), "UNAVAILABLE"); err == nil && res.StatusCode != http.StatusOK && !refused {
					err = fmt.Errorf("%s %s", res.Status, text)
				} else if err == nil {
					seen.count(refused)
				}
			}
		}
		_ = conn.Close()
		if err != nil {
			return fmt.Errorf("a stream: %w", err)
		}
		pause(ctx, 5*time.Millisecond)
	}
}
