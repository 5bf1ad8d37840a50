// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// TestTheTokenStaysAtTheDoor: in each mode and on each edge, the caller's token is
// nowhere but in the exchange: not in what the backend gets, in answers, in the log, in
// run records, in the audit trail, in spans or on a page for operators, while streams are
// open and after.
func TestTheTokenStaysAtTheDoor(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"none", "header", "exchange", "signed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := startSidecar(t, mode)
			before := len(s.received())
			tokens, all := map[string]string{}, edges()
			for name, e := range all {
				tokens[name] = canary(name)
				e.call(t, s, tokens[name])
			}
			s.pages(t)
			callsAre(t, s, before, tokens, all)
			s.rig.End()
			s.files(t)
			s.search(t)
			if n := s.asked(); (n > 0) != (mode == "exchange") {
				t.Errorf("%d tokens were exchanged in mode %s", n, mode)
			}
		})
	}
}

// callsAre checks in whose name the backend was called: each edge that calls it did so
// in the name of its caller, nothing came in the name of another, and the requests of
// the sidecar itself in none.
func callsAre(t *testing.T, s *sidecar, before int, tokens map[string]string, all map[string]edge) {
	t.Helper()
	named := names(t, s, tokens)
	seen, strange := map[string]bool{}, []string{}
	for i, r := range s.received() {
		name := named(r)
		switch {
		case name == "?":
			strange = append(strange, fmt.Sprintf("%s with authorization %q and subject %q", r.path, r.authorization, r.subject))
		case name != "" && (i < before || isOwn(r.path)):
			t.Errorf("the sidecar's own %s came in the name of %s", r.path, name)
		}
		seen[name] = true
	}
	if len(strange) > 0 {
		t.Errorf("%d requests reached the backend with what mode %s does not send, the first is %s", len(strange), s.mode, strange[0])
	}
	for name, e := range all {
		// Without authorization, refusals of the exchange are calls like any other.
		wanted := e.calls || strings.Contains(name, "rejected") || strings.Contains(name, "away")
		if s.mode == "exchange" {
			wanted = e.calls
		}
		if s.mode != "none" && wanted && !seen[name] {
			t.Errorf("the backend was not called in the name of %s", name)
		}
	}
}

// isOwn reports whether a request is one that no caller causes.
func isOwn(path string) bool {
	return strings.HasPrefix(path, "/grpc.") || strings.HasSuffix(path, "/Describe") || strings.HasSuffix(path, "/ListTools") ||
		strings.HasSuffix(path, "/Subscribe")
}

// names returns what tells the edge in whose name the backend was called: "" for none,
// "?" where something is there that must not be.
func names(t *testing.T, s *sidecar, tokens map[string]string) func(received) string {
	t.Helper()
	byValue := map[string]string{}
	for name, token := range tokens {
		byValue["Bearer "+exchangedFor(token)] = name
	}
	var keys jose.JSONWebKeySet
	if s.mode == "signed" {
		if err := json.Unmarshal([]byte(get(t, s.operators+"/jwks")), &keys); err != nil {
			t.Fatal(err)
		}
	}
	return func(r received) string {
		authorization, subject := one(r.authorization), strings.TrimPrefix(one(r.subject), issuer+"#")
		switch {
		case authorization == "" && subject == "":
			return ""
		case s.mode == "header" && authorization == "" && tokens[subject] != "":
			return subject
		case s.mode == "exchange" && subject == "" && byValue[authorization] != "":
			return byValue[authorization]
		case s.mode == "signed" && subject == "":
			if name := signedFor(authorization, keys); tokens[name] != "" {
				return name
			}
		}
		return "?"
	}
}

// one is the value of a header that may be there once; "?" is more.
func one(values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	return "?"
}

// signedFor is the subject of a signed token, "" where it is not right.
func signedFor(authorization string, keys jose.JSONWebKeySet) string {
	token, err := jwt.ParseSigned(strings.TrimPrefix(authorization, "Bearer "), []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return ""
	}
	var claims jwt.Claims
	if err := token.Claims(keys, &claims); err != nil || claims.Issuer != "https://sidecar.example.com" || !slices.Contains(claims.Audience, "shop") {
		return ""
	}
	return strings.TrimPrefix(claims.Subject, issuer+"#")
}
