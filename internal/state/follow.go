// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// followMin and followMax are the pauses between two looks for the next message: short after one was heard of, because it
	// is stored a moment later; and not too long without, because what is heard may be lost.
	followMin = 2 * time.Millisecond
	followMax = 5 * time.Second
	// followDeaf is the first pause, and the longest where the account may not hear of messages.
	followDeaf = time.Second
)

// Follow is [Stream.Read] for one subject without wildcards, and for many readers at a time: it needs no consumer, of which a
// server takes some hundred. It asks for each message, once it has heard that there is one.
func (s *Stream) Follow(ctx context.Context, subject string, from uint64, f func(Message) error) (next uint64, err error) {
	next = max(from, 1)
	if !keyPattern.MatchString(subject) {
		return next, fmt.Errorf("state: %q is no subject", subject)
	}
	at, changed := s.here()
	if at == nil {
		return next, fmt.Errorf("%w: %s was not found yet", ErrUnavailable, s.config.Name)
	}
	heard := make(chan struct{}, 1)
	sub, err := at.link.nc.Subscribe(s.prefix+subject, func(*nats.Msg) {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return next, s.away(ctx, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	pause := time.NewTimer(followMax)
	defer pause.Stop()
	for wait := followDeaf; ; {
		m, err := s.nextMessage(ctx, subject, next)
		switch {
		case err == nil:
			if err := f(m); err != nil {
				return next, err
			}
			next, wait = m.Sequence+1, followDeaf
			continue
		case !errors.Is(err, ErrNotFound):
			return next, err
		}
		if at.link.isDenied(s.prefix + subject) {
			wait = min(wait, followDeaf)
		}
		pause.Reset(wait)
		select {
		case <-ctx.Done():
			return next, context.Cause(ctx)
		case <-changed:
			return next, fmt.Errorf("%w: the connection changed", ErrUnavailable)
		case <-heard:
			wait = followMin
		case <-pause.C:
			wait = min(2*wait, followMax)
		}
	}
}

// nextMessage returns the first message of a subject from a sequence on. The errors are [ErrNotFound], [ErrUnavailable],
// [ErrUnreadable] and the cause of ctx.
func (s *Stream) nextMessage(ctx context.Context, subject string, from uint64) (Message, error) {
	var out Message
	err := s.do(ctx, OpGet, func(ctx context.Context, _ *link, at jetstream.Stream) error {
		raw, err := at.GetMsg(ctx, from, jetstream.WithGetMsgSubject(s.prefix+subject))
		if err != nil {
			return err //nolint:wrapcheck // do sorts it
		}
		s.counts.out.Add(uint64(len(raw.Data)))
		s.counts.observed.Add(1)
		out = Message{Subject: strings.TrimPrefix(raw.Subject, s.prefix), Sequence: raw.Sequence, At: raw.Time}
		out.Data, err = decode(s.client.opts.Sealer, s.kind, subject, raw.Data)
		return err
	})
	return out, err
}
