// SPDX-License-Identifier: Apache-2.0

package protectedresource

import (
	"errors"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Prefix is the well-known path of the metadata. The path of the resource follows it.
const Prefix = "/.well-known/oauth-protected-resource"

// Is reports whether a request's path is one of metadata.
func Is(path string) bool { return isBelow(path, Prefix) }

// IsOfAuthorizationServer reports whether clients ask at a path for an authorization server: for its metadata
// (RFC 8414, OpenID Connect Discovery), or at the endpoints that MCP 2025-03-26 assumes without metadata.
func IsOfAuthorizationServer(path string) bool {
	switch path {
	case "/register", "/authorize", "/token":
		return true
	}
	return isBelow(path, "/.well-known/oauth-authorization-server") || isBelow(path, "/.well-known/openid-configuration")
}

func isBelow(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// Resource is the URL of a protected resource.
type Resource struct {
	// URL is the resource identifier as it is configured.
	URL string
	// Path is the path of its metadata.
	Path string
	// Metadata is the URL of its metadata, for challenges.
	Metadata string
}

// Parse reads a resource identifier. The error says what it must be.
func Parse(resource string) (Resource, error) {
	u, err := url.Parse(resource)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return Resource{}, errors.New("must be an absolute URL, such as https://tools.example.org/mcp")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return Resource{}, errors.New("must begin with https://, because http is for loopback only")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(resource, "#"):
		return Resource{}, errors.New("must have no user, query or fragment")
	case strings.HasSuffix(resource, "/"):
		return Resource{}, errors.New("must not end in a slash, because clients compare it character by character")
	case u.RawPath != "" || u.Path != "" && path.Clean(u.Path) != u.Path || !isPlain(resource):
		return Resource{}, errors.New("must have a plain path, without empty or dot segments and escapes")
	}
	at := Prefix + u.Path
	return Resource{URL: resource, Path: at, Metadata: u.Scheme + "://" + u.Host + at}, nil
}

// isPlain holds for URLs that can be quoted in a header.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '%' {
			return false
		}
	}
	return true
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// CheckIssuer returns why a text cannot be the identifier of an authorization server
// (RFC 8414, section 2), or nil.
func CheckIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("must be an absolute URL, such as https://login.example.org/realms/tools")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return errors.New("must begin with https://, because http is for loopback only")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#"):
		return errors.New("must have no user, query or fragment")
	case strings.ContainsAny(issuer, " \"\\"):
		return errors.New("must be a plain URL")
	}
	return nil
}
