// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

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
		if !isToken(name) {
			return nil, fmt.Errorf("baggage member %q: want a name of letters, digits and -_.~!#$%%&'+^`|, with * as a wildcard", name)
		}
		out = append(out, name)
	}
	return &Baggage{patterns: out}, nil
}

// WithBaggage returns Rules that apply an allow-list of members to baggage which is forwarded to the backend, if the list of
// headers lets it through at all. Nil forwards baggage like any other header.
func (r Rules) WithBaggage(b *Baggage) Rules {
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
	if !ok || !isToken(key) || !areBaggageOctets(value) || !IsFieldValue(properties) {
		return false
	}
	return glob.MatchAny(b.patterns, key)
}

// isToken holds for a token of HTTP (RFC 9110, section 5.6.2), which the names of members are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
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
