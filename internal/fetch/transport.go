// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// Options are how to reach servers. The zero value has the defaults. Files are read at each fetch, so that new certificates and
// rotated credentials are used without a restart.
type Options struct {
	// CAs sign the certificates of servers. Nil means those of CAFile.
	CAs *x509.CertPool
	// CAFile has CAs in PEM, which replace those of the system. Empty means those of the system.
	CAFile string
	// CredentialsFile has the credentials of servers for https://, a line for each: HOST bearer TOKEN, or HOST basic
	// USER:PASSWORD. Empty means none.
	CredentialsFile string
	// DockerConfig is the file with the credentials of registries. Empty means config.json in $DOCKER_CONFIG, or in ~/.docker.
	DockerConfig string
	// RunsHelpers has the programs run that DockerConfig names for credentials (credsStore, credHelpers).
	RunsHelpers bool
}

// CheckCAFile returns why CAFile cannot be used, nil if it can.
func (o Options) CheckCAFile() error {
	_, err := o.tls()
	return err
}

// CheckCredentialsFile returns why CredentialsFile cannot be used, nil if it can. The error has nothing of its secrets.
func (o Options) CheckCredentialsFile() error {
	_, err := o.hostCredentials()
	return err
}

const (
	// handshakeTimeout bounds a TLS handshake, so that the rest of the time is left for another address of the host.
	handshakeTimeout = 10 * time.Second
	// maxHeaderBytes bounds the header of a response.
	maxHeaderBytes = 64 << 10
	// maxRedirects bounds redirects. Stores of artifacts use one or two.
	maxRedirects = 5
)

// client returns a client for one fetch, and what ends it.
func (o Options) client() (*http.Client, func(), error) {
	config, err := o.tls()
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
		TLSHandshakeTimeout: handshakeTimeout, MaxResponseHeaderBytes: maxHeaderBytes, ForceAttemptHTTP2: true,
		// What is pinned is the file, not a compressed form of it.
		DisableCompression: true,
	}
	return &http.Client{Transport: secured{transport}, CheckRedirect: redirected}, transport.CloseIdleConnections, nil
}

// tls is how certificates of servers are checked.
func (o Options) tls() (*tls.Config, error) {
	config, err := tlsfiles.ReadClient(tlsfiles.ClientOptions{CAFile: o.CAFile})
	if err != nil {
		return nil, err
	}
	if o.CAs != nil {
		config.RootCAs = o.CAs
	}
	return config, nil
}

// redirected lets a client follow some redirects. Another server gets no credentials, also on another port or in a domain below,
// where net/http would send them; and no URL, which may have a signature.
func redirected(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if origin(r.URL) != origin(via[0].URL) {
		r.Header.Del("Authorization")
	}
	r.Header.Del("Referer")
	return nil
}

// origin is the server of a URL: scheme, host and port.
func origin(u *url.URL) string {
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	}
	return u.Scheme + "://" + strings.ToLower(host)
}

// secured refuses requests that anybody on the way could read or change. It sees redirects too, and requests to the token
// services that registries name.
type secured struct{ next http.RoundTripper }

func (s secured) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isSecure(r.URL) {
		if r.Body != nil {
			_ = r.Body.Close() // as a transport has to
		}
		return nil, fmt.Errorf("%s: %w", shown(r.URL), errInsecure)
	}
	return s.next.RoundTrip(r)
}

var errInsecure = errors.New("must be https; http is for loopback only")

// isSecure reports whether requests to a URL stay among those whom they concern.
func isSecure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// shown is a URL without its query, which may have a signature.
func shown(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// cause is an error of a request without the URL, which may have secrets.
func cause(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}
