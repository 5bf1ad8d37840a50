// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// everyone is where what is for all replicas is sent.
const everyone = "all"

// maxWaiting bounds the messages that a replica has received and not yet handled. NATS drops
// what comes beyond, so that a request among them fails in time.
const maxWaiting = 4096

// Channel carries messages from replica to replica. Nothing of them is stored: what no one
// receives is gone. Make one with [Client.Channel].
type Channel struct {
	client *Client
	kind   string
	prefix string // of subjects
	counts counts
}

// answerKind ends the kind of what answers a message, so that neither can stand for the other.
const answerKind = "/answer"

// Channel declares a channel of the deployment for messages of a kind, such as "replicas".
// It needs nothing made at the servers, and [Client.Run] sees whether the account may use it.
func (c *Client) Channel(kind string) *Channel {
	n := &Channel{client: c, kind: kind, prefix: c.prefix() + kind + "."}
	c.add(n)
	return n
}

// ensure sends a message to no one else, which has to come back.
func (n *Channel) ensure(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, n.client.timeout)
	defer cancel()
	subject := n.prefix + "probe-" + rand.Text()
	s, err := l.nc.SubscribeSync(subject)
	if err != nil {
		return err //nolint:wrapcheck // look joins it with others
	}
	defer func() { _ = s.Unsubscribe() }()
	if err := l.nc.Publish(subject, nil); err != nil {
		return err //nolint:wrapcheck // as above
	}
	if _, err := s.NextMsgWithContext(ctx); err != nil {
		return fmt.Errorf("messages between replicas do not arrive: allow the account to publish on %s> and to subscribe to it: %w", n.prefix, err)
	}
	return nil
}

// Tell sends a message to all replicas, this one included. It does not know who gets it. The
// errors are [ErrTooLarge] and [ErrUnavailable].
func (n *Channel) Tell(ctx context.Context, data []byte) error {
	return n.client.do(ctx, &n.counts, opTell, func(_ context.Context, l *link) error {
		stored, err := encode(n.client.opts.Sealer, n.kind, everyone, data)
		if err != nil {
			return err
		}
		return l.nc.Publish(n.prefix+everyone, stored) //nolint:wrapcheck // do sorts it
	})
}

// Ask sends a message to one replica and returns its answer. The errors are [ErrNotFound]
// where there is no such replica, [ErrNoAnswer], [ErrTooLarge], [ErrUnavailable] and the
// cause of ctx.
func (n *Channel) Ask(ctx context.Context, replica string, data []byte) ([]byte, error) {
	start := time.Now()
	out, err := n.ask(ctx, replica, data)
	n.counts.countEnd(opTell, time.Since(start), err)
	return out, err
}

func (n *Channel) ask(ctx context.Context, replica string, data []byte) ([]byte, error) {
	if !keyPattern().MatchString(replica) {
		return nil, ErrNotFound
	}
	l, _ := n.client.now()
	if !l.nc.IsConnected() {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errNotHere)
	}
	stored, err := encode(n.client.opts.Sealer, n.kind, replica, data)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, n.client.timeout)
	defer cancel()
	m, err := l.nc.RequestWithContext(within, n.prefix+replica, stored)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNotFound
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		// It says nothing about NATS: the replica may have been stopped.
		return nil, ErrNoAnswer
	case err != nil:
		return nil, classify(ctx, err)
	}
	return decode(n.client.opts.Sealer, n.kind+answerKind, replica, m.Data)
}

// Serve receives the messages for everyone and for one replica until ctx ends. answer is
// called with one at a time and must return quickly; what it returns is the answer to an
// [Channel.Ask].
func (n *Channel) Serve(ctx context.Context, replica string, answer func(data []byte) []byte) {
	for ctx.Err() == nil {
		l, changed := n.client.now()
		n.serve(ctx, l, changed, replica, answer)
	}
}

// serve receives messages on one link.
func (n *Channel) serve(ctx context.Context, l *link, changed <-chan struct{}, replica string, answer func([]byte) []byte) {
	messages := make(chan *nats.Msg, maxWaiting)
	for _, to := range []string{everyone, replica} {
		s, err := l.nc.ChanSubscribe(n.prefix+to, messages)
		if err != nil { // the link was closed: there is another one, or none any more
			select {
			case <-ctx.Done():
			case <-changed:
			}
			return
		}
		defer func() { _ = s.Unsubscribe() }()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			// It may be another link. A connection that was lost has its subscriptions back.
			now, next := n.client.now()
			if now != l {
				return
			}
			changed = next
		case m := <-messages:
			n.receive(m, replica, answer)
		}
	}
}

// receive hands one message on.
func (n *Channel) receive(m *nats.Msg, replica string, answer func([]byte) []byte) {
	to := replica
	if m.Subject == n.prefix+everyone {
		to = everyone
	}
	data, err := decode(n.client.opts.Sealer, n.kind, to, m.Data)
	n.counts.out.Add(uint64(len(m.Data)))
	n.counts.observed.Add(1)
	if err != nil { // of a replica with another key, whose request ends without an answer
		n.counts.countEnd(opTell, 0, err)
		return
	}
	said := answer(data)
	if m.Reply == "" {
		return
	}
	if stored, err := encode(n.client.opts.Sealer, n.kind+answerKind, replica, said); err == nil {
		_ = m.Respond(stored) // who asked asks again, or gives up
	}
}

// stats returns the counts.
func (n *Channel) stats() Stats { return n.counts.snapshot(n.kind) }
