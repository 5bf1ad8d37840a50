// SPDX-License-Identifier: Apache-2.0

// Package httpguard protects the listeners from foreign web pages. It is in front
// of every HTTP listener of the sidecar, also the admin listener, and checks three
// headers on every path: Host, on loopback listeners, against DNS rebinding to
// 127.0.0.1; and on all listeners Origin, and Sec-Fetch-Site for requests that browsers
// send without Origin, such as those of images. It also answers CORS preflights for
// allowed origins, rejects HTTP/2 requests with two hosts, and answers requests
// for the server as a whole ("*"). A Guard is immutable and safe for concurrent
// use.
package httpguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// Options configure a Guard.
type Options struct {
	// Loopback is set if the listener is bound to a loopback address or a Unix
	// socket. Host is checked only then.
	Loopback bool
	// TLS is set if the listener's own scheme is https.
	TLS bool
	// AllowedHosts are additional host names that Host may hold ("sidecar.test" or
	// "sidecar.test:8080"). A name without a port allows any port.
	AllowedHosts []string
	// AllowedOrigins are the origins of web pages that may call
	// ("https://console.example"), or "*" for any.
	AllowedOrigins []string
	// OwnOrigins are origins under which callers reach the listener through a proxy
	// that terminates TLS ("https://tools.example").
	OwnOrigins []string
	// OwnHost also accepts pages that the listener itself served, whatever name it has for them: pages whose Origin has the
	// host of the request. It is for listeners where each request needs credentials that a page under another name does not
	// have, which a rebound one is. A plain listener then accepts its https page too, which a proxy in front serves.
	OwnHost bool
	// AnyOrigin, if set, reports whether a GET, HEAD or OPTIONS request may come from a page
	// of any origin. Its handler then answers for CORS itself.
	AnyOrigin func(*http.Request) bool
	// Refused is called for each refused request, with the code of its response; it
	// may be nil.
	Refused func(*http.Request, errmap.Code)
	// Log receives a line for refused requests, rate-limited by
	// [loglimit.PerSecond]; nil discards them.
	Log *zap.Logger
}

// Guard checks requests before any handler sees them. Make one with [New].
type Guard struct {
	loopback  bool
	scheme    string
	hosts     map[string]bool
	origins   map[string]bool
	anyOrigin bool
	ownHost   bool
	isPublic  func(*http.Request) bool
	refused   func(*http.Request, errmap.Code)
	log       *zap.Logger
}

// New checks the options and returns a Guard.
func New(o Options) (*Guard, error) {
	g := &Guard{
		loopback: o.Loopback, scheme: "http", hosts: map[string]bool{}, origins: map[string]bool{},
		refused: o.Refused, isPublic: o.AnyOrigin, ownHost: o.OwnHost,
	}
	if g.isPublic == nil {
		g.isPublic = func(*http.Request) bool { return false }
	}
	if o.TLS {
		g.scheme = "https"
	}
	if g.refused == nil {
		g.refused = func(*http.Request, errmap.Code) {}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	g.log = loglimit.New(o.Log)
	for _, h := range o.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/ @*,") {
			return nil, fmt.Errorf("allowed host %q: want a host name with or without a port", h)
		}
		g.hosts[unbracketed(strings.ToLower(h))] = true
	}
	for _, origin := range slices.Concat(o.AllowedOrigins, o.OwnOrigins) {
		if origin == "*" {
			g.anyOrigin = true
			continue
		}
		if _, ok := parseOrigin(strings.ToLower(origin)); !ok || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("allowed origin %q: want scheme://host or scheme://host:port without a path, or *", origin)
		}
		g.origins[strings.ToLower(origin)] = true
	}
	return g, nil
}

// Wrap returns a handler that passes allowed requests to next and responds to
// the rest itself.
func (g *Guard) Wrap(next http.Handler) http.Handler { return &guarded{guard: g, next: next} }

