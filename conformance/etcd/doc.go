// SPDX-License-Identifier: Apache-2.0

// Package etcd tests the sidecar's binary in front of a real etcd, of which nothing was made for
// the sidecar: it has no reflection, its descriptors are built from its .proto files, and its
// callers are the clients that etcd's own users have. Watch and LeaseKeepAlive take and send
// streams for as long as their callers live, and Observe sends one that never ends.
//
// It is its own module, so that nothing else in the repository depends on etcd.
package etcd
