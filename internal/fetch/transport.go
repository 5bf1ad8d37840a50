// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Options are how to reach servers. The zero value has the defaults.
type Options struct {
	// CAs sign the certificates of servers. Nil means those of the system.
	CAs *x509.CertPool
	// DockerConfig is the file with the credentials of registries. Empty means config.json in $DOCKER_CONFIG, or in ~/.docker.
	DockerConfig string
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
func (o Options) client() (*http.Client, func()) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.CAs},
		TLSHandshakeTimeout: handshakeTimeout, MaxResponseHeaderBytes: maxHeaderBytes, ForceAttemptHTTP2: true,
		// What is pinned is the file, not a compressed form of it.
		DisableCompression: true,
	}
	bounded := func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}
	return &http.Client{Transport: secured{transport}, CheckRedirect: bounded}, transport.CloseIdleConnections
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
