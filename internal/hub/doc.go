// SPDX-License-Identifier: Apache-2.0

// Package hub hands what is published to subscribers, each of which has a bounded
// queue of its own. internal/feed and internal/event are its two vocabularies.
//
// The queue is a policy. [Merging] keeps each thing once: an item that is about
// something pending joins it. [InOrder] keeps every item in the order in which it
// came, within a number and a size. Under both, publishing never waits for a
// reader: a reader whose queue is full is dropped, and told how much it missed
// ([SlowError]).
//
// A vocabulary says what may be asked for: its keys, and an [Index] that finds the
// [Topic] of each. [Hub.Join] seats a subscription in topics, [Hub.Deliver] hands an
// item to the members of topics. Subscriptions that ask for the same thing share its
// topic, so a publisher pays for each topic and each member, not for every filter.
//
// The package knows nothing of what the items mean, keeps nothing for subscribers
// that come later, and starts no goroutine. Everything is safe for concurrent use,
// except that a subscription has one reader.
package hub
