// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BucketOptions declare a bucket.
type BucketOptions struct {
	// Name is the kind of what it holds, such as "tasks".
	Name string
	// MaxBytes is the size of all values with their keys. MaxValueBytes is that of one, sealed
	// and with some 150 bytes of headers; zero leaves it to the servers' max_payload.
	MaxBytes, MaxValueBytes int64
	// MaxAge is the longest lifetime of a value; zero is [Forever]. Every write has its own lifetime.
	MaxAge time.Duration
	// KeepsAll refuses a ready-made bucket that deletes values before MaxAge. It goes without saying where MaxAge is Forever.
	KeepsAll bool
}

// Bucket keeps values by key. Make one with [Client.Bucket].
type Bucket struct {
	home
	opts   BucketOptions
	prefix string // of subjects
	fresh  fresh
}

// Entry is a value with its revision.
type Entry struct {
	Key   string
	Value []byte
	// Revision is what an update compares. It grows with each write to the bucket.
	Revision uint64
	// Gone means that the key was deleted or has expired; there is no value. Only watchers
	// see such entries.
	Gone bool
	// Expired means that it is gone because its lifetime was over.
	Expired bool
	// At is when NATS stored it, by the clock of the server.
	At time.Time
	// Err is [ErrUnreadable] where the value cannot be opened. Only watchers see such
	// entries.
	Err error
}

