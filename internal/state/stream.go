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

// StreamOptions declare a stream.
type StreamOptions struct {
	// Name is the kind of what it holds, such as "events".
	Name string
	// MaxBytes and MaxAge bound it.
	MaxBytes int64
	MaxAge   time.Duration
	// DropOldest makes room by dropping the oldest messages. Without it, an append to a full stream is [ErrFull].
	DropOldest bool
}

// Stream keeps messages in their order. Make one with [Client.Stream].
type Stream struct {
	home
	prefix string
}

// Message is a message of a stream.
type Message struct {
	// Subject is where it was appended, Sequence its place among all of the stream.
	Subject  string
	Sequence uint64
	Data     []byte
	At       time.Time
}

// Stream declares a stream. [Client.Run] makes it.
func (c *Client) Stream(o StreamOptions) *Stream {
	name := c.prefix() + o.Name
	s := &Stream{prefix: name + "."}
	s.home = home{client: c, kind: o.Name, config: jetstream.StreamConfig{
		Name:        name,
		Description: "outrigger: " + o.Name,
		Subjects:    []string{s.prefix + ">"},
		Retention:   jetstream.LimitsPolicy,
		// No one learns that something was stored which made way for it.
		Discard:  jetstream.DiscardNew,
		MaxBytes: o.MaxBytes, MaxMsgsPerSubject: -1, MaxAge: o.MaxAge, MaxMsgSize: -1,
		Storage: c.storage(), Replicas: c.replicas,
		DenyDelete: true, AllowDirect: false, AllowMsgTTL: true,
		Metadata: map[string]string{"outrigger.deployment": c.name},
	}}
	if o.DropOldest {
		s.config.Discard = jetstream.DiscardOld
	}
	c.add(s)
	return s
}

// Bounds are the sequences of the first and the last message that a stream has. The last is smaller than the first where there is
// none.
type Bounds struct {
	First, Last uint64
	// Created is when the stream was made. Another stream of the same name begins anew.
	Created time.Time
	// Led means that a majority of the servers has followed the one that answered, up to now. Another one may have messages behind
	// Last if not.
	Led bool
}

// isLed reports whether a majority has answered the leader lately: for so long it elects no other one.
func isLed(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil || info.Config.Replicas <= 1 {
		return true
	}
	if info.Cluster.Leader == "" { // then it has itself among the replicas
		return false
	}
	follow := 1 // the leader itself
	for _, peer := range info.Cluster.Replicas {
		// Zero is a server that it has never heard.
		if !peer.Offline && peer.Active > 0 && peer.Active < freshFor {
			follow++
		}
	}
	return 2*follow > info.Config.Replicas
}

// Bounds returns what the stream has, by the leader's word. The errors are [ErrUnavailable] and the cause of ctx.
func (s *Stream) Bounds(ctx context.Context) (Bounds, error) {
	var out Bounds
	err := s.do(ctx, opGet, func(ctx context.Context, _ *link, at jetstream.Stream) error {
		info, err := at.Info(ctx)
		if err != nil {
			return err //nolint:wrapcheck // do sorts it
		}
		// A stream that never had a message has 0 and 0.
		out = Bounds{First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq, Created: info.Created, Led: isLed(info)}
		return nil
	})
	return out, err
}

// Append appends a message and returns its sequence. The errors are [ErrFull], [ErrTooLarge], [ErrUnavailable] and the cause of
// ctx.
func (s *Stream) Append(ctx context.Context, subject string, data []byte) (uint64, error) {
	if !keyPattern().MatchString(subject) {
		return 0, fmt.Errorf("state: %q is no subject", subject)
	}
	var sequence uint64
	err := s.do(ctx, opAppend, func(ctx context.Context, l *link, _ jetstream.Stream) error {
		stored, err := encode(s.client.opts.Sealer, s.kind, subject, data)
		if err != nil {
			return err
		}
		ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: s.prefix + subject, Data: stored, Header: nats.Header{}}, jetstream.WithExpectStream(s.config.Name))
		if err != nil {
			return err //nolint:wrapcheck // do sorts it
		}
		sequence = ack.Sequence
		s.counts.in.Add(uint64(len(stored)))
		return nil
	})
	return sequence, err
}

// Read calls f with the messages of a subject, which may end in a wildcard ">", from a
// sequence on, in their order, until ctx ends, f returns an error, or NATS is away. It
// returns that error, or the sequence after the last message with the cause of ctx or
// [ErrUnavailable], so that a reader can go on there. It needs a consumer at the servers, which
// take some hundred.
func (s *Stream) Read(ctx context.Context, subject string, from uint64, f func(Message) error) (next uint64, err error) {
	next = max(from, 1)
	at, changed := s.here()
	if at == nil {
		return next, fmt.Errorf("%w: %s was not found yet", ErrUnavailable, s.config.Name)
	}
	reading, stop := untilChanged(ctx, changed)
	defer stop()
	consumer, messages, err := consume(reading, s.client.timeout, at.stream, watchAhead, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{s.prefix + subject}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next,
	})
	if err != nil {
		return next, s.away(ctx, err)
	}
	arriving := receive(reading, at.link, consumer, messages)
	for {
		m, meta, err := nextOf(reading, arriving)
		if err != nil {
			return next, s.away(ctx, err)
		}
		out := Message{Subject: strings.TrimPrefix(m.Subject(), s.prefix), Sequence: meta.Sequence.Stream, At: meta.Timestamp}
		if out.Data, err = decode(s.client.opts.Sealer, s.kind, out.Subject, m.Data()); err != nil {
			return next, err
		}
		s.counts.out.Add(uint64(len(m.Data())))
		s.counts.observed.Add(1)
		if err := f(out); err != nil {
			return next, err
		}
		next = out.Sequence + 1
	}
}

// away sorts an error of reading.
func (s *Stream) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isGone(err) {
		s.set(nil)
	}
	s.client.wake()
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: the connection changed", ErrUnavailable)
	}
	return classify(ctx, err)
}
