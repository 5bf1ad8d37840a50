// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"fmt"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Mode determines the dialects that a conversation may use.
type Mode uint8

// The modes. ModeAuto is the zero value: each message may use any dialect.
const (
	ModeAuto Mode = iota
	ModeMCP
	ModeCanonical
)

// ParseMode parses "auto", "mcp" or "canonical".
func ParseMode(s string) (Mode, error) {
	switch s {
	case "auto":
		return ModeAuto, nil
	case "mcp":
		return ModeMCP, nil
	case "canonical":
		return ModeCanonical, nil
	}
	return ModeAuto, fmt.Errorf("dialect %q: want auto, mcp or canonical", s)
}

// dialect tells a message's dialect: a message whose _meta names a revision
// that is not legacy is modern; initialize is legacy, and makes all later
// messages without such a _meta legacy until the end (see opensLegacy);
// everything else is canonical, or, where only MCP may be spoken, an error.
func (s *session) dialect(e *jsonrpc.Envelope) (dialect.Dialect, *errmap.Error) {
	if s.opts.Mode == ModeCanonical {
		return dialect.Canonical, nil
	}
	meta, _ := e.Param("_meta")
	if version, ok := dialect.MetaVersion(meta); ok && !dialect.IsLegacyVersion(version) {
		return dialect.Modern, nil
	}
	if s.legacy || e.Method() == methodInitialize {
		return dialect.Legacy, nil
	}
	if s.opts.Mode == ModeAuto {
		return dialect.Canonical, nil
	}
	return dialect.Legacy, errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
		Path: "/params/_meta", Keyword: "required",
		Message: "open with initialize, or name a protocol version in params._meta",
	}))
}

const (
	// methodInitialize opens a legacy conversation.
	methodInitialize = "initialize"
	// methodPing asks whether the sidecar is there.
	methodPing = "ping"
)

// opensLegacy holds for the request that makes later messages legacy. A message
// that only looks like it, a notification or a faulty envelope, does not.
func opensLegacy(d dialect.Dialect, msg *jsonrpc.Message) bool {
	return d == dialect.Legacy && msg.Kind == jsonrpc.KindRequest && msg.Fault == nil && msg.Method == methodInitialize
}

// fallback is the dialect in which a line is answered that cannot be read at
// all.
func (s *session) fallback() dialect.Dialect {
	if s.legacy || s.opts.Mode == ModeMCP {
		return dialect.Legacy
	}
	return dialect.Canonical
}

// profile is the set of envelope rules of a dialect.
func (s *session) profile(d dialect.Dialect) jsonrpc.Profile {
	switch {
	case d != dialect.Canonical:
		return jsonrpc.ProfileMCP
	case s.opts.AnyID:
		return jsonrpc.ProfileCanonicalAnyID
	case s.opts.UUIDs:
		return jsonrpc.ProfileCanonicalUUID
	}
	return jsonrpc.ProfileCanonical
}
