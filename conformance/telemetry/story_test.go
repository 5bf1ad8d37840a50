// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// edge is a way to call a sidecar over the network.
type edge struct {
	name string
	// path and dialect are those of an edge with JSON-RPC.
	path    string
	dialect caller.Dialect
	// The others are for edges with Protobuf.
	h2, typed bool
	options   []connect.ClientOption
}

func edges() []edge {
	return []edge{
		{name: "mcp-modern", path: "/mcp", dialect: caller.Modern},
		{name: "mcp-legacy", path: "/mcp", dialect: caller.Legacy},
		{name: "rpc", path: "/rpc", dialect: caller.Canonical},
		{name: "connect"},
		{name: "grpc", h2: true, options: []connect.ClientOption{connect.WithGRPC()}},
		{name: "grpcweb", options: []connect.ClientOption{connect.WithGRPCWeb()}},
		{name: "typed-connect", typed: true},
		{name: "typed-grpc", h2: true, typed: true, options: []connect.ClientOption{connect.WithGRPC()}},
		{name: "typed-grpcweb", typed: true, options: []connect.ClientOption{connect.WithGRPCWeb()}},
	}
}

func (e edge) isRPC() bool { return e.path == "" }

// story is a test whose requests depend on each other. It notes which request began which trace.
type story struct {
	*rig

	name    string
	names   []string
	origins map[string]origin
	// clients have connections for which a sidecar would wait before it ends.
	clients []*http.Client
}

func newStory(t *testing.T, name string) *story {
	t.Helper()
	return &story{rig: newRig(t), name: name, origins: map[string]origin{}}
}

// dialled is an edge with its connection.
type dialled struct {
	edge
	wire
}

// dial connects with an edge, without a legacy session.
func (s *story) dial(t *testing.T, e edge, server *sidecar.Server) dialled {
	t.Helper()
	if e.isRPC() {
		w := dialRPC(t, server.Addr(), e.h2, e.typed, e.options...)
		s.clients = append(s.clients, w.client)
		return dialled{e, w}
	}
	w := dialHTTP(t, server, e.path, e.dialect)
	s.clients = append(s.clients, w.client)
	return dialled{e, w}
}

// dialAll connects with each edge, and opens a legacy session.
func (s *story) dialAll(t *testing.T, server *sidecar.Server) (out []dialled) {
	t.Helper()
	for _, e := range edges() {
		w := s.dial(t, e, server)
		if over, ok := w.wire.(*overHTTP); ok && e.dialect == caller.Legacy {
			over.open(t, "{}")
		}
		out = append(out, w)
	}
	return out
}

// tell is a request with a name.
func (s *story) tell(name string, a ask) ask {
	a.origin = originOf(s.name, name)
	if a.id == "" && !strings.HasPrefix(a.method, "notifications/") {
		a.id = strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(name)
	}
	s.names, s.origins[name] = append(s.names, name), a.origin
	return a
}

// says makes a request and wants its answer to hold a text.
func (s *story) says(t *testing.T, w wire, name string, a ask, want string) string {
	t.Helper()
	got := w.send(t.Context(), t, s.tell(name, a))
	if !strings.Contains(got, want) {
		t.Fatalf("%s: got %s, want %s", name, got, want)
	}
	return got
}

// refused wants an edge to refuse a request with a code, which has one name in JSON and another in Protobuf.
func (s *story) refused(t *testing.T, w dialled, name string, a ask, json, rpc string) {
	t.Helper()
	if w.isRPC() {
		json = rpc
	}
	s.says(t, w.wire, w.name+": "+name, a, json)
}

// hold makes a call that lasts until its caller gives it up.
func (s *story) hold(t *testing.T, w wire, name string) (giveUp func()) {
	t.Helper()
	drain(s.backend.Asleep())
	drain(s.backend.GivenUp())
	end := s.begin(t, w, name, sleeps)
	testkit.Receive(t, "the call at the service", s.backend.Asleep())
	return func() {
		end()
		testkit.Receive(t, "the end of the call at the service", s.backend.GivenUp())
	}
}

// begin makes a call and does not wait for its answer. The function that it returns has the caller give it up.
func (s *story) begin(t *testing.T, w wire, name string, a ask) (giveUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	a, done := s.tell(name, a), make(chan struct{})
	go func() {
		defer close(done)
		w.send(ctx, t, a)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Calls that stories make.
var (
	echoes  = ask{tool: "lab.echo", args: `{"nonce":"one"}`}
	sleeps  = ask{tool: "lab.sleep", args: `{"duration":"30s"}`}
	watches = ask{tool: "fleet.watch_vehicles", args: `{"vehicleIds":["101"],"rounds":2,"interval":"0s"}`}
)

// stop ends a sidecar, which exports everything then.
func (s *story) stop(t *testing.T, server *sidecar.Server) {
	t.Helper()
	s.hangUp()
	server.Signal(t, syscall.SIGTERM)
	server.Wait(t)
}

// hangUp closes the connections for which a sidecar would wait before it ends.
func (s *story) hangUp() {
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
}

// ends stops the sidecar and compares what came with the golden.
func (s *story) ends(t *testing.T, server *sidecar.Server) {
	t.Helper()
	s.stop(t, server)
	s.compare(t)
}

// compare is called when all sidecars have ended.
func (s *story) compare(t *testing.T) {
	t.Helper()
	f := newForest(s.Spans())
	for name, o := range s.origins {
		f.traces[o.message], f.traces[o.connection] = name, name
	}
	var b strings.Builder
	for _, name := range s.names {
		fmt.Fprintf(&b, "# %s\n%s\n", name, f.of(s.origins[name]))
	}
	golden(t, s.name+".txt", b.String())
}
