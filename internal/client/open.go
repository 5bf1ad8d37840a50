// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Bounds of what a sidecar may send.
const (
	// maxBytes is the maximum size of one message: that of ToolService's largest field.
	maxBytes = 64 << 20
	// maxTools and maxPages bound a list.
	maxTools = 100_000
	maxPages = 1000
	// maxDepth is how deep JSON may be nested.
	maxDepth = 256
	// dialTimeout bounds the way to the sidecar, and headersTimeout the wait for the head of an answer of TLS.
	dialTimeout = 10 * time.Second
)

// Revisions are the revisions of MCP that the client speaks, the newest first.
func Revisions() []string { return []string{modernRevision, "2025-11-25", "2025-06-18", "2025-03-26"} }

// forms are the URLs that [Open] takes, for errors.
const forms = "http(s)://HOST:PORT and grpc(s)://HOST:PORT (ToolService), http(s)://HOST:PORT/mcp, http(s)://HOST:PORT/rpc, " +
	"unix:///PATH, unix:///PATH:/mcp, unix:///PATH:/rpc"

// Options say where the sidecar is, and how to reach it.
type Options struct {
	// URL is one of the forms that its error lists.
	URL string
	// Token is asked before each request for its bearer token, which may change; nil for none. AllowPlaintext permits it beyond this
	// machine without TLS.
	Token          func() string
	AllowPlaintext bool
	// CAFile has the trusted CAs; empty is the system's.
	CAFile string
	// Revision of MCP; empty is the newest that the server has.
	Revision string
	// Version is that of the program, for the server's log.
	Version string
	// Ask answers the questions of tools; nil: the sidecar hears that the user cannot be asked. /rpc and MCP 2025-03-26 have none.
	Ask Asker
}

// errPlaintextToken reports a token that would cross a network without TLS.
var errPlaintextToken = errors.New("the token would cross the network without TLS: use https:// or grpcs://, or allow that with --insecure-token, if a mesh encrypts the connection")

// Open returns a client. It connects with its first request.
func Open(o Options) (Client, error) {
	address, path := splitSocket(o.URL)
	target, err := backend.ParseTarget(address)
	if err != nil {
		var wrong *backend.TargetError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%q: %s; forms: %s", wrong.Text, wrong.Reason, forms)
		}
		return nil, err
	}
	if target.IsSpread() {
		return nil, fmt.Errorf("%q: a sidecar is reached at one address; forms: %s", address, forms)
	}
	base := target.BaseURL()
	if path == "" {
		for _, edge := range []string{mcpPath, rpcPath} {
			if before, ok := strings.CutSuffix(base, edge); ok {
				base, path = before, edge
			}
		}
	}
	if o.Token != nil && !o.AllowPlaintext && !target.IsPrivate() {
		return nil, errPlaintextToken
	}
	if o.Revision != "" && !slices.Contains(Revisions(), o.Revision) {
		return nil, fmt.Errorf("MCP has no revision %q; known: %s", o.Revision, strings.Join(Revisions(), ", "))
	}
	protocol := target.Protocol()
	switch {
	case path != "" && protocol != backend.ProtocolUnknown:
		return nil, fmt.Errorf("%q: %s is not an edge of %s; use http:// or https://", o.URL, path, protocol)
	case o.Revision != "" && path != mcpPath:
		return nil, fmt.Errorf("%q speaks no MCP, so it has no revision; add /mcp to the URL", o.URL)
	}
	trusted, err := trust(o.CAFile, base)
	if err != nil {
		return nil, err
	}
	web := &http.Client{
		Transport:     transport(trusted, target, protocol == backend.ProtocolGRPC),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	p := post{client: web, url: base + path, shown: o.URL, token: o.Token}
	switch path {
	case mcpPath:
		return &mcp{post: p, wanted: o.Revision, version: o.Version, asks: o.Ask}, nil
	case rpcPath:
		return &rpc{post: p}, nil
	}
	return newToolService(p, base, protocol, o.Ask), nil
}

const (
	mcpPath = "/mcp"
	rpcPath = "/rpc"
)

// trust is the TLS configuration for a server; nil is the system's.
func trust(caFile, base string) (*tls.Config, error) {
	if caFile == "" {
		return nil, nil //nolint:nilnil // nil is valid: the system's CAs
	}
	at, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	c, err := keys.NewClient(keys.ClientOptions{CAFile: caFile, ServerName: at.Hostname()})
	if err != nil {
		return nil, err
	}
	return c.Config(), nil
}

// splitSocket splits unix:///PATH:/mcp.
func splitSocket(address string) (socket, path string) {
	if strings.HasPrefix(address, "unix://") {
		for _, edge := range []string{mcpPath, rpcPath} {
			if before, ok := strings.CutSuffix(address, ":"+edge); ok {
				return before, edge
			}
		}
	}
	return address, ""
}

// transport connects as the target says.
func transport(config *tls.Config, target backend.Target, isGRPC bool) *http.Transport {
	protocols := new(http.Protocols)
	switch {
	case isGRPC && target.TLS():
		protocols.SetHTTP2(true)
	case isGRPC:
		protocols.SetUnencryptedHTTP2(true)
	default:
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	out := &http.Transport{
		Protocols: protocols, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
		MaxResponseHeaderBytes: defaults.MaxMessageBytes,
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	out.DialContext = dialer.DialContext
	if path := target.Socket(); path != "" {
		out.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
	}
	return out
}
