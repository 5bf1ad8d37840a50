// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// newSessions makes what holds the sessions of the legacy revisions.
func (a *App) newSessions() *session.Manager {
	limits := a.cfg.GetLimits()
	return session.New(adjusted(session.Options{
		Max: int(limits.GetMaxSessions()), Age: limits.GetMaxSessionAge().AsDuration(), Sealer: a.sealer, Feed: a.feed,
		Origin: func() correlate.Origin { return a.bridge.Flights().NewOrigin() },
		Share:  peer.Percent(int(limits.GetCallerSharePercent())), Ended: a.sessionEnded,
		Replicas: a.shared.sessions, Cancel: a.cancelOfSession, Cut: a.cutSession,
	}, a.opts.Adjust.Sessions))
}

// cancelOfSession cancels a request whose client sent the cancellation to another replica.
func (a *App) cancelOfSession(origin correlate.Origin, requestID []byte, reason string) {
	if id, err := jsonrpc.ParseID(requestID); err == nil {
		a.bridge.Flights().Cancel(origin, id, reason)
	}
}

// cutSession ends the calls of a session that another replica ended.
func (a *App) cutSession(origin correlate.Origin) { a.bridge.Flights().CloseOrigin(origin) }

// errorEvicted is the error.type of sessions that ended because there were too many.
const errorEvicted = "evicted"

// sessionEnded counts the end of a session. Only an eviction is an error: clients leave without
// a word, and are then idle for too long.
func (a *App) sessionEnded(e session.Ended) {
	s := telemetry.Session{Version: e.Version, Transport: telemetry.EdgeMCP.Transport(), Took: e.Took}
	if e.Principal == bridge.CallerStdio {
		s.Transport = telemetry.EdgeStdio.Transport()
	}
	if e.Why == session.Evicted {
		s.ErrorType = errorEvicted
	}
	a.stats.EndSession(s)
}
