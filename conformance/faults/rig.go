// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// Defaults of Options: callers of an edge, the pause before the first repetition,
// which is the sidecar's own default, and how long its breaker stays open, which is
// not.
const (
	workers = 3
	backoff = 50 * time.Millisecond
	openFor = 500 * time.Millisecond
)

// Attempts is how often the sidecars of a rig may send an idempotent call.
const Attempts = 3

// margin is how much longer than its timeout a call may last: the sidecar has the
// race detector, and the machine may be busy.
const margin = 6 * time.Second

// serving is the name of the process that serves all edges that are none.
const serving = "serve"

// Bounds on the time until every edge works: recovery from the end of a fault,
// healing from its beginning where it does not end. A dead connection of gRPC is
// found within 2.5 s; before the breaker closes again, calls that wait on it may
// open it once more. HTTP/1.1 has a connection for each call that there was at the
// busiest moment, and each is found out by a call that runs out of time (6 s).
const (
	recovery = 30 * time.Second
	healing  = 60 * time.Second
)

// config is what flags cannot say: one of the two tools is not idempotent, the
// breaker tries again soon, so that tests are short, unless a test is about that,
// and how long the first repetition waits.
const config = `
tools:
  - method: outrigger.demo.v1.Lab/Sleep
    tool: {idempotent: false, read_only: false}
resilience:
  breaker: {open_for: %.3fs}
  retry: {backoff: %.3fs}
`

// Options say what a rig is made of.
type Options struct {
	// Binary is the sidecar.
	Binary string
	// Stack is what the backend is made of, Scheme how the sidecar speaks to it:
	// grpc, connect+http or grpcweb+http. The zero values are gRPC.
	Stack  Stack
	Scheme string
	// Edges are the names of those on which there are callers.
	Edges []string
	// Workers is how many callers each edge has; 0 is 3.
	Workers int
	// Timeout is what the sidecar gives a call.
	Timeout time.Duration
	// Backoff is the pause before the first repetition; 0 is 50 ms.
	Backoff time.Duration
	// OpenFor is how long the breaker stays open; 0 is 500 ms.
	OpenFor time.Duration
	// Flags are further ones of the sidecar.
	Flags []string
	// Seed is what the load follows from.
	Seed uint64
}

// Rig is a backend, a proxy, and the sidecar, with callers on its edges.
type Rig struct {
	Backend *Backend
	Proxy   *Proxy
	Server  *sidecar.Server

	tb      testing.TB
	opts    Options
	args    []string
	serial  atomic.Uint64
	rounds  uint64
	edges   []caller.Edge
	pipes   []line // the agents of edges that are processes, which live as long as the rig
	watched []*watched
}

// NewRig starts everything and waits until every edge works. It ends with the
// test.
func NewRig(tb testing.TB, o Options) *Rig {
	tb.Helper()
	if o.Stack == "" {
		o.Stack, o.Scheme = GRPC, string(GRPC)
	}
	o.Workers, o.Backoff, o.OpenFor = cmp.Or(o.Workers, workers), cmp.Or(o.Backoff, backoff), cmp.Or(o.OpenFor, openFor)
	r := &Rig{tb: tb, opts: o, Backend: StartBackend(tb, o.Stack)}
	r.Proxy = StartProxy(tb, r.Backend.Addr())
	file := filepath.Join(tb.TempDir(), "sidecar.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, o.OpenFor.Seconds(), o.Backoff.Seconds()), 0o600); err != nil {
		tb.Fatal(err)
	}
	r.args = []string{
		"--backend", o.Scheme + "://" + r.Proxy.Addr(), "--config", file, "--timeout", o.Timeout.String(),
		"--max-attempts", fmt.Sprint(Attempts), "--log-calls", "off",
	}
	if o.Stack == Connect { // which has no reflection here
		r.args = append(r.args, "--descriptors", peer.DescriptorSet(tb, demov1.File_outrigger_demo_v1_lab_proto))
	}
	r.args = append(r.args, o.Flags...)
	r.Server = sidecar.ServeReady(tb, o.Binary, r.args...)
	r.watched = append(r.watched, &watched{name: serving, admin: r.Server.AdminURL("")[len("http://"):]})
	for _, name := range o.Edges {
		edge := caller.Find(tb, name)
		r.edges = append(r.edges, edge)
		if edge.Process {
			r.pipes = append(r.pipes, r.startPipe(edge))
		}
	}
	r.base()
	return r
}

