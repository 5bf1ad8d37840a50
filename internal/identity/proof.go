// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
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
func (v *Verifier) verifyProof(shown *Credentials, jkt, ath string) (*proof, *fault) {
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

// replays remembers proofs until they are too old to be used again. They are in sets by the
// time at which they get too old, so that nothing has to be searched for what is old.
type replays struct {
	max    int
	maxAge time.Duration
	span   time.Duration // of one set

	mu   sync.Mutex
	sets map[int64]map[[16]byte]struct{}
	held int
}

// replaySets is the number of sets for the age of a proof.
const replaySets = 4

func newReplays(most int, maxAge time.Duration) *replays {
	return &replays{max: most, maxAge: maxAge, span: max(maxAge/replaySets, time.Millisecond), sets: map[int64]map[[16]byte]struct{}{}}
}

var errManyProofs = errors.New("too many DPoP proofs are remembered")

// add remembers a proof of a time. It reports false for one that was used before.
func (r *replays) add(jkt, jti string, at, now time.Time) (fresh bool, err error) {
	sum := sha256.Sum256([]byte(jkt + "\x00" + jti))
	id := [16]byte(sum[:16])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	for _, set := range r.sets {
		if _, ok := set[id]; ok {
			return false, nil
		}
	}
	if r.held >= r.max {
		return false, &unavailableError{Retry: time.Second, Cause: errManyProofs}
	}
	place := r.place(at.Add(r.maxAge))
	if r.sets[place] == nil {
		r.sets[place] = map[[16]byte]struct{}{}
	}
	r.sets[place][id] = struct{}{}
	r.held++
	return true, nil
}

func (r *replays) place(at time.Time) int64 { return at.UnixNano() / int64(r.span) }

// forget drops the sets whose proofs are all too old.
func (r *replays) forget(now time.Time) {
	for place, set := range r.sets {
		if place < r.place(now) {
			r.held -= len(set)
			delete(r.sets, place)
		}
	}
}

// nonces makes nonces that need no memory: a time, and a code over it.
type nonces struct {
	secret [32]byte
	every  time.Duration
}

func newNonces(every time.Duration) *nonces {
	n := &nonces{every: every}
	_, _ = rand.Read(n.secret[:]) // never fails
	return n
}

func (n *nonces) at(turn int64) string {
	code := hmac.New(sha256.New, n.secret[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(turn))
	_, _ = code.Write(b[:])
	return encode(code.Sum(nil)[:16])
}

func (n *nonces) turn(now time.Time) int64 { return now.UnixNano() / int64(n.every) }

// current is the nonce to use now.
func (n *nonces) current(now time.Time) string { return n.at(n.turn(now)) }

// accepts holds for the current nonce and the one before.
func (n *nonces) accepts(nonce string, now time.Time) bool {
	turn := n.turn(now)
	return hmac.Equal([]byte(nonce), []byte(n.at(turn))) || hmac.Equal([]byte(nonce), []byte(n.at(turn-1)))
}

// checkNonce checks the nonce of a proof where nonces are on.
func (v *Verifier) checkNonce(p *proof) *fault {
	if v.nonces == nil {
		return nil
	}
	if nonce, _ := p.claims["nonce"].(string); !v.nonces.accepts(nonce, time.Now()) {
		return bad(BadNonce, "the proof must have the nonce of the DPoP-Nonce header")
	}
	return nil
}
