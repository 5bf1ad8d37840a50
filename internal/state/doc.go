// SPDX-License-Identifier: Apache-2.0

// Package state keeps what replicas share in NATS JetStream.
//
// A [Client] is one deployment's place there. Packages declare what they need of it,
// a [Bucket] of keys and values or a [Stream] of messages, and use it at once:
//
//	bucket := client.Bucket(state.BucketOptions{Name: "tasks", MaxBytes: 256 << 20})
//	revision, err := bucket.Create(ctx, id, value, time.Hour)
//	revision, err = bucket.Update(ctx, id, value, revision, time.Hour)
//	entry, err := bucket.Get(ctx, id)
//	bucket.Watch(ctx, state.Watcher{Changed: func(state.Entry) { … }})
//
// [Client.Run] connects, makes the buckets and streams or checks those that it finds,
// and does so again whenever NATS was away. Until then, and while NATS is away, every
// operation is [ErrUnavailable], at once: nothing is buffered, and nothing is
// acknowledged that JetStream has not acknowledged. An operation that timed out may
// still have happened; callers that retry compare revisions.
//
// Reads are answered by the leader of a stream, so [ErrNotFound] means that there is no
// such key, and not that a follower has not heard of it.
//
// Everything stored is a version byte and a sealed payload (package keys), bound to the
// kind of the bucket and the key. A value has a time, or [Forever], after which NATS
// deletes it. Values are at most as large as the servers' max_payload allows.
//
// The package knows no tasks, sessions or callers. Everything is safe for concurrent
// use.
package state
