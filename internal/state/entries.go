// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Item is an entry with what NATS knows of it.
type Item struct {
	Entry
	// Size is that of the sealed value, in bytes.
	Size int
	// Expires is when NATS deletes it; zero is never.
	Expires time.Time
}

const (
	// scanAhead is how many entries the server may send before they were looked at: they may be large.
	scanAhead = 16
	// headerTTL is the lifetime of a value.
	headerTTL = jetstream.MsgTTLHeader
)

// Scan calls f with the entries of a kind, the one that was written first before the others, until f returns false. An entry
// that cannot be opened has an Err. The key of an event is its sequence. It returns how many entries it left out, which may
// include deleted ones.
func (i *Inspector) Scan(ctx context.Context, kind string, f func(Item) bool) (left uint64, err error) {
	k, err := i.find(kind)
	if err != nil {
		return 0, err
	}
	info, s, err := i.info(ctx, k)
	if err != nil || info.Entries == 0 {
		return 0, err
	}
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{k.prefix + ">"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	if k.isLog {
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	consumer, messages, err := consume(ctx, i.client.timeout, s, scanAhead, config)
	if err != nil {
		return 0, i.refused(ctx, err)
	}
	defer i.client.link.forget(consumer)
	defer messages.Stop()
	if pending := consumer.CachedInfo(); pending != nil && pending.NumPending == 0 {
		return 0, nil
	}
	for {
		next, stop := context.WithTimeout(ctx, i.client.timeout)
		m, err := messages.Next(jetstream.NextContext(next))
		stop()
		if err != nil {
			return 0, i.refused(ctx, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return 0, i.refused(ctx, err)
		}
		raw := &jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Header: m.Headers(), Data: m.Data(), Time: meta.Timestamp}
		if e := i.open(k, s.CachedInfo().Config.MaxAge, raw); !e.Gone && !f(e) {
			return meta.NumPending, nil
		}
		if meta.NumPending == 0 {
			return 0, nil
		}
	}
}

// refused sorts an error of reading.
func (i *Inspector) refused(ctx context.Context, err error) error {
	if subject := i.client.link.refusal(); subject != "" {
		return fmt.Errorf("%w: %w", ErrUnavailable, deniedError(subject))
	}
	return classify(ctx, err)
}

// open makes an entry of a message.
func (i *Inspector) open(k inspected, maxAge time.Duration, m *jetstream.RawStreamMsg) Item {
	subject := strings.TrimPrefix(m.Subject, k.prefix)
	out := Item{Entry: Entry{Key: subject, Revision: m.Sequence, At: m.Time, Gone: isMarker(m.Header)}, Size: len(m.Data)}
	if out.Gone {
		return out
	}
	out.Expires = expiry(m.Time, m.Header.Get(headerTTL), maxAge)
	out.Value, out.Err = decode(i.client.opts.Sealer, k.kind, subject, m.Data)
	if k.isLog {
		out.Key = strconv.FormatUint(m.Sequence, 10)
	}
	return out
}

// expiry is when NATS deletes a message: after its own lifetime, or the longest of its stream.
func expiry(stored time.Time, ttl string, maxAge time.Duration) time.Time {
	if lifetime, err := time.ParseDuration(ttl); err == nil && lifetime > 0 && (maxAge == 0 || lifetime < maxAge) {
		return stored.Add(lifetime)
	}
	if maxAge > 0 {
		return stored.Add(maxAge)
	}
	return time.Time{}
}

// Get returns one entry, by the leader's word. An entry that cannot be opened has an Err. The errors are [ErrNotFound] and
// [ErrUnavailable].
func (i *Inspector) Get(ctx context.Context, kind, key string) (Item, error) {
	k, err := i.find(kind)
	if err != nil {
		return Item{}, err
	}
	if !keyPattern().MatchString(key) {
		return Item{}, fmt.Errorf("%w: %q cannot be a key", ErrNotFound, key)
	}
	_, s, err := i.info(ctx, k)
	if err != nil {
		return Item{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.client.timeout)
	defer cancel()
	var m *jetstream.RawStreamMsg
	if k.isLog {
		sequence, bad := strconv.ParseUint(key, 10, 64)
		if bad != nil || sequence == 0 {
			return Item{}, fmt.Errorf("%w: the key of an entry of %s is its sequence, not %q", ErrNotFound, kind, key)
		}
		m, err = s.GetMsg(ctx, sequence)
	} else {
		m, err = s.GetLastMsgForSubject(ctx, k.prefix+key)
	}
	if err != nil {
		return Item{}, i.refused(ctx, err)
	}
	out := i.open(k, s.CachedInfo().Config.MaxAge, m)
	if out.Gone {
		return Item{}, ErrNotFound
	}
	return out, nil
}

// errLog means that an entry cannot be deleted, because its kind keeps messages in their order.
var errLog = errors.New("state: entries that are kept in their order cannot be removed one by one")

// Remove deletes an entry whose revision is still the given one. The errors are [ErrConflict], also where the key is gone,
// [errLog] and [ErrUnavailable].
func (i *Inspector) Remove(ctx context.Context, kind, key string, revision uint64) error {
	k, err := i.find(kind)
	if err != nil {
		return err
	}
	if k.isLog {
		return errLog
	}
	if revision == 0 || !keyPattern().MatchString(key) {
		return fmt.Errorf("state: no key %q of revision %d", key, revision)
	}
	item, err := i.Get(ctx, kind, key)
	if errors.Is(err, ErrNotFound) {
		return ErrConflict
	}
	if err != nil {
		return err
	}
	_, s, err := i.info(ctx, k)
	if err != nil {
		return err
	}
	remember := rememberForever
	if !item.Expires.IsZero() {
		remember = time.Until(item.Expires) + time.Second
	}
	within, cancel := context.WithTimeout(ctx, i.client.timeout)
	defer cancel()
	isEmpty := func() (bool, error) { return true, nil } // it was there a moment ago
	if err := k.purgeIf(within, i.client.link, s, k.prefix+key, remember, revision, isEmpty); err != nil {
		return i.refused(ctx, err)
	}
	return nil
}
