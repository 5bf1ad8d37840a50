// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

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

// versions are those with the one that is an experiment.
func versions(hasVariants bool) []string {
	if hasVariants {
		return append([]string{versionVariants}, Versions()...)
	}
	return Versions()
}

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
// represents no _meta. The second result is false where there is none; a revision
// that is not a string is returned as the empty string and true, because it still
// claims the modern era and has to be refused in its words.
func MetaVersion(meta []byte) (string, bool) {
	raw, ok := jsontext.Lookup(meta, metaVersionKey)
	if !ok {
		return "", false
	}
	return versionText(raw), true
}

// versionText is the text of a JSON string with a revision.
func versionText(raw []byte) string {
	if string(raw) == `"`+VersionModern+`"` {
		return VersionModern // nearly all, and nothing has to be copied
	}
	version, _ := jsontext.Text(raw)
	return version
}

// ClaimsModern reports whether params._meta names a revision that is not
// legacy, which makes the message modern whatever the revision is.
func ClaimsModern(params []byte) bool {
	meta, _ := jsontext.Lookup(params, "_meta")
	version, ok := MetaVersion(meta)
	return ok && !IsLegacyVersion(version)
}

// Names of the HTTP headers that repeat facts of the body (MCP 2026-07-28,
// Streamable HTTP).
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// HeaderVersion returns the revision that the header of a request names, "" for none. Proxies
// merge repeated lines; isOne is false where they differ.
func HeaderVersion(h http.Header) (version string, isOne bool) {
	return SameValue(h[headerVersion])
}

// metaCapabilitiesKey is the other member that every modern request's _meta
// must have.
const metaCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities"

// Keys of a modern request's _meta besides the required ones (MCP 2026-07-28,
// per-request metadata).
const (
	metaClientInfoKey = "io.modelcontextprotocol/clientInfo"
	metaLogLevelKey   = "io.modelcontextprotocol/logLevel"
	progressTokenKey  = "progressToken"
)

// subscriptionKey is the _meta member that ties everything on a stream of
// changes to the request that opened it (MCP 2026-07-28, subscriptions).
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// methodCancelled is a notification that the sidecar acts on, beside methodItems.
const methodCancelled = "notifications/cancelled"

// methodInitialize opens a session.
const methodInitialize = "initialize"

// Inbound is one JSON-RPC message as read by an edge.
type Inbound struct {
	Dialect Dialect
	// Paced is set if the edge applies backpressure. Then a call waits for a slot
	// without a limit, and is not rejected because of a full queue.
	Paced bool
	// Follows is set if later messages of the origin can bring items of a call ([Handler.EndItems] ends them).
	Follows bool
	// hasLooked is set once meta has looked for what it found.
	hasLooked bool
	// Origin is the scope of the message's id.
	Origin  correlate.Origin
	Message *jsonrpc.Message
	// Header has the HTTP headers. It is nil if the transport has none (stdio), and
	// then no rule about headers applies.
	Header http.Header
	// Caller identifies the caller; see [bridge.Request].
	Caller string
	// Peer is the address of the caller's connection, or "stdio".
	Peer string
	// Transport and Route describe the origin of the message, for logs.
	Transport, Route string
	// Session is the legacy session that the message names; nil where it names
	// none.
	Session *session.Session
	// Opened receives the session that the message opens, and has to release it; nil
	// if no session can be kept.
	Opened func(*session.Session)
	// Yield is called when the request begins to wait for its client or for changes,
	// because these may arrive behind requests that wait for this one. It may be
	// called more than once, and may be nil.
	Yield func()
	// Quiet is called when nothing will be sent for a while; it may be nil.
	Quiet func()
	// Send sends notifications of the request, each one JSON-RPC message, compact and
	// on one line, in order and before the reply. Send owns the bytes. An error means
	// that the caller no longer reads. Nil means that none can be sent.
	Send func(message []byte) error

	// HTTP is the request that the message came in; nil without tracing, and where there is none.
	HTTP *telemetry.HTTPRequest
	// Start is when the message began to arrive, for its span; zero is with the HTTP request, or now.
	Start time.Time
	// Stream is the span of the stream that the message came on, where messages have spans beside it.
	Stream *telemetry.Span

	// span is that of the message; nil without tracing. resp is what has become of its request; nil before that.
	span  *telemetry.Span
	resp  *bridge.Response
	found []byte
	// flight is the request that the message became; nil until then.
	flight *bridge.Flight
	// ctx is that of the message, for the audit trail; nil for one whose caller is not known.
	ctx context.Context //nolint:containedctx // a message lives as long as its handling
}

