// SPDX-License-Identifier: Apache-2.0

// Package feed is the hub between what changes and who wants to know: the lists
// of tools, prompts and resources, the contents of resources, and tasks. Changes
// of the sidecar's own catalog and those that a backend reports come in through
// [Hub.Publish]; MCP's subscriptions/listen, the unsolicited notifications of
// the legacy eras and ToolService.Subscribe with a change filter read them from
// a [Subscription].
//
// A change says that something is different now, not what it was in between, so
// a reader that is behind is told once of what changed often: a list that is
// pending is pending once, a URI too, and of a task only the newest state is
// kept. A change that joins a pending one keeps that one's place, so what
// changes all the time cannot push itself back for ever; apart from that,
// changes of one publisher are seen in the order in which they were published. A
// reader too far behind all the same is dropped and told so ([SlowError]).
//
// Publishing never waits for a reader. An idle subscription costs some hundred
// bytes and no goroutine; [Subscription.Ready] lets a reader wait for it beside
// its other events.
//
// The package knows no dialect and no edge, acknowledges nothing, keeps nothing
// for subscribers that come later, checks no permission but a task's principal,
// and starts no goroutine. Events of the bus, which are never told twice and
// never merged, belong to internal/event. Everything is safe for concurrent use,
// except that a subscription has one reader.
package feed