// guarded is a handler behind a guard. Its frame is small, because a stream waits
// on top of it for hours: the guard's own work is done by then.
type guarded struct {
	guard *Guard
	next  http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.guard.admits(w, r) {
		h.next.ServeHTTP(w, r)
	}
}

// admits reports whether a request may go on; where it may not, it has been
// answered.
func (g *Guard) admits(w http.ResponseWriter, r *http.Request) bool {
	if !hostsAgree(r) {
		g.refuse(w, r, errmap.InvalidEnvelope, "host", "the host header names another host than :authority; send only one")
		return false
	}
	if g.loopback && !g.hostAllowed(r.Host) {
		g.refuse(w, r, errmap.OriginForbidden, "origin", "Host "+bounded(r.Host)+" is not this listener; --allowed-hosts admits more names")
		return false
	}
	origins := r.Header.Values("Origin")
	if onlyReads(r) && g.isPublic(r) {
		return !g.isForServer(w, r)
	}
	if len(origins) == 0 {
		if isCrossSite(r) && !g.anyOrigin {
			g.refuse(w, r, errmap.OriginForbidden, "origin", "a page of another site sent this request without an Origin (Sec-Fetch-Site), and may not call this listener; "+
				"let a page whose origin --allowed-origins admits call it with fetch")
			return false
		}
		return !g.isForServer(w, r)
	}
	if len(origins) > 1 || !g.originAllowed(origins[0], r.Host) {
		g.refuse(w, r, errmap.OriginForbidden, "origin", "Origin "+bounded(strings.Join(origins, ", "))+" may not call this listener; --allowed-origins admits more")
		return false
	}
	allowCORS(w.Header(), origins[0])
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		preflight(w, r.Header)
		return false
	}
	return !g.isForServer(w, r)
}

// isCrossSite holds for requests that a web page of another site made, as browsers tell
// (Fetch Metadata, section 2.1). Requests that no page made have no such header.
func isCrossSite(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool {
		return site != "" && site != "none" && site != "same-origin"
	})
}

// onlyReads holds for the methods of public documents.
func onlyReads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// isForServer answers requests for the server as a whole ("OPTIONS *").
// [http.ServeMux] would close their connection, also an HTTP/2 one that other
// callers share.
func (g *Guard) isForServer(w http.ResponseWriter, r *http.Request) bool {
	if r.RequestURI != "*" {
		return false
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "POST, GET, DELETE, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	g.refuse(w, r, errmap.InvalidEnvelope, "path", `"*" goes with OPTIONS only; name a path`)
	return true
}

// hostsAgree holds where an HTTP/2 request names one host (RFC 9113, section
// 8.3.1). net/http takes :authority and leaves a host header in place, which a
// stage behind could read. On HTTP/1 it refuses a second Host itself.
func hostsAgree(r *http.Request) bool {
	hosts, ok := r.Header["Host"]
	if !ok || r.ProtoMajor < 2 {
		return true
	}
	delete(r.Header, "Host")
	return len(hosts) == 1 && withoutPort(hosts[0], r.TLS != nil) == withoutPort(r.Host, r.TLS != nil)
}

// withoutPort is a host in lower case without the port that its scheme implies.
func withoutPort(host string, isTLS bool) string {
	port := ":80"
	if isTLS {
		port = ":443"
	}
	return strings.TrimSuffix(strings.ToLower(host), port)
}

// hostAllowed holds for the names of a loopback address and for those that the
// operator added. The port is not compared for loopback names, because port
// forwarding changes it.
func (g *Guard) hostAllowed(host string) bool {
	host = strings.ToLower(host)
	if g.hostListed(host) {
		return true
	}
	name := hostname(host)
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// hostListed holds for the hosts that the operator added, on their port or on
// any.
func (g *Guard) hostListed(host string) bool { return g.hosts[host] || g.hosts[hostname(host)] }

// originAllowed holds for origins that the operator added, and for the
// listener's own one where the Host that says so can be trusted: on a loopback
// listener Host was checked, elsewhere it must be one of the allowed hosts.
func (g *Guard) originAllowed(origin, host string) bool {
	origin = strings.ToLower(origin)
	if g.origins[origin] {
		return true
	}
	u, ok := parseOrigin(origin)
	if !ok {
		return false
	}
	if g.anyOrigin {
		return true
	}
	// A page of the other scheme is not ours: a plain listener serves no https
	// page, and behind a proxy that does, the operator says so.
	host = strings.ToLower(host)
	if u.Host != host {
		return false
	}
	if g.ownHost && u.Scheme == "https" {
		return true
	}
	if u.Scheme != g.scheme {
		return false
	}
	return g.ownHost || g.loopback || g.hostListed(host)
}

// parseOrigin reads "scheme://host" or "scheme://host:port" and nothing more.
// The "null" of pages without an origin is none.
func parseOrigin(origin string) (*url.URL, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, false
	}
	return u, u.Scheme+"://"+u.Host == origin
}

// hostname drops the port and the brackets of an IPv6 address.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return unbracketed(host)
}

