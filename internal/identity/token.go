// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxClaimDepth bounds the nesting of a token's header and claims.
const maxClaimDepth = 16

// decode decodes a part of a token. It is strict, so that a token has one spelling.
func decode(part string) ([]byte, error) { return base64.RawURLEncoding.Strict().DecodeString(part) }

// token is a JWT that has been parsed and not yet verified.
type token struct {
	raw    string
	alg    string
	kid    string
	typ    string
	issuer string
	header map[string]any
	claims map[string]any
}

// kind is the form of a token.
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

// maxSubjectBytes bounds the subject of a token, which becomes the name of a caller.
const maxSubjectBytes = 1024

// maxNames bounds the groups and the scopes of a token.
const maxNames = 4096

// checkType checks the type of a token.
func checkType(typ string, strict bool) *fault {
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "at+jwt":
		return nil
	case "jwt", "":
		if !strict {
			return nil
		}
	}
	return bad(BadType, "the token is of a type that is not accepted")
}

// span is the time for which a token is valid, without leeway.
type span struct{ from, to time.Time }

// spanOf reads exp, nbf and iat. A missing exp is a zero time.
func spanOf(claims map[string]any) (span, *fault) {
	var s span
	var at [3]time.Time
	for i, name := range []string{"exp", "nbf", "iat"} {
		value, ok := claims[name]
		if !ok {
			continue
		}
		if at[i], ok = moment(value); !ok {
			return s, bad(BadClaims, "the token has a malformed "+name)
		}
	}
	s.to, s.from = at[0], at[1]
	if at[2].After(s.from) {
		s.from = at[2]
	}
	return s, nil
}

// moment is a NumericDate between the years 1970 and 9999.
func moment(value any) (time.Time, bool) {
	const most = 253402300799
	n, ok := value.(float64)
	if !ok || !(n > 0 && n <= most) {
		return time.Time{}, false
	}
	whole, part := math.Modf(n)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// check compares the span with the clock.
func (s span) check(now time.Time, leeway time.Duration) *fault {
	switch {
	case s.to.IsZero():
		return bad(BadClaims, "the token has no expiry")
	case !now.Before(s.to.Add(leeway)):
		return bad(Expired, "the token has expired")
	case s.from.After(now.Add(leeway)):
		return bad(Early, "the token is not valid yet")
	}
	return nil
}

// subjectOf reads the subject.
func subjectOf(claims map[string]any) (string, *fault) {
	sub, _ := claims["sub"].(string)
	switch {
	case sub == "":
		return "", bad(BadClaims, "the token has no subject")
	case len(sub) > maxSubjectBytes:
		return "", bad(BadClaims, "the subject of the token is too long")
	}
	return sub, nil
}

// checkAudience looks for one of the accepted audiences.
func checkAudience(claims map[string]any, resource string, others []string) *fault {
	found, ok := names(claims["aud"], false)
	if !ok {
		return bad(BadClaims, "the token has a malformed audience")
	}
	for _, aud := range found {
		if strings.TrimSuffix(aud, "/") == resource || slices.Contains(others, aud) {
			return nil
		}
	}
	return bad(BadAudience, "the token is for another resource")
}

// names reads a string or an array of strings; nothing for nil. A string is a list with spaces
// where split is set.
func names(value any, split bool) ([]string, bool) {
	switch v := value.(type) {
	case nil:
		return nil, true
	case string:
		if split {
			return strings.Fields(v), true
		}
		return []string{v}, true
	case []any:
		if len(v) > maxNames {
			return nil, false
		}
		out := make([]string, 0, len(v))
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, false
			}
			out = append(out, text)
		}
		return out, true
	}
	return nil, false
}

// claimAt finds a claim by its name, or else by a path with dots.
func claimAt(claims map[string]any, path string) any {
	if value, ok := claims[path]; ok || path == "" {
		return value
	}
	at := claims
	for {
		name, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			return at[name]
		}
		inner, ok := at[name].(map[string]any)
		if !ok {
			return nil
		}
		at, path = inner, rest
	}
}

// binding is what a token is bound to; empty members for nothing (RFC 7800).
type binding struct {
	// jkt is the thumbprint of the client's key (RFC 9449), x5t that of its certificate
	// (RFC 8705).
	jkt, x5t string
}

// bindingOf reads the claim cnf. A way of binding that cannot be checked is a fault.
func bindingOf(claims map[string]any) (binding, *fault) {
	var b binding
	value, present := claims["cnf"]
	if !present {
		return b, nil
	}
	cnf, _ := value.(map[string]any)
	b.jkt, _ = cnf["jkt"].(string)
	b.x5t, _ = cnf["x5t#S256"].(string)
	known := 0
	for _, text := range []string{b.jkt, b.x5t} {
		if text != "" {
			known++
		}
	}
	if known == 0 || known != len(cnf) {
		return b, bad(BadBinding, "the token is bound in a way that is not supported")
	}
	return b, nil
}

