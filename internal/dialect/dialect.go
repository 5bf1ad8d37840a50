// SPDX-License-Identifier: Apache-2.0

package dialect

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// Dialect is the JSON-RPC dialect of an edge.
type Dialect uint8

// The dialects. Canonical is the zero value: a message that claims no
// MCP era is canonical.
const (
	Canonical Dialect = iota
	Modern
	Legacy
)

// String returns the dialect's name as logs show it.
func (d Dialect) String() string {
	switch d {
	case Modern:
		return "mcp-modern"
	case Legacy:
		return "mcp-legacy"
	default:
		return "canonical"
	}
}

// Protocol revisions of MCP that this package serves, newest first in each
// list.
const (
	// VersionModern is the stateless revision: every request names it in its
	// _meta.
	VersionModern = "2026-07-28"
	// VersionLegacy is the newest revision that opens with initialize.
	VersionLegacy = "2025-11-25"
)

// Versions lists the revisions that the MCP endpoint serves, newest first. It
// is what server/discover and a version error both say, because a client may
// pick any of them.
func Versions() []string { return []string{VersionModern, VersionLegacy, "2025-06-18", "2025-03-26"} }

// IsLegacyVersion reports whether v opened with initialize. Revisions that are
// not served count too: they decide the era, not the answer.
func IsLegacyVersion(v string) bool {
	switch v {
	case "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07":
		return true
	}
	return false
}

// metaVersionKey is the member of params._meta that names the protocol revision
// of a modern request (MCP 2026-07-28, per-request metadata).
const metaVersionKey = "io.modelcontextprotocol/protocolVersion"

// MetaVersion returns the protocol revision that the _meta of params names; nil
// stands for no _meta. The second result is false where there is none; a revision
// that is not a string is returned as the empty string and true, because it still
// claims the modern era and has to be refused in its words.
func MetaVersion(meta []byte) (string, bool) {
	raw, ok := jsontext.Lookup(meta, metaVersionKey)
	if !ok {
		return "", false
	}
	if string(raw) == `"`+VersionModern+`"` {
		return VersionModern, true // nearly all, and nothing has to be copied
	}
	version, _ := jsontext.Text(raw)
	return version, true
}

// ClaimsModern reports whether params._meta names a revision that is not
// legacy, which makes the message modern whatever the revision is.
func ClaimsModern(params []byte) bool {
	meta, _ := jsontext.Lookup(params, "_meta")
	version, ok := MetaVersion(meta)
	return ok && !IsLegacyVersion(version)
}
