// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// TestAStatusOfAnyFormArrives over gRPC-Web and Connect, from unary calls and both kinds
// of streams. TestAnswersAsGRPCGoReadsThem has gRPC itself.
func TestAStatusOfAnyFormArrives(t *testing.T) {
	t.Parallel()
	frame := func(flags byte, content string) string {
		return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(content)))) + content
	}
	web := func(trailer string) string { return frame(0, "hi") + frame(flagWebTrailer, trailer) }
	const broken = `{"code":"resource_exhausted","message":"full","details":[{"type":"a.B","value":"!!"},{"type":"a.C","value":"AAEC"}]}`
	const (
		both   = connect.StreamTypeBidi
		unary  = connect.StreamTypeUnary
		server = connect.StreamTypeServer
	)
	for _, tc := range []struct {
		name, scheme, contentType string
		kind                      connect.StreamType // the one kind of call for which it is an answer; bidi for all
		status                    int
		header                    []string
		body                      string
		want                      string // kind, code, message and details; "" for success
		wait                      time.Duration
	}{
		{name: "a success", scheme: "grpcweb+http", kind: both, contentType: "application/grpc-web+proto; charset=utf-8", body: web("grpc-status: 0\r\n")},
		{name: "a broken escape", scheme: "grpcweb+http", kind: both, body: web("grpc-status: 8\r\ngrpc-message: 100% of %zz\r\n"), want: "status resource_exhausted 100% of %zz 0"},
		{name: "garbage for details", scheme: "grpcweb+http", kind: both, body: web("grpc-status: 8\r\ngrpc-message: full\r\ngrpc-status-details-bin: !!\r\n"), want: "status resource_exhausted full 0"},
		{name: "details of another code", scheme: "grpcweb+http", kind: both, body: web("grpc-status:8\r\ngrpc-message:full\r\ngrpc-status-details-bin:" + rich(5, "other") + "\r\n"), want: "status resource_exhausted full 0"},
		{name: "no last line end", scheme: "grpcweb+http", kind: both, body: web("grpc-status: 8\r\ngrpc-message: 50%"), want: "status resource_exhausted 50% 0"},
		{name: "in the head, 503", scheme: "grpcweb+http", kind: both, status: 503, header: []string{"Grpc-Status", "8", "Grpc-Message", "full"}, want: "status resource_exhausted full 0"},
		{name: "in the head, 403 of a page", scheme: "grpcweb+http", kind: both, status: 403, contentType: "text/html", header: []string{"Grpc-Status", "8", "Grpc-Message", "full"}, want: "status resource_exhausted full 0"},
		{name: "429 with a pushback", scheme: "grpcweb+http", kind: both, status: 429, header: []string{"Grpc-Status", "8", "Grpc-Message", "full", "Grpc-Retry-Pushback-Ms", "1500"}, want: "status resource_exhausted full 0", wait: 1500 * time.Millisecond},
		{name: "a pushback that forbids", scheme: "grpcweb+http", kind: both, body: web("grpc-status: 8\r\ngrpc-message: full\r\ngrpc-retry-pushback-ms: -1\r\n"), want: "status resource_exhausted full 0", wait: -1},
		{name: "a pushback that cannot be read", scheme: "grpcweb+http", kind: both, body: web("grpc-status: 8\r\ngrpc-message: full\r\ngrpc-retry-pushback-ms: soon\r\n"), want: "status resource_exhausted full 0", wait: -1},
		{name: "429 of a proxy", scheme: "grpcweb+http", kind: both, status: 429, contentType: "text/html", header: []string{"Retry-After", "7"}, want: "unreachable", wait: 7 * time.Second},
		{name: "a redirect", scheme: "grpcweb+http", kind: both, status: 302, contentType: "text/html", want: "foreign"},

		{name: "a success", scheme: "connect+http", kind: unary, contentType: "application/proto; charset=utf-8", body: "hi"},
		{name: "a success", scheme: "connect+http", kind: server, contentType: "application/connect+proto; charset=utf-8", body: frame(0, "hi") + frame(flagConnectEnd, "{}")},
		{name: "an error in another charset", scheme: "connect+http", kind: unary, status: 429, contentType: `application/json;charset="UTF-8"`, body: `{"code":"resource_exhausted","message":"full"}`, want: "status resource_exhausted full 0"},
		{name: "garbage for details", scheme: "connect+http", kind: unary, status: 429, contentType: "application/json", header: []string{"Retry-After", "7"}, body: broken, want: "status resource_exhausted full 1", wait: 7 * time.Second},
		{name: "garbage for details", scheme: "connect+http", kind: server, contentType: "application/connect+proto", body: frame(0, "hi") + frame(flagConnectEnd, `{"error":`+broken+`,"metadata":{"retry-after":["7"]}}`), want: "status resource_exhausted full 1", wait: 7 * time.Second},
		{name: "JSON that is no error", scheme: "connect+http", kind: unary, status: 503, contentType: "application/json", header: []string{"Retry-After", "7"}, body: `{"message":"no upstream"}`, want: "unreachable", wait: 7 * time.Second},
		{name: "503 of a proxy", scheme: "connect+http", kind: both, status: 503, contentType: "text/html", want: "unreachable"},
		{name: "a page", scheme: "connect+http", kind: both, contentType: "text/html", body: "<html>", want: "foreign"},
	} {
		t.Run(tc.scheme+", "+tc.name, func(t *testing.T) {
			t.Parallel()
			p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", cmp.Or(tc.contentType, "application/grpc-web+proto"))
				for i := 0; i < len(tc.header); i += 2 {
					w.Header().Set(tc.header[i], tc.header[i+1])
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = io.WriteString(w, tc.body)
			}), clearProtocols(true, true))
			c := newClient(t, p.as(tc.scheme), Options{})
			if tc.kind == both || tc.kind == unary {
				_, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil)
				isEnd(t, "unary", err, tc.want, tc.wait)
			}
			if tc.kind == both || tc.kind == server {
				_, err := c.Stream(t.Context(), echoProcedure, []byte("x"), nil, func([]byte) error { return nil })
				isEnd(t, "stream", err, tc.want, tc.wait)
				isEnd(t, "open stream", openAndRead(t.Context(), c), tc.want, tc.wait)
			}
		})
	}
}

