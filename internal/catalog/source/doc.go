// SPDX-License-Identifier: Apache-2.0

// Package source has what a catalog is built of: descriptors, and where they come from. [NewReflection] asks a running
// server, [NewDescriptorFile] reads a descriptor set, [NewDescriptors] has descriptors that are linked in, and
// [NewNative] asks a backend that declares its tools itself.
//
// A [Source] of your own has a name and a Load. Where it can tell cheaply that nothing has changed, it is [Conditional]
// as well, and a refresh costs no decoding and no building. The package's example is one.
//
// Nothing here makes tools: package catalog links the files of all sources and decides what becomes a tool. A source
// refuses what is larger than its [Limits], and says in a [Error] whether trying again can help.
//
// Sources are safe for concurrent use. What they bring must not be changed afterwards.
package source
