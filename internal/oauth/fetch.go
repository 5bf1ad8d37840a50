// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// fetcher sends requests to one issuer, bounded in size and time. It follows no redirect,
// because one could lead to any host.
type fetcher struct {
	client  *http.Client
	max     int
	timeout time.Duration
}

// maxConnections bounds connections to an issuer.
const maxConnections = 32

func newFetcher(cas *x509.CertPool, timeout time.Duration, most int) *fetcher {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cas},
		TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout, IdleConnTimeout: 10 * time.Second,
		MaxConnsPerHost: maxConnections, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &fetcher{client: &http.Client{Transport: transport, CheckRedirect: stay}, max: most, timeout: timeout}
}

// get returns the body of a response with status 200.
func (f *fetcher) get(ctx context.Context, from string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	return f.do(r)
}

// post sends a form with the credentials of a client (RFC 6749, section 2.3.1).
func (f *fetcher) post(ctx context.Context, to string, form url.Values, id, secret string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return f.do(r)
}

func (f *fetcher) do(r *http.Request) ([]byte, error) {
	ctx, stop := context.WithTimeout(r.Context(), f.timeout)
	defer stop()
	r.Header.Set("Accept", "application/json")
	answer, err := f.client.Do(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // nothing is lost: the body was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", bare(r.URL), answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, int64(f.max)+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > f.max:
		return nil, fmt.Errorf("the response of %s is larger than %d bytes", bare(r.URL), f.max)
	}
	return body, nil
}

// bare is a URL without its query.
func bare(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

func (f *fetcher) close() { f.client.CloseIdleConnections() }

// errInsecure refuses what could be read or changed on its way.
var errInsecure = errors.New("must be https; http is for loopback only")

// checkURL checks a URL of an issuer or of the resource.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Host == "" || u.User != nil || u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("must be a URL with a host, without user and fragment")
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, errInsecure
}
