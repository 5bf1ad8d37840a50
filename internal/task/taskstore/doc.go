// SPDX-License-Identifier: Apache-2.0

// Package taskstore keeps tasks in NATS JetStream, for all replicas of a deployment. It
// is a [task.Store] and a [task.Replicas] over two buckets of package state:
//
//	tasks   one record for each task, until the task may be forgotten
//	owners  one lease for each replica, which it renews four times in its length
//
// A lease belongs to a process and not to a task, so a task costs a write when it begins
// and one when it ends, however long it takes, and what a replica spends on leases does
// not depend on its tasks.
//
// Every replica watches both buckets. From that it knows who owns what, and counts tasks
// for the limits: these hold across replicas but for what others began within the last
// milliseconds. What it answers callers it always reads from the leader.
package taskstore
