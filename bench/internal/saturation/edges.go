// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"context"
	"fmt"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// edgeCallers is how many call in closed loops where edges are compared with empty proxies.
const edgeCallers = 50

// edge is one way through a process.
type edge struct {
	name, path string
	process    *proc.Process
	addrs      path.Addrs
}

// grpc compares the CPU time of a call over the Protobuf edges with that of an empty proxy of the same kind: grpc-go in
// front of grpc-go for gRPC, net/http in front of grpc-go for Connect. Rounds are interleaved, and each begins with another
// edge.
func (m *measurement) grpc(ctx context.Context, out *report.Saturation) error {
	edges, err := m.edges(ctx)
	if err != nil {
		return err
	}
	for round := range m.Rounds {
		for i := range edges {
			e := &edges[(i+round)%len(edges)]
			p, err := m.edge(ctx, e)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			m.say("%-30s %7.1f µs/call, %6.0f/s", e.name, float64(p.CPU.Nanoseconds())/1e3, p.Answered)
			out.Edges.Add(e.name, p)
		}
	}
	return nil
}

// edges starts the processes.
func (m *measurement) edges(ctx context.Context) ([]edge, error) {
	_, backend, err := m.start(ctx, peer.RoleBackend)
	if err != nil {
		return nil, err
	}
	var out []edge
	for _, proxy := range []struct{ name, role string }{{report.ProxyGRPC, peer.RoleGRPCProxy}, {report.ProxyHTTP, peer.RoleProxy}} {
		process, addr, err := m.start(ctx, proxy.role, backend, peer.EchoMethod)
		if err != nil {
			return nil, err
		}
		if err := process.Renice(niceness); err != nil { // as the sidecar has it
			return nil, err
		}
		way := "proxy"
		if proxy.role == peer.RoleGRPCProxy {
			way = "typed-grpc" // the RPC itself, at another address
		}
		out = append(out, edge{proxy.name, way, process, path.Addrs{Proxy: addr, Sidecar: addr}})
	}
	for _, build := range []struct{ suffix, binary string }{{"", m.Binary}, {report.OfOtherBuild, m.Other}} {
		if build.binary == "" {
			continue
		}
		s, err := m.sidecar(ctx, build.binary, backend)
		if err != nil {
			return nil, err
		}
		for name, way := range map[string]string{report.ToolGRPC: "calltool-grpc", report.TypedGRPC: "typed-grpc", report.ToolJSON: path.ToolJSON} {
			out = append(out, edge{name + build.suffix, way, s.Process, path.Addrs{Sidecar: s.Addr}})
		}
	}
	return out, nil
}

// edge measures one of them.
func (m *measurement) edge(ctx context.Context, e *edge) (report.LoadPoint, error) {
	way, err := path.Named(e.path)
	if err != nil {
		return report.LoadPoint{}, err
	}
	session, err := way.Open(ctx, e.addrs, edgeCallers, path.Echo(make([]byte, payload)))
	if err != nil {
		return report.LoadPoint{}, err
	}
	defer session.Close()
	sample, err := load.Run(ctx, session.Callers, load.Options{
		Warmup: m.Warmup, Window: m.Window, Clocks: []load.Clock{{Name: e.name, Read: e.process.CPU}},
	})
	if err != nil {
		return report.LoadPoint{}, err
	}
	micros := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	return report.LoadPoint{
		Answered: sample.Rate(), P50: micros(sample.Percentile(0.5)), P99: micros(sample.Percentile(0.99)), CPU: micros(sample.CPUPerCall(e.name)),
	}, nil
}
