// SPDX-License-Identifier: Apache-2.0

package subject_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/subject"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server until the test ends and returns its address.
func serve(t *testing.T, kind, backend string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- subject.Serve(ctx, kind, backend, func(a net.Addr) error { addr <- a.String(); return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return testkit.Receive(t, "the address", addr)
}

func backend(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	benchv1.RegisterDeskServer(server, desk.Server{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// Every server gives back what was sent, whole, to a client of its revision; and where the backend has gone it says so
// instead of giving back something else.
func TestServersAreHonest(t *testing.T) {
	for _, test := range []struct{ kind, path string }{
		{subject.SDKModern, "mcp"}, {subject.SDKLegacy, "mcp-legacy"}, {subject.MCPGoTyped, "mcp"}, {subject.MCPGoTyped, "mcp-legacy"},
		{subject.MCPGoRaw, "mcp"}, {subject.MCPGoRaw, "mcp-legacy"},
	} {
		t.Run(test.kind+" "+test.path, func(t *testing.T) {
			p, err := path.Named(test.path)
			if err != nil {
				t.Fatal(err)
			}
			session, err := p.Open(t.Context(), path.Addrs{Sidecar: serve(t, test.kind, backend(t))}, 1, desk.Medium())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for range 3 { // the first is compared whole
				if err := session.Callers[0].Call(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, arguments := range []string{`{"nonce":"n","number":"a word"}`, `{"nonce":7,"number":1}`, `{"nonce":"n","number":1,"orders":[{"id":1,"customer":"c","status":"STATUS_LOST"}]}`} {
				reply, err := session.Ask(t.Context(), `"x"`, arguments)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(reply, []byte(`"isError":true`)) && !bytes.Contains(reply, []byte(`"error":`)) {
					t.Errorf("%s is answered %s", arguments, reply)
				}
			}
		})
		t.Run(test.kind+" "+test.path+" without a backend", func(t *testing.T) {
			p, err := path.Named(test.path)
			if err != nil {
				t.Fatal(err)
			}
			session, err := p.Open(t.Context(), path.Addrs{Sidecar: serve(t, test.kind, "127.0.0.1:1")}, 1, desk.Small())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			var wrong *path.WrongAnswerError
			if err := session.Callers[0].Call(t.Context()); !errors.As(err, &wrong) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnUnknownKind(t *testing.T) {
	err := subject.Serve(t.Context(), "unknown", "127.0.0.1:1", func(net.Addr) error { return nil })
	if !errors.Is(err, subject.ErrKind) {
		t.Errorf("got %v", err)
	}
}