// checkCertificate compares the certificate of the connection with the one of the token.
func (b binding) checkCertificate(shown *Credentials) *fault {
	if b.x5t == "" {
		return nil
	}
	if len(shown.Certificate) == 0 {
		return bad(BadBinding, "the token is bound to a client certificate, and the connection has none")
	}
	sum := sha256.Sum256(shown.Certificate)
	if subtle.ConstantTimeCompare([]byte(encode(sum[:])), []byte(b.x5t)) != 1 {
		return bad(BadBinding, "the token is bound to another client certificate")
	}
	return nil
}

// checkScheme compares the scheme of the credentials with the binding.
func (b binding) checkScheme(shown *Credentials, required bool) *fault {
	switch {
	case shown.DPoP && b.jkt == "":
		return bad(BadBinding, "the token is not bound to a key")
	case !shown.DPoP && b.jkt != "":
		return bad(BadBinding, "the token is bound to a key: use the scheme DPoP with a proof")
	case required && b.jkt == "":
		return bad(BadBinding, "tokens must be bound to a key")
	}
	return nil
}

// factsOf is what the claims say about a caller.
func factsOf(i *issuer, s Subject, claims map[string]any) (Facts, *fault) {
	f := Facts{Source: SourceOAuth, Issuer: s.Issuer, Subject: s.Name, Claims: claims}
	for _, name := range []string{"client_id", "azp", "appid", "cid"} {
		if id, _ := claims[name].(string); id != "" {
			f.ClientID = id
			break
		}
	}
	for name, value := range map[string]any{"scope": claims["scope"], "scp": claims["scp"], "roles": claimAt(claims, i.opts.RolesClaim)} {
		scopes, ok := names(value, name != "roles")
		if !ok {
			return f, bad(BadClaims, "the token has malformed scopes or roles")
		}
		f.Scopes = append(f.Scopes, scopes...)
	}
	slices.Sort(f.Scopes)
	f.Scopes = slices.Compact(f.Scopes)
	return f, readGroups(&f, i.opts.GroupsClaim)
}

// readGroups reads the groups. Where there are too many for a token, Entra writes where to
// find them (_claim_names): then they are unknown.
func readGroups(f *Facts, claim string) *fault {
	if claim == "" {
		return nil
	}
	var ok bool
	if f.Groups, ok = names(claimAt(f.Claims, claim), false); !ok {
		return bad(BadClaims, "the token has malformed groups")
	}
	elsewhere, _ := f.Claims["_claim_names"].(map[string]any)
	if _, moved := elsewhere[claim]; moved || f.Claims["hasgroups"] == true {
		f.Groups, f.GroupsUnknown = nil, true
	}
	return nil
}

