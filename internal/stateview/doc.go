// SPDX-License-Identifier: Apache-2.0

// Package stateview shows operators what replicas share in NATS JetStream (package state).
//
// [Kinds] is the list of what there is: a kind more is one entry there. [Open] connects and declares all of them as a replica
// does, without making anything. What a stored value says is decoded by its kind: [Kind.Columns] for lists, and
// [Kind.Document] for one entry, without arguments, results and secrets unless they are asked for.
package stateview
