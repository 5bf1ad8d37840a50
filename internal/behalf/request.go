// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// grantType is that of a token exchange (RFC 8693, section 2.1).
const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"

// maxFileBytes bounds files of secrets, keys and CAs.
const maxFileBytes = 1 << 20

// maxSecretBytes bounds a client secret.
const maxSecretBytes = 4096

// CheckURL returns an error if a token endpoint is not https, or http on loopback.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Fragment != "" || u.User != nil {
		return errors.New("the token endpoint must be a URL with a host, without user and fragment")
	}
	switch {
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("the token endpoint must use https; http is only for loopback")
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// newClient returns an HTTP client that follows no redirect, because a redirect would
// take a caller's token elsewhere.
func newClient(caFile string, timeout time.Duration) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		text, err := tlsfiles.Read(caFile, maxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CA file %s: no certificate", caFile)
		}
	}
	const headerBytes = 64 << 10
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: maxExchanges, MaxConnsPerHost: maxExchanges,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: headerBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Files returns the files to watch.
func (x *Exchanger) Files() []string {
	if x.opts.ClientSecretFile == "" {
		return nil
	}
	return []string{x.opts.ClientSecretFile}
}

// Reload reads the client secret again and reports whether it changed. After an error
// the last good one stays in use.
func (x *Exchanger) Reload() (changed bool, err error) {
	secret := ""
	if x.opts.ClientSecretFile != "" {
		text, err := tlsfiles.Read(x.opts.ClientSecretFile, maxFileBytes)
		if err != nil {
			return false, fmt.Errorf("client secret: %w", err)
		}
		secret = strings.TrimSpace(string(text))
		if secret == "" || len(secret) > maxSecretBytes || strings.ContainsAny(secret, "\r\n") {
			return false, fmt.Errorf("client secret: %s must have one line of 1 to %d bytes", x.opts.ClientSecretFile, maxSecretBytes)
		}
	}
	old := x.secret.Swap(&secret)
	return old != nil && *old != secret, nil
}

// request makes the request of an exchange.
func (x *Exchanger) request(ctx context.Context, subject string) (*http.Request, error) {
	form := url.Values{
		"grant_type": {grantType}, "subject_token": {subject}, "subject_token_type": {x.opts.SubjectTokenType},
		"requested_token_type": {x.opts.RequestedTokenType},
	}
	if len(x.opts.Audiences) > 0 {
		form["audience"] = x.opts.Audiences
	}
	if len(x.opts.Resources) > 0 {
		form["resource"] = x.opts.Resources
	}
	if len(x.opts.Scopes) > 0 {
		form.Set("scope", strings.Join(x.opts.Scopes, " "))
	}
	secret := *x.secret.Load()
	inBody := secret == "" || x.opts.SecretInBody
	if inBody && x.opts.ClientID != "" {
		form.Set("client_id", x.opts.ClientID)
	}
	if inBody && secret != "" {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.opts.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the request could not be made") // err could show the body
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if !inBody {
		// RFC 6749, section 2.3.1: both parts are form-encoded first.
		req.SetBasicAuth(url.QueryEscape(x.opts.ClientID), url.QueryEscape(secret))
	}
	return req, nil
}

// retryAfter reads the header in seconds; 0 if it has none.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxLife)
}