// unbracketed drops the brackets around an IPv6 address that has no port.
func unbracketed(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1]
	}
	return host
}

// refuse answers as the canonical table says. The message has no id, because
// nothing of the body was read.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, code errmap.Code, keyword, reason string) {
	g.refused(r, code)
	failed := errmap.New(code, errmap.WithViolations(errmap.Violation{Keyword: keyword, Message: reason}))
	fields := logkey.AppendClient([]zap.Field{zap.String(logkey.ErrorCode, string(code)), zap.String("reason", reason)}, r.RemoteAddr)
	if told := telemetry.HTTPRequestOf(r.Context()); told != nil {
		told.Refused(telemetry.OutcomeOf(failed, errmap.CanonicalJSONRPC))
		fields = append(fields, told.LogFields()...)
	}
	g.log.Warn("request rejected", fields...)
	shown := failed.JSONRPC(errmap.About{})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(shown.HTTPStatus)
	_, _ = w.Write(jsonrpc.AppendError(nil, jsonrpc.ID{}, true, shown.Code, shown.Message, shown.Data))
}

// allowCORS says that the page may read the answer.
func allowCORS(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce, Retry-After, Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin")
}

// allowedHeaders are the headers that MCP, Connect and gRPC-Web clients send.
const allowedHeaders = "Content-Type, Accept, Authorization, DPoP, MCP-Protocol-Version, Mcp-Method, Mcp-Name, " +
	"Mcp-Session-Id, Last-Event-ID, traceparent, tracestate, baggage, x-request-id, Idempotency-Key, Outrigger-Digest, " +
	"Connect-Protocol-Version, Connect-Timeout-Ms, Connect-Accept-Encoding, Connect-Content-Encoding, " +
	"Grpc-Timeout, Grpc-Accept-Encoding, Grpc-Encoding, X-Grpc-Web, X-User-Agent"

// preflight answers an OPTIONS request. Headers that a tool's schema gives a
// name (Mcp-Param-*) cannot be listed beforehand, so those that are asked for
// are repeated.
func preflight(w http.ResponseWriter, asked http.Header) {
	h := w.Header()
	allowed := []string{allowedHeaders}
	for name := range strings.SplitSeq(asked.Get("Access-Control-Request-Headers"), ",") {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(strings.ToLower(name), "mcp-param-") {
			allowed = append(allowed, name)
		}
	}
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	h.Set("Access-Control-Max-Age", "7200") // two hours, the most that browsers keep
	w.WriteHeader(http.StatusNoContent)
}

// bounded keeps a header value short enough for an error message.
func bounded(s string) string {
	const most = 128
	if len(s) > most {
		s = s[:most]
	}
	return fmt.Sprintf("%q", s)
}
