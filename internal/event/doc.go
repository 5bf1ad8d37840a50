// SPDX-License-Identifier: Apache-2.0

// Package event is the bus between those who publish notifications and those
// who listen: canonical notifications come in at the JSON-RPC edges and through
// ToolService.Publish, and leave through ToolService.Subscribe.
//
// [Memory] is the bus of one process. The edges know a bus by an interface of their
// own, so that one that spans processes can take its place. Publishing never waits
// for a reader: a reader that falls behind is dropped and told how much it missed.
// Events of one publisher reach every subscriber in the order in which they were
// published: [hub.InOrder] is the queue.
//
// The package refuses events over its bounds and filters that it cannot keep.
// It knows no dialect, looks into no params, keeps nothing for subscribers that
// come later, and starts no goroutine. Everything is safe for concurrent use,
// except that a subscription has one reader.
package event
