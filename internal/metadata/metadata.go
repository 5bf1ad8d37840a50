// SPDX-License-Identifier: Apache-2.0

// Package metadata decides which headers cross the sidecar, and in which direction.
//
// Callers and backends send metadata with their messages: HTTP headers, gRPC
// metadata. [Rules] are two allow-lists, one for each direction. Credentials and
// hop-by-hop headers never cross, whatever a list says. Only one header needs no
// rule: the idempotency key of calls ([IdempotencyHeader]).
package metadata

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Rules are the allow-lists for headers that cross the sidecar. Names are compared
// in lower case. A "*" in a pattern matches any run of characters. A header that
// looks like a credential crosses only if a pattern names it in full. Make Rules
// with [NewRules]; the zero value allows nothing.
type Rules struct {
	in, out *allowList
	baggage *Baggage
}

// allowList is the patterns of one direction. It remembers what it said of a
// name, because the same few come with every call.
type allowList struct {
	patterns []string
	names    sync.Map // name -> bool
	known    atomic.Int64
}

// maxKnownNames bounds what a list remembers: callers choose names.
const maxKnownNames = 256

// admits reports whether a header in any spelling crosses.
func (l *allowList) admits(name string) bool {
	if verdict, ok := l.names.Load(name); ok {
		return verdict == true
	}
	lower := strings.ToLower(name)
	verdict := isSendableName(lower) && !neverCrosses(lower) && matchesAny(lower, l.patterns)
	if l.known.Add(1) <= maxKnownNames {
		l.names.Store(strings.Clone(name), verdict)
	}
	return verdict
}

// NewRules validates and compiles the two allow-lists: inbound from the caller to
// the backend, outbound from the backend to the caller. It is an error if a pattern
// names a header that must never cross. Credentials of a caller are for the sidecar
// only, and protocol headers belong to one hop.
func NewRules(inbound, outbound []string) (Rules, error) {
	in, err := checkedPatterns(inbound)
	if err != nil {
		return Rules{}, fmt.Errorf("inbound metadata: %w", err)
	}
	out, err := checkedPatterns(outbound)
	if err != nil {
		return Rules{}, fmt.Errorf("outbound metadata: %w", err)
	}
	return Rules{in: &allowList{patterns: in}, out: &allowList{patterns: out}}, nil
}

func checkedPatterns(patterns []string) ([]string, error) {
	out := make([]string, 0, len(patterns))
	for _, p := range patterns {
		p = strings.ToLower(strings.TrimSpace(p))
		if !isPattern(p) {
			return nil, fmt.Errorf("pattern %q: want a header name, with * as a wildcard", p)
		}
		if !strings.Contains(p, "*") && neverCrosses(p) {
			return nil, fmt.Errorf("header %q is never forwarded: it is hop-by-hop or a credential", p)
		}
		out = append(out, p)
	}
	return out, nil
}

