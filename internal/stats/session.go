// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxSessionSeries bounds the series of sessions: every revision on every transport.
const maxSessionSeries = 64

// Session is a session that has ended. A text that is empty is an attribute that it does not
// have.
type Session struct {
	// Version is the revision of the protocol. Transport is that of [Edge.Transport].
	Version, Transport string
	// ErrorType is why the session ended, if neither side wanted that.
	ErrorType string
	Took      time.Duration
}

type sessionKey struct{ version, transport, errorType string }

// EndSession counts the end of a session.
func (t *Stats) EndSession(s Session) {
	if t != nil {
		t.sessions.of(sessionKey{s.Version, s.Transport, s.ErrorType}).add(mcpBounds[:], s.Took, Trace{})
	}
}

func newSessions() *family[sessionKey] {
	versions, transports, errorTypes := newNames(maxVersions), newNames(maxTransports), newNames(maxErrorTypes)
	return newFamily(func(k sessionKey, series int) sessionKey {
		if series >= maxSessionSeries {
			return sessionKey{version: AnyOther}
		}
		return sessionKey{versions.bound(k.version), transports.bound(k.transport), errorTypes.bound(k.errorType)}
	})
}

// SessionNumbers are the numbers of the sessions with the same attributes.
type SessionNumbers struct {
	Version, Transport, ErrorType string
	Took                          Histogram
}

func (t *Stats) sessionNumbers() []SessionNumbers {
	var out []SessionNumbers
	for k, h := range t.sessions.all() {
		out = append(out, SessionNumbers{k.version, k.transport, k.errorType, h.snapshot(mcpBounds[:])})
	}
	slices.SortFunc(out, func(a, b SessionNumbers) int {
		return cmp.Or(strings.Compare(a.Version, b.Version), strings.Compare(a.Transport, b.Transport), strings.Compare(a.ErrorType, b.ErrorType))
	})
	return out
}
