// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
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
		text, err := keys.ReadFile(caFile, maxFileBytes)
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
	if x.config.GetClientSecretFile() == "" {
		return nil
	}
	return []string{x.config.GetClientSecretFile()}
}

// Reload reads the client secret again and reports whether it changed. After an error
// the last good one stays in use.
func (x *Exchanger) Reload() (changed bool, err error) {
	secret := ""
	if x.config.GetClientSecretFile() != "" {
		text, err := keys.ReadFile(x.config.GetClientSecretFile(), maxFileBytes)
		if err != nil {
			return false, fmt.Errorf("client secret: %w", err)
		}
		secret = strings.TrimSpace(string(text))
		if secret == "" || len(secret) > maxSecretBytes || strings.ContainsAny(secret, "\r\n") {
			return false, fmt.Errorf("client secret: %s must have one line of 1 to %d bytes", x.config.GetClientSecretFile(), maxSecretBytes)
		}
	}
	old := x.secret.Swap(&secret)
	return old != nil && *old != secret, nil
}

// request makes the request of an exchange.
func (x *Exchanger) request(ctx context.Context, subject string) (*http.Request, error) {
	form := url.Values{
		"grant_type": {grantType}, "subject_token": {subject}, "subject_token_type": {x.config.GetSubjectTokenType()},
		"requested_token_type": {x.config.GetRequestedTokenType()},
	}
	if len(x.config.GetAudience()) > 0 {
		form["audience"] = x.config.GetAudience()
	}
	if len(x.config.GetResource()) > 0 {
		form["resource"] = x.config.GetResource()
	}
	if len(x.config.GetScope()) > 0 {
		form.Set("scope", strings.Join(x.config.GetScope(), " "))
	}
	secret := *x.secret.Load()
	inBody := secret == "" || x.config.GetClientAuth() == "post"
	if inBody && x.config.GetClientId() != "" {
		form.Set("client_id", x.config.GetClientId())
	}
	if inBody && secret != "" {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.config.GetTokenUrl(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the request could not be made") // err could show the body
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if !inBody {
		// RFC 6749, section 2.3.1: both parts are form-encoded first.
		req.SetBasicAuth(url.QueryEscape(x.config.GetClientId()), url.QueryEscape(secret))
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

// maxTokenBytes bounds a token from an exchange, as the backend's other credentials are.
const maxTokenBytes = 16 << 10

// ask sends an exchange and reads the response. The duration is how long the outcome may
// be kept. An error means that there is no outcome.
func (x *Exchanger) ask(ctx context.Context, subject string) (issued, time.Duration, error) {
	req, err := x.request(ctx, subject)
	if err != nil {
		return issued{}, 0, err
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return issued{}, 0, &awayError{why: "it could not be reached, or did not answer in time", cause: transportCause(err)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, x.config.GetMaxResponseBytes()+1))
	closeErr := resp.Body.Close()
	switch {
	case err != nil:
		return issued{}, 0, &awayError{why: "its response broke off", cause: transportCause(err)}
	case closeErr != nil:
		return issued{}, 0, &awayError{why: "its response broke off"}
	case int64(len(body)) > x.config.GetMaxResponseBytes():
		return issued{}, 0, &awayError{why: fmt.Sprintf("its response exceeds %d bytes (backend.identity.exchange.max_response_bytes)", x.config.GetMaxResponseBytes())}
	}
	return read(resp, body, subject)
}

// transportCause is the innermost cause. A *url.Error around it would repeat the URL.
func transportCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// read tells what a complete response means.
func read(resp *http.Response, body []byte, subject string) (issued, time.Duration, error) {
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return readToken(body, subject)
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden:
		return readRejection(status, body)
	default: // redirects, overload, faults
		return issued{}, 0, &awayError{why: fmt.Sprintf("it answered with HTTP status %d", status), after: retryAfter(resp.Header)}
	}
}

// tokenResponse is the response of RFC 8693, section 2.2.1. Some servers write the
// lifetime as a string.
type tokenResponse struct {
	AccessToken     string          `json:"access_token"`
	IssuedTokenType string          `json:"issued_token_type"`
	TokenType       string          `json:"token_type"`
	ExpiresIn       json.RawMessage `json:"expires_in"`
}

// readToken reads a token. One that is the caller's own is refused: it must not reach
// the backend by this way either.
func readToken(body []byte, subject string) (issued, time.Duration, error) {
	var r tokenResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return issued{}, 0, &awayError{why: "its response is not the JSON of a token"} // the cause could show a part of it
	}
	life, known := lifetime(r.ExpiresIn)
	switch {
	case r.AccessToken == "" || len(r.AccessToken) > maxTokenBytes || !isToken(r.AccessToken):
		return issued{}, 0, &awayError{why: "its response has no token that a header can carry"}
	case r.AccessToken == subject:
		return issued{}, 0, &awayError{why: "it returned the caller's own token, which must not reach the backend"}
	case r.IssuedTokenType == typeRefreshToken:
		return issued{}, 0, &awayError{why: "it returned a refresh token"}
	case !strings.EqualFold(r.TokenType, "Bearer") && !strings.EqualFold(r.TokenType, "N_A"):
		return issued{}, 0, &awayError{why: "it returned a token that is no bearer token"}
	case !known:
		return issued{}, 0, &awayError{why: "its response has a lifetime that is no number"}
	}
	return issued{authorization: "Bearer " + r.AccessToken}, kept(life), nil
}

// lifetime reads expires_in. It reports false for what is no number.
func lifetime(raw json.RawMessage) (time.Duration, bool) {
	text := strings.Trim(string(raw), `"`)
	if len(raw) == 0 || text == "null" {
		return unknownLife, true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds != seconds { // NaN
		return 0, false
	}
	return time.Duration(max(0, min(seconds, maxLife.Seconds())) * float64(time.Second)), true
}

// kept is how long a token is used: not up to its end, because a call takes time and
// clocks differ.
func kept(life time.Duration) time.Duration {
	const margin, part = 30 * time.Second, 4
	return life - min(margin, life/part)
}

// isToken reports whether a token can be sent as a bearer token (RFC 6750, section 2.1).
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/=", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// rejection is an error response (RFC 6749, section 5.2; RFC 8693, section 2.2.2).
type rejection struct {
	code string
}

// readRejection reads an error response. A fault of the sidecar's own configuration, and
// what is no error response, are no rejection of the caller.
func readRejection(status int, body []byte) (issued, time.Duration, error) {
	var r struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return issued{}, 0, &awayError{why: fmt.Sprintf("it answered with HTTP status %d", status)}
	}
	switch r.Error {
	case "invalid_grant", "invalid_token", "interaction_required", "login_required", "consent_required",
		"access_denied", "invalid_target", "invalid_scope", "invalid_request":
		return issued{rejected: &rejection{code: r.Error}}, rejectedFor, nil
	case "invalid_client", "unauthorized_client", "unsupported_grant_type":
		return issued{}, 0, &awayError{why: "it does not let the sidecar exchange tokens (" + r.Error + "); check backend.identity.exchange"}
	}
	return issued{}, 0, &awayError{why: fmt.Sprintf("it answered with HTTP status %d and an unknown error", status)}
}

// canonical is the caller's error. The description of the authorization server is not in
// it, because it could repeat a token.
func (r *rejection) canonical(challenge string) *errmap.Error {
	switch r.code {
	case "invalid_grant", "invalid_token", "interaction_required", "login_required", "consent_required":
		return errmap.New(errmap.Unauthenticated, errmap.Challenge(cmp.Or(challenge, identity.Refuse(identity.Unknown).Challenge)),
			errmap.Message("Authentication required: the authorization server does not exchange this access token for the backend ("+
				r.code+"); log in again"))
	}
	return errmap.New(errmap.PermissionDenied, errmap.Message(
		"Permission denied: the authorization server gives this caller no token for the backend ("+r.code+")"))
}

// masked replaces a token in every text form.
const masked = "[redacted]"

// token is the access token of a caller while its request runs. Only an Exchanger reads
// it. It formats as a mask in every way.
type token struct {
	text atomic.Pointer[string]
	// ended is closed with the request, a moment before the text is dropped on another
	// goroutine.
	ended <-chan struct{}
}

// tokenKey is the context key of the caller's token.
type tokenKey struct{}

// WithToken returns a context that carries the caller's access token for an [Exchanger].
// The token is dropped when ctx ends, which is when the request does: tasks and other
// work that outlives the request cannot use it and do not keep it.
func WithToken(ctx context.Context, text string) context.Context {
	t := &token{ended: ctx.Done()}
	t.text.Store(&text)
	context.AfterFunc(ctx, t.forget)
	return context.WithValue(ctx, tokenKey{}, t)
}

// tokenFrom returns the caller's token, or "" if there is none or the request has ended.
func tokenFrom(ctx context.Context) string {
	t, _ := ctx.Value(tokenKey{}).(*token)
	if t == nil {
		return ""
	}
	select {
	case <-t.ended:
		return ""
	default:
	}
	if text := t.text.Load(); text != nil {
		return *text
	}
	return ""
}

func (t *token) forget() { t.text.Store(nil) }

// String returns a mask.
func (*token) String() string { return masked }

// GoString returns a mask for %#v.
func (*token) GoString() string { return masked }

// Format writes a mask for every verb.
func (*token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalJSON returns a mask.
func (*token) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// MarshalText returns a mask.
func (*token) MarshalText() ([]byte, error) { return []byte(masked), nil }