// subjectName returns the name of a caller: ISSUER#SUBJECT, in printable ASCII. No entry of a
// callers file can have it.
func subjectName(s Subject) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(s.Issuer)
	b.WriteByte('#')
	for i := range len(s.Name) {
		if c := s.Name[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// identify makes the identity of a token: that of the entry of the callers file that claims the
// subject, or one with the permissions of all OAuth callers.
func (v *Verifier) identify(e *verified) {
	e.above = v.opts.Book.Claimed(e.subject)
	grant, facts := v.opts.Grant, e.facts
	grant.Name = subjectName(e.subject)
	if e.above != nil {
		grant, facts.Entry = e.above.Grant(), true
		facts.Groups = append(slices.Clone(facts.Groups), e.above.Facts().Groups...)
	}
	e.who = newLeased(grant, facts, e.lease, e.above)
}

// Again returns the caller of a token that is gone, as it is now, by what the token said and by its [Identity.Standing] then. It is nil
// where that is not known: another issuer, one that is asked about its tokens, or another entry of the callers file. It ends with its
// entry, else never. It is nil for a nil Verifier.
func (v *Verifier) Again(f Facts, standing []byte) *Identity {
	if v == nil || f.Source != SourceOAuth {
		return nil
	}
	i := v.byURL[route(f.Issuer)]
	if i == nil || i.asked != nil || i.name() != "" && i.name() != f.Issuer {
		return nil
	}
	above := v.opts.Book.Claimed(Subject{Issuer: f.Issuer, Name: f.Subject})
	if now := standingOf(above); (above == nil) != (len(standing) == 0) || !bytes.Equal(now, standing) {
		return nil
	}
	grant := v.opts.Grant
	grant.Name, f.Entry = subjectName(Subject{Issuer: f.Issuer, Name: f.Subject}), false
	if above != nil {
		grant, f.Entry = above.Grant(), true
	}
	ends := time.Now().Add(keptFor)
	return newLeased(grant, f, newLease(ends, ends, nil), above)
}

// keptFor is longer than anything is kept of a caller.
const keptFor = 365 * 24 * time.Hour

// claimed returns the token with the entry of the callers file as it is now. Where that has
// changed, the token gets another identity, and the one before ends.
func (v *Verifier) claimed(e *verified, digest *Digest, now time.Time) *verified {
	if v.opts.Book.Claimed(e.subject) == e.above {
		return e
	}
	again := *e
	again.lease = e.lease.Renew()
	v.identify(&again)
	v.tokens.put(digest, &again, now)
	e.lease.End()
	return &again
}

// The reasons for refusing a token, besides those that credentials of any kind may have ([Reasons]).
const (
	// UnknownIssuer means that no configured issuer made the token.
	UnknownIssuer Reason = "issuer"
	// BadType means that the token is of a type that is not accepted, or encrypted.
	BadType Reason = "type"
	// BadAlgorithm means that its signature algorithm is not accepted.
	BadAlgorithm Reason = "algorithm"
	// UnknownKey means that its issuer does not publish the key that signed it.
	UnknownKey Reason = "key"
	// BadSignature means that the key does not verify the signature.
	BadSignature Reason = "signature"
	// BadClaims means that a claim is missing or not what it has to be.
	BadClaims Reason = "claims"
	// Expired and Early mean that the token is not valid any more, or not yet.
	Expired Reason = "expired"
	Early   Reason = "early"
	// BadAudience means that the token is for another resource.
	BadAudience Reason = "audience"
	// Inactive means that the issuer says that the token is not active.
	Inactive Reason = "inactive"
	// BadBinding means that the token is bound to another key, certificate or scheme.
	BadBinding Reason = "binding"
	// BadProof means that the DPoP proof is missing or wrong.
	BadProof Reason = "proof"
	// BadNonce means that the DPoP proof needs a nonce, or another one.
	BadNonce Reason = "nonce"
)

// VerifierReasons returns the reasons of a [Verifier] in order. They begin with [Scheme], for which no other
// authenticator has a use.
func VerifierReasons() []Reason {
	return []Reason{
		Scheme, UnknownIssuer, BadType, BadAlgorithm, UnknownKey, BadSignature, BadClaims, Expired, Early, BadAudience,
		Inactive, BadBinding, BadProof, BadNonce,
	}
}

// fault is what is wrong with a token or a proof. The text is safe in a quoted string, and
// has nothing of the token.
type fault struct {
	reason Reason
	text   string
}

// Error implements error.
func (f *fault) Error() string { return f.text }

func bad(why Reason, text string) *fault { return &fault{why, text} }

// Refuse implements [Refuser].
func (v *Verifier) Refuse(why Reason, shown Credentials) *Refusal {
	r := &Refusal{Reason: why}
	var detail string
	switch why {
	case Malformed:
		r.Invalid, detail = true, `error="invalid_request"`
		r.Text = "send one Authorization header, and no token in the query: Bearer TOKEN, or DPoP TOKEN with one proof"
	case Scheme:
		r.Text = "send Authorization: Bearer TOKEN with every request; other schemes are not accepted"
	case Missing:
	default:
		detail = `error="invalid_token"`
	}
	r.Challenge = v.bearer(detail)
	if shown.DPoP || v.opts.DPoP.Required {
		r.Challenge += ", " + v.dpop("")
	}
	return r
}

// refuseToken is the refusal of a token or of its proof. The scheme that was used carries the
// error.
func (v *Verifier) refuseToken(f *fault, shown *Credentials) *Refusal {
	r := &Refusal{Reason: f.reason, Text: f.text}
	code, describe := "invalid_token", `, error_description="`+f.text+`"`
	switch f.reason {
	case BadProof:
		code = "invalid_dpop_proof"
	case BadNonce:
		code, r.Nonce = "use_dpop_nonce", v.nonces.current(time.Now())
	}
	detail := `error="` + code + `"` + describe
	switch {
	case shown.DPoP:
		r.Challenge = v.bearer("") + ", " + v.dpop(detail)
	case f.reason == BadBinding || v.opts.DPoP.Required:
		r.Challenge = v.bearer(detail) + ", " + v.dpop("")
	default:
		r.Challenge = v.bearer(detail)
	}
	return r
}

// bearer is the challenge of RFC 6750 and RFC 9728.
func (v *Verifier) bearer(detail string) string {
	parts := []string{detail, `resource_metadata="` + v.metadata + `"`, ""}
	if v.opts.Scope != nil {
		if scope := v.opts.Scope(); scope != "" {
			parts[2] = `scope="` + scope + `"`
		}
	}
	return "Bearer " + join(parts)
}

// dpop is the challenge of RFC 9449.
func (v *Verifier) dpop(detail string) string {
	return "DPoP " + join([]string{detail, `algs="` + strings.Join(v.opts.Algorithms, " ") + `"`})
}

// join joins what is not empty.
func join(parts []string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
