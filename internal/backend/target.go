// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Protocol is the RPC protocol that a backend speaks.
type Protocol uint8

const (
	// ProtocolUnknown is the zero value: the protocol must be detected by a probe.
	ProtocolUnknown Protocol = iota
	// ProtocolGRPC is gRPC over HTTP/2.
	ProtocolGRPC
	// ProtocolConnect is the Connect protocol.
	ProtocolConnect
	// ProtocolGRPCWeb is gRPC-Web.
	ProtocolGRPCWeb
)

// String returns the name of the protocol in its official spelling.
func (p Protocol) String() string { return [...]string{"unknown", "gRPC", "Connect", "gRPC-Web"}[p] }

// maxSocketPath is what fits into sockaddr_un.sun_path on Linux (108 bytes with
// the closing zero). A longer path would fail at every dial.
const maxSocketPath = 107

// targetForms is shown wherever a target is refused.
const targetForms = "http://HOST:PORT and https://HOST:PORT (protocol found by probing), grpc://, grpcs://, " +
	"connect+http(s)://, grpcweb+http(s)://, unix:///PATH, grpc+unix:///PATH, connect+unix:///PATH, grpcweb+unix:///PATH; " +
	"over all addresses of a name: dns:///HOST:PORT (gRPC), dns+grpcs://, dns+http(s)://, dns+connect+http(s)://, dns+grpcweb+http(s)://"

// Target is the address of a backend and how to connect to it. The zero value is not a
// valid target; use ParseTarget. It is comparable.
type Target struct {
	protocol Protocol
	tls      bool
	socket   string // path of a Unix socket, else ""
	host     string // host:port as in a URL; "localhost" for a Unix socket
	prefix   string // path before every procedure, without a closing slash
	spread   bool   // calls go to all addresses of the host, not to one
}

// Protocol returns the configured protocol, or ProtocolUnknown if a probe must detect
// it.
func (t Target) Protocol() Protocol { return t.protocol }

// Speaking returns the target with a protocol, unless it has one.
func (t Target) Speaking(p Protocol) Target {
	if t.protocol == ProtocolUnknown {
		t.protocol = p
	}
	return t
}

// TLS reports whether the connection is encrypted.
func (t Target) TLS() bool { return t.tls }

// Socket returns the path of the Unix socket, or "".
func (t Target) Socket() string { return t.socket }

// IsSpread reports whether calls are spread over all addresses of the host (dns:///HOST:PORT).
func (t Target) IsSpread() bool { return t.spread }

// Spread returns the target whose calls are spread over all addresses of the host.
func (t Target) Spread() Target {
	t.spread = t.socket == ""
	return t
}

// Host returns the host's name or address, without the port; "localhost" for a Unix socket.
func (t Target) Host() string {
	host, _ := t.hostPort()
	return host
}

// hostPort is host in its parts.
func (t Target) hostPort() (host, port string) {
	host, port, err := net.SplitHostPort(t.host)
	if err != nil { // of a Unix socket
		return t.host, ""
	}
	return host, port
}

// IsZero reports whether t is the zero value.
func (t Target) IsZero() bool { return t == Target{} }

// String returns a form that ParseTarget parses to the same target.
func (t Target) String() string {
	switch {
	case t.IsZero():
		return ""
	case t.socket != "":
		u := url.URL{Scheme: t.scheme(), Path: t.socket}
		return u.String()
	case t.spread && t.protocol == ProtocolGRPC && !t.tls:
		return gRPCNaming + t.host + t.prefix
	case t.spread:
		return spreadPrefix + t.scheme() + "://" + t.host + t.prefix
	default:
		return t.scheme() + "://" + t.host + t.prefix
	}
}

// BaseURL is what a procedure's path is appended to.
func (t Target) BaseURL() string {
	if t.tls {
		return "https://" + t.host + t.prefix
	}
	return "http://" + t.host + t.prefix
}

// address is what is dialled.
func (t Target) address() (network, addr string) {
	if t.socket != "" {
		return "unix", t.socket
	}
	return "tcp", t.host
}

func (t Target) scheme() string {
	for _, s := range targetSchemes() {
		if s.protocol == t.protocol && s.tls == t.tls && s.unix == (t.socket != "") {
			return s.name
		}
	}
	return ""
}

const (
	// spreadPrefix goes before a scheme whose calls go to all addresses of the host.
	spreadPrefix = "dns+"
	// gRPCNaming is how gRPC itself writes dns+grpc://.
	gRPCNaming = "dns:///"
)

type targetScheme struct {
	name     string
	protocol Protocol
	tls      bool
	unix     bool
}

func targetSchemes() [12]targetScheme {
	return [...]targetScheme{
		{name: "http"},
		{name: "https", tls: true},
		{name: "grpc", protocol: ProtocolGRPC},
		{name: "grpcs", protocol: ProtocolGRPC, tls: true},
		{name: "connect+http", protocol: ProtocolConnect},
		{name: "connect+https", protocol: ProtocolConnect, tls: true},
		{name: "grpcweb+http", protocol: ProtocolGRPCWeb},
		{name: "grpcweb+https", protocol: ProtocolGRPCWeb, tls: true},
		{name: "unix", unix: true},
		{name: "grpc+unix", protocol: ProtocolGRPC, unix: true},
		{name: "connect+unix", protocol: ProtocolConnect, unix: true},
		{name: "grpcweb+unix", protocol: ProtocolGRPCWeb, unix: true},
	}
}

