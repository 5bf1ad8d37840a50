// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"golang.org/x/net/http/httpguts"
)

// MetadataRules are the allow-lists for headers that cross the sidecar. Names are compared
// in lower case. A "*" in a pattern matches any run of characters. A header that
// looks like a credential crosses only if a pattern names it in full. Make Rules
// with [NewMetadataRules]; the zero value allows nothing.
type MetadataRules struct {
	in, out *allowList
	baggage *Baggage
}

// allowList is the patterns of one direction. It remembers what it said of a
// name, because the same few come with every call.
type allowList struct {
	patterns []string
	names    atomic.Pointer[map[string]bool] // as they are spelled; a new map for each name
}

// maxKnownNames bounds what a list remembers: callers choose names.
const maxKnownNames = 256

// admits reports whether a header in any spelling crosses.
func (l *allowList) admits(name string) bool {
	known := l.names.Load()
	if known != nil {
		if verdict, ok := (*known)[name]; ok {
			return verdict
		}
	}
	lower := strings.ToLower(name)
	verdict := validMetadataName(lower) && !neverCrosses(lower) && matchesAny(lower, l.patterns)
	l.remember(known, name, verdict)
	return verdict
}

// remember adds a name to those that are known, unless another one was added meanwhile: it comes again.
func (l *allowList) remember(known *map[string]bool, name string, verdict bool) {
	more := map[string]bool{}
	if known != nil {
		if len(*known) >= maxKnownNames {
			return
		}
		more = maps.Clone(*known)
	}
	more[strings.Clone(name)] = verdict
	l.names.CompareAndSwap(known, &more)
}

// NewMetadataRules validates and compiles the two allow-lists: inbound from the caller to
// the backend, outbound from the backend to the caller. It is an error if a pattern
// names a header that must never cross. Credentials of a caller are for the sidecar
// only, and protocol headers belong to one hop.
func NewMetadataRules(inbound, outbound []string) (MetadataRules, error) {
	in, err := checkedPatterns(inbound)
	if err != nil {
		return MetadataRules{}, fmt.Errorf("inbound metadata: %w", err)
	}
	out, err := checkedPatterns(outbound)
	if err != nil {
		return MetadataRules{}, fmt.Errorf("outbound metadata: %w", err)
	}
	return MetadataRules{in: &allowList{patterns: in}, out: &allowList{patterns: out}}, nil
}

