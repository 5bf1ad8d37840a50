// SPDX-License-Identifier: Apache-2.0

// Package source provides the input of a catalog: descriptors, and the sources they come from. [NewReflection] asks a
// running server, [NewDescriptorFile] reads a descriptor set, [NewDescriptors] holds descriptors that are linked in, and
// [NewNative] asks a backend that declares its tools itself.
//
// A custom [Source] has a name and a Load. If it can detect cheaply that nothing has changed, it implements [Conditional]
// as well, and a refresh needs no decoding and no building. The package's example shows one.
//
// This package makes no tools: package catalog links the files of all sources and decides what becomes a tool. A source
// refuses input larger than its [Limits], and its [Error] says whether retrying can help.
//
// Sources are safe for concurrent use. Do not modify what they return.
//
// # Servers of descriptor sets
//
// Descriptor sets come from servers too: [ParseFetcher] reads a reference, and the [Fetcher] that it returns is the
// input of [NewRemote].
//
// An https:// reference is one descriptor set. It is asked for with the ETag of the last response, and a fragment
// "#sha256=..." pins its content. An oci:// reference is an artifact of a registry, whose layers are descriptor sets; it is
// always pinned by a digest.
//
// A response is bounded in size and time. Nothing is asked for without TLS, also not by a redirect or by what a registry
// answers, except on loopback.
package source
