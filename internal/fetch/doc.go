// SPDX-License-Identifier: Apache-2.0

// Package fetch gets descriptor sets from servers: [Parse] reads a reference, and the [source.Fetcher] that it returns is the
// input of [source.NewRemote].
//
// An https:// reference is one descriptor set. It is asked for with the ETag of the last response, and a fragment
// "#sha256=..." pins its content. An oci:// reference is an artifact of a registry, whose layers are descriptor sets; it is
// always pinned by a digest.
//
// A response is bounded in size and time. Nothing is asked for without TLS, also not by a redirect or by what a registry
// answers, except on loopback.
package fetch
