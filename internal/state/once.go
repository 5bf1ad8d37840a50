// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"time"
)

// onceMark is the size of what tells one use of a token from another: 128 random bits.
const onceMark = 16

// onceBytes bounds one value with the headers of its message, which NATS counts too.
const onceBytes = 1024

// OnceOptions declare what [Client.Once] remembers.
type OnceOptions struct {
	// Name is the kind of the tokens, such as "consents".
	Name string
	// MaxBytes bounds all that is remembered. A token takes about 300 bytes until it expires.
	MaxBytes int64
	// MaxAge is the longest lifetime that a token may ever have, also by later settings: the bucket stays as it was made.
	MaxAge time.Duration
}

// Once remembers tokens that may be used only once, by any replica. Make one with
// [Client.Once].
type Once struct {
	bucket *Bucket
	now    func() time.Time
}

// Once declares what is remembered. [Client.Run] makes the bucket.
func (c *Client) Once(o OnceOptions) *Once { return &Once{bucket: c.Bucket(o.bucket()), now: time.Now} }

// bucket is where tokens are remembered. A token that is forgotten could be used again.
func (o OnceOptions) bucket() BucketOptions {
	return BucketOptions{Name: o.Name, MaxBytes: o.MaxBytes, MaxValueBytes: onceBytes, MaxAge: o.MaxAge, KeepsAll: true}
}

// Spend reports whether the token may be used: it returns true exactly once for each token
// until the given time, which is the token's own expiry. After an error the token may have
// been used: [ErrFull], [ErrUnavailable] and the cause of ctx. Pass only tokens that were
// opened. Otherwise any caller could fill the bucket.
func (o *Once) Spend(ctx context.Context, token string, until time.Time) (bool, error) {
	left := until.Sub(o.now())
	if left <= 0 {
		return false, nil
	}
	sum := sha256.Sum256([]byte(token))
	key := base64.RawURLEncoding.EncodeToString(sum[:])
	var mark [onceMark]byte
	_, _ = rand.Read(mark[:]) // it never fails (crypto/rand)
	_, err := o.bucket.Create(ctx, key, mark[:], left)
	if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		// It may have been stored, and the word of it lost. A token that no one has used must not count as used for that.
		_, err = o.bucket.Create(ctx, key, mark[:], left)
		if errors.Is(err, ErrExists) {
			return o.isOurs(ctx, key, mark[:])
		}
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrExists):
		return false, nil
	}
	return false, err
}

// isOurs reports whether a key was stored by this use of its token.
func (o *Once) isOurs(ctx context.Context, key string, mark []byte) (bool, error) {
	e, err := o.bucket.Get(ctx, key)
	switch {
	case err == nil:
		return subtle.ConstantTimeCompare(e.Value, mark) == 1, nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnreadable):
		return false, nil
	}
	return false, err
}
