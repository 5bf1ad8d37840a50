// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// sessionStore is where replicas share sessions; nil without --state.
func (a *App) sessionStore() session.Store {
	if a.shared.sessions == nil {
		return nil
	}
	return a.shared.sessions
}

// catalogFingerprint is that of the catalog as it is now; empty before the first.
func (a *App) catalogFingerprint() string {
	if cat := a.live.Current(); cat != nil {
		return cat.Fingerprint()
	}
	return ""
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
	s := stats.Session{Version: e.Version, Transport: stats.EdgeMCP.Transport(), Took: e.Took}
	if e.Principal == bridge.CallerStdio {
		s.Transport = stats.EdgeStdio.Transport()
	}
	if e.Why == session.Evicted {
		s.ErrorType = errorEvicted
	}
	a.stats.EndSession(s)
}
