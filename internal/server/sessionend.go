// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

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
