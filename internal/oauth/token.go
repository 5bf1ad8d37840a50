// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxClaimDepth bounds the nesting of a token's header and claims.
const maxClaimDepth = 16

// decode decodes a part of a token. It is strict, so that a token has one spelling.
func decode(part string) ([]byte, error) { return base64.RawURLEncoding.Strict().DecodeString(part) }

// token is a JWT that has been parsed and not been verified.
type token struct {
	raw    string
	alg    string
	kid    string
	typ    string
	issuer string
	header map[string]any
	claims map[string]any
}

// kind is what a token is by its form.
type kind uint8

const (
	opaque kind = iota
	signed
	encrypted
)

// kindOf tells JWTs from other tokens: by the number of parts, and by a first part that is a
// JSON object.
func kindOf(raw string) kind {
	head, rest, ok := strings.Cut(raw, ".")
	if !ok {
		return opaque
	}
	dots := strings.Count(rest, ".") + 1
	if dots != 2 && dots != 4 {
		return opaque
	}
	if text, err := decode(head); err != nil || !jsontext.IsObject(text) {
		return opaque
	}
	if dots == 4 {
		return encrypted
	}
	return signed
}

// parse parses a signed token.
func parse(raw string) (*token, *fault) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil, bad(BadClaims, "the token is no JWT")
	}
	t := &token{raw: raw}
	var ok bool
	if t.header, ok = object(parts[0]); !ok {
		return nil, bad(BadClaims, "the header of the token is malformed")
	}
	if t.claims, ok = object(parts[1]); !ok {
		return nil, bad(BadClaims, "the claims of the token are malformed")
	}
	if f := t.readHeader(); f != nil {
		return nil, f
	}
	t.issuer, _ = t.claims["iss"].(string)
	return t, nil
}

// readHeader reads the members of the header that matter. Others, such as jku, x5u and jwk,
// are ignored: keys come from the issuer alone.
func (t *token) readHeader() *fault {
	for name, to := range map[string]*string{"alg": &t.alg, "kid": &t.kid, "typ": &t.typ} {
		value, present := t.header[name]
		if *to, _ = value.(string); present && *to == "" {
			return bad(BadClaims, "the header of the token is malformed")
		}
	}
	if _, ok := t.header["crit"]; ok {
		return bad(BadType, "the token has a critical header that is not supported")
	}
	if _, ok := t.header["b64"]; ok {
		return bad(BadType, "the token has an unencoded payload")
	}
	return nil
}

// object decodes a part of a token: a JSON object without duplicate names.
func object(part string) (map[string]any, bool) {
	text, err := decode(part)
	if err != nil {
		return nil, false
	}
	return strictObject(text)
}

func strictObject(text []byte) (map[string]any, bool) {
	if !jsontext.IsObject(text) || jsontext.Check(text, maxClaimDepth) != nil {
		return nil, false
	}
	var out map[string]any
	if json.Unmarshal(text, &out) != nil {
		return nil, false
	}
	return out, true
}

// isB64Token holds for the token68 of RFC 9110, which is the b64token of RFC 6750.
func isB64Token(raw string) bool {
	body := strings.TrimRight(raw, "=")
	for i := range len(body) {
		c := body[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return body != ""
}