// BeginsAtOnce reports whether the request asks for a stream of changes, which begins when the request does.
func (in *Inbound) BeginsAtOnce() bool { return in.Message.Method == methodListen }

// Abort ends the work of the request that the message became, because its caller has gone
// away; for edges that notice it when they send. It does nothing before there is one.
func (in *Inbound) Abort(cause error) {
	if in.flight != nil {
		in.flight.Abort(cause)
	}
}

// era is the revision of the caller's protocol. It has to be known for a message that
// is refused too, so it may be what the message says.
func (in *Inbound) era() string {
	switch in.Dialect {
	case Modern:
		return VersionModern
	case Legacy:
		if in.Session != nil && in.Session.Context().GetProtocolVersion() != "" {
			return in.Session.Context().GetProtocolVersion()
		}
		if version, _ := HeaderVersion(in.Header); IsLegacyVersion(version) {
			return version
		}
		return unknownRevision
	case Canonical:
	}
	return Canonical.String()
}

// unknownRevision is the era of a legacy message that names no revision.
const unknownRevision = "legacy"

// statedRevision is the revision of MCP that the message or its session names, or "" if it has none that is known.
func (in *Inbound) statedRevision() string {
	if version := in.era(); in.Dialect != Canonical && version != unknownRevision {
		return version
	}
	return ""
}

// meta is the _meta of the message's params, nil where there is none. It is looked
// for once: in a large message it is behind a large value.
func (in *Inbound) meta() []byte {
	if !in.hasLooked {
		in.found, _ = in.Message.Param("_meta")
		in.hasLooked = true
	}
	return in.found
}

// Denied is what the audit trail says of a stream that an edge denied to a caller, before
// there was a message to handle.
func (in *Inbound) Denied() *bridge.Request {
	return &bridge.Request{
		Header: in.Header, Caller: in.Caller, Peer: in.Peer, Transport: in.Transport, Route: in.Route, Era: in.era(),
	}
}

// Known says that the caller of the message is known, and gives it the context of the caller:
// what is refused from now on is in the audit trail. A message that is handled needs no Known.
func (in *Inbound) Known(ctx context.Context) { in.ctx = ctx }

// protocol is how the message's dialect shows errors.
func (in *Inbound) protocol() errmap.Protocol {
	switch in.Dialect {
	case Modern:
		return errmap.ModernMCP
	case Legacy:
		return errmap.LegacyMCP
	case Canonical:
	}
	return errmap.CanonicalJSONRPC
}

// opensEarly holds where messages may come right behind an initialize (stdio):
// they belong to the session already. Elsewhere a client has to be told the id
// first, and a request that fails must not cost anybody's session.
func (in *Inbound) opensEarly() bool { return in.Header == nil }

// revision is the one that a message's client and the sidecar agreed on, or that
// its header names. A client that says nothing gets the newest words, because
// members that a client does not know are tolerated in every revision.
func (in *Inbound) revision() content.Revision {
	version, _ := HeaderVersion(in.Header)
	if in.Session != nil {
		version = in.Session.Context().GetProtocolVersion()
	}
	if revision, ok := content.ParseRevision(version); ok && revision != content.Rev20260728 {
		return revision
	}
	return content.Rev20251125
}

// metaContext is a checked _meta as the carrier of trace context. It is only read.
type metaContext []byte

// Get returns a member that is a header value, as [withTraceContext] takes it.
func (m *metaContext) Get(key string) string {
	value, _ := traceMember(*m, key)
	return value
}

// Set does nothing.
func (m *metaContext) Set(string, string) {}

// Keys returns none: nothing asks for them.
func (m *metaContext) Keys() []string { return nil }

// traceMember is a member of _meta that may become a header; false if there is none, or one that is no header value.
func traceMember(meta []byte, key string) (string, bool) {
	raw, ok := jsontext.Lookup(meta, key)
	if !ok {
		return "", false
	}
	value, ok := jsontext.Text(raw)
	return value, ok && value != "" && len(value) <= maxTraceValue && backend.IsFieldValue(value)
}

// maxTraceValue bounds what a message may put into one header: the most that
// W3C Baggage asks anybody to pass on, which the other two never come near.
const maxTraceValue = 8192
