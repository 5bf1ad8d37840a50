// SPDX-License-Identifier: Apache-2.0

// Package source gets the descriptors that a catalog is made of. [NewReflection] asks a running server, [NewDescriptorFile] reads
// a descriptor set, [NewRemote] gets one from a server, [NewDescriptors] has those that are linked in, and [NewNative] asks a
// backend that declares its tools itself. It makes no tools: package catalog links the files of all sources and decides that.
//
// A [Source] has a name and a Load. One that can tell cheaply that nothing has changed implements [Conditional] as well, and a
// refresh then needs no decoding and no building. A source refuses input beyond its [Limits], and its [Error] says whether
// retrying can help.
//
// References to servers are read by [ParseFetcher]. An https:// reference is one descriptor set, asked for with the ETag of the
// last response; a fragment "#sha256=..." pins its content. An oci:// reference is an artifact of a registry, whose layers are
// descriptor sets, and is always pinned by a digest. Responses are bounded in size and time, and without TLS nothing is asked
// for except on loopback, whatever a redirect or a registry says.
//
// Sources are safe for concurrent use. Do not modify what they return.
package source
