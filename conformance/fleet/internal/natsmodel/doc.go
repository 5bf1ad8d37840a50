// SPDX-License-Identifier: Apache-2.0

// Package natsmodel models NATS servers with JetStream as a state machine, so that a test decides every delay, order and fault.
//
// A [Cluster] has no goroutines, no clock and no locks: one goroutine passes it the time and the bytes of clients, and chooses what
// happens next. What a real cluster does by itself is a [Step]: the delivery of a message between two servers, the application of a
// committed entry, the delivery of a message to a consumer, the end of a lifetime. [Cluster.Pending] lists the steps that can happen
// now, [Cluster.Do] does one. A step that is left undone is a delay. Timers (elections, heartbeats, expiries) fire in
// [Cluster.Advance]; [Cluster.Next] says when the next one is due. The same calls with the same random source give the same bytes.
//
// The servers speak the protocol of NATS clients, so that nats.go and internal/state work with them unchanged. Each stream, and the
// list of streams, has its Raft group. A leader that is paused or cut off goes on answering reads from what it has until it
// hears of a newer term, or finds after ten seconds that no majority follows it.
//
// Inputs to a server that is paused wait. A way between two servers that is slow is a [Route] that is left undone; one that is cut
// loses what is on it.
//
// In bubbles of testing/synctest, ask with contexts: nats.go keeps the timers of Request and Flush in a pool that bubbles share.
//
// A request that the model does not know is answered with an error that names it. Not modelled: accounts, permissions, TLS, queue
// groups, PING from the server, push consumers and acknowledgements, durable and replicated consumers, mirrors, sources, republishing,
// transforms, batches, counters, schedules, snapshots, direct gets, retention other than limits, STREAM.LIST, scaling a stream, limits
// of accounts, compression, leaf nodes, gateways, lame-duck notices, markers of purges, and the gaps in sequences that a truncated block
// leaves in NATS.
//
// [Cluster.Run] serves a cluster over net.Pipe where a test does not want to schedule it.
package natsmodel