// isPattern holds for the characters of a header name (RFC 9110, section 5.6.2),
// of which "*" is one, and which metadata keys of gRPC are a part of.
func isPattern(p string) bool {
	for i := range len(p) {
		c := p[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return p != ""
}

// neverCrosses holds for headers that no allow-list opens: credentials (a
// caller's token must not reach the backend, MCP authorization), hop-by-hop
// headers (RFC 9110, section 7.6.1) and what the two protocols say themselves.
func neverCrosses(name string) bool {
	switch name {
	case "authorization", "cookie", "set-cookie", "www-authenticate", "host", "connection", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade", "http2-settings", "expect", "origin", "accept", "accept-encoding", "date", "server",
		"user-agent", "forwarded":
		return true
	}
	for _, prefix := range []string{"proxy-", "content-", "grpc-", "connect-", "mcp-", "sec-", "access-control-", ":"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Inbound returns those of a caller's headers that are forwarded to the backend.
func (r Rules) Inbound(h http.Header) http.Header { return r.baggage.filter(r.in.admitted(h)) }

// Outbound returns that part of the backend's metadata that is forwarded to the caller.
func (r Rules) Outbound(h http.Header) http.Header { return r.out.admitted(h) }

// Trailer returns that part of the backend's trailer that typed callers get. They know their service, whose trailers are
// part of its contract, so all of it crosses but what never does, what the sidecar's own responses say, and secrets that
// no pattern names in full.
func (r Rules) Trailer(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		lower := strings.ToLower(name)
		if !isSendableName(lower) || neverCrosses(lower) || isOurs(lower) || LooksSecret(lower) && !r.names(lower) {
			continue
		}
		var sendable []string
		for _, value := range values {
			sendable = appendSendable(sendable, name, value)
		}
		if len(sendable) == 0 {
			continue
		}
		if out == nil {
			out = make(http.Header, len(h))
		}
		out[name] = sendable
	}
	return out
}

// names reports whether an outbound pattern names a header in full.
func (r Rules) names(lower string) bool {
	return r.out != nil && slices.Contains(r.out.patterns, lower)
}

// isOurs holds for headers that say something of the sidecar's own HTTP response. Connect shows the trailers of an error as
// headers, where they would be read as such.
func isOurs(name string) bool {
	switch name {
	case "alt-svc", "allow", "cache-control", "clear-site-data", "dpop-nonce", "etag", "expires", "last-modified", "link", "location",
		"refresh", "strict-transport-security", "vary", "x-content-type-options":
		return true
	}
	return false
}

// admitted returns the headers that a pattern lets through, without what of them
// not every protocol could send on: no header of one side ends a call.
func (l *allowList) admitted(h http.Header) http.Header {
	if l == nil || len(h) == 0 || len(l.patterns) == 0 {
		return nil
	}
	var out http.Header
	for name, values := range h {
		if !l.admits(name) {
			continue
		}
		if out == nil {
			out = make(http.Header, len(l.patterns))
		}
		sendable := make([]string, 0, len(values))
		for _, value := range values {
			sendable = appendSendable(sendable, name, value)
		}
		if len(sendable) > 0 {
			out[name] = sendable
		}
	}
	return out
}

func matchesAny(name string, patterns []string) bool {
	if slices.Contains(patterns, name) {
		return true
	}
	if LooksSecret(name) {
		return false
	}
	return glob.MatchAny(patterns, name)
}

// LooksSecret reports whether a header, in lower case, has one of the names that gateways and vendors give to
// credentials of their own (x-api-key, x-auth-token, x-forwarded-client-cert).
// A "*" was hardly written with them in mind.
func LooksSecret(name string) bool {
	for _, part := range [...]string{"auth", "token", "secret", "password", "credential", "api-key", "apikey", "jwt", "session", "cert"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// IsFieldValue reports whether a header value is safe from injection: visible
// ASCII, space and tab only (RFC 9110, section 5.5, without the obsolete bytes
// above 0x7E, which gRPC does not allow).
func IsFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < 0x20 || c > 0x7E) {
			return false
		}
	}
	return true
}

// IdempotencyHeader is the header for the idempotency key of a call. Calls with the
// same key are the same call, so they can be retried
// (draft-ietf-httpapi-idempotency-key-header). The header is forwarded to the
// backend regardless of the allow-list: only the backend can tell a retry from a
// new call.
const IdempotencyHeader = "Idempotency-Key"

// IdempotencyMember is the member of a message's _meta for the idempotency key.
const IdempotencyMember = "dev.outrigger/idempotency-key"

// maxIdempotencyKey bounds a key; a UUID has 36 bytes.
const maxIdempotencyKey = 255

// IdempotencyKey returns the idempotency key of a call; empty if it has none.
func IdempotencyKey(h http.Header) string {
	if values := h[IdempotencyHeader]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// CheckIdempotencyKey refuses a key that could not be forwarded, because a caller
// that relies on it must not find out later.
func CheckIdempotencyKey(h http.Header) *errmap.Error {
	values, ok := h[IdempotencyHeader]
	if !ok || len(values) == 1 && isIdempotencyKey(values[0]) {
		return nil
	}
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Keyword: "idempotency-key", Message: IdempotencyHeader + " (in _meta: " + IdempotencyMember +
			") must appear once, with 1 to 255 visible ASCII characters",
	}))
}

func isIdempotencyKey(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxIdempotencyKey
}
