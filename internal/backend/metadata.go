// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
)

// isProtocolHeader reports whether a header, in canonical form, belongs to HTTP
// or to one of the RPC protocols. These are set by the protocol; a caller's copy
// is not sent, and the peer's is not shown as metadata.
func isProtocolHeader(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Post", "Allow", "Connection", "Content-Encoding", "Content-Length",
		"Content-Type", "Date", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
		"X-Grpc-Web", "X-User-Agent":
		return true
	}
	return strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Connect-") || strings.HasPrefix(name, ":")
}

// outgoing checks a caller's metadata and adds it to header. What belongs to
// the protocol is left out. Anything that HTTP or gRPC could misread is refused:
// names are lower or upper case letters, digits and "-_." (gRPC's rule), values
// printable ASCII without surrounding space. A binary value (name ending in
// -bin) is expected in its base64 form and so falls under the same rule.
func outgoing(header, md http.Header, limit int) *Error {
	total := 0
	for name, values := range md {
		key := textproto.CanonicalMIMEHeaderKey(name)
		if isProtocolHeader(key) {
			continue
		}
		if !validMetadataName(name) {
			return newError(KindRejected, fmt.Sprintf("metadata name %q: use letters, digits, dash, underscore and dot", clip(name)), nil)
		}
		for _, value := range values {
			if !validMetadataValue(value) {
				return newError(KindRejected, fmt.Sprintf("metadata %s: the value is not printable ASCII, or has surrounding whitespace", clip(name)), nil)
			}
			total += len(name) + len(value)
		}
		if total > limit {
			return newError(KindRequestTooLarge, fmt.Sprintf("the forwarded headers have more than %d bytes", limit), nil)
		}
		header[key] = append(header[key], values...)
	}
	return nil
}

func validMetadataName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

func validMetadataValue(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return value == strings.Trim(value, " ")
}

// incoming returns the metadata among a peer's headers or trailers, nil where
// there is none. The result shares its values with h.
func incoming(h http.Header) http.Header {
	var md http.Header
	for name, values := range h {
		if len(values) == 0 || isProtocolHeader(name) && name != grpcPushback { // which is for the caller's retries
			continue
		}
		if md == nil {
			md = make(http.Header, len(h))
		}
		md[name] = values
	}
	return md
}

// clip keeps a foreign text from filling an error message.
func clip(s string) string {
	const most = 64 // enough to recognise a name
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
