// SPDX-License-Identifier: Apache-2.0

// Package event is the bus between publishers and subscribers of notifications.
// Canonical notifications arrive at the JSON-RPC edges and through ToolService.Publish,
// and leave through ToolService.Subscribe.
//
// [Memory] is the bus of one process. The edges define their own interface of a bus, so
// that a bus that spans processes can replace it. Publishing never waits for a reader. A
// reader that falls behind is dropped and gets the number of missed events. Every
// subscriber gets the events of one publisher in the order of publication: [hub.InOrder]
// is the queue.
//
// The package rejects events that exceed its limits and filters that are invalid. It
// knows no dialect, does not read params, keeps nothing for later subscribers, and
// starts no goroutine. Everything is safe for concurrent use, except that a subscription
// has one reader.
package event
