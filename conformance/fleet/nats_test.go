// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// natsServer is a real server in this process, which can stop and come back at the same
// place.
type natsServer struct {
	t       testing.TB
	options server.Options
	running *server.Server
}

// startNATS starts a server on a free port of loopback. adjust may be nil.
func startNATS(t testing.TB, adjust func(*server.Options)) *natsServer {
	t.Helper()
	n := &natsServer{t: t, options: server.Options{
		Host: "127.0.0.1", Port: freePorts(t, 1)[0], JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		MaxPayload: 8 << 20,
	}}
	if adjust != nil {
		adjust(&n.options)
	}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *natsServer) start() {
	n.t.Helper()
	options := n.options
	s, err := server.NewServer(&options)
	if err != nil {
		n.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(testkit.Limit()) {
		n.t.Fatal("the NATS server does not start")
	}
	n.running = s
}

func (n *natsServer) stop() {
	if n.running != nil {
		n.running.Shutdown()
		n.running.WaitForShutdown()
		n.running = nil
	}
}

// URL is where clients find the server, also while it is stopped.
func (n *natsServer) URL() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(n.options.Port))
}

// admin connects as an operator would.
func (n *natsServer) admin(options ...nats.Option) jetstream.JetStream {
	n.t.Helper()
	nc, err := nats.Connect(n.URL(), options...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		n.t.Fatal(err)
	}
	return js
}

// newSealer makes a sealer, whose key all replicas of a test share.
func newSealer(t testing.TB) *keys.Sealer {
	t.Helper()
	return keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys(), MaxPayload: 16 << 20})
}

// open opens a client that runs until the end of the test.
func open(t testing.TB, o state.Options) *state.Client {
	t.Helper()
	if o.Sealer == nil {
		o.Sealer = newSealer(t)
	}
	c, err := state.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		c.Close()
	})
	return c
}

// healthy waits until the client can be used.
func healthy(t testing.TB, c *state.Client) {
	t.Helper()
	testkit.Until(t, "the state is available", func() bool { return c.Health().OK })
}
