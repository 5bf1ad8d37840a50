// SPDX-License-Identifier: Apache-2.0

// Package feed delivers changes to subscribers: changes of the lists of tools, prompts
// and resources, of the contents of resources, and of tasks. Changes of the sidecar's
// own catalog and changes that a backend reports arrive through [Hub.Publish]. MCP's
// subscriptions/listen, the unsolicited notifications of the legacy eras and
// ToolService.Subscribe with a change filter read them from a [Subscription].
//
// A change reports that something is different now, and not the states in between. So a
// slow reader gets one notification of something that changed often: a list or a URI is
// pending at most once, and only the newest state of a task is kept. A change that
// merges with a pending one keeps the position of the pending one, so that something
// that changes all the time cannot delay itself forever. Apart from that, readers see
// the changes of one publisher in the order of publication. A reader that is still too
// far behind is dropped with a [SlowError].
//
// Publishing never waits for a reader. An idle subscription costs a few hundred bytes
// and no goroutine. [Subscription.Ready] lets a reader wait for changes and other events
// together.
//
// The package knows no dialect and no edge, sends no acknowledgements, keeps nothing for
// later subscribers, checks no permission except a task's principal, and starts no
// goroutine. Events of the bus, which are never delivered twice and never merged, belong
// to internal/event. Everything is safe for concurrent use, except that a subscription
// has one reader.
package feed
