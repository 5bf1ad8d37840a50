// SPDX-License-Identifier: Apache-2.0

// Package hub delivers published items to subscribers. Each subscriber has a bounded
// queue. The packages internal/feed and internal/event define what is published.
//
// A queue follows a policy. [Merging] keeps one pending item per key: an item with the
// key of a pending item merges with it. [InOrder] keeps every item in order of arrival,
// within a number and a size. With both policies, publishing never waits for a reader. A
// reader whose queue is full is dropped and gets the number of missed items
// ([SlowError]).
//
// A vocabulary defines what a subscription may ask for: its keys, and an [Index] that
// finds the [Topic] of each key. [Hub.Join] adds a subscription to topics. [Hub.Deliver]
// delivers an item to the members of topics. Subscriptions that ask for the same thing
// share its topic, so a publisher pays for each topic and each member, not for every
// filter.
//
// The package does not know what items mean, keeps nothing for later subscribers, and
// starts no goroutine. Everything is safe for concurrent use, except that a subscription
// has one reader.
package hub
