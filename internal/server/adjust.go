// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// Adjust changes parts of the pipeline in ways that no configuration offers. Each function gets what the configuration gave.
type Adjust struct {
	// Seal is for what callers bring back: keys, clock and salts.
	Seal func(*keys.SealerOptions)
	// Sessions is for the ids of sessions and the bounds of one session.
	Sessions func(*session.Options)
	// Feed is for what a subscriber may have pending.
	Feed func(*notify.FeedOptions)
	// Catalog is for the bounds of registrations.
	Catalog func(*catalog.LiveOptions)
	Live    *catalog.Live // the catalog, where it is set
	// Backend wraps what calls the backend's RPCs, and its own tools (nil without any).
	Backend func(bridge.Upstream, bridge.Native) (bridge.Upstream, bridge.Native)
	// Rules wraps the policy rules.
	Rules func(bridge.Rules) bridge.Rules
}

// adjusted returns the options of a part after its function, if there is one.
func adjusted[T any](options T, change func(*T)) T {
	if change != nil {
		change(&options)
	}
	return options
}
