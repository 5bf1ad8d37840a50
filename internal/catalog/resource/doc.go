// SPDX-License-Identifier: Apache-2.0

// Package resource makes resources from RPCs. A method whose option or overlay entry asks for it reads one resource, reads
// a family with a URI template, or lists resources.
//
// [New] compiles an option into a [Method], and [NewSet] combines the methods of a catalog. [Set.Match] finds the method
// that reads a URI. [Method.Request] builds its request from the URI. [Method.Contents] extracts the contents from its
// response, and [Method.Items] the resources of a list. The call itself, and the policy in front of it, are handled by
// other packages. This package knows no tools: package catalog describes the RPC in an [RPC].
//
// [NewWatch] makes the [Method] of a watch: a server stream whose newest message is the resource, with query parameters for
// the request.
//
// An invalid template, and fields that cannot be part of a URI or of contents, are errors at startup, not on the first
// call. All types are immutable and safe for concurrent use.
package resource
