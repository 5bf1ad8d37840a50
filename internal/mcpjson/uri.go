// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// isURI reports whether s is an absolute URI by the grammar of RFC 3986, section 3,
// as far as the contract's validation accepts it: an IPv6 address is written without
// dots, and neither has a zone nor belongs to a later version.
func isURI(s string) bool {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isScheme(scheme) {
		return false
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	path, query, _ := strings.Cut(rest, "?")
	if behind, ok := strings.CutPrefix(path, "//"); ok {
		end := strings.IndexByte(behind, '/')
		if end < 0 {
			end = len(behind)
		}
		if !isAuthority(behind[:end]) {
			return false
		}
		path = behind[end:]
	}
	return consistsOf(path, ":@/") && consistsOf(query, ":@/?") && consistsOf(fragment, ":@/?")
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && (i == 0 || !isDigit(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// isAuthority checks [userinfo "@"] host [":" port] (section 3.2).
func isAuthority(s string) bool {
	if user, host, ok := strings.Cut(s, "@"); ok {
		if !consistsOf(user, ":") {
			return false
		}
		s = host
	}
	if literal, ok := strings.CutPrefix(s, "["); ok {
		address, port, ok := strings.Cut(literal, "]")
		ip, err := netip.ParseAddr(address)
		return ok && err == nil && ip.Is6() && !strings.ContainsAny(address, "%.") && (port == "" || port[0] == ':' && isDigits(port[1:]))
	}
	host, port, _ := strings.Cut(s, ":")
	return consistsOf(host, "") && isDigits(port) && isTextHost(host)
}

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// isTextHost reports whether a registered name is UTF-8 behind its escapes
// (section 3.2.2).
func isTextHost(host string) bool {
	if !strings.Contains(host, "%") {
		return true
	}
	decoded := make([]byte, 0, len(host))
	for i := 0; i < len(host); i++ {
		if host[i] == '%' {
			decoded = append(decoded, byte(jsontext.HexValue(host[i+1])<<4|jsontext.HexValue(host[i+2])))
			i += 2
			continue
		}
		decoded = append(decoded, host[i])
	}
	return utf8.Valid(decoded)
}

// consistsOf reports whether s holds only unreserved characters, escapes,
// sub-delimiters (section 2) and the extra ones.
func consistsOf(s, extra string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case isLetter(c), isDigit(c), strings.IndexByte("-._~!$&'()*+,;=", c) >= 0, strings.IndexByte(extra, c) >= 0:
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return jsontext.HexValue(c) >= 0 }
