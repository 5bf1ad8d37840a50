// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// New returns a Handler in front of a bridge.
func New(b *bridge.Bridge, opts Options) *Handler {
	if opts.Offers == nil {
		opts.Offers = offer.New(b, offer.Options{})
	}
	if opts.Sessions == nil {
		opts.Sessions = session.New(session.Options{Feed: opts.Offers.Feed(), Origin: b.Flights().NewOrigin})
	}
	return &Handler{
		runner: b, shown: b, refusals: b, places: b, sights: b,
		flights: b.Flights(), buffers: b.Buffers(), tracer: b.Tracer(), stats: b.Stats(), noted: b.BoundedLog(), software: b.Version(),
		opts: opts, offers: opts.Offers, canonical: newCanonical(), modern: newModern(opts.Variants), legacy: newLegacy(),
	}
}