func checkedPatterns(patterns []string) ([]string, error) {
	out := make([]string, 0, len(patterns))
	for _, p := range patterns {
		p = strings.ToLower(strings.TrimSpace(p))
		if !httpguts.ValidHeaderFieldName(p) {
			return nil, fmt.Errorf("pattern %q: want a header name, with * as a wildcard", p)
		}
		if !strings.Contains(p, "*") && neverCrosses(p) {
			return nil, fmt.Errorf("header %q is never forwarded: it is hop-by-hop or a credential", p)
		}
		out = append(out, p)
	}
	return out, nil
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
func (r MetadataRules) Inbound(h http.Header) http.Header { return r.baggage.filter(r.in.admitted(h)) }

// OfCall is Inbound for a call of a tool, whose idempotency key is forwarded too.
func (r MetadataRules) OfCall(h http.Header) http.Header {
	out := r.Inbound(h)
	if key := IdempotencyKey(h); key != "" {
		if out == nil {
			out = make(http.Header, 1)
		}
		out[IdempotencyHeader] = []string{key}
	}
	return out
}

// Outbound returns that part of the backend's metadata that is forwarded to the caller.
func (r MetadataRules) Outbound(h http.Header) http.Header { return r.out.admitted(h) }

// Trailer returns that part of the backend's trailer that typed callers get. They know their service, whose trailers are
// part of its contract, so all of it crosses but what never does, what the sidecar's own responses say, and secrets that
// no pattern names in full.
func (r MetadataRules) Trailer(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		lower := strings.ToLower(name)
		if !validMetadataName(lower) || neverCrosses(lower) || isOurs(lower) || LooksSecret(lower) && !r.names(lower) {
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

// Named returns that part of the backend's metadata that outbound patterns name in full.
func (r MetadataRules) Named(h http.Header) http.Header {
	var out http.Header
	for name, values := range h {
		if r.names(strings.ToLower(name)) {
			if out == nil {
				out = make(http.Header, 1)
			}
			out[name] = values
		}
	}
	return out
}

// names reports whether an outbound pattern names a header in full.
func (r MetadataRules) names(lower string) bool {
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

// ApprovalHeader is the header with the handle of an approval, in the repetition of a call that waits for it, and ApprovalMember the
// member of a message's _meta. The backend does not get it.
const (
	ApprovalHeader = "Outrigger-Approval"
	ApprovalMember = "dev.outrigger/approval"
	// ApprovalHint is the same header for a handle that is ignored if it is not that of an approval of the caller.
	ApprovalHint = "Outrigger-Approval-Hint"
)

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

// appendSendable appends to dst what every protocol can send of a header's value. HTTP allows tabs in values, gRPC does not;
// neither keeps whitespace at the ends. Whitespace around the members of a list has no meaning (RFC 9110, section 5.6.1), so
// it is normalised. Of the lists that W3C defines, a member that still cannot be sent is dropped alone; any other value is
// dropped whole. name may be in any spelling.
func appendSendable(dst []string, name, value string) []string {
	switch {
	case hasSuffixFold(name, "-bin"):
		return appendBinary(dst, value)
	case validMetadataValue(value):
		return append(dst, value)
	case strings.EqualFold(name, baggageHeader):
		// A tab can only stand around the delimiters of a member, where a space means the same.
		value = strings.ReplaceAll(value, "\t", " ")
	case strings.EqualFold(name, "tracestate"):
	default:
		if value = normalised(value); validMetadataValue(value) {
			return append(dst, value)
		}
		return dst
	}
	if value = sendableMembers(value); value == "" {
		return dst
	}
	return append(dst, value)
}

// normalised is a value without whitespace at its ends. A value with tabs may be a list: it loses them around its commas.
func normalised(value string) string {
	value = strings.Trim(value, " \t")
	if !strings.Contains(value, "\t") {
		return value
	}
	members := strings.Split(value, ",")
	for i := range members {
		members[i] = strings.Trim(members[i], " \t")
	}
	return strings.Join(members, ", ")
}

// sendableMembers is a list without the members that cannot be sent.
func sendableMembers(list string) string {
	var kept []string
	for member := range strings.SplitSeq(list, ",") {
		if member = strings.Trim(member, " \t"); member != "" && validMetadataValue(member) {
			kept = append(kept, member)
		}
	}
	return strings.Join(kept, ",")
}

// appendBinary appends the binary values among the members of value: gRPC's implementations refuse a call with one that is
// not base64, and not all of them split a list (gRPC over HTTP/2, custom metadata).
func appendBinary(dst []string, value string) []string {
	for member := range strings.SplitSeq(value, ",") {
		member = strings.Trim(member, " \t")
		if _, err := decodedBinary(member); err == nil && validMetadataValue(member) { // the decoder skips line ends
			dst = append(dst, member)
		}
	}
	return dst
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// baggageHeader is the header of W3C Baggage.
const baggageHeader = "Baggage"

// Bounds of the baggage that crosses: what W3C Baggage (section 3.3) asks every system to pass on.
const (
	maxBaggageMembers = 64
	maxBaggageBytes   = 8192
)

// Baggage is an allow-list for members of W3C Baggage. Callers choose baggage, and services act on it. So of the members
// only those that are listed cross, and no more of them than the bounds admit. What is malformed is dropped; no call fails
// because of it. Make one with [NewBaggage].
type Baggage struct{ patterns []string }

// NewBaggage validates and compiles an allow-list of member names, which are compared exactly. A "*" matches any run of
// characters. An empty list drops all baggage.
func NewBaggage(names []string) (*Baggage, error) {
	out := make([]string, 0, len(names))
	for _, name := range names {
		name = strings.TrimSpace(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("baggage member %q: want a name of letters, digits and -_.~!#$%%&'+^`|, with * as a wildcard", name)
		}
		out = append(out, name)
	}
	return &Baggage{patterns: out}, nil
}

// WithBaggage returns Rules that apply an allow-list of members to baggage which is forwarded to the backend, if the list of
// headers lets it through at all. Nil forwards baggage like any other header.
func (r MetadataRules) WithBaggage(b *Baggage) MetadataRules {
	r.baggage = b
	return r
}

// filter replaces the baggage among headers by what may cross. h is changed; nil changes nothing.
func (b *Baggage) filter(h http.Header) http.Header {
	if b == nil {
		return h
	}
	for name, values := range h {
		if !strings.EqualFold(name, baggageHeader) {
			continue
		}
		if kept := b.Filter(values...); kept != "" {
			h[name] = []string{kept}
		} else {
			delete(h, name)
		}
	}
	return h
}

// Filter returns what of the values of baggage headers may cross, as the value of one header; "" for nothing. Members keep
// their text, with their properties, and their order.
func (b *Baggage) Filter(values ...string) string {
	var out strings.Builder
	members := 0
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			member = strings.Trim(member, " \t")
			if !b.admits(member) {
				continue
			}
			if members == maxBaggageMembers {
				return out.String()
			}
			if out.Len()+min(members, 1)+len(member) > maxBaggageBytes { // with the comma
				continue // a shorter one may find room
			}
			if members > 0 {
				out.WriteByte(',')
			}
			out.WriteString(member)
			members++
		}
	}
	return out.String()
}

// admits reports whether a member is well-formed and listed.
func (b *Baggage) admits(member string) bool {
	pair, properties, _ := strings.Cut(member, ";")
	key, value, ok := strings.Cut(pair, "=")
	key, value = strings.Trim(key, " \t"), strings.Trim(value, " \t")
	if !ok || !httpguts.ValidHeaderFieldName(key) || !areBaggageOctets(value) || !IsFieldValue(properties) {
		return false
	}
	return glob.MatchAny(b.patterns, key)
}

// areBaggageOctets holds for the characters of a value (W3C Baggage, section 3.3.1.3).
func areBaggageOctets(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}
