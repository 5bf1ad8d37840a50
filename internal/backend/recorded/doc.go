// SPDX-License-Identifier: Apache-2.0

// Package recorded answers the calls of a sidecar that has no backend: from calls that were recorded ([Open]), or with results that
// are invented from descriptors.
//
// An [Upstream] takes the place of the backend's client. It gets and gives wire bytes, so that all that a call passes on its way is
// as it is with a backend: validation, policy, budgets, the edges.
//
// # The order in which recorded calls answer
//
//  1. A call of the same tool with the same arguments, as messages: spelling, defaults and order of members make no difference.
//     Several such calls answer in the order in which they were recorded, and the last one goes on answering.
//  2. With MatchFuzzy, a call of the same tool whose required and identifying fields are the same: the one with the fewest other
//     differences, then the most recent. A field identifies by its name: id, name, uid, uuid, key, parent, or an end in one of them.
//  3. With MatchAny, the same without regard to required and identifying fields.
//
// A value that the record left out because it is secret differs from none. Everything is safe for concurrent use.
package recorded
