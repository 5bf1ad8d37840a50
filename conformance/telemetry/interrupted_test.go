// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// half is a body of which the second half never comes.
type half struct {
	first io.Reader
	ctx   context.Context //nolint:containedctx // of the request that it is the body of
	sent  chan struct{}
	once  sync.Once
}

// Read implements [io.Reader].
func (b *half) Read(p []byte) (int, error) {
	n, err := b.first.Read(p)
	if err == nil {
		return n, nil
	}
	b.once.Do(func() { close(b.sent) })
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// halfSize is enough for net/http to send the head of the request and some of its body.
const halfSize = 16 << 10

// begun makes a call whose body stops halfway, and returns it with what is closed once half of it is on its way.
func (e edge) begun(ctx context.Context, t *testing.T, server *sidecar.Server, a ask) (*http.Request, <-chan struct{}) {
	t.Helper()
	nonce := strings.Repeat("n", 2*halfSize)
	a.tool, a.args = "lab.echo", `{"nonce":"`+nonce+`"}`
	var req *http.Request
	var body []byte
	if e.isRPC() {
		path := "/outrigger.v1.ToolService/CallTool"
		var message proto.Message = &outriggerv1.ToolCall{ToolName: a.tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(a.args)}}
		if e.typed {
			path, message = "/outrigger.demo.v1.Lab/Echo", &demov1.EchoRequest{Nonce: nonce}
		}
		var err error
		if body, err = proto.Marshal(message); err != nil {
			t.Fatal(err)
		}
		if req, err = http.NewRequestWithContext(ctx, http.MethodPost, server.URL(path), http.NoBody); err != nil {
			t.Fatal(err)
		}
		maps.Copy(req.Header, a.origin.header())
		kind := "application/proto"
		if i := strings.LastIndex(e.name, "grpc"); i >= 0 {
			kind = map[string]string{"grpc": "application/grpc+proto", "grpcweb": "application/grpc-web+proto"}[e.name[i:]]
			body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
			req.Header.Set("Te", "trailers")
		}
		req.Header.Set("Content-Type", kind)
	} else {
		w := dialHTTP(t, server, e.path, e.dialect)
		req, body = w.request(ctx, t, http.MethodPost, a), []byte(a.text(e.dialect))
	}
	b := &half{first: bytes.NewReader(body[:halfSize]), ctx: ctx, sent: make(chan struct{})}
	req.Body, req.GetBody, req.ContentLength = io.NopCloser(b), nil, int64(len(body))
	return req, b.sent
}

// TestSlowBody: a request whose body does not come in time has a span on each edge, and so has one whose caller goes away
// before the body has come.
func TestSlowBody(t *testing.T) {
	s := newStory(t, "slow-body")
	server := s.serve(t, "--body-timeout", "200ms")
	for _, e := range edges() {
		client := caller.Client(e.h2)
		s.clients = append(s.clients, client)
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := e.begun(ctx, t, server, s.tell(e.name+": a body that stops", ask{}))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		cancel() // Close waits for the body of the request
		_ = resp.Body.Close()
	}
	s.stop(t, server)
	server = s.serve(t, "--body-timeout", "1m")
	for _, e := range edges() {
		client := caller.Client(e.h2)
		ctx, cancel := context.WithCancel(t.Context())
		a := s.tell(e.name+": a body whose caller goes away", ask{})
		req, sent := e.begun(ctx, t, server, a)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("%s: HTTP %d", e.name, resp.StatusCode)
			}
		}()
		testkit.Receive(t, "half of the body", sent)
		cancel()
		<-done
		client.CloseIdleConnections()
		s.arrived(t, a.origin)
	}
	s.ends(t, server)
}

// arrived waits for a span of a trace.
func (s *story) arrived(t *testing.T, o origin) {
	t.Helper()
	s.Wait(t, "a span of the request", func() bool {
		for _, span := range s.Spans() {
			if span.Service == serviceName && span.Kind == "Server" && (span.TraceID == o.message || span.TraceID == o.connection) {
				return true
			}
		}
		return false
	})
}

// breakable is the connections of a client.
type breakable struct {
	mu    sync.Mutex
	conns []net.Conn
}

// breaks returns the connections that a client makes from now on.
func breaks(t *testing.T, client *http.Client) *breakable {
	t.Helper()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", client.Transport)
	}
	b := &breakable{}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.conns = append(b.conns, conn)
		}
		return conn, err
	}
	return b
}

func (b *breakable) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		_ = conn.Close()
	}
}

// TestGone: a caller that is gone in the middle of a call, because its connection is. One that resets its stream is in the
// scenarios of the edges.
func TestGone(t *testing.T) {
	s := newStory(t, "gone")
	server := s.serve(t, "--timeout", "30s")
	for _, e := range edges() {
		if e.name == "mcp-legacy" {
			continue // its calls go on
		}
		for _, h2 := range []bool{false, true} {
			if !h2 && e.h2 {
				continue
			}
			e.h2 = h2
			s.gone(t, e, server)
		}
	}
	s.ends(t, server)
}

// gone closes the connection of a call, and of a typed stream.
func (s *story) gone(t *testing.T, e edge, server *sidecar.Server) {
	t.Helper()
	over := ", over HTTP/1.1"
	if e.h2 {
		over = ", over HTTP/2"
	}
	drain(s.backend.Asleep())
	drain(s.backend.GivenUp())
	a, done := s.tell(e.name+": a call"+over, sleeps), make(chan struct{})
	var conns *breakable
	var call func()
	if e.isRPC() {
		w := dialRPC(t, server.Addr(), e.h2, e.typed, e.options...)
		conns = breaks(t, w.client)
		call = func() { _, _ = w.call(t.Context(), a) }
		if e.typed {
			defer s.goneStream(t, w, conns, e.name+": a stream"+over)
		}
	} else {
		w := dialWith(t, caller.Client(e.h2), server.URL(e.path), e.dialect)
		conns = breaks(t, w.client)
		call = func() {
			if resp, err := w.client.Do(w.request(t.Context(), t, http.MethodPost, a)); err == nil {
				_ = resp.Body.Close()
			}
		}
	}
	go func() {
		defer close(done)
		call()
	}()
	testkit.Receive(t, "the call at the service", s.backend.Asleep())
	conns.close()
	<-done
	testkit.Receive(t, "the end of the call at the service", s.backend.GivenUp())
	s.arrived(t, a.origin)
}

func (s *story) goneStream(t *testing.T, w *overRPC, conns *breakable, name string) {
	t.Helper()
	a := s.tell(name, ask{})
	stream, err := w.watchVehicles(t.Context(), a, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	end := lasting(t, stream)
	conns.close()
	end()
	s.arrived(t, a.origin)
}
