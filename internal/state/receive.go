// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// received is what a consumer got.
type received struct {
	message jetstream.Msg
	err     error
}

// receive hands over the messages of an ordered consumer until ctx ends or an error came, and stops it then. The consumer may be
// making itself anew when ctx ends. That takes up to ten seconds without NATS, and hears of no context: this goroutine waits for
// it, and nobody else. It ends at the latest with the connection.
func receive(ctx context.Context, messages jetstream.MessagesContext) <-chan received {
	out := make(chan received)
	go func() {
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

// nextOf returns the next message.
func nextOf(ctx context.Context, from <-chan received) (jetstream.Msg, error) {
	select {
	case r := <-from:
		return r.message, r.err
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller sorts it
	}
}
