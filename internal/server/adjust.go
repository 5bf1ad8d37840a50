// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// Adjust changes parts of the pipeline in ways that no configuration offers: their
// clocks, their randomness, bounds without a setting, and what is between the pipeline
// and the backend. Each function gets the options that the configuration gave.
type Adjust struct {
	// Seal is for what callers bring back: keys, clock and salts.
	Seal func(*seal.Options)
	// Sessions is for the ids of sessions and the bounds of one session.
	Sessions func(*session.Options)
	// Feed is for what a subscriber may have pending.
	Feed func(*feed.Options)
	// Catalog is for the bounds of registrations.
	Catalog func(*catalog.LiveOptions)
	// Upstream wraps what calls the RPCs of the backend.
	Upstream func(bridge.Upstream) bridge.Upstream
}

// adjusted returns the options of a part after its function, if there is one.
func adjusted[T any](options T, change func(*T)) T {
	if change != nil {
		change(&options)
	}
	return options
}