// openAndRead opens a server stream and reads it to its end.
func openAndRead(ctx context.Context, c *Client) error {
	s, err := c.OpenStream(ctx, echoProcedure, connect.StreamTypeServer, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	_ = s.Send([]byte("x"))
	s.CloseSend()
	for {
		if _, err := s.Receive(); err != nil {
			if err == io.EOF { //nolint:errorlint // the contract of Receive
				return nil
			}
			return err
		}
	}
}

func isEnd(t *testing.T, what string, err error, want string, wait time.Duration) {
	t.Helper()
	if err == nil {
		if want != "" {
			t.Errorf("%s: a success, want %s", what, want)
		}
		return
	}
	e := failure(t, err)
	got := e.Kind.String()
	if e.Kind == KindStatus {
		got = fmt.Sprintf("status %v %s %d", e.Code, e.Message, len(e.Details))
	}
	if got != want || e.RetryAfter != wait {
		t.Errorf("%s: got %s, retry after %v; want %s, %v: %v", what, got, e.RetryAfter, want, wait, err)
	}
}

func TestRetryHints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "999999999": 24 * time.Hour, "-1": 0, "soon": 0, "Wed, 21 Oct 2015 07:28:00 GMT": 0,
		"Wed, 21 Oct 2315 07:28:00 GMT": 24 * time.Hour,
	} {
		if got := retryHint(http.Header{}, http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("Retry-After %q: %v, want %v", text, got, want)
		}
	}
	if got := retryHint(nil, http.Header{"Retry-After": {"7"}, grpcPushback: {"20"}}); got != 20*time.Millisecond {
		t.Errorf("both: %v, want the pushback", got)
	}
}
