// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
)

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
	body, err := io.ReadAll(io.LimitReader(resp.Body, x.opts.MaxResponseBytes+1))
	closeErr := resp.Body.Close()
	switch {
	case err != nil:
		return issued{}, 0, &awayError{why: "its response broke off", cause: transportCause(err)}
	case closeErr != nil:
		return issued{}, 0, &awayError{why: "its response broke off"}
	case int64(len(body)) > x.opts.MaxResponseBytes:
		return issued{}, 0, &awayError{why: fmt.Sprintf("its response exceeds %d bytes (backend.identity.exchange.max_response_bytes)", x.opts.MaxResponseBytes)}
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
		return errmap.New(errmap.Unauthenticated, errmap.Challenge(cmp.Or(challenge, access.Refuse(access.Unknown).Challenge)),
			errmap.Message("Authentication required: the authorization server does not exchange this access token for the backend ("+
				r.code+"); log in again"))
	}
	return errmap.New(errmap.PermissionDenied, errmap.Message(
		"Permission denied: the authorization server gives this caller no token for the backend ("+r.code+")"))
}