// startPipe starts the process of an edge.
func (r *Rig) startPipe(edge caller.Edge) line {
	r.tb.Helper()
	agent := edge.Dial(r.tb, caller.Target{Binary: r.opts.Binary, Args: append([]string{"--admin", "127.0.0.1:0"}, r.args...)})
	r.tb.Cleanup(agent.Close)
	if s, ok := agent.(*caller.StdioAgent); ok {
		listening := s.Process().Log(r.tb, "the admin listener", func(e sidecar.Entry) bool {
			return e.Message == "listening" && e.Fields["listener"] == "admin"
		})
		addr, _ := listening.Fields["addr"].(string)
		r.watched = append(r.watched, &watched{name: edge.Name, admin: addr})
	}
	return line{edge, agent}
}

// base makes one call on every edge and then counts goroutines.
func (r *Rig) base() {
	r.tb.Helper()
	lines := r.dial()
	book := &Book{}
	r.recover(lines, book, recovery)
	r.hangUp(lines)
	for _, w := range r.watched {
		w.base = w.settled(r.tb, 0)
	}
}

// dial makes an agent for each edge.
func (r *Rig) dial() []line {
	r.tb.Helper()
	lines := slices.Clone(r.pipes)
	for _, edge := range r.edges {
		if !edge.Process {
			lines = append(lines, line{edge, edge.Dial(r.tb, caller.Target{Addr: r.Server.Addr()})})
		}
	}
	return lines
}

// hangUp closes the agents that live for one round.
func (*Rig) hangUp(lines []line) {
	for _, l := range lines {
		if !l.edge.Process {
			l.agent.Close()
		}
	}
}

// recover makes calls on every line until both methods succeed, and returns when
// the last one did. What it calls is in the book too.
func (r *Rig) recover(lines []line, book *Book, within time.Duration) time.Time {
	r.tb.Helper()
	probe := &load{book: book, limit: r.limit(), serial: &r.serial}
	limit := time.Now().Add(within)
	var probing sync.WaitGroup
	for _, l := range lines {
		probing.Go(func() {
			for {
				c1, e1 := probe.echo(l, 0, []byte("up?"))
				c2, e2 := probe.sleep(l, 0)
				failed := slices.IndexFunc(probe.make(r.tb.Context(), l, []caller.Call{c1, c2}, []Entry{e1, e2}, 0), func(e Entry) bool {
					return e.Answers[0].Err != nil || e.Answers[0].Fault != nil
				})
				if failed < 0 {
					return
				}
				if time.Now().After(limit) {
					r.tb.Errorf("%s does not work again within %s", l.edge.Name, within)
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	probing.Wait()
	return time.Now()
}

// probes is how many calls recover makes at once on each line.
const probes = 2

// most is how many goroutines a process may have at rest.
func (r *Rig) most(w *watched) int {
	if r.opts.Scheme == string(GRPC) {
		return w.base + slack
	}
	calls := 0
	for _, e := range r.edges {
		if e.Process && w.name != e.Name || !e.Process && w.name != serving {
			continue // its calls go to another process
		}
		calls += r.opts.Workers + probes
		if (line{edge: e}).batch() {
			calls += r.opts.Workers * (maxBatch - 1)
		}
	}
	return w.base + slack + calls*perConnection
}

// limit is how long callers wait: longer than the oracle lets any call take.
func (r *Rig) limit() time.Duration { return r.longest() + maxWork + 5*time.Second }

func (r *Rig) longest() time.Duration { return r.opts.Timeout + margin }
