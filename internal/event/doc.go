// SPDX-License-Identifier: Apache-2.0

// Package event is the bus between those who publish notifications and those
// who listen: canonical notifications come in at the JSON-RPC edges and through
// ToolService.Publish, and leave through ToolService.Subscribe.
//
// [Bus] is what the edges know. [Memory] is the bus of one process; one that
// spans processes would stand behind the same interface. Publishing never waits
// for a reader: who falls behind is dropped and told how much it missed. Events
// of one publisher reach every subscriber in the order in which they were
// published.
//
// The package refuses events over its bounds and filters that it cannot keep.
// It knows no dialect, looks into no params, keeps nothing for subscribers that
// come later, and starts no goroutine. Everything is safe for concurrent use,
// except that a subscription has one reader.
package event
