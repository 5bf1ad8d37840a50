// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/event"
)

// newBus makes the bus between those who publish notifications and those who
// listen.
func (a *app) newBus() *event.Memory {
	limits := a.cfg.GetLimits()
	return event.NewMemory(event.Options{
		MaxSubscribers: int(limits.GetMaxStreams()),
		MaxBacklog:     int(limits.GetMaxSubscriberBacklog()),
		// What an edge admits is not lost on the bus.
		MaxEventBytes: int(limits.GetMaxMessageBytes()),
		OnDrop: func(slow *event.SlowError) {
			a.noted.Warn("slow subscriber disconnected: limits.max_subscriber_backlog exceeded",
				zap.Int("missed", slow.Missed))
		},
	})
}

// notify puts a notification of a JSON-RPC edge on the bus. Its sender has been
// promised nothing and is told nothing.
func (a *app) notify(method string, params []byte, origin correlate.Origin) {
	_, err := a.events.Publish(context.Background(), event.Event{Method: method, Params: params, Publisher: uint64(origin)})
	if err != nil {
		a.noted.Info("notification not delivered to the event bus", zap.Error(err))
	}
}

// endStreams ends what would otherwise last for as long as its reader likes.
func (a *app) endStreams() {
	if a.api != nil {
		a.api.Close()
	}
	if a.events != nil {
		a.events.Close()
	}
}