// TargetError says why a text is not a valid target, and lists the valid forms.
type TargetError struct {
	// Text is the given text, or "" if it contained a user name or password.
	Text   string
	Reason string
}

// Error implements error.
func (e *TargetError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("backend target: %s; forms: %s", e.Reason, targetForms)
	}
	return fmt.Sprintf("backend target %q: %s; forms: %s", e.Text, e.Reason, targetForms)
}

// ParseTarget parses the text form of a target. The default port is 80, or 443 with TLS.
// A path becomes a prefix of every procedure. The error is a *TargetError.
func ParseTarget(text string) (Target, error) {
	t, err := parseTarget(text)
	if err == nil {
		return t, nil
	}
	shown := text
	if strings.Contains(text, "@") {
		shown = "" // whatever precedes it may be a password
	}
	return Target{}, &TargetError{Text: shown, Reason: err.Error()}
}

func parseTarget(text string) (Target, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Target{}, errors.New("empty")
	case !strings.Contains(text, "://"):
		return Target{}, errors.New("no scheme (for a host and port, put http:// or grpc:// before it)")
	}
	if n := len(gRPCNaming); len(text) >= n && strings.EqualFold(text[:n], gRPCNaming) {
		text = spreadPrefix + "grpc://" + text[n:]
	}
	u, err := url.Parse(text)
	if err != nil {
		return Target{}, parseReason(err)
	}
	name, spread := strings.CutPrefix(u.Scheme, spreadPrefix)
	scheme, ok := schemeNamed(name)
	switch {
	case u.Scheme == "dns":
		return Target{}, errors.New("a DNS server in the URL is not supported (dns:///HOST:PORT has three slashes)")
	case !ok:
		return Target{}, fmt.Errorf("unknown scheme %q", u.Scheme)
	case u.User != nil:
		return Target{}, errors.New("user name or password in the URL (send credentials as metadata)")
	case u.RawQuery != "" || u.ForceQuery:
		return Target{}, errors.New("a query is not allowed")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return Target{}, errors.New("a fragment is not allowed")
	case scheme.unix && spread:
		return Target{}, errors.New("a socket has no DNS name (leave dns+ out)")
	case scheme.unix:
		return socketTarget(scheme, u)
	case spread && u.Port() == "":
		return Target{}, errors.New("no port (dns:///HOST:PORT)")
	}
	t, err := hostTarget(scheme, u)
	t.spread = spread && err == nil
	return t, err
}

// parseReason drops the text from what url.Parse says: it is shown already, or
// must not be.
func parseReason(err error) error {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func schemeNamed(name string) (targetScheme, bool) {
	for _, s := range targetSchemes() {
		if s.name == name {
			return s, true
		}
	}
	return targetScheme{}, false
}

func socketTarget(s targetScheme, u *url.URL) (Target, error) {
	switch {
	case u.Host != "":
		return Target{}, errors.New("a socket path starts with a slash: unix:///run/app.sock has three")
	case u.Path == "" || strings.HasSuffix(u.Path, "/"):
		return Target{}, errors.New("no socket path")
	case strings.ContainsRune(u.Path, 0):
		return Target{}, errors.New("a zero byte in the socket path")
	case len(u.Path) > maxSocketPath:
		return Target{}, fmt.Errorf("socket path of %d bytes; the system allows %d", len(u.Path), maxSocketPath)
	}
	return Target{protocol: s.protocol, socket: u.Path, host: "localhost"}, nil
}

func hostTarget(s targetScheme, u *url.URL) (Target, error) {
	host, port := u.Hostname(), u.Port()
	switch {
	case host == "":
		return Target{}, errors.New("no host")
	case strings.ContainsAny(host, " \t/\\%"):
		return Target{}, fmt.Errorf("bad host %q (an IPv6 zone is not supported)", host)
	case strings.Contains(host, ":") && !strings.HasPrefix(u.Host, "["):
		return Target{}, fmt.Errorf("bad host %q (put an IPv6 address in brackets: [::1])", host)
	case port == "" && strings.HasSuffix(u.Host, ":"):
		return Target{}, errors.New("empty port")
	case port == "" && s.tls:
		port = "443"
	case port == "":
		port = "80"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Target{}, fmt.Errorf("port %q is not in 1..65535", port)
	}
	prefix := u.EscapedPath()
	prefix = strings.TrimSuffix(prefix, "/")
	if strings.Contains(u.Path, "//") || prefix != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return Target{}, errors.New("the path prefix has empty or dot segments")
	}
	return Target{protocol: s.protocol, tls: s.tls, host: net.JoinHostPort(host, port), prefix: prefix}, nil
}
