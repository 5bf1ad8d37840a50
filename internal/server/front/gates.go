// SPDX-License-Identifier: Apache-2.0

package front

import (
	"net"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

const (
	// callerIdle is how long a caller's connection has to be idle before a new one may
	// take its place when there is no room. A client that goes on sends its next
	// request sooner. On the other listeners the newest connection always finds room
	// beside idle ones: probes and scrapes send their request at once.
	callerIdle = time.Second
	// certificateGrace is how long connections outlast their age where callers show
	// certificates, so that a stream cannot keep a withdrawn one in use.
	certificateGrace = 10 * time.Minute
)

// Gates limit the connections of each listener.
type Gates struct {
	// Callers are the effective limits of the main listener.
	Callers peer.GateOptions
	main    *peer.Gate
	// operators are those of the other listeners, by name.
	operators map[string]*peer.Gate
}

// newGates divides the file descriptors of the process, so that the listeners
// for operators answer whatever callers do.
func newGates(cfg *configv1.Config, log *zap.Logger) *Gates {
	limits, files := cfg.GetLimits(), peer.Files()
	callers, operators := peer.FitFiles(files, int(limits.GetMaxConnections()))
	if callers < int(limits.GetMaxConnections()) {
		log.Warn("open files limit too low for --max-connections",
			zap.Int("connections", callers), zap.Int32("max_connections", limits.GetMaxConnections()), zap.Uint64("open_files", files))
	}
	notes := loglimit.New(log.Named("connections"))
	g := &Gates{Callers: peer.GateOptions{
		Most: callers, PerPeer: int(limits.GetMaxConnectionsPerPeer()), IdleAfter: callerIdle,
		Requests: uint64(max(0, limits.GetMaxConnectionRequests())),
		Age:      limits.GetMaxConnectionAge().AsDuration(), Grace: limits.GetMaxConnectionGrace().AsDuration(),
		Refused: refusedConn(notes, Main),
	}, operators: map[string]*peer.Gate{}}
	if limits.MaxConnectionsPerPeer == nil {
		g.Callers.PerPeer, g.Callers.ExemptLoopback = max(1, callers/2), true
	}
	if limits.GetMaxConnectionGrace() == nil && cfg.GetListeners().GetTls().GetClientCaFile() != "" {
		g.Callers.Grace = certificateGrace
	}
	g.main = peer.NewGate(g.Callers)
	for _, name := range []string{Admin, health} {
		g.operators[name] = peer.NewGate(peer.GateOptions{
			Most: operators, PerPeer: operators / 2, ExemptLoopback: true,
			Refused: refusedConn(notes, name),
		})
	}
	return g
}

// refusedConn logs connections that were closed unheard.
func refusedConn(log *zap.Logger, listener string) func(peer.Reason, net.Addr) {
	flags := map[peer.Reason]string{peer.Full: "--max-connections", peer.PeerFull: "--max-peer-connections"}
	return func(why peer.Reason, from net.Addr) {
		log.Warn("connection rejected", logkey.AppendClient([]zap.Field{
			zap.String("listener", listener), zap.String("limit", string(why)), zap.String("flag", flags[why]),
		}, from.String())...)
	}
}

// Main returns the gate of the main listener.
func (g *Gates) Main() *peer.Gate { return g.main }

// of is the gate of a listener, by the name that logs show.
func (g *Gates) of(name string) *peer.Gate {
	if gate := g.operators[name]; gate != nil {
		return gate
	}
	return g.main
}

// Count returns the sums of the counters of all gates.
func (g *Gates) Count(one func(peer.GateStats) uint64) func() uint64 {
	return func() uint64 {
		sum := one(g.main.Stats())
		for _, gate := range g.operators {
			sum += one(gate.Stats())
		}
		return sum
	}
}
