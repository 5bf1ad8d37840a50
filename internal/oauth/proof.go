// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"crypto"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// maxProofBytes bounds a proof; one with a large RSA key has less than 4 KiB. maxJTIBytes
// bounds its identifier.
const maxProofBytes, maxJTIBytes = 8 << 10, 256

// proof is a DPoP proof that has been parsed (RFC 9449, section 4.2).
type proof struct {
	*token

	jkt string // the thumbprint of the key that signed it
	at  time.Time
	jti string
}

// verifyProof checks a proof but for its use before (RFC 9449, section 4.3).
func (v *Verifier) verifyProof(shown *access.Credentials, jkt, ath string) (*proof, *fault) {
	if len(shown.Proofs) != 1 || shown.Proofs[0] == "" {
		return nil, bad(BadProof, "send one DPoP header with a proof")
	}
	p, f := v.parseProof(shown.Proofs[0])
	if f != nil {
		return nil, f
	}
	if p.jkt != jkt {
		return nil, bad(BadProof, "the proof has another key than the token")
	}
	for _, check := range []struct {
		ok   bool
		text string
	}{
		{p.claims["htm"] == shown.Method, "the proof is for another method"},
		{isSameURL(p.claims["htu"], v.origin+shown.Path), "the proof is for another URL"},
		{p.claims["ath"] == ath, "the proof is for another token"},
		{time.Since(p.at).Abs() <= v.opts.DPoP.MaxAge, "the proof is too old, or from the future"},
	} {
		if !check.ok {
			return nil, bad(BadProof, check.text)
		}
	}
	return p, v.checkNonce(p)
}

// parseProof parses a proof and verifies its signature.
func (v *Verifier) parseProof(raw string) (*proof, *fault) {
	malformed := bad(BadProof, "the proof is malformed")
	if len(raw) > maxProofBytes {
		return nil, malformed
	}
	t, f := parse(raw)
	if f != nil || strings.ToLower(t.typ) != "dpop+jwt" || !v.algorithms.accepts(t.alg) {
		return nil, malformed
	}
	p := &proof{token: t}
	var ok bool
	p.jti, _ = t.claims["jti"].(string)
	if p.at, ok = moment(t.claims["iat"]); !ok || p.jti == "" || len(p.jti) > maxJTIBytes {
		return nil, malformed
	}
	if p.jkt = v.verifySelfSigned(raw, t.alg); p.jkt == "" {
		return nil, bad(BadProof, "the signature of the proof is wrong")
	}
	return p, nil
}

// verifySelfSigned verifies a proof with the public key in its own header, and returns the
// thumbprint of the key; empty if anything is wrong.
func (v *Verifier) verifySelfSigned(raw, alg string) string {
	signed, err := jose.ParseSignedCompact(raw, v.algorithms)
	if err != nil {
		return ""
	}
	k := signed.Signatures[0].Protected.JSONWebKey
	if k == nil || !k.Valid() || !k.IsPublic() || !isSafe(k.Key) || !fits(k.Key, alg) {
		return ""
	}
	if _, err := signed.Verify(k.Key); err != nil {
		return ""
	}
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return ""
	}
	return encode(sum)
}

// isSameURL compares the URL of a proof with that of the request, after normalisation and
// without query and fragment.
func isSameURL(claimed any, want string) bool {
	text, _ := claimed.(string)
	got, err := url.Parse(text)
	if err != nil || got.Host == "" || got.User != nil {
		return false
	}
	ours, err := url.Parse(want)
	return err == nil && normal(got) == normal(ours)
}

// normal is a URL in normal form, without query and fragment.
func normal(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := map[string]string{"https": ":443", "http": ":80"}[scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return scheme + "://" + host + orElse(u.EscapedPath(), "/")
}