// keyPattern is that of keys: tokens of a subject, of what base64url needs.
var keyPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_=-]{1,128}(\.[A-Za-z0-9_=-]{1,128}){0,3}$`)
})

const (
	headerOperation = "KV-Operation"
	headerRollup    = "Nats-Rollup"
	headerMarker    = "Nats-Marker-Reason"
	headerMark      = "Outrigger-Mark" // tells one deletion from another
	markerExpired   = "MaxAge"
	operationPurge  = "PURGE"
	rollupSubject   = "sub"
)

// Bucket declares a bucket. [Client.Run] makes it.
func (c *Client) Bucket(o BucketOptions) *Bucket {
	name := c.prefix() + o.Name
	b := &Bucket{opts: o, prefix: "$KV." + name + "."}
	b.home = home{client: c, kind: o.Name, config: jetstream.StreamConfig{
		Name:        "KV_" + name,
		Description: "outrigger: " + o.Name,
		Subjects:    []string{b.prefix + ">"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		// The last value of a key, and nothing before it.
		MaxMsgsPerSubject: 1,
		MaxBytes:          o.MaxBytes,
		MaxMsgSize:        int32(o.MaxValueBytes),
		MaxAge:            o.MaxAge,
		Storage:           c.storage(),
		Replicas:          c.replicas,
		AllowRollup:       true,
		DenyDelete:        true,
		// A follower may not have heard of a write yet: only the leader answers.
		AllowDirect:            false,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: markerTTL,
		Metadata:               map[string]string{"outrigger.deployment": c.name},
	}}
	if b.config.MaxMsgSize == 0 {
		b.config.MaxMsgSize = -1
	}
	b.keepsAll = o.KeepsAll || o.MaxAge == 0
	c.add(b)
	return b
}

// Get returns the value of a key, by the word of a leader whom a majority of the servers follows. The errors are [ErrNotFound],
// [ErrUnavailable], [ErrUnreadable] and the cause of ctx.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	var e Entry
	err := b.checked(ctx, key, opGet, func(ctx context.Context, l *link, s jetstream.Stream) error {
		for {
			err := b.believed(ctx, l, s, func() error {
				var err error
				e, err = b.get(ctx, s, key)
				if err == nil && e.Gone {
					return ErrNotFound
				}
				return err
			})
			if !errors.Is(err, ErrNotFound) || e.Gone {
				return err
			}
			exists, unsure := b.exists(ctx, l, s, key)
			switch {
			case unsure != nil:
				return unsure
			case !exists:
				return err
			}
		}
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// get returns the last entry of a key, also where it is gone.
func (b *Bucket) get(ctx context.Context, s jetstream.Stream, key string) (Entry, error) {
	raw, err := s.GetLastMsgForSubject(ctx, b.prefix+key)
	if err != nil {
		return Entry{}, err //nolint:wrapcheck // do sorts it
	}
	b.counts.out.Add(uint64(len(raw.Data)))
	e := Entry{Key: key, Revision: raw.Sequence, At: raw.Time, Gone: isMarker(raw.Header), Expired: isExpiry(raw.Header)}
	if e.Gone {
		return e, nil
	}
	e.Value, err = decode(b.client.opts.Sealer, b.kind, key, raw.Data)
	return e, err
}

// isExpiry reports whether a message represents the end of a key whose lifetime was over.
func isExpiry(h nats.Header) bool { return h.Get(headerMarker) == markerExpired }

// isMarker reports whether a message represents the end of a key.
func isMarker(h nats.Header) bool { return h.Get(headerOperation) != "" || h.Get(headerMarker) != "" }

// Forever is the lifetime of a value that stays until it is deleted.
const Forever = time.Duration(math.MaxInt64)

// Create stores a value for a key that has none, until its lifetime is over, and returns
// its revision. The lifetime is at least a second, or [Forever]. The errors are [ErrExists], [ErrFull],
// [ErrTooLarge], [ErrUnavailable] and the cause of ctx.
func (b *Bucket) Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (uint64, error) {
	return b.create(ctx, key, value, lifetime, false)
}

// Restore is Create for a value that the bucket had before, and has lost or let expire. A key that was deleted meanwhile stays
// so, with [ErrNotFound], as long as that is remembered.
func (b *Bucket) Restore(ctx context.Context, key string, value []byte, lifetime time.Duration) (uint64, error) {
	return b.create(ctx, key, value, lifetime, true)
}

func (b *Bucket) create(ctx context.Context, key string, value []byte, lifetime time.Duration, wasThere bool) (uint64, error) {
	var revision uint64
	err := b.checked(ctx, key, OpCreate, func(ctx context.Context, l *link, s jetstream.Stream) error {
		var err error
		revision, err = b.put(ctx, l, s, key, value, 0, lifetime)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		// A key that is gone has a marker for a while.
		last, err := b.get(ctx, s, key)
		err = classify(ctx, err)
		switch {
		case err == nil && last.Gone && !last.Expired && wasThere:
			return ErrNotFound
		case err == nil && last.Gone:
			revision, err = b.put(ctx, l, s, key, value, last.Revision, lifetime)
			if errors.Is(err, ErrConflict) {
				return ErrExists
			}
			return err
		case err == nil, errors.Is(err, ErrUnreadable), errors.Is(err, ErrNotFound): // it was there a moment ago
			return ErrExists
		}
		return err
	})
	return revision, err
}

// Update replaces a value whose revision is still the given one, and its lifetime. The
// errors are [ErrConflict], also where the key is gone, and those of [Bucket.Create].
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error) {
	err := b.checked(ctx, key, OpUpdate, func(ctx context.Context, l *link, s jetstream.Stream) error {
		var err error
		revision, err = b.put(ctx, l, s, key, value, revision, lifetime)
		return err
	})
	return revision, err
}

// put writes a message of the bucket's subjects: nats.go's own Update drops the lifetime. The error is classified.
func (b *Bucket) put(ctx context.Context, l *link, s jetstream.Stream, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error) {
	stored, err := encode(b.client.opts.Sealer, b.kind, key, value)
	if err != nil {
		return 0, err
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithExpectStream(b.config.Name)}
	if lifetime != Forever {
		// NATS counts whole seconds.
		lifetime = max(lifetime.Truncate(time.Second)+roundUp(lifetime), time.Second)
		options = append(options, jetstream.WithMsgTTL(lifetime))
	}
	sequence, err := conditional{
		subject: b.prefix + key, last: revision, isEmpty: b.isEmpty(ctx, l, s, key),
		publish: func() (uint64, error) {
			on, began := l.connection(), time.Now()
			ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: b.prefix + key, Data: stored, Header: nats.Header{}}, options...)
			if err != nil {
				return 0, err //nolint:wrapcheck // store sorts it
			}
			b.fresh.confirmed(on, began)
			return ack.Sequence, nil
		},
		isOurs: func(raw *jetstream.RawStreamMsg) bool { return bytes.Equal(raw.Data, stored) }, // no one else seals it with the same nonce
	}.store(ctx, s)
	if err == nil {
		b.counts.in.Add(uint64(len(stored)))
	}
	return sequence, err
}

// isEmpty is that of a conditional write of a key.
func (b *Bucket) isEmpty(ctx context.Context, l *link, s jetstream.Stream, key string) func() (bool, error) {
	return func() (bool, error) {
		exists, err := b.exists(ctx, l, s, key)
		return !exists, err
	}
}

// roundUp is a second for a lifetime that is not in whole seconds.
func roundUp(lifetime time.Duration) time.Duration {
	if lifetime%time.Second > 0 {
		return time.Second
	}
	return 0
}

// Delete deletes a key; it need not exist. With a revision, the value must still have
// that; zero is any. The errors are [ErrConflict], [ErrUnavailable] and the cause of ctx.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	return b.checked(ctx, key, opDelete, func(ctx context.Context, l *link, s jetstream.Stream) error {
		// A delete marker lives as long as any value: a server that was killed may bring back a deleted value whose marker has
		// expired.
		remember := cmp.Or(b.opts.MaxAge, rememberForever)
		if revision == 0 {
			_, err := b.purge(ctx, l, b.prefix+key, remember, nats.Header{})
			return err
		}
		return b.purgeIf(ctx, l, s, b.prefix+key, remember, revision, b.isEmpty(ctx, l, s, key))
	})
}

// purgeIf is purge on the condition that the last message has a sequence. The error is classified.
func (h *home) purgeIf(ctx context.Context, l *link, s jetstream.Stream, subject string, remember time.Duration, last uint64, isEmpty func() (bool, error)) error {
	mark := rand.Text() // deletions look alike
	_, err := conditional{
		subject: subject, last: last, isEmpty: isEmpty,
		publish: func() (uint64, error) {
			return h.purge(ctx, l, subject, remember, nats.Header{headerMark: {mark}}, jetstream.WithExpectLastSequencePerSubject(last))
		},
		isOurs: func(raw *jetstream.RawStreamMsg) bool { return raw.Header.Get(headerMark) == mark },
	}.store(ctx, s)
	return err
}

// purge writes the end of what is stored at a subject, which NATS remembers for a time, and returns the sequence of that. It adds to
// the header.
func (h *home) purge(ctx context.Context, l *link, subject string, remember time.Duration, header nats.Header, options ...jetstream.PublishOpt) (uint64, error) {
	options = append(options, jetstream.WithMsgTTL(max(remember.Truncate(time.Second)+roundUp(remember), markerTTL)), jetstream.WithExpectStream(h.config.Name))
	header.Set(headerOperation, operationPurge)
	header.Set(headerRollup, rollupSubject)
	ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: header}, options...)
	if err != nil {
		return 0, err //nolint:wrapcheck // do sorts it
	}
	return ack.Sequence, nil
}

// checked runs an operation on a key.
func (b *Bucket) checked(ctx context.Context, key string, op Op, f func(context.Context, *link, jetstream.Stream) error) error {
	if !keyPattern().MatchString(key) {
		return fmt.Errorf("state: %q is no key", key)
	}
	return b.do(ctx, op, f)
}
