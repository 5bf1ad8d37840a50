// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Trust is the switch that lets callers run destructive tools.
type Trust interface {
	// Trust returns the current state and the number of its changes.
	Trust() (state string, changes uint64)
	// SetTrust changes the state, logs who changed it, and returns the previous state.
	// For an unknown state it returns an error that lists the valid ones, and one with
	// [ErrUnavailable] where the change is for all replicas and they cannot be told.
	SetTrust(who, state string) (before string, err error)
}

const (
	// maxTrustBytes bounds the body of a change; the longest that says anything
	// has 23 bytes, and people indent.
	maxTrustBytes = 1 << 10
	// trustBodyTimeout bounds how long so short a body may take.
	trustBodyTimeout = 5 * time.Second
	// maxEchoed bounds how much of a caller's own text an answer repeats.
	maxEchoed = 64
)

// ErrUnavailable means that a change could not be stored for all replicas. The operator may try again.
var ErrUnavailable = errors.New("unavailable")

// trustAnswer is what /trust says. Before is set where there was a change to
// make.
type trustAnswer struct {
	Trust   string `json:"trust"`
	Before  string `json:"before,omitempty"`
	Changes uint64 `json:"changes"`
}

// refusal is the answer to a request that was not carried out.
type refusal struct {
	status int
	reason string
}

// trust shows and changes who may run destructive tools. Without authentication only
// this machine may ask, wherever the listener is bound, and no page of another site: a
// client that can change this can do everything that the tools can.
func (a *Admin) trust(w http.ResponseWriter, r *http.Request) {
	if a.options.Operators == nil && !isLocal(r) {
		refuse(w, refusal{http.StatusForbidden, "trust can only be changed from this machine"})
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		state, changes := a.options.Trust.Trust()
		answerJSON(w, http.StatusOK, trustAnswer{Trust: state, Changes: changes})
	case http.MethodPost:
		a.setTrust(w, r)
	default:
		for _, m := range [...]string{http.MethodGet, http.MethodHead, http.MethodPost} {
			w.Header().Add("Allow", m)
		}
		refuse(w, refusal{http.StatusMethodNotAllowed, "use GET or POST"})
	}
}

func (a *Admin) setTrust(w http.ResponseWriter, r *http.Request) {
	if !a.mayOr403(w, r, RoleOperate) {
		return
	}
	// A transport without deadlines has no slow peers either.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(trustBodyTimeout))
	wanted, refused := readTrust(w, r)
	if refused != nil {
		refuse(w, *refused)
		return
	}
	before, err := a.options.Trust.SetTrust(a.Operator(r.Context(), r.RemoteAddr), wanted)
	switch {
	case errors.Is(err, ErrUnavailable):
		w.Header().Set("Retry-After", "1")
		refuse(w, refusal{http.StatusServiceUnavailable, err.Error()})
		return
	case err != nil:
		refuse(w, refusal{http.StatusBadRequest, err.Error()})
		return
	}
	state, changes := a.options.Trust.Trust()
	answerJSON(w, http.StatusOK, trustAnswer{Trust: state, Before: before, Changes: changes})
}

// readTrust reads {"trust": "..."} and nothing else.
func readTrust(w http.ResponseWriter, r *http.Request) (string, *refusal) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return "", &refusal{http.StatusUnsupportedMediaType, "send application/json"}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return "", &refusal{http.StatusUnsupportedMediaType, "send plain JSON, without Content-Encoding"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTrustBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return "", &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxTrustBytes)}
	case err != nil:
		return "", &refusal{http.StatusBadRequest, "the body could not be read completely"}
	}
	state, reason := parseTrust(string(body))
	if reason != "" {
		return "", &refusal{http.StatusBadRequest, reason + `; want {"trust": "trusted"} or {"trust": "untrusted"}`}
	}
	return state, nil
}

// parseTrust reads the object member by member: encoding/json would let pass
// what this must not guess about, a repeated or differently spelt name.
func parseTrust(body string) (state, reason string) {
	if !json.Valid([]byte(body)) {
		return "", "the body is not JSON"
	}
	tokens := json.NewDecoder(strings.NewReader(body))
	if open, _ := tokens.Token(); open != json.Delim('{') {
		return "", "the body is not an object"
	}
	seen := false
	for tokens.More() {
		name, _ := tokens.Token()
		if name != "trust" {
			return "", fmt.Sprintf("unknown member %.*q", maxEchoed, name)
		}
		if seen {
			return "", "trust appears twice"
		}
		seen = true
		value, _ := tokens.Token()
		text, ok := value.(string)
		if !ok {
			return "", "trust is not a string"
		}
		state = text
	}
	if !seen {
		return "", "trust is missing"
	}
	return state, ""
}

// isLocal reports whether the peer of a request is on this machine.
func isLocal(r *http.Request) bool {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.Network() == "unix" {
		return true
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// isOwnPage holds for requests that no web page sent, and for pages that this
// listener served under a loopback name. Origins that may call tools may not do
// this: a page that a person only looks at must not become an operator.
func isOwnPage(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	origin, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || !strings.EqualFold(origin.Host, r.Host) {
		return false
	}
	name := origin.Hostname()
	return strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}

func refuse(w http.ResponseWriter, r refusal) {
	answerJSON(w, r.status, struct {
		Error string `json:"error"`
	}{r.reason})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the response cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_, _ = w.Write(append(body, '\n'))
}
