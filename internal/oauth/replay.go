// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

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
		return false, &access.Unavailable{Retry: time.Second, Cause: errManyProofs}
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
