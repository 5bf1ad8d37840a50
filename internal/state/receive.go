// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// forget has the server delete a consumer, and does not wait for it.
func (l *link) forget(consumer jetstream.Consumer) {
	if info := consumer.CachedInfo(); info != nil {
		_ = l.nc.PublishRequest("$JS.API.CONSUMER.DELETE."+info.Stream+"."+info.Name, nats.NewInbox(), nil) // else it expires
	}
}

const (
	// watchHeartbeat is how often the server says that there is nothing to say; two that are
	// missing end the watch, and it begins again where it was. Expiry is the bound that the
	// API wants beside it.
	watchHeartbeat = 2 * time.Second
	watchExpiry    = 30 * time.Second
	// watchForgotten is when the server forgets a watcher that does not come back.
	watchForgotten = time.Minute
)

// consume reads a stream in order, a number of messages ahead at most. Ordered consumers have more settings, which are the same
// for all.
func consume(ctx context.Context, timeout time.Duration, s jetstream.Stream, ahead int, config jetstream.OrderedConsumerConfig) (jetstream.Consumer, jetstream.MessagesContext, error) {
	config.InactiveThreshold, config.MaxResetAttempts = watchForgotten, 1
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	consumer, err := s.OrderedConsumer(ctx, config)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller sorts it
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(ahead), jetstream.PullExpiry(watchExpiry), jetstream.PullHeartbeat(watchHeartbeat))
	return consumer, messages, err //nolint:wrapcheck // as above
}

// untilChanged returns a context that ends with ctx, or once changed is closed. Call stop.
func untilChanged(ctx context.Context, changed <-chan struct{}) (within context.Context, stop context.CancelFunc) {
	within, stop = context.WithCancel(ctx)
	go func() {
		select {
		case <-changed:
		case <-within.Done():
		}
		stop()
	}()
	return within, stop
}

// received is what a consumer got.
type received struct {
	message jetstream.Msg
	err     error
}

// receive hands over the messages of an ordered consumer until ctx ends or an error came, and stops it then. The consumer may be
// making itself anew when ctx ends. That takes up to ten seconds without NATS, and hears of no context: this goroutine waits for
// it, and no one else. It ends at the latest with the connection. Then it deletes the consumer: the server would remember it for
// a minute ([watchForgotten]), and takes some hundred for a stream.
func receive(ctx context.Context, l *link, consumer jetstream.Consumer, messages jetstream.MessagesContext) <-chan received {
	out := make(chan received)
	go func() {
		defer l.forget(consumer)
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			select {
			case out <- received{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// nextOf returns the next message, with its place.
func nextOf(ctx context.Context, from <-chan received) (jetstream.Msg, *jetstream.MsgMetadata, error) {
	select {
	case r := <-from:
		if r.err != nil {
			return nil, nil, r.err
		}
		meta, err := r.message.Metadata()
		return r.message, meta, err //nolint:wrapcheck // the caller sorts it
	case <-ctx.Done():
		return nil, nil, ctx.Err() //nolint:wrapcheck // as above
	}
}
